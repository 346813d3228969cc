use super::*;
use proptest::prelude::*;
use std::fs::OpenOptions;
use std::io::Write;

use crate::scratch::{Scratch, content};
use sakiyomi_testing::skipped;

/// A reader that always reads ahead.
fn eager(path: &Path) -> PrefetchReader {
    PrefetchReader::builder().fixed(1 << 20, 256 << 10).open(path).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Read(usize),
    /// Fills the buffer and consumes this many thousandths of it.
    Take(usize),
    Seek(SeekFrom),
    Relative(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let near = -300_000i64..300_000;
    let step = prop_oneof![
        4 => (0usize..600_000).prop_map(Step::Read),
        2 => (0usize..3_000_000).prop_map(Step::Read),
        4 => (0usize..=1000).prop_map(Step::Take),
        1 => (0u64..3_000_000).prop_map(|at| Step::Seek(SeekFrom::Start(at))),
        1 => near.clone().prop_map(|way| Step::Seek(SeekFrom::Current(way))),
        1 => near.clone().prop_map(|way| Step::Seek(SeekFrom::End(way))),
        2 => near.prop_map(Step::Relative),
    ];
    prop::collection::vec(step, 1..40)
}

/// Returns the target of a seek by the rules of `lseek`.
fn target(from: u64, size: usize, to: SeekFrom) -> Option<u64> {
    match to {
        SeekFrom::Start(at) => Some(at),
        SeekFrom::Current(way) => from.checked_add_signed(way),
        SeekFrom::End(way) => (size as u64).checked_add_signed(way),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_read_and_sought_is_what_the_file_holds(
        size in prop_oneof![0usize..2000, 100_000usize..2_500_000],
        cold: bool,
        limit in prop_oneof![Just(Limit::AUTO), Just(Limit::Fixed { limit: 300_000, step: 100_000 })],
        steps in steps(),
    ) {
        let bytes = content(size);
        let scratch = Scratch::with(&bytes);
        let scratch = if cold { scratch.evicted() } else { scratch };
        let options = Builder { limit, memory: None };
        let mut reader = options.open(scratch.path()).unwrap();
        let mut at = 0u64;
        let rest = |at: u64| &bytes[(at as usize).min(size)..];
        for step in steps {
            match step {
                Step::Read(count) => {
                    let mut got = vec![0; count];
                    let read = reader.read(&mut got).unwrap();
                    prop_assert_eq!(read == 0, count == 0 || rest(at).is_empty());
                    prop_assert!(got[..read] == rest(at)[..read]);
                    at += read as u64;
                }
                Step::Take(thousandths) => {
                    let got = reader.fill_buf().unwrap();
                    prop_assert_eq!(got.is_empty(), rest(at).is_empty());
                    prop_assert!(got == &rest(at)[..got.len()]);
                    let count = got.len() * thousandths / 1000;
                    reader.consume(count);
                    at += count as u64;
                }
                Step::Seek(to) => {
                    let expected = target(at, size, to);
                    prop_assert_eq!(reader.seek(to).ok(), expected);
                    at = expected.unwrap_or(at);
                }
                Step::Relative(way) => {
                    let expected = target(at, size, SeekFrom::Current(way));
                    prop_assert_eq!(reader.seek_relative(way).is_ok(), expected.is_some());
                    at = expected.unwrap_or(at);
                }
            }
            prop_assert_eq!(reader.position(), at);
            prop_assert_eq!(reader.stream_position().unwrap(), at);
        }
        let mut tail = Vec::new();
        reader.read_to_end(&mut tail).unwrap();
        prop_assert!(tail == rest(at));
    }

    #[test]
    fn a_file_that_is_cut_and_grows_reads_as_it_is_at_the_time(
        sizes in prop::collection::vec(0usize..3_000_000, 1..8),
        cold: bool,
    ) {
        let scratch = Scratch::with(&content(3_000_000));
        let scratch = if cold { scratch.evicted() } else { scratch };
        let mut reader = eager(scratch.path());
        let file = OpenOptions::new().write(true).open(scratch.path()).unwrap();
        let mut held = content(3_000_000);
        let mut chunk = vec![0; 200_000];
        for size in sizes {
            file.set_len(size as u64).unwrap();
            held.resize(size, 0);
            // The buffer's content is older.
            reader.seek(SeekFrom::Start(reader.position())).unwrap();
            let at = (reader.position() as usize).min(size);
            let read = reader.read(&mut chunk).unwrap();
            prop_assert!(chunk[..read] == held[at..at + read]);
            prop_assert_eq!(read == 0, at == size);
        }
    }
}

#[test]
fn what_is_appended_while_it_is_read_is_read_and_read_ahead() {
    let mut bytes = content(2_000_000);
    let scratch = Scratch::with(&bytes);
    let mut reader = eager(scratch.path());
    let mut file = OpenOptions::new().append(true).open(scratch.path()).unwrap();
    let mut got = Vec::new();
    for round in 0..5 {
        reader.read_to_end(&mut got).unwrap();
        assert!(got == bytes, "round {round}");
        file.write_all(&content(1_500_000)).unwrap();
        bytes.extend(content(1_500_000));
    }
}

/// Waits, without a clock, until the prefetching thread reports a state.
fn until(reader: &PrefetchReader, wanted: impl Fn(Option<State>) -> bool) {
    while !wanted(reader.statistics().state) {
        std::thread::yield_now();
    }
}

#[test]
fn what_is_in_memory_already_is_left_alone() {
    let scratch = Scratch::with(&content(4 << 20));
    let mut reader = eager(scratch.path());
    reader.fill_buf().unwrap();
    until(&reader, |state| state == Some(State::Idle(crate::Idle::Resident)));
    assert_eq!((reader.statistics().prefetched_bytes, reader.statistics().ahead.is_empty()), (0, true));
}

#[test]
fn what_is_not_in_memory_is_brought_there_as_far_as_the_limit_and_no_further() {
    let scratch = Scratch::with(&content(8 << 20)).evicted();
    let file = File::open(scratch.path()).unwrap();
    let all = sakiyomi_io::page_cache::residency(&file, 0..8 << 20).unwrap();
    if all.cached > 0 {
        skipped("what_is_not_in_memory_is_brought_there", "files stay in memory here");
        return;
    }
    let mut reader = eager(scratch.path());
    reader.fill_buf().unwrap();
    until(&reader, |state| state == Some(State::Ahead));
    // The kernel's own read-ahead fetches part of it.
    let found = || sakiyomi_io::page_cache::residency(&file, 0..1 << 20).unwrap();
    while reader.statistics().ahead.end < 1 << 20 || !found().is_whole() {
        std::thread::yield_now();
    }
    let ahead = reader.statistics().ahead;
    assert!(ahead.end - ahead.start <= (1 << 20) + (256 << 10), "{ahead:?}");
}

#[test]
fn files_in_memory_are_read_plainly() {
    let directory = Path::new("/dev/shm");
    if !directory.is_dir() {
        skipped("files_in_memory_are_read_plainly", "there is no /dev/shm");
        return;
    }
    let bytes = content(3_000_000);
    let scratch = Scratch::inside(directory, &bytes);
    let mut got = Vec::new();
    let mut reader = eager(scratch.path());
    reader.read_to_end(&mut got).unwrap();
    assert!(got == bytes && reader.statistics().prefetched_bytes == 0);
}

#[test]
fn what_has_no_positions_is_read_plainly() {
    let mut got = Vec::new();
    PrefetchReader::open("/dev/null").unwrap().read_to_end(&mut got).unwrap();
    assert!(got.is_empty());

    let (from, mut to) = io::pipe().unwrap();
    let bytes = content(1_000_000);
    let sent = bytes.clone();
    let writer = std::thread::spawn(move || to.write_all(&sent).unwrap());
    let file = File::from(std::os::fd::OwnedFd::from(from));
    let mut reader = Builder::default().over(file).unwrap();
    assert!(reader.seek(SeekFrom::Current(1)).is_err() && reader.stream_position().is_err());
    reader.read_to_end(&mut got).unwrap();
    writer.join().unwrap();
    assert!(got == bytes && reader.position() == 1_000_000);
}

#[test]
fn what_the_kernel_makes_up_is_read_plainly() {
    let mut got = String::new();
    PrefetchReader::open("/proc/self/maps").unwrap().read_to_string(&mut got).unwrap();
    assert!(got.contains("[stack]"));
}

#[test]
fn a_directory_is_refused_in_a_sentence() {
    let error = PrefetchReader::open("/").unwrap_err();
    assert_eq!(error.to_string(), "/ is a directory; a regular file or a block device is needed");
    let error = PrefetchReader::open("/nowhere/at/all").unwrap_err();
    assert_eq!(error.to_string(), "cannot open /nowhere/at/all");
}

#[test]
fn an_open_file_is_read_from_where_it_is_and_stays_there() {
    let bytes = content(1_000_000);
    let scratch = Scratch::with(&bytes);
    let mut file = File::open(scratch.path()).unwrap();
    file.seek(SeekFrom::Start(123_456)).unwrap();
    let mut got = Vec::new();
    let mut reader = Builder::default().over(file.try_clone().unwrap()).unwrap();
    reader.read_to_end(&mut got).unwrap();
    assert!(got == bytes[123_456..]);
    assert_eq!(file.stream_position().unwrap(), 123_456);
}

#[test]
fn errors_of_the_file_are_the_programs() {
    let scratch = Scratch::with(b"not for reading");
    let file = OpenOptions::new().write(true).open(scratch.path()).unwrap();
    let mut reader = Builder::default().over(file).unwrap();
    for _ in 0..2 {
        assert!(reader.fill_buf().is_err() && reader.read(&mut [0; 1 << 20]).is_err());
    }
}
