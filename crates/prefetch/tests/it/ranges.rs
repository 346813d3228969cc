//! Ranges on a slow device: which requests are in flight together, and that no caller waits for those that hang.

use std::fs::{self, File};
use std::ops::Range;
use std::time::Duration;

use crate::mounted::{Scratch, can_mount, unmounted};
use sakiyomi_io::page_cache::{ResidencyCall, residency, residency_by};
use sakiyomi_mount::{EmulatedStorage, Mounted, Options};
use sakiyomi_prefetch::{MappedReader, Prefetch};
use sakiyomi_testing::{unless_too_busy, wait_until};

const LIMIT: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;

fn latency(spec: &str) -> Options {
    let spec = format!("latency={spec},parallel=64").parse().unwrap();
    Options { behind: Some(EmulatedStorage::Fixed(spec)), ..Options::default() }
}

fn in_flight(mounted: &Mounted) -> u64 {
    mounted.seen().totals.in_flight
}

/// A range of `length` bytes in each `distance` of a file, in an unpredictable order. `count` is a power of two.
fn scattered(count: u64, length: u64, distance: u64) -> Vec<Range<u64>> {
    (0..count).map(|index| index * 337 % count * distance).map(|at| at..at + length).collect()
}

/// Makes a mount with one file, and returns its content. It has no holes, which would take no time.
fn holding(test: &str, size: u64) -> (Scratch, Vec<u8>) {
    let scratch = Scratch::new(test, LIMIT);
    let bytes: Vec<u8> = (0..size).map(|index| (index / 1000) as u8).collect();
    fs::write(scratch.path("backing/file"), &bytes).unwrap();
    (scratch, bytes)
}

#[test]
fn latencies_of_ranges_overlap_and_a_drop_waits_for_none_of_them() {
    if !can_mount("latencies_of_ranges_overlap") {
        return;
    }
    // So many that all of them take half a minute.
    let ranges = scattered(1024, 4096, 32 << 10);
    let (scratch, _) = holding("ranges-overlap", 32 * MIB);
    let mounted = scratch.mount(&latency("1s"));
    let file = File::open(scratch.path("mounted/file")).unwrap();
    unless_too_busy(|| {
        let prefetch = Prefetch::open(scratch.path("mounted/file"), ranges.clone()).unwrap();
        wait_until("thirty requests at the same time", || in_flight(&mounted) >= 30);
        drop(prefetch);
        let left = in_flight(&mounted);
        wait_until("the requests in flight", || in_flight(&mounted) == 0);
        if left > 0 { Ok(()) } else { Err("a drop that took as long as a request".to_owned()) }
    });
    // The threads have ended: nothing more is requested, and most ranges never were.
    let cached = ranges.iter().filter(|range| residency(&file, (*range).clone()).unwrap().cached > 0).count();
    assert!(cached < ranges.len() / 2, "{cached}");
    drop(file);
    unmounted(mounted);
}

#[test]
fn slices_of_a_slow_file_are_what_it_holds_and_are_fetched_within_the_window() {
    if !can_mount("slices_of_a_slow_file") {
        return;
    }
    let (scratch, bytes) = holding("ranges-mapped", 64 * MIB);
    let mounted = scratch.mount(&latency("10ms"));
    let file = File::open(scratch.path("mounted/file")).unwrap();
    let ranges = scattered(64, 64 << 10, MIB);
    // A window of 16 ranges.
    let prefetch =
        Prefetch::builder().memory(MIB).open(scratch.path("mounted/file"), ranges.clone()).unwrap();
    let reader = MappedReader::new(prefetch).unwrap();
    for (index, range) in ranges.iter().enumerate() {
        assert!(reader.slice(range.clone()).unwrap() == &bytes[range.start as usize..range.end as usize]);
        assert!(residency_by(&file, range.clone(), ResidencyCall::Mincore).unwrap().is_whole());
        for beyond in ranges.iter().skip(index + 16) {
            assert_eq!(residency(&file, beyond.clone()).unwrap().cached, 0, "{beyond:?} at {range:?}");
        }
    }
    let statistics = reader.prefetch().statistics();
    assert!(statistics.prefetched_bytes > 0 && statistics.waits > 0, "{statistics:?}");
    drop((reader, file));
    unmounted(mounted);
}
