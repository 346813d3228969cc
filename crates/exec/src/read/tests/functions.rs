//! Folding, searching, iterating, errors of functions, cancellation and progress.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use super::*;

/// A file of lines, which is larger than the files that are read at once.
fn lines(count: u32) -> (Vec<u8>, ScratchFile) {
    let text: Vec<u8> = (0..count).flat_map(|number| format!("{number}\n").into_bytes()).collect();
    let scratch = ScratchFile::new(&text);
    (text, scratch)
}

fn summed(mut first: BTreeMap<u8, u64>, next: BTreeMap<u8, u64>) -> BTreeMap<u8, u64> {
    next.into_iter().for_each(|(byte, count)| *first.entry(byte).or_default() += count);
    first
}

fn count(counts: &mut BTreeMap<u8, u64>, bytes: &[u8]) {
    bytes.iter().for_each(|&byte| *counts.entry(byte).or_default() += 1);
}

#[test]
fn a_fold_has_as_many_states_as_threads_and_all_bytes() {
    let (text, scratch) = lines(200_000);
    let mut expected = BTreeMap::new();
    count(&mut expected, &text);
    for way in ways(scratch.path()) {
        let states = AtomicUsize::new(0);
        let init = || {
            states.fetch_add(1, Ordering::Relaxed);
            BTreeMap::new()
        };
        let (counts, report) =
            way.clone().block(10_000).fold(init, |counts, block| count(counts, &block), summed).unwrap();
        assert_eq!(counts, expected, "{way:?}");
        assert_eq!(report.bytes, text.len() as u64);
        assert!((1..=3).contains(&states.into_inner()), "two threads and the caller");
    }
    let (counts, _) = blocked_read("/dev/null").fold(BTreeMap::new, |_, _| unreachable!(), summed).unwrap();
    assert_eq!(counts, BTreeMap::new());
}

#[test]
fn the_first_error_of_a_function_is_returned_whichever_thread_was_first() {
    let (text, scratch) = lines(200_000);
    let failing = |block: Block<'_>| match block.number() {
        number @ (17 | 40) => Err(format!("not {number}")),
        _ => Ok(block.to_vec()),
    };
    let expected =
        format!("the block at offset 17000 of {} could not be processed", scratch.path().display());
    for way in ways(scratch.path()) {
        let mut given = Vec::new();
        let error = way.clone().block(1000).try_map(failing).in_order(|block| Ok(given.extend(block)));
        let error = error.unwrap_err();
        assert_eq!(error.to_string(), expected, "{way:?}");
        assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "not 17");
        assert!(given == text[..17_000], "all before it have results");
        // Without an order, blocks after the first error that is met are left out.
        let error = way.clone().block(1000).try_map(failing).reduce(Vec::new(), concatenated).unwrap_err();
        assert!(matches!(error, Error::Function { offset: 17_000 | 40_000, .. }), "{error}");
        let step = |_: &mut (), block: Block<'_>| failing(block).map(drop);
        let error = way.block(1000).try_fold(|| (), step, |(), ()| ()).unwrap_err();
        assert!(matches!(error, Error::Function { .. }), "{error}");
    }
}

#[test]
fn an_error_of_a_function_concerns_its_file_only() {
    let (_scratch, paths, texts) = of_all_sizes();
    for way in ways_of_many(&paths[..60]) {
        let map = |block: Block<'_>| if block.file() == 9 { Err("refused") } else { Ok(block.len()) };
        let mut found = Vec::new();
        let each = |_: usize, counted: Result<(usize, Report), Error>| {
            found.push(counted.ok().map(|counted| counted.0));
            Ok(())
        };
        way.try_map(map).reduce_each(|| 0, |first, next| first + next, each).unwrap();
        let expected = (0..60).map(|file| (file != 9).then_some(texts[file].len()));
        assert_eq!(found, expected.collect::<Vec<_>>());
    }
}

#[test]
fn panics_of_every_function_reach_the_caller_and_nothing_hangs() {
    let (_, scratch) = lines(200_000);
    let said = |error: Error| match error {
        Error::Task(failure) => failure.to_string(),
        error => panic!("{error}"),
    };
    for way in ways(scratch.path()) {
        let read = || way.clone().block(5000);
        let step = |_: &mut u8, _: Block<'_>| panic!("in step");
        let error = read().fold(|| 0, step, |first, _| first).unwrap_err();
        assert_eq!(said(error), "the task `block` panicked: in step");
        let error = read().fold(|| -> u8 { panic!("in init") }, |_, _| {}, |first, _| first).unwrap_err();
        assert_eq!(said(error), "the task `block` panicked: in init");
        let splitter = |_: &[u8]| -> Option<usize> { panic!("in a splitter") };
        let error = way.clone().records_of(splitter).map(<[u8]>::len).reduce(0, |a, b| a + b).unwrap_err();
        assert_eq!(said(error), "the task `block` panicked: in a splitter");
        let error = read().progress(|_| panic!("in progress")).map(|_| ()).reduce((), |(), ()| ());
        assert_eq!(said(error.unwrap_err()), "the task `block` panicked: in progress");
        let error =
            read().map(|_| Some(1)).try_reduce(None, |_, _| -> ControlFlow<(), _> { panic!("in reduce") });
        assert_eq!(said(error.unwrap_err()), "the task `block` panicked: in reduce");
        let mut results = read().map(|_| -> u8 { panic!("in map") }).into_iter();
        assert_eq!(said(results.next().unwrap().unwrap_err()), "the task `block` panicked: in map");
        assert!(results.next().is_none());
    }
}

#[test]
fn a_search_returns_the_first_and_reads_little_beyond() {
    let (_, scratch) = lines(2_000_000);
    for way in ways(scratch.path()) {
        let found = |block: Block<'_>| (block.number() % 10 == 7).then(|| block.number());
        let (found, report) = way.clone().block(1000).map_blocks(found).find_first().unwrap();
        assert_eq!(found, Some(7), "{way:?}");
        assert!((8000..10 << 20).contains(&report.bytes), "{way:?}: {}", report.bytes);
        let (found, report) = way.block(1000).map_blocks(|_| None::<u8>).find_first().unwrap();
        assert_eq!((found, report.bytes), (None, std::fs::metadata(scratch.path()).unwrap().len()));
    }
}

#[test]
fn a_reduction_can_stop() {
    let (text, scratch) = lines(2_000_000);
    for way in ways(scratch.path()) {
        let most = |most: usize| {
            move |first, next| match first + next {
                sum if sum > most => ControlFlow::Break(sum),
                sum => ControlFlow::Continue(sum),
            }
        };
        let lengths = || way.clone().block(1000).map(<[u8]>::len);
        let (sum, _) = lengths().try_reduce(0, most(usize::MAX)).unwrap();
        assert_eq!(sum, ControlFlow::Continue(text.len()));
        let (sum, _) = lengths().try_reduce(0, most(5000)).unwrap();
        assert!(matches!(sum, ControlFlow::Break(sum) if sum > 5000), "{sum:?}");
    }
}

#[test]
fn an_iterator_has_all_results_in_order_and_can_be_left() {
    let (text, scratch) = lines(400_000);
    for way in ways(scratch.path()) {
        let mut results = way.clone().block(1000).map(<[u8]>::to_vec).into_iter();
        let read: Vec<Vec<u8>> = results.by_ref().map(Result::unwrap).collect();
        assert!(read.concat() == text && read.len() == text.len().div_ceil(1000), "{way:?}");
        assert_eq!(results.report().unwrap().bytes, text.len() as u64);
        let first = way.clone().block(1000).map(<[u8]>::to_vec).into_iter().next().unwrap().unwrap();
        assert_eq!(first, text[..1000]);
        drop(way.map(<[u8]>::len).into_iter());
    }
    let mut results = blocked_read("/no/such/file").map(<[u8]>::len).into_iter();
    assert!(matches!(results.next(), Some(Err(Error::Open { .. }))));
    assert!(results.next().is_none() && results.next().is_none());
}

#[test]
fn a_read_is_cancelled_wherever_it_is() {
    let (_scratch, paths, _) = of_all_sizes();
    for way in ways_of_many(&paths) {
        for at in [1, 20, 500] {
            let (cancel, calls) = (Cancel::new(), AtomicUsize::new(0));
            let map = |block: &[u8]| {
                if calls.fetch_add(1, Ordering::Relaxed) + 1 == at {
                    cancel.cancel();
                }
                block.len()
            };
            let read = || way.clone().block(3000).cancelled_by(&cancel);
            let reduced = read().map(map).reduce_each(|| 0, |first, next| first + next, |_, _| Ok(()));
            assert!(matches!(reduced, Err(Error::Cancelled)), "{way:?}");
            // Those in progress, of two threads and the caller.
            assert!(calls.into_inner() <= at + 3);
            let ordered = read().map(<[u8]>::len).in_order(|_| Ok(()));
            assert!(matches!(ordered, Err(Error::Cancelled)), "{way:?}");
        }
    }
}

#[test]
fn progress_rises_to_the_size_of_all_files() {
    let (_scratch, paths, texts) = of_all_sizes();
    let total = texts.concat().len() as u64;
    let whole: Vec<PathBuf> = paths.iter().filter(|path| path.is_file()).cloned().collect();
    for way in ways_of_many(&whole) {
        let seen: Arc<Mutex<Vec<Progress>>> = Arc::default();
        let note = Arc::clone(&seen);
        let read = way.progress(move |progress| note.lock().unwrap().push(progress));
        read.records(b'\n').map(<[u8]>::len).reduce(0, |first, next| first + next).unwrap();
        let seen = seen.lock().unwrap();
        assert!(seen.is_sorted_by(|first, next| first.done_bytes < next.done_bytes));
        let last = Progress { done_bytes: total, total_bytes: Some(total) };
        assert_eq!(seen.last(), Some(&last));
    }
    let without_size =
        blocked_read("/proc/self/status").progress(|progress| assert_eq!(progress.done_bytes, 0));
    let outcome = without_size.map(<[u8]>::len).reduce(0, |first, next| first + next);
    assert!(outcome.is_err(), "it is called for what has no size, too");
}
