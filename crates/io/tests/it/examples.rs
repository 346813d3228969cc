//! The examples, with faults and on real files: never a wrong byte, never a hang.

use std::fs;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::{Access, AtomicFile, BufferPool, Io, IoFile, IoOptions, Memory, Spill};
use sakiyomi_testing::{Scratch, skipped};

use crate::on_disk::content;

#[allow(dead_code)] // its main
#[path = "../../examples/column_ranges.rs"]
mod column_ranges;
#[allow(dead_code)] // its main
#[path = "../../examples/merge_runs.rs"]
mod merge_runs;

/// Far longer than any of these takes, on however busy a machine.
const HANGS_AFTER: Duration = Duration::from_secs(300);

/// Runs a function on its own thread, and panics if it does not return in time.
fn watched<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    let worker = thread::spawn(move || done.send(work()));
    match ended.recv_timeout(HANGS_AFTER) {
        Ok(outcome) => outcome,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(worker.join().expect_err("it has panicked"))
        }
    }
}

fn sorted(bytes: &[u8]) -> Vec<u8> {
    let mut numbers: Vec<u64> = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    numbers.sort_unstable();
    numbers.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Sums by a loop over all numbers: the oracle.
fn plain_sums(bytes: &[u8], columns: &[u64], chunk_bytes: usize) -> Vec<u64> {
    let mut sums = vec![0u64; columns.len()];
    for group in bytes.chunks_exact(40 * chunk_bytes) {
        for (sum, column) in sums.iter_mut().zip(columns) {
            let chunk = &group[*column as usize * chunk_bytes..][..chunk_bytes];
            let numbers = chunk.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
            *sum = numbers.fold(*sum, u64::wrapping_add);
        }
    }
    sums
}

/// A fault that ends the run, in addition to those that it must survive.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Nothing,
    /// An offset that can be neither read nor written.
    Error(u64, i32),
    Full(u64),
    Shrinks(u64, u64),
}

fn blow(size: u64) -> impl Strategy<Value = Blow> {
    prop_oneof![
        2 => Just(Blow::Nothing),
        1 => (0..size).prop_map(|byte| Blow::Error(byte, libc::EIO)),
        1 => (0..size).prop_map(|byte| Blow::Error(byte, libc::ENOSPC)),
        1 => (1..size).prop_map(Blow::Full),
        2 => (1u64..200, 0..size).prop_map(|(call, size)| Blow::Shrinks(call, size)),
    ]
}

fn faults() -> impl Strategy<Value = Faults> {
    (any::<u64>(), any::<u8>(), any::<u8>(), 0u8..128).prop_map(|(seed, short, late, interrupted)| Faults {
        seed,
        short_of_256: short,
        late_of_256: late,
        interrupted_of_256: interrupted,
        ..Faults::default()
    })
}

fn with(faults: Faults, blow: Blow) -> Faults {
    match blow {
        Blow::Nothing => faults,
        Blow::Error(byte, code) => Faults { errors: vec![(byte, code)], ..faults },
        Blow::Full(capacity) => Faults { capacity, ..faults },
        Blow::Shrinks(call, size) => Faults { shrinks: Some((call, size)), ..faults },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_merge_is_right_or_an_error(
        size in 0usize..300_000, runs in 1u64..60, faults in faults(), blow in blow(320_000), alignment in 0u32..5,
    ) {
        watched(move || {
            let disk = FakeDisk::default();
            let bytes = content(size);
            let file = |content| disk.file(content, 8usize.pow(alignment)).unwrap();
            let (input, output) = (file(bytes.clone()), file(Vec::new()));
            let pool = BufferPool::with_budget(8 << 20, Memory::Ordinary);
            let io = Io::over(disk.engine(4, with(faults, blow)), pool);
            let spill = Spill::over(&io, file(Vec::new()));
            match merge_runs::sort(&io, &input, &spill, &output, runs) {
                Ok(written) => {
                    let expected = sorted(&bytes);
                    prop_assert_eq!(written, expected.len() as u64);
                    // A file that shrinks after it was written has lost bytes through no fault of ours.
                    let kept = if let Blow::Shrinks(_, size) = blow { size as usize } else { usize::MAX };
                    let content = disk.content(&output);
                    let kept = kept.min(content.len());
                    prop_assert!(content[..kept] == expected[..kept]);
                    prop_assert!(matches!(blow, Blow::Shrinks(..)) || kept == expected.len());
                }
                Err(error) => prop_assert!(!matches!(blow, Blow::Nothing), "{error}"),
            }
            prop_assert!(io.pool().account(8 << 20).is_ok(), "all memory came back");
            Ok(())
        })?;
    }

    #[test]
    fn sums_of_columns_are_right_or_an_error(
        groups in 0usize..6, columns in prop::collection::btree_set(0u64..40, 1..41), faults in faults(),
        blow in blow(800_000), alignment in 0u32..5, chunk in 1usize..500,
    ) {
        watched(move || {
            let disk = FakeDisk::default();
            let bytes = content(groups * 40 * 8 * chunk + 100);
            let file = disk.file(bytes.clone(), 8usize.pow(alignment)).unwrap();
            let pool = BufferPool::with_budget(1 << 20, Memory::Ordinary);
            let io = Io::over(disk.engine(4, with(faults, blow)), pool);
            let columns: Vec<u64> = columns.into_iter().collect();
            match column_ranges::sums(&io, &file, &columns, 8 * chunk as u64) {
                Ok(sums) => prop_assert_eq!(sums, plain_sums(&bytes, &columns, 8 * chunk)),
                Err(error) => prop_assert!(!matches!(blow, Blow::Nothing | Blow::Full(_)), "{error}"),
            }
            Ok(())
        })?;
    }
}

#[test]
fn five_hundred_runs_of_a_real_file_are_merged_within_64_mib() {
    let test = "five_hundred_runs_of_a_real_file";
    let scratch = Scratch::new("merge_runs");
    let bytes = content(4 << 20);
    let input = scratch.file("input", &bytes);
    for engine in ["pread:4", "read", "uring:8", "aio:8"] {
        let Ok(io) = Io::open(&IoOptions { engine: engine.parse().unwrap(), ..IoOptions::default() }) else {
            skipped(test, format_args!("no {engine} here"));
            continue;
        };
        let access = if engine == "read" { Access::Buffered } else { Access::Direct };
        let (Ok(input), Ok(output)) =
            (IoFile::open(&input, access), AtomicFile::create_for(scratch.path("output"), access))
        else {
            skipped(test, "no direct I/O here");
            continue;
        };
        let (input, expected, root) = (Arc::new(input), sorted(&bytes), scratch.root().to_owned());
        watched(move || {
            let spill = Spill::create(&io, &root).unwrap();
            merge_runs::sort(&io, &input, &spill, output.file().unwrap(), 500).unwrap();
            output.commit().unwrap();
            assert!(fs::read(root.join("output")).unwrap() == expected);
            assert!(io.pool().resident() <= 64 << 20);
        });
    }
}

#[test]
fn columns_of_a_real_file_are_summed() {
    let scratch = Scratch::new("column_ranges");
    let bytes = content(3 * 40 * 16_384);
    let path = scratch.file("columns", &bytes);
    for columns in [(0..40).collect(), vec![3, 4, 17, 39]] {
        let io = Io::open(&IoOptions::default()).unwrap();
        let file = Arc::new(IoFile::open(&path, Access::Buffered).unwrap());
        let expected = plain_sums(&bytes, &columns, 16_384);
        assert_eq!(column_ranges::sums(&io, &file, &columns, 16_384).unwrap(), expected);
    }
}
