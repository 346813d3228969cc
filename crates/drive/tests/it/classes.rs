//! Definitions of the command classes (`docs/explanation/model.md`, classes): one handmade scenario per clause.

use crate::common::{
    ABSORBED, ACTIVE_HIT, FULL_HIT, MEDIA, NEAR_MISS, PURE_MISS, PURGED_MISS, SECTOR, apart, at, fua, read,
    run, tell, with, write, writing,
};
use sakiyomi_drive::replay::Pace;
use sakiyomi_drive::spec::DriveSpec;

/// Returns a drive with a read-ahead of 128 sectors.
fn ahead() -> DriveSpec {
    with(&[("cache.read_ahead.mode", "fixed"), ("cache.read_ahead.max", "64KiB")])
}

#[test]
fn a_full_hit_finds_every_sector_in_the_cache_wherever_it_lies_there() {
    // Sectors 0 to 7 have been read, 8 to 15 are dirty, 16 to 23 have been read into another segment.
    let story = tell(&writing(&[]), &apart(&[read(0, 8), read(16, 8), write(8, 8), read(0, 24)]));
    assert_eq!(story.class(3), FULL_HIT);
    assert_eq!(story.usage.seeks.total(), 2);
}

#[test]
fn a_full_hit_is_found_in_what_a_running_read_ahead_has_brought_so_far() {
    let story = tell(&ahead(), &[read(0, 8), at(1.0, read(40, 10))]);
    assert_eq!(story.class(1), FULL_HIT, "sector 49 has passed at 1 ms");
    assert_eq!(story.took(1), 5, "10 sectors over the link");
}

#[test]
fn an_active_hit_waits_for_what_is_being_read_without_a_positioning_of_its_own() {
    for (lba, end) in [(60, 68), (46, 54), (133, 141)] {
        // At 1 ms sector 50 is about to pass: the request lies before, around, or partly beyond the read-ahead's end.
        let story = tell(&ahead(), &[read(0, 8), at(1.0, read(lba, 8))]);
        assert_eq!(story.class(1), ACTIVE_HIT, "from sector {lba}");
        assert_eq!(story.finish(1), end * SECTOR);
        assert_eq!(story.usage.seeks.total(), 1);
    }
}

#[test]
fn an_active_hit_can_join_the_transfer_of_another_read() {
    let story = tell(&with(&[]), &[read(0, 100), at(1.0, read(80, 40))]);
    assert_eq!((story.class(1), story.finish(1)), (ACTIVE_HIT, 120 * SECTOR));
}

#[test]
fn beyond_the_end_of_read_ahead_there_is_no_active_hit() {
    let story = tell(&ahead(), &[read(0, 8), at(1.0, read(137, 8))]);
    assert_eq!(story.class(1), NEAR_MISS);
    assert_eq!(story.usage.seeks.total(), 2);
}

#[test]
fn a_near_miss_lies_shortly_after_something_cached_and_is_counted_as_such_a_seek() {
    let story = tell(&ahead(), &apart(&[read(0, 8), read(136 + 127, 1)]));
    assert_eq!((story.class(1), story.usage.seeks.read, story.usage.seeks.read_near_miss), (NEAR_MISS, 1, 1));
    let story = tell(&ahead(), &apart(&[read(0, 8), read(136 + 128, 1)]));
    assert_eq!((story.class(1), story.usage.seeks.read, story.usage.seeks.read_near_miss), (PURE_MISS, 2, 0));
    let story = tell(&ahead(), &apart(&[read(1000, 8), read(999, 1)]));
    assert_eq!(story.class(1), PURE_MISS, "before something cached is not after it");
}

#[test]
fn a_purged_miss_was_cached_and_has_been_evicted() {
    let spec = with(&[("cache.segments.count", "1")]);
    let story = tell(&spec, &apart(&[read(0, 8), read(90_000, 8), read(0, 8)]));
    assert_eq!(story.class(2), PURGED_MISS);
    assert_eq!((story.usage.seeks.read, story.usage.seeks.read_near_miss), (3, 0));
}

#[test]
fn what_a_write_made_invalid_was_not_evicted() {
    let spec = with(&[("cache.near_window", "0")]);
    assert_eq!(tell(&spec, &apart(&[read(0, 8), write(0, 8), read(0, 8)])).class(2), PURE_MISS);
}

#[test]
fn a_pure_miss_is_neither() {
    assert_eq!(tell(&with(&[]), &[read(0, 8)]).class(0), PURE_MISS);
}

#[test]
fn a_partial_hit_is_classed_by_its_first_missing_sector() {
    let one = [read(0, 8), read(4, 8)];
    assert_eq!(tell(&with(&[]), &apart(&one)).class(1), NEAR_MISS);
    assert_eq!(tell(&with(&[("cache.near_window", "0")]), &apart(&one)).class(1), PURE_MISS);
    // Sector 8 was evicted by the third read; that it also follows a cached range does not count.
    let spec = with(&[("cache.segments.count", "2")]);
    let story = tell(&spec, &apart(&[read(8, 8), read(90_000, 8), read(0, 8), read(4, 8)]));
    assert_eq!(story.class(3), PURGED_MISS);
}

#[test]
fn the_class_is_decided_when_the_command_is_taken_up() {
    // Both arrive while nothing is cached. The second begins in the middle of the first, and is no longer a miss when
    // the arm is free.
    let story = tell(&with(&[]), &[read(50_000, 500), read(0, 8), read(2, 4)]);
    assert_eq!((story.class(1), story.class(2)), (PURE_MISS, ACTIVE_HIT));
}

#[test]
fn writes_are_counted_apart_and_not_in_the_hit_ratio() {
    let commands = apart(&[
        read(0, 8),
        read(0, 8),
        write(100, 8),
        write(200, 8),
        fua(300, 8),
        read(90_000, 8),
        read(0, 8),
    ]);
    let (summary, _) = run(&writing(&[]), Pace::Open, &commands);
    let counts = summary.tally.counts;
    assert_eq!((counts.reads(), counts.writes(), counts.commands), (4, 3, 7));
    assert_eq!((counts.of(ABSORBED), counts.of(MEDIA)), (2, 1));
    assert_eq!((counts.of(FULL_HIT), counts.of(PURE_MISS)), (2, 2));
    assert!((counts.hit_ratio() - 0.5).abs() < 1e-12, "2 hits of 4 reads: {}", counts.hit_ratio());
}
