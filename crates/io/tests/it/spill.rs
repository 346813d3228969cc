//! Runs in a spill: their bytes and their space are returned, and they need one descriptor.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;

use proptest::prelude::*;
use sakiyomi_io::fake::{FakeDisk, Faults};
use sakiyomi_io::{
    BufferPool, Error, Io, IoOptions, Memory, Run, RunWriter, SharedOptions, Spill, WriteOptions,
};
use sakiyomi_testing::{Scratch, skipped};

use crate::on_disk::content;

fn small() -> WriteOptions {
    WriteOptions { block: 16 << 10, in_flight: 2, ..WriteOptions::default() }
}

fn bytes_of(blocks: impl Iterator<Item = Result<sakiyomi_io::Block, Error>>) -> Vec<u8> {
    blocks.flat_map(|block| block.unwrap().to_vec()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Runs are written concurrently, with faults.
    #[test]
    fn each_run_comes_back_as_it_was_written(
        pieces in prop::collection::vec((0usize..5, 0usize..40_000), 0..40), seed: u64, short: u8, late: u8,
        interrupted in 0u8..128, alignment in 0u32..5, drains: bool, closes: bool,
    ) {
        let faults = Faults {
            seed, short_of_256: short, late_of_256: late, interrupted_of_256: interrupted, ..Faults::default()
        };
        let disk = FakeDisk::default();
        let io = Io::over(disk.engine(4, faults), BufferPool::with_budget(2 << 20, Memory::Ordinary));
        let spill = Spill::over(&io, disk.file(Vec::new(), 8usize.pow(alignment)).unwrap());
        let mut writers: Vec<RunWriter> = (0..5).map(|_| spill.run(&small()).unwrap()).collect();
        let mut plain = vec![Vec::new(); 5];
        let source = content(40_000);
        for (run, length) in pieces {
            writers[run].write_all(&source[..length]).unwrap();
            plain[run].extend_from_slice(&source[..length]);
        }
        if closes {
            writers.iter_mut().for_each(|writer| writer.submit_rest().unwrap());
        }
        let mut finished: Vec<(Run, Vec<u8>)> = Vec::new();
        // A finished run is read while later ones are still written.
        for (writer, expected) in writers.into_iter().zip(plain) {
            let run = writer.finish().unwrap();
            prop_assert_eq!(run.len(), expected.len() as u64);
            for (run, expected) in &finished {
                prop_assert!(bytes_of(run.read(&SharedOptions::default()).unwrap()) == *expected);
            }
            finished.push((run, expected));
        }
        for (run, expected) in finished {
            let options = SharedOptions { block: 20_000, ..SharedOptions::default() };
            prop_assert!(drains || bytes_of(run.read(&options).unwrap()) == expected);
            let mut reader = run.drain(&options).unwrap();
            if closes {
                reader.start().unwrap();
            }
            prop_assert!(bytes_of(reader) == expected);
        }
        prop_assert!(io.pool().account(2 << 20).is_ok(), "all memory came back");
    }

    #[test]
    fn an_error_is_told_and_spares_the_other_runs(bad in 0u64..300_000, seed: u64, full: bool) {
        let code = if full { libc::ENOSPC } else { libc::EIO };
        let faults = Faults { seed, late_of_256: 100, errors: vec![(bad, code)], ..Faults::default() };
        let disk = FakeDisk::default();
        let io = Io::over(disk.engine(4, faults), BufferPool::with_budget(2 << 20, Memory::Ordinary));
        let spill = Spill::over(&io, disk.file(Vec::new(), 512).unwrap());
        let source = content(100_000);
        let runs = (0..3).map(|_| {
            let mut writer = spill.run(&small())?;
            let outcome = writer.write_all(&source);
            let run = writer.finish()?;
            outcome.unwrap();
            Ok(run)
        });
        let runs: Vec<Result<Run, Error>> = runs.collect();
        let failed = runs.iter().filter(|run| run.is_err()).count();
        // The writer that fails stops early, so it meets the bad byte at most once, if it is not padding.
        prop_assert!(failed <= 1);
        for run in runs {
            match run {
                Ok(run) => prop_assert!(bytes_of(run.drain(&SharedOptions::default()).unwrap()) == source),
                Err(Error::Full { .. }) => prop_assert!(full),
                Err(Error::Write { .. }) => prop_assert!(!full),
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }
}

#[test]
fn the_space_of_what_is_drained_is_returned_and_no_name_is_ever_seen() {
    let scratch = Scratch::new("spill_space");
    let io = Io::open(&IoOptions::default()).unwrap();
    let spill = Spill::create(&io, scratch.root()).unwrap();
    assert_eq!(scratch.entries(), 0);
    let source = content(1 << 20);
    let mut runs: Vec<Run> = (0..4)
        .map(|_| {
            let mut writer = spill.run(&WriteOptions::default()).unwrap();
            (0..4).for_each(|_| writer.write_all(&source).unwrap());
            writer.write_all(b"end").unwrap();
            writer.finish().unwrap()
        })
        .collect();
    let run_bytes = (4 << 20) + 4096;
    let full = spill.stats();
    assert_eq!((full.live_bytes, full.peak_bytes), (4 * run_bytes, 4 * run_bytes));
    let mut reader = runs.pop().unwrap().drain(&SharedOptions::default()).unwrap();
    let mut read = 0;
    for block in reader.by_ref().take(3) {
        read += block.unwrap().len() as u64;
    }
    let behind = spill.stats();
    assert!(full.live_bytes - behind.live_bytes >= read - (1 << 20), "{behind:?} after {read} bytes");
    // One run is read in part, the other not at all.
    drop(reader);
    drop(runs.pop());
    assert_eq!(spill.stats().live_bytes, 2 * run_bytes);
    let mut given_up = spill.run(&small()).unwrap();
    given_up.write_all(&source).unwrap();
    drop(given_up);
    for run in runs {
        assert_eq!(bytes_of(run.drain(&SharedOptions::default()).unwrap()).len(), (4 << 20) + 3);
    }
    let stats = spill.stats();
    assert_eq!(stats.live_bytes, 0);
    assert!(stats.peak_bytes < full.peak_bytes + (1 << 20), "{stats:?}");
    let blocks = || spill.file().file().metadata().unwrap().blocks() * 512;
    let before = blocks();
    // More than is possible: the released space is returned before it is refused.
    assert!(!spill.has_room(u64::MAX));
    let occupied = blocks();
    if occupied == before {
        return skipped("the_space_of_what_is_drained_is_returned", "no holes in files here");
    }
    // Blocks that are allocated ahead of the writers, and the file system's own, remain.
    let ahead = spill.file().file().metadata().unwrap().len() - stats.written_bytes;
    assert!(occupied <= ahead + (1 << 20), "{occupied} bytes, {ahead} of them ahead");
    assert_eq!(scratch.entries(), 0);
}

#[test]
fn a_thousand_runs_share_one_descriptor() {
    let scratch = Scratch::new("spill_many");
    let io = Io::open(&IoOptions::default()).unwrap();
    let spill = Spill::create(&io, scratch.root()).unwrap();
    let path = spill.file().path().parent().unwrap();
    let runs: Vec<Run> = (0..1000u32)
        .map(|number| {
            let mut writer = spill.run(&small()).unwrap();
            writer.write_all(&number.to_le_bytes()).unwrap();
            writer.finish().unwrap()
        })
        .collect();
    let of_it =
        |entry: fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(path));
    let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok).map(of_it);
    assert_eq!(open.filter(|&is_it| is_it).count(), 1);
    for (number, run) in runs.into_iter().enumerate() {
        assert_eq!(bytes_of(run.drain(&SharedOptions::default()).unwrap()), (number as u32).to_le_bytes());
    }
}
