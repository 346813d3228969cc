//! A reader on a slow device: tests which data it fetches, not its speed.
//!
//! A file system under FUSE answers each request after 10 ms, and the kernel reads 128 KiB ahead on it.

use std::fs::{self, File};
use std::io::{BufRead, Read};
use std::thread;
use std::time::Duration;

use crate::mounted::{Scratch, can_mount, unmounted};
use sakiyomi_io::page_cache::{ResidencyCall, residency_by};
use sakiyomi_mount::{EmulatedStorage, Options};
use sakiyomi_prefetch::{PrefetchReader, State};

const LIMIT: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;

fn slow() -> Options {
    let spec = "latency=10ms,parallel=64".parse().unwrap();
    Options { behind: Some(EmulatedStorage::Fixed(spec)), ..Options::default() }
}

/// Makes a mount with one file.
fn holding(test: &str, size: u64) -> Scratch {
    let scratch = Scratch::new(test, LIMIT);
    let bytes: Vec<u8> = (0..size).map(|index| (index / 1000) as u8).collect();
    fs::write(scratch.path("backing/file"), bytes).unwrap();
    scratch
}

#[test]
fn a_fixed_limit_is_filled_ahead_of_the_position_and_not_beyond() {
    if !can_mount("a_fixed_limit_is_filled_ahead") {
        return;
    }
    let scratch = holding("reader-fixed", 32 * MIB);
    let mounted = scratch.mount(&slow());
    let file = File::open(scratch.path("mounted/file")).unwrap();
    let mut reader =
        PrefetchReader::builder().fixed(4 * MIB, MIB).open(scratch.path("mounted/file")).unwrap();
    let mut byte = [0];
    reader.read_exact(&mut byte).unwrap();
    // The program computes for a long time, until everything allowed has arrived.
    while !residency_by(&file, 0..4 * MIB, ResidencyCall::Mincore).unwrap().is_whole() {
        thread::sleep(Duration::from_millis(1));
    }
    let ahead = reader.statistics().ahead;
    assert!(ahead.end - ahead.start <= 5 * MIB, "{ahead:?}");
    let beyond = residency_by(&file, ahead.end + MIB..32 * MIB, ResidencyCall::Cachestat).unwrap();
    assert_eq!(beyond.cached, 0, "nothing is requested beyond the limit");
    // Data ahead is read without any wait as long as the device's latency.
    let before = reader.statistics().io_wait;
    reader.read_exact(&mut vec![0; 3 * MIB as usize]).unwrap();
    let statistics = reader.statistics();
    assert!(statistics.io_wait - before < Duration::from_millis(10 * 24), "alone it waits 24 times");
    assert!(statistics.prefetched_bytes >= 3 * MIB, "{statistics:?}");
    drop((reader, file));
    unmounted(mounted);
}

#[test]
fn the_automatic_limit_reads_ahead_of_who_waits_and_gives_what_is_there() {
    if !can_mount("the_automatic_limit_reads_ahead") {
        return;
    }
    let scratch = holding("reader-auto", 16 * MIB);
    let mounted = scratch.mount(&slow());
    let mut reader = PrefetchReader::open(scratch.path("mounted/file")).unwrap();
    let mut got = Vec::new();
    reader.read_to_end(&mut got).unwrap();
    assert!(got == fs::read(scratch.path("backing/file")).unwrap());
    let statistics = reader.statistics();
    assert!(statistics.prefetched_bytes > 8 * MIB && statistics.waits > 0, "{statistics:?}");
    drop(reader);
    unmounted(mounted);
}

#[test]
fn what_reads_past_the_page_cache_is_read_rightly_all_the_same() {
    if !can_mount("what_reads_past_the_page_cache") {
        return;
    }
    // The kernel reads such a file ahead when requested, and then does not use the data, which cannot be known
    // beforehand.
    let scratch = holding("reader-direct", 4 * MIB);
    let mounted = scratch.mount(&Options { direct_io: true, ..slow() });
    let mut got = Vec::new();
    PrefetchReader::open(scratch.path("mounted/file")).unwrap().read_to_end(&mut got).unwrap();
    assert!(got == fs::read(scratch.path("backing/file")).unwrap());
    unmounted(mounted);
}

#[test]
fn a_reader_ends_at_once_whatever_is_still_being_fetched() {
    if !can_mount("a_reader_ends_at_once") {
        return;
    }
    let scratch = holding("reader-ends", 64 * MIB);
    let mounted = scratch.mount(&slow());
    for _ in 0..5 {
        let mut reader =
            PrefetchReader::builder().fixed(32 * MIB, 32 * MIB).open(scratch.path("mounted/file")).unwrap();
        reader.fill_buf().unwrap();
        // The first of them may have fetched all of it.
        while matches!(reader.statistics().state, None | Some(State::Watching)) {
            thread::yield_now();
        }
        drop(reader);
    }
    unmounted(mounted);
}
