//! Effects of the segment keys, and of the memory of evicted ranges.

use sakiyomi_drive::log::CacheChange;
use sakiyomi_drive::replay::Arrival;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::Class;

use crate::common::{FULL_HIT, NEAR_MISS, PURE_MISS, PURGED_MISS, apart, read, tell, with};

pub(crate) const KEYS: &[&str] = &[
    "cache.size",
    "cache.segments.mode",
    "cache.segments.count",
    "cache.segments.replacement",
    "cache.segments.consumed",
    "cache.near_window",
    "cache.ghosts",
];

/// Returns the class of the last of `reads`, submitted one at a time.
fn last_class(spec: &DriveSpec, reads: &[Arrival]) -> Class {
    tell(spec, &apart(reads)).class(reads.len() as u64 - 1)
}

// Distant addresses.
const A: u64 = 0;
const B: u64 = 100_000;
const C: u64 = 200_000;
const D: u64 = 300_000;

#[test]
fn size_is_how_much_stays() {
    let reads = |again| [read(A, 128), read(A + again, 1)];
    let small = with(&[("cache.size", "32KiB"), ("cache.segments.count", "1")]);
    assert_eq!(last_class(&small, &reads(64)), FULL_HIT);
    assert_eq!(last_class(&small, &reads(63)), PURGED_MISS, "of 128 sectors the last 64 fit");
    let large = with(&[("cache.size", "64KiB"), ("cache.segments.count", "1")]);
    assert_eq!(last_class(&large, &reads(0)), FULL_HIT);
}

#[test]
fn adaptive_segments_are_as_large_as_their_read_and_fixed_ones_are_not() {
    let mode = |mode| with(&[("cache.size", "64KiB"), ("cache.segments.mode", mode)]);
    // 128 sectors: 16 fixed segments of 8.
    assert_eq!(last_class(&mode("fixed"), &[read(A, 64), read(A, 64)]), PURGED_MISS);
    assert_eq!(last_class(&mode("fixed"), &[read(A, 64), read(A + 56, 8)]), FULL_HIT);
    assert_eq!(last_class(&mode("adaptive"), &[read(A, 64), read(A, 64)]), FULL_HIT);
    // Two segments of 64 fill the buffer; a third one frees as much space as it needs.
    let third = [read(A, 64), read(B, 64), read(C, 8)];
    assert_eq!(last_class(&mode("adaptive"), &[third.as_slice(), &[read(B, 64)]].concat()), FULL_HIT);
    assert_eq!(last_class(&mode("adaptive"), &[third.as_slice(), &[read(A, 64)]].concat()), PURGED_MISS);
}

#[test]
fn count_is_how_many_places_are_held_at_once() {
    let reads = [read(A, 1), read(B, 1), read(C, 1), read(A, 1)];
    for mode in ["fixed", "adaptive"] {
        let count = |count| with(&[("cache.segments.mode", mode), ("cache.segments.count", count)]);
        assert_eq!(last_class(&count("2"), &reads), PURGED_MISS, "{mode}");
        assert_eq!(last_class(&count("3"), &reads), FULL_HIT, "{mode}");
    }
}

/// Returns a drive with two segments, a replacement policy, and a read-ahead of 8 sectors.
fn replacing(rule: &str) -> DriveSpec {
    with(&[
        ("cache.segments.count", "2"),
        ("cache.segments.replacement", rule),
        ("cache.read_ahead.mode", "fixed"),
        ("cache.read_ahead.max", "4KiB"),
    ])
}

/// Returns which of A and B is evicted by the last of `reads`.
fn evicted(rule: &str, reads: &[Arrival]) -> u64 {
    tell(&replacing(rule), &apart(reads)).cache_events(CacheChange::Evict)[0].start.0
}

#[test]
fn lru_evicts_the_least_recently_used_and_fifo_the_oldest() {
    let reads = [read(A, 8), read(B, 8), read(A, 8), read(C, 8)];
    assert_eq!(evicted("lru", &reads), B);
    assert_eq!(evicted("fifo", &reads), A);
}

#[test]
fn consumed_first_evicts_what_the_host_has_read_to_its_end() {
    // Half of A is unread. B, used later, has been read completely.
    let reads = [read(A, 8), read(B, 8), read(B + 8, 8), read(C, 8)];
    assert_eq!(evicted("lru", &reads), A);
    assert_eq!(evicted("consumed_first", &reads), B);
    // Without a consumed segment, the least recently used one is evicted.
    assert_eq!(evicted("consumed_first", &[read(A, 8), read(B, 8), read(C, 8)]), A);
}

#[test]
fn least_recently_sequential_keeps_a_stream_that_random_reads_would_evict() {
    let stream = [read(A, 4), read(A + 4, 4)];
    let random = [read(B, 4), read(C, 4), read(D, 4)];
    let reads = [stream.as_slice(), &random, &[read(A + 8, 4)]].concat();
    assert_eq!(last_class(&replacing("lru"), &reads), PURGED_MISS);
    assert_eq!(last_class(&replacing("least_recently_sequential"), &reads), FULL_HIT);
}

/// Returns a drive with one segment of 64 sectors, a setting for consumed sectors, and unlimited read-ahead.
fn consuming(rule: &str, mode: &str) -> DriveSpec {
    with(&[
        ("cache.size", "32KiB"),
        ("cache.segments.count", "1"),
        ("cache.segments.consumed", rule),
        ("cache.read_ahead.mode", mode),
        ("cache.read_ahead.max", "1MiB"),
    ])
}

#[test]
fn consumed_decides_what_of_a_read_can_be_read_again() {
    let again = |rule, reads: &[Arrival]| last_class(&consuming(rule, "fixed"), reads);
    // Read-ahead fills the whole segment, the request's space included, unless that is kept.
    assert_eq!(again("keep", &[read(A, 16), read(A, 16)]), FULL_HIT);
    assert_eq!(again("overwrite", &[read(A, 16), read(A, 16)]), PURGED_MISS);
    assert_eq!(again("discard", &[read(A, 16), read(A, 16)]), PURGED_MISS);
    // With space for both, only `discard` removes the request's sectors.
    let both = |rule| last_class(&consuming(rule, "segment"), &[read(A, 16), read(A, 16)]);
    assert_eq!(["keep", "overwrite", "discard"].map(both), [FULL_HIT, FULL_HIT, PURGED_MISS]);
    // Read-ahead data is cached under any setting until a hit consumes it.
    for (rule, third) in [("keep", FULL_HIT), ("overwrite", FULL_HIT), ("discard", PURGED_MISS)] {
        assert_eq!(again(rule, &[read(A, 16), read(A + 16, 16)]), FULL_HIT, "{rule}");
        assert_eq!(again(rule, &[read(A, 16), read(A + 16, 16), read(A + 20, 4)]), third, "{rule}");
        assert_eq!(again(rule, &[read(A, 16), read(A + 16, 16), read(A + 32, 16)]), FULL_HIT, "{rule}");
    }
}

#[test]
fn consumed_decides_how_far_read_ahead_goes() {
    let ahead = |rule, mode| tell(&consuming(rule, mode), &[read(A, 16)]).accesses()[0].ahead.0;
    for (rule, fixed, segment) in [("keep", 48, 48), ("overwrite", 64, 48), ("discard", 64, 64)] {
        assert_eq!((ahead(rule, "fixed"), ahead(rule, "segment")), (fixed, segment), "{rule}");
    }
    // A request as large as the segment leaves no space beside it.
    let full = |rule| tell(&consuming(rule, "fixed"), &[read(A, 64)]).accesses()[0].ahead.0;
    assert_eq!(["keep", "overwrite", "discard"].map(full), [0, 64, 64]);
}

#[test]
fn a_stream_goes_on_in_a_segment_whose_all_was_discarded() {
    let spec = and_sequential(consuming("discard", "fixed"));
    // All sectors of the first read are discarded; the second continues it, is sequential, and is read ahead.
    let story = tell(&spec, &apart(&[read(A, 16), read(A + 16, 16)]));
    let ahead: Vec<u64> = story.accesses().iter().map(|access| access.ahead.0).collect();
    assert_eq!(ahead, [0, 64]);
}

/// Starts read-ahead only from the second sequential command on.
fn and_sequential(mut spec: DriveSpec) -> DriveSpec {
    spec.set("cache.read_ahead.after_sequential", "1").unwrap();
    spec
}

#[test]
fn near_window_is_how_far_beyond_something_cached_a_miss_is_near() {
    let miss = |settings: &[(&str, &str)], distance| {
        last_class(&with(settings), &[read(A, 8), read(A + 8 + distance, 4)])
    };
    let window = [("cache.near_window", "8KiB")];
    assert_eq!(miss(&window, 0), NEAR_MISS);
    assert_eq!(miss(&window, 15), NEAR_MISS);
    assert_eq!(miss(&window, 16), PURE_MISS, "16 sectors make 8 KiB");
    // The default is an equal share of the buffer: 64 KiB of 1 MiB, independent of read-ahead.
    assert_eq!((miss(&[], 127), miss(&[], 128)), (NEAR_MISS, PURE_MISS));
    assert_eq!(miss(&[("cache.near_window", "0")], 0), PURE_MISS);
}

#[test]
fn ghosts_are_how_many_evictions_are_remembered() {
    // One segment: when A is read again, A and B have been evicted, in that order.
    let reads = [read(A, 8), read(B, 8), read(C, 8), read(A, 8)];
    let ghosts = |ghosts| with(&[("cache.segments.count", "1"), ("cache.ghosts", ghosts)]);
    assert_eq!(last_class(&ghosts("0"), &reads), PURE_MISS);
    assert_eq!(last_class(&ghosts("1"), &reads), PURE_MISS);
    assert_eq!(last_class(&ghosts("2"), &reads), PURGED_MISS);
}
