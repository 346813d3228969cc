//! Effects of the read-ahead keys.

use sakiyomi_drive::log::DiskCause;
use sakiyomi_drive::spec::DriveSpec;

use crate::common::{CYLINDER, FULL_HIT, PURE_MISS, SECTOR, TRACK, TURN, apart, at, read, tell, with};

pub(crate) const KEYS: &[&str] = &[
    "cache.read_ahead.mode",
    "cache.read_ahead.min",
    "cache.read_ahead.max",
    "cache.read_ahead.idle_only",
    "cache.read_ahead.after_sequential",
    "cache.read_ahead.on_arrival",
    "cache.read_ahead.resume_on_hit",
];

/// Returns a drive with one segment of 4096 sectors, enough for a cylinder.
fn ahead(settings: &[(&str, &str)]) -> DriveSpec {
    let mut all =
        vec![("cache.size", "2MiB"), ("cache.segments.count", "1"), ("cache.read_ahead.max", "2MiB")];
    all.extend(settings);
    with(&all)
}

/// Returns the sectors read ahead by each access.
fn sectors_ahead(spec: &DriveSpec, arrivals: &[sakiyomi_drive::replay::Arrival]) -> Vec<u64> {
    tell(spec, arrivals).accesses().iter().map(|access| access.ahead.0).collect()
}

#[test]
fn mode_says_how_far_read_ahead_goes() {
    let asked = [read(10, 8)];
    let reach = |mode, max| {
        sectors_ahead(&ahead(&[("cache.read_ahead.mode", mode), ("cache.read_ahead.max", max)]), &asked)
    };
    assert_eq!(reach("off", "2MiB"), [0]);
    assert_eq!(reach("track_end", "2MiB"), [TRACK - 18]);
    assert_eq!(reach("next_track", "2MiB"), [2 * TRACK - 18]);
    assert_eq!(reach("cylinder_end", "2MiB"), [CYLINDER - 18]);
    assert_eq!(reach("fixed", "100KiB"), [200]);
    assert_eq!(reach("segment", "2MiB"), [4096 - 8], "the segment is full, what was asked included");
}

#[test]
fn mode_next_track_goes_on_into_the_next_cylinder_and_ends_with_the_drive() {
    let end = |lba, sectors| {
        let story = tell(&ahead(&[("cache.read_ahead.mode", "next_track")]), &[read(lba, sectors)]);
        let access = story.accesses()[0];
        access.lba.0 + access.wanted.0 + access.ahead.0
    };
    assert_eq!(end(3 * TRACK, 8), CYLINDER + TRACK);
    assert_eq!(end(TRACK - 8, 8), 2 * TRACK, "the track of its last sector counts");
    assert_eq!(end(TRACK - 8, 9), 3 * TRACK);
    let capacity = 2000 * CYLINDER + 2000 * 4 * 300;
    assert_eq!(end(capacity - 10, 4), capacity, "there is no track after that");
}

#[test]
fn max_bounds_every_mode() {
    for mode in ["track_end", "next_track", "cylinder_end", "fixed", "segment"] {
        for (max, expected) in [("0", 0), ("1KiB", 2), ("64KiB", 128)] {
            let spec = ahead(&[("cache.read_ahead.mode", mode), ("cache.read_ahead.max", max)]);
            assert_eq!(sectors_ahead(&spec, &[read(10, 8)]), [expected], "{mode}");
        }
    }
}

#[test]
fn read_ahead_does_not_overwrite_what_it_has_read_ahead() {
    let spec = ahead(&[("cache.read_ahead.mode", "fixed"), ("cache.size", "64KiB")]);
    assert_eq!(sectors_ahead(&spec, &[read(0, 8)]), [128], "a segment of 128 sectors takes no more");
}

#[test]
fn min_is_read_before_a_waiting_command_gets_the_arm() {
    for (min, sectors) in [("0", 0), ("16KiB", 32)] {
        let spec = ahead(&[("cache.read_ahead.mode", "fixed"), ("cache.read_ahead.min", min)]);
        let story = tell(&spec, &[read(0, 8), read(1000 * CYLINDER, 1)]);
        let accesses = story.accesses();
        assert_eq!(accesses[0].ahead.0, sectors);
        assert_eq!(accesses[1].start.0, (8 + sectors) * SECTOR, "the arm sets out for the second then");
        assert_eq!(story.finish(0), 8 * SECTOR, "the first is over before");
    }
}

#[test]
fn a_command_that_comes_during_read_ahead_ends_it_at_the_next_sector_after_min() {
    for (min, end) in [("0", 101 * SECTOR), ("256KiB", 520 * SECTOR + 50 * SECTOR)] {
        let spec = ahead(&[("cache.read_ahead.mode", "fixed"), ("cache.read_ahead.min", min)]);
        // 2.01 ms: in the middle of sector 100. 520 sectors end on the next track, after a switch of 50.
        let story = tell(&spec, &[read(0, 8), at(2.01, read(1000 * CYLINDER, 1))]);
        assert_eq!(story.accesses()[1].start.0, end, "min = {min}");
    }
}

#[test]
fn idle_only_reads_nothing_ahead_while_a_command_waits_whatever_min_says() {
    for (idle_only, sectors) in [("false", 32), ("true", 0)] {
        let spec = ahead(&[
            ("cache.read_ahead.mode", "fixed"),
            ("cache.read_ahead.min", "16KiB"),
            ("cache.read_ahead.max", "32KiB"),
            ("cache.read_ahead.idle_only", idle_only),
        ]);
        let two = [read(0, 8), read(1000 * CYLINDER, 1)];
        assert_eq!(sectors_ahead(&spec, &two), [sectors, 64], "nothing waits behind the second");
    }
}

#[test]
fn after_sequential_waits_for_so_many_commands_in_sequence() {
    let sequence: Vec<_> = (0..4).map(|i| read(i * 8, 8)).collect();
    let counts = |after| {
        let spec = ahead(&[
            ("cache.read_ahead.mode", "fixed"),
            ("cache.read_ahead.max", "4KiB"),
            ("cache.read_ahead.after_sequential", after),
        ]);
        sectors_ahead(&spec, &apart(&sequence))
    };
    // Each read that was read ahead is a hit, and causes no access.
    assert_eq!(counts("0"), [8, 8], "the first read brings in the second");
    assert_eq!(counts("1"), [0, 8, 8], "the second continues the first");
    assert_eq!(counts("2"), [0, 0, 8]);
    assert_eq!(counts("9"), [0, 0, 0, 0]);
}

#[test]
fn after_sequential_begins_anew_after_a_jump_within_the_segment() {
    let reads = [read(0, 8), read(8, 8), read(4, 4), read(16, 8), read(24, 8)];
    let spec = ahead(&[("cache.read_ahead.mode", "fixed"), ("cache.read_ahead.after_sequential", "2")]);
    assert_eq!(sectors_ahead(&spec, &apart(&reads)), [0, 0, 0, 0]);
}

#[test]
fn on_arrival_takes_along_what_passes_before_the_request() {
    for (on_arrival, class) in [("false", PURE_MISS), ("true", FULL_HIT)] {
        let spec = ahead(&[("cache.read_ahead.on_arrival", on_arrival), ("cache.near_window", "0")]);
        // The index is under the heads: 100 sectors pass before the first requested one.
        let story = tell(&spec, &apart(&[read(100, 8), read(0, 100)]));
        assert_eq!(story.finish(0), 108 * SECTOR, "the request is not delayed");
        assert_eq!(story.class(1), class);
    }
}

#[test]
fn on_arrival_takes_a_request_that_is_passing_from_its_middle() {
    // After 2 ms sector 100 is under the heads, within the request.
    let asked = [at(2.0, read(50, 400))];
    let finish = |on_arrival| tell(&ahead(&[("cache.read_ahead.on_arrival", on_arrival)]), &asked).finish(0);
    assert_eq!(finish("false"), TURN + 450 * SECTOR, "from its beginning, in the next turn");
    assert_eq!(finish("true"), 100 * SECTOR + TURN, "a full turn from here on holds it all");
}

#[test]
fn resume_on_hit_reads_on_from_where_read_ahead_ended() {
    let reads = apart(&[read(0, 8), read(8, 8)]);
    let story = |resume| {
        let spec = ahead(&[
            ("cache.read_ahead.mode", "fixed"),
            ("cache.read_ahead.max", "32KiB"),
            ("cache.read_ahead.resume_on_hit", resume),
        ]);
        tell(&spec, &reads)
    };
    let off = story("false");
    assert_eq!((off.class(1), off.accesses().len()), (FULL_HIT, 1));
    let on = story("true");
    let [first, resumed] = on.accesses()[..] else { panic!("two accesses") };
    assert_eq!((on.class(1), resumed.cause, resumed.request), (FULL_HIT, DiskCause::ReadAhead, None));
    assert_eq!((first.lba.0 + first.wanted.0 + first.ahead.0, resumed.lba.0), (72, 72));
    assert_eq!(resumed.ahead.0, 8, "the hit read 8 sectors more: so far does read-ahead go on");
    assert_eq!(on.usage.seeks.read, 2);
}
