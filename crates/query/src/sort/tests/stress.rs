//! Memory: sorts with many threads and little memory end, with the right rows, unless they are refused at the beginning.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::{BufferPool, Io, Memory, Spill};

use super::*;
use crate::sort::plan::min_bytes;
use crate::spill::{Level, SpillCompression, SpillFiles};

/// Chunks of the tests.
const CHUNK_BYTES: usize = 4096;

/// Time after which a sort that takes milliseconds is taken to wait for ever.
const WATCHDOG: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
struct Case {
    threads: usize,
    /// Threads that take partitions.
    consumers: usize,
    /// Bytes of buffers, all for the sort.
    budget: usize,
    resident: usize,
    limit: Option<u64>,
    stable: bool,
    has_sample: bool,
    seed: u64,
}

/// Fails if `work` does not end.
fn watched<R: Send + 'static>(what: &str, work: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, outcome) = channel();
    let worker = thread::spawn(move || drop(sender.send(work())));
    match outcome.recv_timeout(WATCHDOG) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Timeout) => panic!("threads wait for each other: {what}"),
        Err(RecvTimeoutError::Disconnected) => std::panic::resume_unwind(worker.join().unwrap_err()),
    }
}

/// The compression of a case: spilled rows are restored in the memory that was granted for them.
fn compression(seed: u64) -> SpillCompression {
    match seed % 3 {
        0 => SpillCompression::Adaptive,
        1 => SpillCompression::Fixed(Level::Lz4),
        _ => SpillCompression::Fixed(Level::Zstd),
    }
}

/// Sorts batches on a disk whose transfers complete in random order.
fn run(case: &Case, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>, Error> {
    let disk = FakeDisk::default();
    let file = disk.file(Vec::new(), 4096).unwrap();
    let pool = BufferPool::with_budget(case.budget, Memory::Ordinary);
    let faults = Faults { seed: case.seed, short_of_256: 20, late_of_256: 100, ..Faults::default() };
    let io = Io::over(disk.engine(16, faults), pool);
    let options = JobOptions {
        memory: 32 << 20,
        threads: case.threads,
        spill: Vec::new(),
        spill_compression: compression(case.seed),
        ..JobOptions::default()
    };
    let job = Job::over(options, io.clone());
    let spills = SpillFiles::over(&job, vec![Spill::over(&io, file)]);
    let options = SortOptions {
        sample: case.has_sample.then(|| batches[0].project(&[0]).unwrap()),
        expected_bytes: Some(1 << 20),
        memory: Some(case.budget),
        resident: case.resident,
        block: CHUNK_BYTES,
        batch_rows: 100,
        limit: case.limit,
        stable: case.stable,
        ..SortOptions::default()
    };
    let mut sorter = Sorter::with_spills(&job, &batches[0].schema(), &[ascending(0)], &options, spills)?;
    let workers = (0..case.threads).map(|_| sorter.worker()).collect();
    crate::sort::feed(&job, inputs(batches, case.threads), workers)?;
    let sorted = sorter.finish()?;
    let consume = |sorted: Sorted| {
        let mut parts: Vec<(usize, Vec<RecordBatch>)> = Vec::new();
        while let Some((number, mut partition)) = sorted.next_partition()? {
            let mut part = Vec::new();
            while let Some(batch) = partition.next()? {
                part.push(batch);
                thread::yield_now();
            }
            parts.push((number, part));
        }
        Ok::<_, Error>(parts)
    };
    let mut outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..case.consumers).map(|_| scope.spawn(|| consume(sorted.clone()))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // An error of one thread cancels the others.
    outcomes.sort_by_key(|outcome| matches!(outcome, Err(Error::Cancelled)));
    let mut parts = outcomes.into_iter().collect::<Result<Vec<_>, Error>>()?.concat();
    parts.sort_by_key(|(number, _)| *number);
    Ok(parts.into_iter().flat_map(|(_, part)| part).collect())
}

/// Rows with a key and a text, of which one in `long_every` is longer than several chunks.
fn batches(keys: i64, rows: i64, long_every: i64) -> Vec<RecordBatch> {
    let batch = |batch: i64| {
        let rows = batch * 500..((batch + 1) * 500).min(rows);
        let key = |row: i64| (row + 1).wrapping_mul(6_364_136_223_846_793_005) % keys;
        let text = |row: i64| "x".repeat(if row % long_every == long_every - 1 { 20_000 } else { 40 });
        let keys = Int64Array::from_iter_values(rows.clone().map(key));
        let texts = StringArray::from_iter_values(rows.map(text));
        let columns: [(&str, ArrayRef); 2] = [("k", Arc::new(keys)), ("t", Arc::new(texts))];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    (0..(rows + 499) / 500).map(batch).collect()
}

/// Sorts, and checks the rows.
fn ends(case: &Case, batches: &[RecordBatch]) {
    let (of_thread, input) = (case.clone(), batches.to_vec());
    let output = watched(&format!("{case:?}"), move || run(&of_thread, &input));
    let output = output.unwrap_or_else(|error| panic!("{case:?}: {error}"));
    match case.limit {
        None => check(batches, &output, &[ascending(0)]),
        Some(limit) => {
            let rows: usize = output.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(rows as u64, limit.min(batches.iter().map(|batch| batch.num_rows() as u64).sum()));
            assert!(encoded(&output, &[ascending(0)]).is_sorted());
        }
    }
}

fn case(threads: usize, more_chunks: usize) -> Case {
    Case {
        threads,
        consumers: threads,
        budget: min_bytes(CHUNK_BYTES, threads, 1) + more_chunks * CHUNK_BYTES,
        resident: 0,
        limit: None,
        stable: false,
        has_sample: false,
        seed: 1,
    }
}

#[test]
fn sorts_end_with_the_least_memory_and_any_number_of_threads() {
    let batches = batches(i64::MAX, 12_000, i64::MAX);
    for threads in [1, 2, 3, 16] {
        for (more_chunks, resident) in [(0, 0), (7, 20_000), (100, 100_000)] {
            for has_sample in [false, true] {
                ends(&Case { has_sample, resident, ..case(threads, more_chunks) }, &batches);
            }
        }
    }
}

#[test]
fn less_than_the_least_memory_is_refused_before_any_row() {
    for threads in [1, 4, 16] {
        for has_sample in [false, true] {
            let case =
                Case { budget: min_bytes(CHUNK_BYTES, threads, 1) - 1, has_sample, ..case(threads, 0) };
            let error = run(&case, &batches(10, 10, 100)).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Error::Memory { .. }), "{text}");
            assert!(text.starts_with(&format!("sorting on {threads} threads needs ")), "{text}");
        }
    }
}

#[test]
fn sorts_of_equal_keys_end() {
    for keys in [1, 2] {
        let batches = batches(keys, 12_000, i64::MAX);
        for (threads, stable) in [(1, true), (4, true), (4, false), (16, true)] {
            for has_sample in [false, true] {
                ends(&Case { has_sample, stable, ..case(threads, 0) }, &batches);
                ends(&Case { has_sample, stable, limit: Some(700), ..case(threads, 8) }, &batches);
            }
        }
    }
}

#[test]
fn rows_longer_than_a_chunk_end_or_are_refused() {
    let batches = batches(i64::MAX, 3000, 20);
    for threads in [1, 4, 16] {
        for (more_chunks, has_sample) in [(0, true), (0, false), (60, true), (60, false), (400, true)] {
            let case = Case { has_sample, resident: 50_000, ..case(threads, more_chunks) };
            let (of_thread, input) = (case.clone(), batches.clone());
            match watched(&format!("{case:?}"), move || run(&of_thread, &input)) {
                Ok(output) => check(&batches, &output, &[ascending(0)]),
                Err(Error::Memory { what, .. }) if more_chunks < 400 => {
                    assert!(!what.is_empty());
                }
                Err(error) => panic!("{case:?}: {error}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sort_ends(
        threads in 1..17_usize,
        consumers in 1..17_usize,
        more_chunks in 0..60_usize,
        resident in 0..200_000_usize,
        keys in prop_oneof![Just(1_i64), 2..50_i64, Just(i64::MAX)],
        limit in prop::option::of(1..5000_u64),
        stable: bool,
        has_sample: bool,
        seed: u64,
    ) {
        let case = Case { consumers, resident, limit, stable, has_sample, seed, ..case(threads, more_chunks) };
        ends(&case, &batches(keys, 6000, i64::MAX));
    }
}
