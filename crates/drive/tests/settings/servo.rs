//! Effects of the servo keys.

use sakiyomi_drive::replay::Arrival;
use sakiyomi_drive::spec::{DriveSpec, SeekSpec};
use sakiyomi_model::Nanos;

use crate::common::{CYLINDER, SECTOR, TRACK, TURN, apart, at, bare, read, tell, with, write, writing};

pub(crate) const KEYS: &[&str] = &[
    "servo.rpm",
    "servo.head_switch",
    "servo.write_settle",
    "servo.lost_turns",
    "servo.seek",
    "servo.seek.curve",
    "servo.seek.track_to_track",
    "servo.seek.average",
    "servo.seek.full_stroke",
    "servo.seek.threshold",
    "servo.seek.short_base",
    "servo.seek.short_per_root",
    "servo.seek.long_base",
    "servo.seek.long_per_cylinder",
    "servo.seek.first",
    "servo.seek.points",
    "servo.seek_write",
];

/// Returns the first address of a cylinder of `bare`.
fn first_of(cylinder: u64) -> u64 {
    if cylinder < 2000 { cylinder * CYLINDER } else { 2000 * CYLINDER + (cylinder - 2000) * 1200 }
}

/// Returns the travel time of a command that finds the arm on cylinder 0.
fn travel(spec: &DriveSpec, arrival: Arrival) -> u64 {
    tell(spec, &[arrival]).breakdown(0).seek.0
}

/// Returns the travel time of a read `distance` cylinders away.
fn seek(spec: &DriveSpec, distance: u64) -> u64 {
    travel(spec, read(first_of(distance), 1))
}

/// Returns `bare` with another seek curve.
fn curve(seek: SeekSpec) -> DriveSpec {
    let mut spec = bare();
    spec.servo.seek = seek;
    spec
}

fn two_piece() -> DriveSpec {
    curve(SeekSpec::TwoPiece {
        threshold: 100,
        short_base: Nanos::MILLISECOND,
        short_per_root: Nanos(100_000),
        long_base: Nanos(3_000_000),
        long_per_cylinder: Nanos(2_000),
        first: Vec::new(),
    })
}

fn and(mut spec: DriveSpec, key: &str, value: &str) -> DriveSpec {
    spec.set(key, value).unwrap();
    spec.check().unwrap();
    spec
}

#[test]
fn the_whole_curve_is_changed_at_once() {
    let table = r#"{ curve = "table", points = [[1, "3ms"], [2001, "5ms"]] }"#;
    let spec = with(&[("servo.seek", table)]);
    assert_eq!((seek(&spec, 1), seek(&spec, 1001)), (3_000_000, 4_000_000));
    let spec = with(&[("servo.seek_write", table), ("servo.seek_write.points", r#"[[1, "7ms"]]"#)]);
    assert_eq!(travel(&spec, write(first_of(1), 1)), 7_000_000);
}

#[test]
fn rpm_is_the_time_of_a_turn() {
    for (rpm, turn) in [("6000", 10_000_000), ("12000", 5_000_000), ("7200", 8_333_333u64)] {
        // Half a revolution until sector 250, and the sector.
        assert_eq!(tell(&with(&[("servo.rpm", rpm)]), &[read(250, 1)]).finish(0), 251 * turn / 500);
    }
}

#[test]
fn head_switch_delays_what_lies_under_another_head() {
    for (time, expected) in [("1ms", 1_000_000), ("3ms", 3_000_000)] {
        let spec = with(&[("servo.head_switch", time), ("geometry.zones.0.track_skew", "0")]);
        let story = tell(&spec, &apart(&[read(0, 1), read(TRACK + 400, 1), read(TRACK + 450, 1)]));
        assert_eq!(story.breakdown(1).seek.0, expected);
        assert_eq!(story.breakdown(2).seek.0, 0, "the head is selected already");
        assert_eq!(story.took(1), 401 * SECTOR);
    }
    // A seek hides a shorter head switch, and vice versa.
    let other_head = first_of(1) + TRACK;
    assert_eq!(travel(&with(&[("servo.head_switch", "1ms")]), read(other_head, 1)), 1_500_000);
    assert_eq!(travel(&with(&[("servo.head_switch", "2ms")]), read(other_head, 1)), 2_000_000);
}

#[test]
fn write_settle_is_added_before_a_write_and_may_be_negative() {
    let next = first_of(1);
    let times =
        [("0", 1_500_000, 0), ("0.5ms", 2_000_000, 500_000), ("-0.2ms", 1_300_000, 0), ("-1ms", 500_000, 0)];
    for (settle, expected, in_place) in times {
        let spec = with(&[("servo.write_settle", settle)]);
        assert_eq!(travel(&spec, write(next, 1)), expected, "{settle}");
        assert_eq!(travel(&spec, read(next, 1)), 1_500_000, "a read settles as it always did");
        assert_eq!(travel(&spec, write(100, 1)), in_place, "{settle} on the track where the head is");
        assert_eq!(travel(&spec, read(100, 1)), 0);
    }
    assert_eq!(
        travel(&with(&[("servo.write_settle", "0.5ms")]), write(TRACK, 1)),
        1_500_000,
        "a head switch"
    );
}

#[test]
fn lost_turns_cost_a_turn_where_the_arm_has_moved() {
    // A read and a write on other cylinders, and a read on the arm's cylinder.
    let arrivals = apart(&[read(first_of(1), 1), write(first_of(0), 1), read(50, 1)]);
    let took =
        |share| [0, 1, 2].map(|request| tell(&with(&[("servo.lost_turns", share)]), &arrivals).took(request));
    let (none, all) = (took("0"), took("1"));
    assert_eq!(all, [none[0] + TURN, none[1] + TURN, none[2]]);
}

#[test]
fn lost_turns_are_spread_evenly() {
    let there_and_back: Vec<Arrival> = (0..200).map(|number| write(first_of(1 - number % 2), 1)).collect();
    let arrivals = apart(&there_and_back);
    let spec = with(&[("servo.lost_turns", "0.1")]);
    let (with_them, without) = (tell(&spec, &arrivals), tell(&bare(), &arrivals));
    let lost: Vec<u64> =
        (0..200).filter(|&request| with_them.took(request) == without.took(request) + TURN).collect();
    assert!((19..=21).contains(&lost.len()), "{lost:?}");
    assert!(lost.windows(2).all(|pair| pair[1] - pair[0] <= 13), "{lost:?}");
    let back = lost.iter().filter(|&&request| request % 2 == 1).count();
    assert!((8..=12).contains(&back), "as often on the way back: {lost:?}");
}

#[test]
fn write_settle_can_cost_a_turn_on_the_track_where_the_head_is() {
    // Sector 24 passes 0.48 ms after the index, 25 after 0.5 ms.
    let took = |lba| tell(&with(&[("servo.write_settle", "0.5ms")]), &[write(lba, 1)]).took(0);
    assert_eq!((took(24), took(25)), (TURN + 25 * SECTOR, 26 * SECTOR));
}

#[test]
fn write_settle_comes_where_a_transfer_goes_on_to_another_track_and_not_on_the_same_one() {
    // A track skew of 60 sectors covers exactly a head switch of 1 ms and 0.2 ms of settling.
    let across = |settle| {
        let spec = with(&[("servo.write_settle", settle), ("geometry.zones.0.track_skew", "60")]);
        tell(&spec, &[at(0.5, write(100, TRACK))]).finish(0)
    };
    let all = (100 + 60 + TRACK) * SECTOR;
    assert_eq!((across("0.2ms"), across("0.201ms")), (all, TURN + all));
    // Across the replaced sector and back.
    let same = tell(&replaced(&[("servo.write_settle", "0.5ms")]), &[at(0.5, write(200, 290))]);
    assert_eq!(
        (same.breakdown(0).seek.0, same.finish(0)),
        (500_001, TURN + 490 * SECTOR),
        "there is data after 1 ns"
    );
}

#[test]
fn write_settle_is_no_part_of_a_write_that_goes_on_where_the_head_is() {
    // The second write is ready when the first ends, with its first sector just passing.
    let spec = with(&[("servo.write_settle", "0.5ms")]);
    let story = tell(&spec, &[write(100, 8), write(108, 8)]);
    assert_eq!((story.breakdown(1).seek.0, story.finish(1)), (0, 116 * SECTOR));
    let late = tell(&spec, &[write(100, 8), write(109, 8)]);
    assert_eq!((late.breakdown(1).seek.0, late.finish(1)), (500_000, TURN + 117 * SECTOR));
}

#[test]
fn write_settle_begins_when_there_is_something_to_write() {
    // 1 ms per sector: one has arrived after 1 ms, when the arm has long arrived; then the head settles for 0.5 ms.
    let took = |overlap, lba| {
        let settings = [
            ("servo.write_settle", "0.5ms"),
            ("interface.link_rate", "512kB"),
            ("interface.overlap", overlap),
            ("servo.seek.track_to_track", "0.8ms"),
            ("geometry.zones.0.cylinder_skew", "0"),
            ("geometry.zones.0.track_skew", "0"),
        ];
        tell(&with(&settings), &[write(lba, 1)]).took(0)
    };
    for track in [0, first_of(1)] {
        assert_eq!(took("true", track + 75), 76 * SECTOR, "at 1.5 ms sector 75 comes round");
        assert_eq!(took("true", track + 74), TURN + 75 * SECTOR);
    }
    // Without overlap the arm moves only when the data has arrived, from 1 ms to 2.3 ms.
    assert_eq!(took("false", first_of(1) + 115), 116 * SECTOR);
    assert_eq!(took("false", first_of(1) + 114), TURN + 115 * SECTOR);
}

#[test]
fn write_settle_holds_for_dirty_data_too() {
    let spec = writing(&[
        ("servo.write_settle", "0.5ms"),
        ("cache.write.high_watermark", "0"),
        ("cache.write.low_watermark", "0"),
    ]);
    // The first of its 8 sectors has arrived after a nanosecond.
    assert_eq!(tell(&spec, &[write(100, 8)]).destages()[0].seek, Nanos(500_001));
}

#[test]
fn track_to_track_is_the_seek_over_one_cylinder() {
    for (time, expected) in [("1.5ms", 1_500_000), ("0.9ms", 900_000)] {
        assert_eq!(seek(&with(&[("servo.seek.track_to_track", time)]), 1), expected);
    }
}

#[test]
fn full_stroke_is_the_seek_over_all_cylinders() {
    for (time, expected) in [("16ms", 16e6), ("20ms", 20e6)] {
        let took =
            seek(&with(&[("servo.seek.full_stroke", time), ("servo.seek.average", "9ms")]), 3999) as f64;
        // Lee's curve reaches its last point one cylinder beyond the longest seek.
        assert!((took / expected - 1.0).abs() < 1e-3, "{took}");
    }
}

#[test]
fn average_is_the_mean_over_all_pairs_of_cylinders() {
    for (time, expected) in [("8ms", 8e6), ("9ms", 9e6)] {
        let spec = with(&[("servo.seek.average", time)]);
        // The density of distances is 2 (N - d) / N², N = 4000 cylinders; a midpoint rule over 200 distances.
        let mean: f64 = (0..200)
            .map(|i| f64::from(i) * 20.0 + 10.0)
            .map(|d| seek(&spec, d as u64) as f64 * 2.0 * (4000.0 - d) / 4000.0f64.powi(2) * 20.0)
            .sum();
        assert!((mean / expected - 1.0).abs() < 0.005, "{mean}");
    }
}

#[test]
fn threshold_parts_the_two_pieces() {
    assert_eq!(seek(&two_piece(), 81), 1_000_000 + 9 * 100_000);
    assert_eq!(seek(&two_piece(), 100), 3_000_000 + 100 * 2_000);
    assert_eq!(seek(&and(two_piece(), "servo.seek.threshold", "81"), 81), 3_000_000 + 81 * 2_000);
}

#[test]
fn short_base_and_short_per_root_make_the_root_piece() {
    assert_eq!(seek(&and(two_piece(), "servo.seek.short_base", "2ms"), 81), 2_000_000 + 9 * 100_000);
    assert_eq!(seek(&and(two_piece(), "servo.seek.short_per_root", "0.2ms"), 81), 1_000_000 + 9 * 200_000);
}

#[test]
fn long_base_and_long_per_cylinder_make_the_linear_piece() {
    assert_eq!(seek(&and(two_piece(), "servo.seek.long_base", "4ms"), 1000), 4_000_000 + 1000 * 2_000);
    assert_eq!(
        seek(&and(two_piece(), "servo.seek.long_per_cylinder", "3us"), 1000),
        3_000_000 + 1000 * 3_000
    );
}

#[test]
fn first_distances_take_their_own_times() {
    let spec = and(two_piece(), "servo.seek.first", r#"["2.5ms", "2.4ms"]"#);
    assert_eq!([1, 2, 4].map(|d| seek(&spec, d)), [2_500_000, 2_400_000, 1_200_000]);
    assert_eq!(seek(&two_piece(), 1), 1_100_000);
}

#[test]
fn points_are_met_and_joined_by_straight_lines() {
    let spec = curve(SeekSpec::Table { points: vec![(1, Nanos::MILLISECOND)] });
    assert_eq!(seek(&spec, 3000), 1_000_000);
    let spec = and(spec, "servo.seek.points", r#"[[1, "1ms"], [101, "2ms"], [1101, "12ms"]]"#);
    assert_eq!(
        [1, 51, 101, 601, 1101].map(|d| seek(&spec, d)),
        [1_000_000, 1_500_000, 2_000_000, 7_000_000, 12_000_000]
    );
}

/// Returns a drive with 0.3 ms for an access on the same cylinder, and 1.5 ms for the next cylinder.
fn in_place() -> DriveSpec {
    curve(SeekSpec::Table {
        points: vec![(0, Nanos(300_000)), (1, Nanos(1_500_000)), (4000, Nanos(9_000_000))],
    })
}

#[test]
fn points_for_distance_zero_are_what_an_access_in_place_takes() {
    let spec = and(bare(), "servo.seek", r#"{ curve = "table", points = [[1, "1.5ms"]] }"#);
    let measured = and(spec.clone(), "servo.seek.points", r#"[[0, "0.3ms"], [1, "1.5ms"], [4000, "9ms"]]"#);
    assert_eq!(measured.servo.seek, in_place().servo.seek);
    for (spec, time) in [(spec, 0), (measured, 300_000)] {
        assert_eq!((travel(&spec, read(100, 1)), travel(&spec, write(100, 1))), (time, time));
        assert_eq!(travel(&spec, read(TRACK + 100, 1)), 1_000_000, "a head switch hides it");
        assert_eq!(seek(&spec, 1), 1_500_000);
        let settled = and(spec, "servo.write_settle", "0.2ms");
        assert_eq!(travel(&settled, write(100, 1)), time + 200_000);
        assert_eq!(travel(&settled, read(100, 1)), time);
    }
    // A head switch is hidden by a longer time.
    let quick = and(in_place(), "servo.head_switch", "0.1ms");
    assert_eq!(travel(&quick, read(TRACK + 100, 1)), 300_000);
}

#[test]
fn points_for_distance_zero_of_a_curve_for_writes_hold_for_writes() {
    let table = r#"{ curve = "table", points = [[0, "0.7ms"], [1, "5ms"], [4000, "9ms"]] }"#;
    let mut spec = in_place();
    spec.set("servo.seek_write", table).unwrap();
    assert_eq!((travel(&spec, write(100, 1)), travel(&spec, read(100, 1))), (700_000, 300_000));
}

#[test]
fn points_for_distance_zero_cost_a_turn_where_the_sector_comes_sooner() {
    // 0.3 ms are 15 sectors.
    let took = |lba| tell(&in_place(), &[read(lba, 1)]).took(0);
    assert_eq!((took(15), took(14)), (16 * SECTOR, TURN + 15 * SECTOR));
}

/// Returns a drive with 490 addressed sectors per track; sector 485 is replaced by 495, ten sectors further.
fn replaced(settings: &[(&str, &str)]) -> DriveSpec {
    let mut all = vec![
        ("geometry.zones.0.spares", "10"),
        ("geometry.zones.0.spares_per", "track"),
        ("geometry.zones.0.remaps", "[[485, 495]]"),
    ];
    all.extend(settings);
    with(&all)
}

#[test]
fn points_for_distance_zero_do_not_hold_inside_a_transfer() {
    // Across the replaced sector and back, and to the next track with 50 sectors of skew.
    let table = r#"{ curve = "table", points = [[0, "1.3ms"], [1, "1.5ms"], [4000, "9ms"]] }"#;
    for (spec, seek) in [(replaced(&[]), 0), (replaced(&[("servo.seek", table)]), 1_300_000)] {
        let story = tell(&spec, &[at(0.5, read(200, 490))]);
        assert_eq!(story.breakdown(0).seek.0, seek);
        assert_eq!(story.finish(0), 2 * TURN + (50 + 200) * SECTOR);
    }
}

#[test]
fn points_for_distance_zero_do_not_hold_where_the_access_goes_on_where_the_head_is() {
    let both = |lba| tell(&in_place(), &[read(100, 8), read(lba, 8)]);
    let gapless = both(108);
    assert_eq!((gapless.breakdown(1).seek.0, gapless.finish(1)), (0, 116 * SECTOR));
    let gap = both(109);
    assert_eq!((gap.breakdown(1).seek.0, gap.finish(1)), (300_000, TURN + 117 * SECTOR));
    // A write can continue a read as well, unless it is ready slightly too late.
    let writes = |millis| tell(&in_place(), &[read(100, 8), at(millis, write(108, 8))]).finish(1);
    assert_eq!((writes(0.0), writes(2.1600005)), (116 * SECTOR, TURN + 116 * SECTOR));
}

#[test]
fn curve_names_the_kind_and_takes_no_other_kind_s_figures() {
    let text = |seek: &str| {
        let table = toml_seek(&bare());
        bare().to_toml().replace(&table, seek)
    };
    let read_back = |seek: &str| DriveSpec::from_toml(&text(seek), "test");
    let table = read_back("[servo.seek]\ncurve = \"table\"\npoints = [[1, \"4ms\"]]\n").unwrap();
    assert_eq!(seek(&table, 77), 4_000_000);
    let mut spec = bare();
    let error = spec.set("servo.seek.curve", "table").unwrap_err().to_string();
    assert!(error.contains("servo.seek.curve=table"), "{error}");
    let error = spec.set("servo.seek.threshold", "5").unwrap_err().to_string();
    assert!(error.contains("threshold"), "{error}");
}

/// Returns the seek table as written by `to_toml`.
fn toml_seek(spec: &DriveSpec) -> String {
    let text = spec.to_toml();
    let from = text.find("[servo.seek]").expect("every drive has a seek curve");
    let to = text[from + 1..].find('[').map_or(text.len(), |next| from + 1 + next);
    text[from..to].to_owned()
}

#[test]
fn seek_write_is_the_curve_before_a_write_and_write_settle_comes_on_top() {
    let table = r#"{ curve = "table", points = [[1, "5ms"]] }"#;
    let spec = with(&[("servo.seek_write", table), ("servo.write_settle", "1ms")]);
    assert_eq!(travel(&spec, write(first_of(1), 1)), 6_000_000);
    assert_eq!(travel(&spec, read(first_of(1), 1)), 1_500_000);
}
