//! Commands that arrive during a read-ahead: one handmade scenario per possible fault.

use crate::common::{
    ACTIVE_HIT, FULL_HIT, PURE_MISS, SECTOR, TRACK, at, fua, read, request, run, tell, with,
};
use sakiyomi_drive::replay::{Arrival, Pace};
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::{Nanos, Op};

/// Time between the end of a cylinder's first track and sector 0 of its second: a switch of 50 sectors.
const SWITCH: u64 = 50 * SECTOR;

/// Returns a drive with a read-ahead of 128 sectors, and some keys set.
fn ahead(settings: &[(&str, &str)]) -> DriveSpec {
    let mut all = vec![("cache.read_ahead.mode", "fixed"), ("cache.read_ahead.max", "64KiB")];
    all.extend(settings);
    with(&all)
}

#[test]
fn what_was_made_invalid_does_not_come_back_when_the_read_ahead_behind_it_goes_on() {
    // Sectors 0 to 327 are cached; the segment is being extended from 328 on when a write invalidates some of them.
    let spec = ahead(&[("cache.segments.count", "1"), ("cache.size", "1MiB"), ("cache.near_window", "0")]);
    let story =
        tell(&spec, &[read(0, 200), at(20.0, read(328, 8)), at(28.0, fua(300, 8)), at(100.0, read(300, 8))]);
    assert_eq!(story.class(3), PURE_MISS, "the medium was written since sectors 300 to 307 were read");
}

#[test]
fn a_closed_loop_ends_with_its_last_command_and_not_after_a_pause_for_thought() {
    let think = Nanos(3_000_000_000);
    let arrivals = [read(0, 8), read(5000, 8)].map(|arrival| Arrival { think, ..arrival });
    let (summary, host) = run(&ahead(&[]), Pace::Closed { outstanding: 1 }, &arrivals);
    assert_eq!(summary.end, host.end);
    assert_eq!(summary.usage.time.total(), summary.end, "no time after the end is counted");
    assert_eq!(summary.series.points().last().map(|point| point.end), Some(summary.end));
}

#[test]
fn a_read_that_is_still_being_processed_when_the_access_begins_joins_it() {
    let spec = ahead(&[("interface.overhead.read_miss", "100us")]);
    // The access begins after 0.1 ms.
    for arrives in [0.05, 0.15] {
        let story = tell(&spec, &[read(100, 8), at(arrives, read(160, 8))]);
        assert_eq!(story.class(1), ACTIVE_HIT, "arrived after {arrives} ms");
        assert_eq!(story.usage.seeks.total(), 1);
    }
}

#[test]
fn a_read_whose_data_came_while_it_was_being_processed_is_a_hit_and_ends_no_read_ahead() {
    let spec = ahead(&[
        ("interface.overhead.read_miss", "5ms"),
        ("cache.segments.count", "1"),
        ("cache.read_ahead.max", "512KiB"),
    ]);
    // The first access begins after 5 ms, with sector 250 under the heads; the second command is ready at 9 ms.
    let story = tell(&spec, &[read(300, 8), at(4.0, read(320, 8))]);
    assert_eq!((story.class(1), story.finish(1)), (FULL_HIT, 9_000_000 + 4));
    assert_eq!(story.accesses().iter().map(|access| access.ahead.0).collect::<Vec<_>>(), [20 + 1024]);
}

#[test]
fn a_read_ahead_that_is_cut_during_a_switch_ends_on_the_next_track_whoever_cuts_it() {
    // The head is between the first track and the second when the command arrives.
    let between = (TRACK * SECTOR + SWITCH / 2) as f64 / 1e6;
    for other in [read(500_000, 8), request(Op::Write, 500_000, 8)] {
        for settings in [[("cache.write.on_cached", "update")], [("cache.write.on_cached", "invalidate")]] {
            let story = tell(&ahead(&settings), &[read(400, 96), at(between, other)]);
            let accesses = story.accesses();
            assert_eq!(accesses[0].ahead.0, 4);
            assert_eq!(accesses[1].start.0, TRACK * SECTOR + SWITCH, "{other:?} {settings:?}");
        }
    }
}

#[test]
fn a_joined_read_goes_over_the_link_once_its_own_first_sector_has_come() {
    // 8 sectors take 1 ms over the link. The read begins with a track, which is reached after a switch.
    let spec = ahead(&[("interface.link_rate", "4.096MB"), ("interface.overlap", "true")]);
    let story = tell(&spec, &[read(400, 96), at(9.0, read(TRACK, 8))]);
    assert_eq!(story.class(1), ACTIVE_HIT);
    let first = (TRACK * SECTOR + SWITCH).max(story.finish(0));
    assert_eq!(story.finish(1), first + 1_000_000);
}

#[test]
fn what_passes_before_the_request_does_not_go_over_the_link() {
    let finish = |on_arrival| {
        let spec = ahead(&[
            ("cache.read_ahead.on_arrival", on_arrival),
            ("interface.link_rate", "4.096MB"),
            ("interface.overlap", "true"),
        ]);
        let story = tell(&spec, &[read(100, 8)]);
        (story.finish(0), story.breakdown(0))
    };
    assert_eq!(finish("false"), finish("true"));
    assert_eq!(finish("true").0, 100 * SECTOR + 1_000_000);
}
