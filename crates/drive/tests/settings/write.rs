//! Effects of the write cache keys: [`writing`] has space for 128 dirty sectors and destages only when it must.

use sakiyomi_drive::replay::Arrival;
use sakiyomi_model::{Nanos, Op};

use crate::common::{
    ABSORBED, CYLINDER, FULL_HIT, MEDIA, PURE_MISS, PURGED_MISS, SECTOR, TRACK, TURN, apart, at, flush, read,
    tell, with, write, writing,
};

pub(crate) const KEYS: &[&str] = &[
    "cache.write.enabled",
    "cache.write.share",
    "cache.write.limit",
    "cache.write.high_watermark",
    "cache.write.low_watermark",
    "cache.write.idle_delay",
    "cache.write.max_age",
    "cache.write.window",
    "cache.write.coalesce",
    "cache.write.destage_max",
    "cache.write.on_cached",
    "cache.write.keep",
];

/// Returns `count` writes of 16 sectors, one per cylinder, 100 ms apart.
fn scattered(count: u64) -> Vec<Arrival> {
    apart(&(0..count).map(|i| write(i * CYLINDER, 16)).collect::<Vec<_>>())
}

const MILLISECOND: u64 = 1_000_000;

#[test]
fn enabled_acknowledges_writes_from_the_cache() {
    let at_rest = [write(100, 8)];
    let on = tell(&writing(&[("cache.write.enabled", "true")]), &at_rest);
    assert_eq!((on.class(0), on.finish(0)), (ABSORBED, 4), "8 sectors over a link of 1 TB/s");
    let off = tell(&writing(&[("cache.write.enabled", "false")]), &at_rest);
    assert_eq!((off.class(0), off.finish(0)), (MEDIA, 108 * SECTOR));
}

#[test]
fn shared_room_for_dirty_data_is_taken_from_reads_and_separate_room_is_not() {
    // 256 sectors. Shared: two segments of 128; separate: 128 for reads in two segments of 64.
    let buffer = |share| {
        writing(&[("cache.size", "128KiB"), ("cache.segments.count", "2"), ("cache.write.share", share)])
    };
    let commands = apart(&[read(0, 64), write(100_000, 100), read(0, 64)]);
    let reads_only = apart(&[read(0, 128), read(0, 128)]);
    assert_eq!(tell(&buffer("separate"), &commands).class(2), FULL_HIT);
    assert_eq!(tell(&buffer("separate"), &reads_only).class(1), PURGED_MISS, "a segment is smaller for good");
    assert_eq!(tell(&buffer("shared"), &reads_only).class(1), FULL_HIT);
    // One of the two segments in use is evicted, the older one.
    let two = apart(&[read(0, 64), read(200_000, 64), write(100_000, 100), read(200_000, 64), read(0, 64)]);
    let story = tell(&buffer("shared"), &two);
    assert_eq!((story.class(3), story.class(4)), (FULL_HIT, PURGED_MISS));
}

#[test]
fn limit_makes_a_write_that_does_not_fit_wait_for_the_medium() {
    let two = [write(0, 64), at(1.0, write(CYLINDER, 96))];
    let fits = tell(&writing(&[("cache.write.limit", "80KiB")]), &two);
    assert_eq!((fits.class(1), fits.took(1)), (ABSORBED, 49));
    let story = tell(&writing(&[("cache.write.limit", "64KiB")]), &two);
    assert_eq!((story.class(0), story.class(1)), (ABSORBED, MEDIA));
    // At 1 ms sector 50 is under the heads: sector 0 passes at 10 ms, 64 sectors are written, and there is space.
    assert_eq!(story.finish(1), (TRACK + 64) * SECTOR + 49);
    // A write larger than the limit goes to the medium itself: 75 sectors of skew, and its own.
    let large = tell(&writing(&[("cache.write.limit", "32KiB")]), &[write(CYLINDER, 96)]);
    assert_eq!((large.class(0), large.finish(0), large.destages().len()), (MEDIA, (225 + 96) * SECTOR, 0));
}

#[test]
fn high_watermark_is_where_writing_to_the_medium_begins() {
    for (share, begins_with) in [("0.5", 4), ("0.75", 6), ("1", 8)] {
        let spec = writing(&[("cache.write.high_watermark", share), ("cache.write.low_watermark", "0")]);
        let destages = tell(&spec, &scattered(8)).destages();
        assert_eq!(
            destages[0].start.0,
            (begins_with - 1) * 100 * MILLISECOND,
            "with write {begins_with} of 16 sectors"
        );
    }
    assert!(tell(&writing(&[]), &scattered(7)).destages().is_empty());
}

#[test]
fn low_watermark_is_where_it_ends() {
    for (share, written) in [("0", 8), ("0.25", 6), ("0.5", 4), ("0.99", 1)] {
        let spec = writing(&[("cache.write.low_watermark", share)]);
        assert_eq!(tell(&spec, &scattered(8)).destages().len(), written, "down to {share} of 128 sectors");
    }
}

#[test]
fn idle_delay_is_how_long_the_drive_rests_before_it_tidies_up() {
    let commands = [write(0, 8), at(3.0, write(CYLINDER, 8)), at(5.0, read(200, 1))];
    let destages = tell(&writing(&[("cache.write.idle_delay", "20ms")]), &commands).destages();
    // The read ends when sector 200 has passed in the current revolution: at 4.02 ms of it, a revolution later.
    let rest = (TRACK + 201) * SECTOR;
    assert_eq!(destages.len(), 2, "once it has begun, all is written");
    assert_eq!(destages[0].start.0, rest + 20 * MILLISECOND);
    assert_eq!(destages[1].start, destages[0].end);
    assert!(tell(&writing(&[("cache.write.idle_delay", "0")]), &commands).destages().is_empty());
}

#[test]
fn max_age_writes_old_data_ahead_of_waiting_commands() {
    // Reads keep the arm busy for at least 60 ms; those on the neighboring cylinders are always nearer.
    let reads = (0..40).map(|i| read((1000 + i) * CYLINDER, 1));
    let commands: Vec<_> = [write(0, 8)].into_iter().chain(reads).collect();
    let story = |age| tell(&writing(&[("cache.write.max_age", age), ("queue.depth", "64")]), &commands);
    assert!(story("0").destages().is_empty());
    let old = story("30ms");
    let accesses = old.accesses();
    let place = accesses.iter().position(|access| access.request.is_none()).expect("the destage");
    assert!(accesses[place].start.0 >= 30 * MILLISECOND);
    assert!(accesses[place - 1].start.0 < 30 * MILLISECOND, "at the first command end after its time");
    assert!(place + 1 < accesses.len(), "ahead of other commands");
}

#[test]
fn max_age_wakes_a_drive_at_rest_to_the_instant() {
    let commands = [at(1.0, write(0, 8)), at(4.0, write(CYLINDER, 8))];
    let destages = tell(&writing(&[("cache.write.max_age", "30ms")]), &commands).destages();
    let starts: Vec<_> = destages.iter().map(|access| access.start.0).collect();
    // The first destage lasts from 31 ms until its sectors have passed, at 40.16 ms: after the second's time.
    assert_eq!(starts, [31 * MILLISECOND, 40 * MILLISECOND + 8 * SECTOR]);
}

#[test]
fn max_age_leaves_every_other_access_to_commands_and_the_order_to_positioning() {
    // All data is overdue at 10 ms and angle 0. It arrived in reverse order of passing. From then on reads are waiting.
    let writes = (0..8).map(|i| write(400 - 50 * i, 8));
    let reads = (0..8).map(|i| at(10.0, read((10 + i) * CYLINDER, 1)));
    let commands: Vec<_> = writes.chain(reads).collect();
    let story = tell(&writing(&[("cache.write.max_age", "10ms"), ("queue.depth", "64")]), &commands);
    let accesses = story.accesses();
    let both = accesses.iter().position(|access| access.request.is_some()).expect("a read");
    let turns: Vec<bool> = accesses[both..both + 12].iter().map(|access| access.request.is_some()).collect();
    assert!(turns.windows(2).all(|pair| pair[0] != pair[1]), "{turns:?}");
    assert_eq!(story.destages()[0].lba.0, 50, "the nearest of what is old, not the oldest");
}

/// Returns the first sectors of the ranges that a flush writes, in order.
fn flush_order(window: &str, writes: &[Arrival]) -> Vec<u64> {
    let commands: Vec<_> = writes.iter().copied().chain([at(50.0, flush())]).collect();
    let spec = writing(&[("cache.write.window", window), ("cache.write.limit", "512KiB")]);
    tell(&spec, &commands).destages().iter().map(|access| access.lba.0).collect()
}

#[test]
fn window_is_how_many_of_the_oldest_ranges_are_weighed_and_how_often_the_oldest_is_passed_over() {
    // On one track, from the angle under the head when the flush arrives.
    let writes = [400, 300, 200, 100].map(|lba| write(lba, 8));
    assert_eq!(flush_order("1", &writes), [400, 300, 200, 100]);
    assert_eq!(flush_order("2", &writes), [300, 400, 100, 200]);
    assert_eq!(flush_order("4", &writes), [100, 200, 300, 400]);
    // One distant range, followed by twenty on the arm's track, all of which are nearer.
    let far = write(1900 * CYLINDER, 8);
    let writes: Vec<_> = [far].into_iter().chain((0..20).map(|i| write(25 * i, 8))).collect();
    for (window, before) in [("1", 0), ("4", 4), ("9", 9), ("21", 20)] {
        let order = flush_order(window, &writes);
        assert_eq!(order.iter().position(|lba| *lba == far.extent.start.0), Some(before), "window {window}");
    }
}

#[test]
fn a_destage_begins_while_its_data_comes_and_goes_on_as_long_as_more_does() {
    // A write of 400 sectors that arrives at half the rate of the medium is on the medium with its last sector.
    let slow = writing(&[("interface.link_rate", "12800kB"), ("cache.write.limit", "200KiB")]);
    let story = tell(&slow, &[write(0, 400)]);
    let received = story.finish(0);
    assert_eq!(received, 400 * 2 * SECTOR);
    let access = story.destages()[0];
    assert_eq!(
        (access.start.0, access.end.0),
        (0, TURN + 400 * SECTOR),
        "in time for its second turn, not its third"
    );
    // Eight more, each arriving while the previous one is written: no gap from the first sector to the last.
    let stream: Vec<_> = (0..8).map(|i| at(i as f64, write(i * 64, 64))).collect();
    let at_once = [
        ("cache.write.high_watermark", "0"),
        ("cache.write.low_watermark", "0"),
        ("cache.write.limit", "512KiB"),
    ];
    for overlap in ["true", "false"] {
        let destages =
            tell(&writing(&[&at_once[..], &[("interface.overlap", overlap)]].concat()), &stream).destages();
        assert!(destages.windows(2).all(|pair| pair[0].end == pair[1].start));
        let gaps = destages[1..].iter().map(|access| access.seek + access.rotation);
        assert_eq!(gaps.sum::<Nanos>(), Nanos::ZERO, "{overlap}");
        assert_eq!(destages.iter().map(|access| access.wanted.0).sum::<u64>(), 512);
    }
}

/// Returns the sectors per access of a flush.
fn flushed(settings: &[(&str, &str)], writes: &[Arrival]) -> Vec<u64> {
    let commands: Vec<_> = writes.iter().copied().chain([at(50.0, flush())]).collect();
    let mut destages = tell(&writing(settings), &commands).destages();
    destages.sort_by_key(|access| access.lba);
    destages.iter().map(|access| access.wanted.0).collect()
}

#[test]
fn coalesce_joins_adjacent_and_overlapping_dirty_ranges() {
    let adjacent = [write(8, 8), write(16, 8), write(0, 8)];
    let overlapping = [write(0, 16), write(8, 16)];
    let apart = [write(0, 8), write(9, 8)];
    let join = [("cache.write.coalesce", "true")];
    assert_eq!((flushed(&join, &adjacent), flushed(&join, &overlapping)), (vec![24], vec![24]));
    assert_eq!(flushed(&join, &apart), [8, 8]);
    let keep = [("cache.write.coalesce", "false")];
    assert_eq!(flushed(&keep, &adjacent), [8, 8, 8]);
    assert_eq!(flushed(&keep, &overlapping), [8, 16], "what is overwritten is not written any more");
}

#[test]
fn destage_max_splits_what_goes_to_the_medium() {
    let range = [write(0, 100)];
    assert_eq!(flushed(&[("cache.write.destage_max", "1MiB")], &range), [100]);
    assert_eq!(flushed(&[("cache.write.destage_max", "20KiB")], &range), [40, 40, 20]);
}

#[test]
fn on_cached_decides_whether_a_write_spoils_cached_reads_or_renews_them() {
    // Written through, so that the data is not dirty afterwards.
    let commands = apart(&[read(0, 16), write(4, 4), read(0, 16), read(8, 8)]);
    let class = |on_cached, request| {
        let spec = with(&[("cache.write.on_cached", on_cached), ("cache.near_window", "0")]);
        tell(&spec, &commands[..=request]).class(request as u64)
    };
    assert_eq!(class("update", 2), FULL_HIT);
    assert_eq!(class("invalidate", 2), PURE_MISS);
    // The longer remainder stays cached.
    let other = apart(&[read(0, 16), write(4, 4), read(8, 8)]);
    assert_eq!(tell(&with(&[("cache.write.on_cached", "invalidate")]), &other).class(2), FULL_HIT);
}

#[test]
fn on_cached_invalidate_ends_a_read_ahead_of_what_is_written() {
    let ahead = |on_cached| {
        let spec = writing(&[
            ("cache.write.on_cached", on_cached),
            ("cache.read_ahead.mode", "fixed"),
            ("cache.read_ahead.max", "32KiB"),
        ]);
        // At 0.5 ms sector 25 is passing; 40 would have been reached.
        tell(&spec, &[read(0, 8), at(0.5, write(40, 1))]).accesses()[0].ahead.0
    };
    assert_eq!((ahead("update"), ahead("invalidate")), (64, 17));
}

#[test]
fn keep_leaves_written_data_readable_after_it_went_to_the_medium() {
    let commands = apart(&[write(0, 8), flush(), read(0, 8)]);
    for (keep, class) in [("false", PURE_MISS), ("true", FULL_HIT)] {
        let story = tell(&writing(&[("cache.write.keep", keep)]), &commands);
        assert_eq!((story.destages().len(), story.class(2)), (1, class));
    }
    // While it is dirty it is readable from the cache in either case.
    let dirty = tell(&writing(&[("cache.write.keep", "false")]), &apart(&[write(0, 8), read(0, 8)]));
    assert_eq!(dirty.class(1), FULL_HIT);
    assert_eq!(dirty.of(1).request.op, Op::Read);
}

#[test]
fn keep_finds_room_in_a_buffer_that_was_all_dirty() {
    let all = [("cache.size", "64KiB"), ("cache.segments.count", "1"), ("cache.write.keep", "true")];
    let story = tell(&writing(&all), &apart(&[write(0, 128), flush(), read(0, 128)]));
    assert_eq!(story.class(2), FULL_HIT);
}
