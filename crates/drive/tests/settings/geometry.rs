//! Effects of the geometry keys.

use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_drive::{Drive, Geometry, Run};
use sakiyomi_model::{Bytes, Device, Lba, Nanos, Outcome};

use crate::common::{CYLINDER, Random, SECTOR, TRACK, TURN, apart, bare, read, tell, with, write};

pub(crate) const KEYS: &[&str] = &[
    "geometry.sector",
    "geometry.physical_sector",
    "geometry.heads",
    "geometry.layout",
    "geometry.sectors",
    "geometry.zones.*.first_cylinder",
    "geometry.zones.*.cylinders",
    "geometry.zones.*.sectors_per_track",
    "geometry.zones.*.track_skew",
    "geometry.zones.*.cylinder_skew",
    "geometry.zones.*.offset",
    "geometry.zones.*.reserved_front",
    "geometry.zones.*.spares",
    "geometry.zones.*.spares_per",
    "geometry.zones.*.spares_range",
    "geometry.zones.*.slips",
    "geometry.zones.*.remaps",
];

fn place(spec: &DriveSpec, lba: u64) -> Run {
    Geometry::new(&spec.geometry, &spec.servo).run(Lba(lba), u64::MAX)
}

/// Returns cylinder, head and sector.
fn chs(spec: &DriveSpec, lba: u64) -> (u32, u32, u32) {
    let run = place(spec, lba);
    (run.cylinder, run.head, run.first)
}

/// Returns the time of a read on a new drive: the arm on cylinder 0, the index under the heads.
fn first_read(spec: &DriveSpec, lba: u64, sectors: u64) -> u64 {
    tell(spec, &[read(lba, sectors)]).finish(0)
}

fn capacity(spec: &DriveSpec) -> u64 {
    Drive::new(spec).unwrap().capacity().0
}

#[test]
fn sector_size_is_what_a_sector_costs_on_the_link_and_in_the_buffer() {
    for (size, bytes) in [("512B", 512), ("4KiB", 4096)] {
        let spec = with(&[
            ("geometry.sector", size),
            ("interface.link_rate", "4096kB"),
            ("cache.read_ahead.mode", "fixed"),
            ("cache.read_ahead.max", "32KiB"),
        ]);
        assert_eq!(Drive::new(&spec).unwrap().sector(), Bytes(bytes));
        let story = tell(&spec, &apart(&[read(0, 8), read(0, 8)]));
        assert_eq!(story.accesses()[0].ahead.0, 32_768 / bytes);
        assert_eq!(story.took(1), 8 * bytes * 1_000_000 / 4096, "a hit is link time alone");
    }
}

#[test]
fn heads_are_the_tracks_of_a_cylinder() {
    for heads in [1, 2, 8] {
        let spec = with(&[("geometry.heads", &heads.to_string())]);
        let (last, next) = (heads * TRACK - 1, heads * TRACK);
        assert_eq!(chs(&spec, last), (0, heads as u32 - 1, 499));
        assert_eq!(chs(&spec, next), (1, 0, 0));
        assert_eq!(capacity(&spec), heads * 2000 * (500 + 300));
    }
}

#[test]
fn cylinder_layout_begins_each_cylinder_at_head_zero() {
    let spec = with(&[("geometry.layout", "cylinder")]);
    let heads: Vec<_> = (0..8).map(|track| chs(&spec, track * TRACK).1).collect();
    assert_eq!(heads, [0, 1, 2, 3, 0, 1, 2, 3]);
}

#[test]
fn zigzag_turns_the_order_of_heads_and_saves_the_head_switch_between_cylinders() {
    let zigzag = with(&[("geometry.layout", "zigzag"), ("servo.head_switch", "2ms")]);
    let heads: Vec<_> = (0..9).map(|track| chs(&zigzag, track * TRACK).1).collect();
    assert_eq!(heads, [0, 1, 2, 3, 3, 2, 1, 0, 0]);
    // From the last track of cylinder 0 to the next one: 1.5 ms of seek under the same head, or 2 ms for another.
    let plain = with(&[("servo.head_switch", "2ms")]);
    let across = |spec: &DriveSpec| first_read(spec, 0, CYLINDER + 1) - first_read(spec, 0, CYLINDER);
    assert_eq!(across(&zigzag), 1_500_000 + SECTOR);
    assert_eq!(across(&plain), 2_000_000 + SECTOR);
}

#[test]
fn serpentine_fills_a_zone_under_one_head_and_comes_back_under_the_next() {
    let spec = with(&[("geometry.layout", "serpentine")]);
    let tracks = [0, 1, 1999, 2000, 2001, 3999, 4000].map(|track| chs(&spec, track * TRACK));
    let expected = [(0, 0, 0), (1, 0, 0), (1999, 0, 0), (1999, 1, 0), (1998, 1, 0), (0, 1, 0), (0, 2, 0)];
    assert_eq!(tracks, expected);
    // Each track is followed by one of the next cylinder: a seek, no head switch.
    assert_eq!(first_read(&spec, 0, 3 * TRACK), 3 * TURN + 2 * 1_500_000);
}

#[test]
fn sectors_limit_what_is_addressed() {
    let spec = with(&[("geometry.sectors", "1000")]);
    assert_eq!(capacity(&spec), 1000);
    let story = tell(&spec, &apart(&[read(999, 1), read(999, 2)]));
    assert_eq!((story.of(0).outcome, story.of(1).outcome), (Outcome::Done, Outcome::Error));
}

#[test]
fn first_cylinder_leaves_a_gap_that_the_arm_crosses() {
    let second_zone = 4_000_000;
    assert_eq!(chs(&bare(), second_zone).0, 2000);
    // Gaps before both zones.
    let spec = with(&[("geometry.zones.1.first_cylinder", "3000"), ("geometry.zones.0.first_cylinder", "7")]);
    assert_eq!(chs(&spec, 0).0, 7);
    assert_eq!(tell(&spec, &[read(second_zone, 1)]).accesses()[0].distance, 3000);
}

#[test]
fn cylinders_decide_where_the_next_zone_begins() {
    let spec = with(&[("geometry.zones.0.cylinders", "10")]);
    assert_eq!(capacity(&spec), 10 * CYLINDER + 2000 * 4 * 300);
    let run = place(&spec, 10 * CYLINDER);
    assert_eq!((run.cylinder, run.track_sectors), (10, 300));
}

#[test]
fn sectors_per_track_are_the_transfer_rate() {
    for (track, expected) in [("500", 100 * SECTOR), ("250", 200 * SECTOR), ("1000", 50 * SECTOR)] {
        assert_eq!(first_read(&with(&[("geometry.zones.0.sectors_per_track", track)]), 0, 100), expected);
    }
}

#[test]
fn track_skew_is_the_angle_between_tracks_and_a_revolution_when_too_small() {
    let across =
        |skew| first_read(&with(&[("geometry.zones.0.track_skew", skew)]), 0, TRACK + 1) - TURN - SECTOR;
    // The head switch takes 1 ms: 50 sectors.
    assert_eq!(across("50"), 50 * SECTOR);
    assert_eq!(across("70.5"), 70 * SECTOR + SECTOR / 2);
    assert_eq!(across("49"), 49 * SECTOR + TURN);
}

#[test]
fn cylinder_skew_is_the_angle_between_cylinders_and_a_revolution_when_too_small() {
    let across = |skew| {
        let spec = with(&[("geometry.zones.0.cylinder_skew", skew)]);
        first_read(&spec, 0, CYLINDER + 1) - first_read(&spec, 0, CYLINDER) - SECTOR
    };
    // The seek takes 1.5 ms: 75 sectors.
    assert_eq!(across("75"), 75 * SECTOR);
    assert_eq!(across("100"), 100 * SECTOR);
    assert_eq!(across("74"), 74 * SECTOR + TURN);
}

#[test]
fn offset_turns_the_zone() {
    assert_eq!(first_read(&with(&[("geometry.zones.0.offset", "123")]), 0, 1), 124 * SECTOR);
}

#[test]
fn spares_lie_at_the_end_of_what_they_count_for() {
    let spares = |per| with(&[("geometry.zones.0.spares", "10"), ("geometry.zones.0.spares_per", per)]);
    let lost = |spec: &DriveSpec| capacity(&bare()) - capacity(spec);

    let zone = spares("zone");
    assert_eq!(
        (lost(&zone), chs(&zone, 4_000_000 - 11), chs(&zone, 4_000_000 - 10)),
        (10, (1999, 3, 489), (2000, 0, 0))
    );
    let cylinder = spares("cylinder");
    assert_eq!(
        (lost(&cylinder), chs(&cylinder, 1989), chs(&cylinder, 1990)),
        (20_000, (0, 3, 489), (1, 0, 0))
    );
    let track = spares("track");
    assert_eq!((lost(&track), chs(&track, 489), chs(&track, 490)), (80_000, (0, 0, 489), (0, 1, 0)));
    // Reading across spares costs their time: they pass under the head.
    assert_eq!(first_read(&track, 0, 491), TURN + 50 * SECTOR + SECTOR);
}

#[test]
fn spares_of_a_range_of_cylinders_lie_at_its_end_and_take_its_slips() {
    let settings = |range| {
        with(&[
            ("geometry.zones.0.spares", "10"),
            ("geometry.zones.0.spares_per", "cylinder"),
            ("geometry.zones.0.spares_range", range),
            ("geometry.zones.0.slips", "[7, 6001]"),
        ])
    };
    let spec = settings("3");
    // 2000 cylinders are 666 whole ranges and one of two cylinders.
    assert_eq!(capacity(&bare()) - capacity(&spec), 6670);
    assert_eq!([6, 7, 5989, 5990].map(|lba| chs(&spec, lba)), [(0, 0, 6), (0, 0, 8), (2, 3, 490), (3, 0, 0)]);
    assert_eq!([5991, 11_979, 11_980].map(|lba| chs(&spec, lba)), [(3, 0, 2), (5, 3, 490), (6, 0, 0)]);
    assert_eq!(chs(&settings("1"), 1990), (1, 0, 0));
}

#[test]
fn reserved_front_carries_no_address() {
    let spec = with(&[("geometry.zones.0.reserved_front", "520")]);
    assert_eq!(capacity(&bare()) - capacity(&spec), 520);
    assert_eq!((chs(&spec, 0), chs(&spec, 480)), ((0, 1, 20), (0, 2, 0)));
    // The second track's sector 0 is at the track skew of 50 sectors.
    assert_eq!(place(&spec, 0).angle, Nanos(70 * SECTOR));
    assert_eq!(Geometry::new(&spec.geometry, &spec.servo).lba_at(0, 1, 19), None);
}

#[test]
fn slips_pass_under_the_head_without_carrying_an_address() {
    let spec = with(&[("geometry.zones.0.slips", "[5, 6]"), ("geometry.zones.0.spares", "2")]);
    assert_eq!((chs(&spec, 4).2, chs(&spec, 5).2), (4, 7));
    assert_eq!(first_read(&spec, 0, 10), 12 * SECTOR);
    assert_eq!(capacity(&bare()) - capacity(&spec), 2);
}

#[test]
fn remaps_cost_an_access_of_their_own() {
    let spec = with(&[
        ("geometry.zones.0.spares", "10"),
        ("geometry.zones.0.spares_per", "track"),
        ("geometry.zones.0.remaps", "[[5, 495]]"),
    ]);
    assert_eq!((chs(&spec, 4).2, chs(&spec, 5).2, chs(&spec, 6).2), (4, 495, 6));
    // Sectors 0 to 4, then most of the revolution to sector 495, then on to 6 in the next revolution.
    assert_eq!(first_read(&spec, 0, 6), 496 * SECTOR);
    assert_eq!(first_read(&spec, 0, 10), TURN + 10 * SECTOR);
    assert_eq!(place(&spec, 0).angle, Nanos::ZERO);
}

#[test]
fn physical_sector_makes_a_write_that_covers_one_partly_a_revolution_longer() {
    let time = |start, sectors, physical| {
        let spec = with(&[("queue.depth", "1"), ("geometry.physical_sector", physical)]);
        tell(&spec, &[write(start, sectors)]).done[0].finish
    };
    let longer = |start, sectors| time(start, sectors, "4KiB") - time(start, sectors, "512B");
    assert_eq!([(80, 8), (80, 64), (0, 16)].map(|(start, sectors)| longer(start, sectors)), [Nanos::ZERO; 3]);
    // A beginning, an end, both in one sector and in two of a track: they pass in one revolution.
    let turn = Nanos::MILLISECOND * 10;
    for (start, sectors) in [(81, 7), (80, 9), (83, 2), (81, 30)] {
        assert_eq!(longer(start, sectors), turn, "{start}+{sectors}");
    }
    assert_eq!(longer(81, 600), turn * 2, "the ends are on two tracks");
    // Random writes on average, too.
    let mean = |offset, physical| {
        let mut random = Random::new(9);
        let writes: Vec<_> = (0..300).map(|_| write(random.below(300_000) * 8 + offset, 8)).collect();
        let spec = with(&[("queue.depth", "1"), ("geometry.physical_sector", physical)]);
        tell(&spec, &writes).done.last().unwrap().finish.as_secs_f64() / 300.0
    };
    let (aligned, unaligned) = (mean(0, "4KiB"), mean(1, "4KiB"));
    assert!(((unaligned - aligned) / 0.010 - 1.0).abs() < 0.1, "{unaligned} instead of {aligned} s");
    assert_eq!(mean(0, "4KiB"), mean(0, "512B"));
}

#[test]
fn physical_sector_in_the_buffer_need_not_be_read() {
    let spec = with(&[("geometry.physical_sector", "4KiB"), ("queue.depth", "1")]);
    let (cold, warm) =
        (tell(&spec, &[read(800, 8), write(81, 7)]), tell(&spec, &[read(80, 8), write(81, 7)]));
    let times = [cold, warm].map(|story| story.accesses()[1].rotation.0 / 10_000_000);
    assert_eq!(times, [1, 0], "whole revolutions before the write");
}
