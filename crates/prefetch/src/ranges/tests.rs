#![expect(clippy::single_range_in_vec_init, reason = "lists of one range are meant")]

use super::*;
use proptest::prelude::*;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;

use crate::scratch::{Scratch, content};
use sakiyomi_io::page_cache::{self, ResidencyCall};
use sakiyomi_testing::{skipped, wait_until};

const MIB: u64 = 1 << 20;

/// A file that is not cached; `None` where files stay in memory.
fn cold(test: &str, bytes: &[u8]) -> Option<(Scratch, File)> {
    let scratch = Scratch::with(bytes).evicted();
    let file = File::open(scratch.path()).unwrap();
    if !page_cache::residency(&file, 0..u64::MAX).is_ok_and(|found| found.cached == 0) {
        skipped(test, "files stay in memory here, or it cannot be seen");
        return None;
    }
    Some((scratch, file))
}

fn has_arrived(file: &File, range: Range<u64>) -> bool {
    page_cache::residency_by(file, range, ResidencyCall::Mincore).unwrap().is_whole()
}

/// Waits until no request is in flight, and so none is possible until the consumer advances.
fn until_quiet(prefetch: &Prefetch) {
    wait_until("the requests in flight", || prefetch.shared.planner().is_quiet());
}

fn parts() -> impl Strategy<Value = Vec<Range<u64>>> {
    let length = prop_oneof![Just(0u64), 1..5000u64, 100_000..3_000_000u64];
    let part = (0..4_000_000u64, length).prop_map(|(start, length)| start..start + length);
    prop::collection::vec(part, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn any_range_that_is_waited_for_has_arrived_and_slices_are_what_the_file_holds(
        size in prop_oneof![Just(0usize), 1usize..5000, 1_000_000usize..4_000_000],
        ranges in parts(),
        memory in prop_oneof![Just(None), (WINDOW_MIN_BYTES..3 * MIB).prop_map(Some)],
        reports: bool,
        backwards: bool,
    ) {
        let bytes = content(size);
        let scratch = Scratch::with(&bytes).evicted();
        let file = File::open(scratch.path()).unwrap();
        let options = Builder { memory };
        let prefetch = options.open(scratch.path(), ranges.clone()).unwrap();
        let reader = MappedReader::new(options.open(scratch.path(), ranges.clone()).unwrap()).unwrap();
        let mut order: Vec<usize> = (0..ranges.len()).collect();
        if backwards {
            order.reverse();
        }
        for index in order {
            let within = ranges[index].start.min(size as u64)..ranges[index].end.min(size as u64);
            prop_assert!(prefetch.wait(index).unwrap());
            prop_assert_eq!(prefetch.range(index).unwrap(), within.clone());
            prop_assert!(has_arrived(&file, within.clone()));
            let expected = &bytes[within.start as usize..within.end as usize];
            prop_assert!(reader.slice(within.clone()).unwrap() == expected);
            prop_assert!(reader.slice_of(index).unwrap() == expected);
            if reports {
                prefetch.advance(index + 1);
            }
        }
    }
}

#[test]
fn ranges_arrive_by_themselves_and_nothing_else_does() {
    let Some((scratch, file)) = cold("ranges_arrive_by_themselves", &content(32 << 20)) else { return };
    let ranges = [20 * MIB..23 * MIB, 3 * MIB..4 * MIB, 10 * MIB..10 * MIB + 1, 31 * MIB..40 * MIB];
    let prefetch = Prefetch::open(scratch.path(), ranges.clone()).unwrap();
    until_quiet(&prefetch);
    for range in ranges {
        assert!(has_arrived(&file, range));
    }
    // If a request was cut short, the kernel's own read-ahead may have fetched a little beyond the ranges.
    for outside in [0..2 * MIB, 5 * MIB..9 * MIB, 11 * MIB..19 * MIB, 24 * MIB..30 * MIB] {
        assert_eq!(page_cache::residency(&file, outside.clone()).unwrap().cached, 0, "{outside:?}");
    }
    let statistics = prefetch.statistics();
    assert_eq!(statistics.ahead_bytes, 5 * MIB + page_size() as u64);
    assert!((4 * MIB..6 * MIB).contains(&statistics.prefetched_bytes), "{statistics:?}");
    assert!(prefetch.wait(0).unwrap());
    assert_eq!((prefetch.statistics().waits, prefetch.statistics().io_wait), (0, Duration::ZERO));
}

#[test]
fn a_consumer_that_never_reports_gets_the_window_and_one_that_reports_gets_all() {
    let Some((scratch, file)) = cold("a_consumer_that_never_reports", &content(32 << 20)) else { return };
    let ranges: Vec<Range<u64>> = (0..16).map(|index| index * 2 * MIB..(index * 2 + 1) * MIB).collect();
    let prefetch = Prefetch::builder().memory(4 * MIB).open(scratch.path(), ranges.clone()).unwrap();
    for used in 0..=ranges.len() {
        prefetch.advance(used);
        until_quiet(&prefetch);
        let ahead = used + 4;
        for (index, range) in ranges.iter().enumerate() {
            let cached = page_cache::residency(&file, range.clone()).unwrap().cached;
            assert_eq!(cached > 0, index < ahead, "range {index} after {used}");
        }
    }
    assert_eq!(prefetch.statistics().prefetched_bytes, 16 * MIB);
}

#[test]
fn a_range_beyond_the_window_arrives_when_it_is_waited_for() {
    let Some((scratch, file)) = cold("a_range_beyond_the_window", &content(48 << 20)) else { return };
    let ranges = [0..MIB, 2 * MIB..3 * MIB, 4 * MIB..40 * MIB];
    let prefetch = Prefetch::builder().memory(WINDOW_MIN_BYTES).open(scratch.path(), ranges.clone()).unwrap();
    assert!(prefetch.wait(2).unwrap() && has_arrived(&file, 4 * MIB..40 * MIB));
    until_quiet(&prefetch);
    let statistics = prefetch.statistics();
    assert!(statistics.waits == 1 && statistics.ahead_bytes <= WINDOW_MIN_BYTES, "{statistics:?}");
    assert!(prefetch.wait(2).unwrap());
    assert_eq!(prefetch.statistics().waits, 1, "it is there");
}

#[test]
fn ranges_that_are_cached_already_cost_no_read() {
    let bytes = content(8 << 20);
    let scratch = Scratch::with(&bytes);
    let prefetch = Prefetch::open(scratch.path(), [0..4 * MIB, 0..8 * MIB]).unwrap();
    until_quiet(&prefetch);
    assert!(prefetch.wait(0).unwrap() && prefetch.wait(1).unwrap());
    let Statistics { prefetched_bytes, waits, .. } = prefetch.statistics();
    assert_eq!((prefetched_bytes, waits), (0, 0));
}

#[test]
fn threads_share_a_prefetch_and_report_in_any_order() {
    let bytes = content(16 << 20);
    let scratch = Scratch::with(&bytes).evicted();
    let ranges: Vec<Range<u64>> =
        (0..64).map(|index| (index * 37 % 64) * MIB / 4).map(|at| at..at + MIB / 4).collect();
    let prefetch = Prefetch::builder().memory(MIB).open(scratch.path(), ranges).unwrap();
    let reader = MappedReader::new(prefetch).unwrap();
    let next = AtomicU64::new(0);
    let work = || loop {
        let index = next.fetch_add(1, Relaxed) as usize;
        let Ok(range) = reader.prefetch().range(index) else { return };
        let slice = reader.slice_of(index).unwrap();
        assert!(slice == &bytes[range.start as usize..range.end as usize]);
        reader.prefetch().advance(index + 1);
    };
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(work))));
    assert_eq!(reader.prefetch().statistics().ahead_bytes, 0);
}

#[test]
fn slices_in_order_move_the_window_on() {
    let Some((scratch, _file)) = cold("slices_in_order", &content(32 << 20)) else { return };
    let prefetch = Prefetch::builder().memory(4 * MIB).open(scratch.path(), [0..u64::MAX]).unwrap();
    let reader = MappedReader::new(prefetch).unwrap();
    for at in (0..32 * MIB).step_by(100_000) {
        reader.slice(at..(at + 100_000).min(32 * MIB)).unwrap();
        assert!(reader.prefetch().statistics().ahead_bytes <= 4 * MIB);
    }
    until_quiet(reader.prefetch());
    assert_eq!(reader.prefetch().shared.planner().next(), None);
    assert!(reader.prefetch().statistics().ahead_bytes <= 200_000, "only the last slice is still in use");
}

#[test]
fn what_was_populated_stays_when_the_cache_is_dropped_and_the_rest_is_read_again() {
    let bytes = content(8 << 20);
    let Some((scratch, file)) = cold("what_was_populated_stays", &bytes) else { return };
    let prefetch = Prefetch::builder().memory(WINDOW_MIN_BYTES).open(scratch.path(), [0..8 * MIB]).unwrap();
    let reader = MappedReader::new(prefetch).unwrap();
    reader.populate(MIB + 5..3 * MIB).unwrap();
    page_cache::drop_pages(&file, 0..u64::MAX).unwrap();
    if !has_arrived(&file, MIB + 5..3 * MIB) {
        skipped("what_was_populated_stays", "the kernel does not populate mappings");
        return;
    }
    assert!(page_cache::residency(&file, 4 * MIB..8 * MIB).unwrap().cached == 0);
    assert!(reader.slice(0..8 * MIB).unwrap() == bytes);
    reader.populate(0..8 * MIB).unwrap();
    reader.populate(9..9).unwrap();
    assert!(matches!(reader.populate(8 * MIB..8 * MIB + 1), Err(Error::Outside { .. })));
}

#[test]
fn prefetching_goes_on_when_the_caches_are_dropped_again_and_again() {
    let bytes = content(64 << 20);
    let Some((scratch, file)) = cold("prefetching_goes_on", &bytes) else { return };
    let ranges: Vec<Range<u64>> = (0..64).map(|index| index * MIB..(index + 1) * MIB).collect();
    let reader = MappedReader::new(Prefetch::open(scratch.path(), ranges).unwrap()).unwrap();
    for index in 0..64 {
        page_cache::drop_pages(&file, 0..u64::MAX).unwrap();
        let at = index as usize * MIB as usize;
        assert!(reader.slice_of(index as usize).unwrap() == &bytes[at..at + MIB as usize]);
    }
    assert!(reader.prefetch().wait(63).unwrap(), "the kernel caches this file");
}

#[test]
fn a_file_that_is_truncated_while_it_is_mapped_is_an_error_and_no_signal() {
    let bytes = content(1 << 20);
    let scratch = Scratch::with(&bytes);
    let reader = MappedReader::open(scratch.path()).unwrap();
    let early = reader.slice(0..MIB).unwrap();
    assert!(early == bytes && !reader.is_truncated());
    OpenOptions::new().write(true).open(scratch.path()).unwrap().set_len(65536).unwrap();
    assert_eq!(reader.slice(0..65536).unwrap(), &bytes[..65536]);
    let error = reader.slice(65536..65537).unwrap_err();
    let path = scratch.path().display();
    let expected =
        format!("{path} shrank while it was mapped: it had 1048576 bytes; another program has truncated it");
    assert_eq!(error.to_string(), expected);
    assert!(early[65536..].iter().all(|&byte| byte == 0) && reader.is_truncated());
    assert!(matches!(reader.slice(0..1), Err(Error::Shrunk { .. })));
}

#[test]
fn bytes_that_are_not_in_the_file_are_refused_in_a_sentence() {
    let scratch = Scratch::with(&content(1000));
    let reader = MappedReader::open(scratch.path()).unwrap();
    let path = scratch.path().display();
    for (start, end) in [(0, 1001), (1000, 1001), (5000, 6000), (0, u64::MAX), (9, 4)] {
        let error = reader.slice(start..end).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "bytes {start} to {end} of {path} cannot be accessed: it had 1000 bytes when it was opened; give a range within them"
            )
        );
    }
    assert!(reader.slice(1000..1000).unwrap().is_empty());
    let error = reader.slice_of(1).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("range 1 of {path} does not exist: its list has 1, counted from 0")
    );
}

#[test]
fn bad_input_is_refused_in_a_sentence() {
    let scratch = Scratch::with(&content(1000));
    let sentence = |result: Result<Prefetch, Error>| result.unwrap_err().to_string();
    assert_eq!(
        sentence(Prefetch::open(scratch.path(), [0..10, Range { start: 9, end: 4 }])),
        "range 1 ends at byte 4, before it begins at byte 9; give the smaller offset first"
    );
    assert_eq!(
        sentence(Prefetch::builder().memory(4096).open(scratch.path(), [0..10])),
        "a window of 4096 bytes is too small for prefetching; give at least 65536 bytes of memory"
    );
    assert_eq!(sentence(Prefetch::open("/nowhere/at/all", [])), "cannot open /nowhere/at/all");
    assert_eq!(
        sentence(Prefetch::open("/", [])),
        "/ is a directory; a regular file or a block device is needed"
    );
    assert_eq!(
        sentence(Prefetch::open("/dev/null", [])),
        "/dev/null is a character device; a regular file or a block device is needed"
    );
    let (from, _to) = io::pipe().unwrap();
    let refused = sentence(Prefetch::builder().over(File::from(OwnedFd::from(from)), [0..1]));
    assert!(refused.ends_with(" is a FIFO; a regular file or a block device is needed"), "{refused}");
    let prefetch = Prefetch::open(scratch.path(), [0..10]).unwrap();
    let path = scratch.path().display();
    assert_eq!(
        prefetch.wait(1).unwrap_err().to_string(),
        format!("range 1 of {path} does not exist: its list has 1, counted from 0")
    );
    // More ranges than there are: all have been used.
    prefetch.advance(usize::MAX);
    assert_eq!(prefetch.statistics().ahead_bytes, 0);
}

#[test]
fn what_cannot_be_read_is_the_error_of_each_wait() {
    let Some((scratch, _file)) = cold("what_cannot_be_read", &content(100_000)) else { return };
    let file = OpenOptions::new().write(true).open(scratch.path()).unwrap();
    let prefetch = Prefetch::builder().over(file, [0..10, 50_000..60_000]).unwrap();
    until_quiet(&prefetch);
    let path = scratch.path().display();
    for _ in 0..2 {
        let error = prefetch.wait(1).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot read bytes 50000 to 60000 of {path}"));
        assert!(std::error::Error::source(&error).is_some());
    }
}

#[test]
fn an_open_file_keeps_its_position() {
    let scratch = Scratch::with(&content(1_000_000));
    let mut file = File::open(scratch.path()).unwrap();
    file.seek(SeekFrom::Start(123_456)).unwrap();
    let prefetch = Prefetch::builder().over(file.try_clone().unwrap(), [0..1_000_000]).unwrap();
    assert!(prefetch.wait(0).unwrap());
    assert_eq!(file.stream_position().unwrap(), 123_456);
}

#[test]
fn files_in_memory_and_empty_files_are_there() {
    let empty = Scratch::with(&[]);
    let reader = MappedReader::open(empty.path()).unwrap();
    assert!(reader.slice(0..0).unwrap().is_empty() && reader.slice_of(0).unwrap().is_empty());
    assert!(reader.slice(0..1).is_err() && !reader.is_truncated());
    let directory = Path::new("/dev/shm");
    if !directory.is_dir() {
        skipped("files_in_memory", "there is no /dev/shm");
        return;
    }
    let bytes = content(3_000_000);
    let scratch = Scratch::inside(directory, &bytes);
    let reader = MappedReader::open(scratch.path()).unwrap();
    assert!(reader.slice(0..3_000_000).unwrap() == bytes);
    assert_eq!(reader.prefetch().statistics().prefetched_bytes, 0);
}

#[test]
fn a_file_that_the_kernel_does_not_cache_is_said_not_to_be_there() {
    let directory = Path::new("/dev/shm");
    if !directory.is_dir() {
        skipped("a_file_that_the_kernel_does_not_cache", "there is no /dev/shm");
        return;
    }
    // A hole of a file in memory stays one when it is read.
    let scratch = Scratch::inside(directory, &[]);
    OpenOptions::new().write(true).open(scratch.path()).unwrap().set_len(64 * MIB).unwrap();
    let prefetch =
        Prefetch::open(scratch.path(), (0..64).map(|index| index * MIB..(index + 1) * MIB)).unwrap();
    until_quiet(&prefetch);
    for index in [63, 0] {
        assert!(!prefetch.wait(index).unwrap());
    }
    assert_eq!(prefetch.shared.planner().next(), None, "prefetching would read everything twice");
    assert_eq!(prefetch.statistics().prefetched_bytes, 0);
    let reader = MappedReader::new(prefetch).unwrap();
    assert_eq!(reader.slice_of(5).unwrap(), vec![0; MIB as usize]);
}

#[test]
fn a_prefetch_that_is_dropped_requests_nothing_more() {
    let Some((scratch, file)) = cold("a_prefetch_that_is_dropped", &content(1 << 20)) else { return };
    for _ in 0..20 {
        let prefetch = Prefetch::open(scratch.path(), [0..MIB]).unwrap();
        let shared = Arc::clone(&prefetch.shared);
        drop(prefetch);
        assert_eq!(shared.planner().next(), None);
        wait_until("the threads to let go of the file", || Arc::strong_count(&shared) == 1);
        page_cache::drop_pages(&file, 0..MIB).unwrap();
    }
}
