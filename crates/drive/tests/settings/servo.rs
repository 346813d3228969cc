//! How the arm and the platters move.

use sakiyomi_drive::replay::Arrival;
use sakiyomi_drive::spec::{DriveSpec, SeekSpec};
use sakiyomi_model::Nanos;

use crate::common::{CYLINDER, SECTOR, TRACK, apart, bare, read, tell, with, write};

pub(crate) const KEYS: &[&str] = &[
    "servo.rpm",
    "servo.head_switch",
    "servo.write_settle",
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
    "servo.seek.points",
    "servo.seek_write",
];

/// The first address of a cylinder of `bare`.
fn first_of(cylinder: u64) -> u64 {
    if cylinder < 2000 { cylinder * CYLINDER } else { 2000 * CYLINDER + (cylinder - 2000) * 1200 }
}

/// How long the arm travels for a command that finds it on cylinder 0.
fn travel(spec: &DriveSpec, arrival: Arrival) -> u64 {
    tell(spec, &[arrival]).of(0).breakdown.seek.0
}

/// The same for a read `distance` cylinders away.
fn seek(spec: &DriveSpec, distance: u64) -> u64 {
    travel(spec, read(first_of(distance), 1))
}

/// `bare` with another seek curve.
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
        // Half a turn until sector 250 comes round, and the sector.
        assert_eq!(tell(&with(&[("servo.rpm", rpm)]), &[read(250, 1)]).finish(0), 251 * turn / 500);
    }
}

#[test]
fn head_switch_delays_what_lies_under_another_head() {
    for (time, expected) in [("1ms", 1_000_000), ("3ms", 3_000_000)] {
        let spec = with(&[("servo.head_switch", time), ("geometry.zones.0.track_skew", "0")]);
        let story = tell(&spec, &apart(&[read(0, 1), read(TRACK + 400, 1), read(TRACK + 450, 1)]));
        assert_eq!(story.of(1).breakdown.seek.0, expected);
        assert_eq!(story.of(2).breakdown.seek.0, 0, "the head is selected already");
        assert_eq!(story.took(1), 401 * SECTOR);
    }
    // A seek hides a shorter head switch, and is hidden by a longer one.
    let other_head = first_of(1) + TRACK;
    assert_eq!(travel(&with(&[("servo.head_switch", "1ms")]), read(other_head, 1)), 1_500_000);
    assert_eq!(travel(&with(&[("servo.head_switch", "2ms")]), read(other_head, 1)), 2_000_000);
}

#[test]
fn write_settle_is_added_before_a_write_and_may_be_negative() {
    let next = first_of(1);
    for (settle, expected) in [("0", 1_500_000), ("0.5ms", 2_000_000), ("-0.2ms", 1_300_000), ("-9ms", 0)] {
        let spec = with(&[("servo.write_settle", settle)]);
        assert_eq!(travel(&spec, write(next, 1)), expected, "{settle}");
        assert_eq!(travel(&spec, read(next, 1)), 1_500_000, "a read settles as it always did");
        assert_eq!(travel(&spec, write(100, 1)), 0, "nothing to settle where neither arm nor head moves");
    }
    assert_eq!(
        travel(&with(&[("servo.write_settle", "0.5ms")]), write(TRACK, 1)),
        1_500_000,
        "a head switch"
    );
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
fn points_are_met_and_joined_by_straight_lines() {
    let spec = curve(SeekSpec::Table { points: vec![(1, Nanos::MILLISECOND)] });
    assert_eq!(seek(&spec, 3000), 1_000_000);
    let spec = and(spec, "servo.seek.points", r#"[[1, "1ms"], [101, "2ms"], [1101, "12ms"]]"#);
    assert_eq!(
        [1, 51, 101, 601, 1101].map(|d| seek(&spec, d)),
        [1_000_000, 1_500_000, 2_000_000, 7_000_000, 12_000_000]
    );
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

/// The seek table as `to_toml` writes it.
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
