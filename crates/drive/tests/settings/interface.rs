//! The way to the host, and command processing.

use sakiyomi_drive::replay::Arrival;
use sakiyomi_drive::spec::DriveSpec;

use crate::common::{
    ACTIVE_HIT, MEDIA, SECTOR, TRACK, TURN, apart, at, discard, flush, fua, read, tell, with, write, writing,
};

pub(crate) const KEYS: &[&str] = &[
    "interface.link_rate",
    "interface.overlap",
    "interface.immediate_partial",
    "interface.overhead.read_hit",
    "interface.overhead.read_hit.after_read",
    "interface.overhead.read_hit.after_write",
    "interface.overhead.read_miss",
    "interface.overhead.read_miss.after_read",
    "interface.overhead.read_miss.after_write",
    "interface.overhead.write_hit",
    "interface.overhead.write_hit.after_read",
    "interface.overhead.write_hit.after_write",
    "interface.overhead.write_miss",
    "interface.overhead.write_miss.after_read",
    "interface.overhead.write_miss.after_write",
    "interface.overhead.control",
    "interface.overhead.control.after_read",
    "interface.overhead.control.after_write",
    "interface.overhead.completion",
];

const MICROSECOND: u64 = 1_000;

#[test]
fn link_rate_is_what_a_hit_costs() {
    for (rate, sector_ns) in [("512MB", 1_000), ("51200kB", 10_000)] {
        let story = tell(&with(&[("interface.link_rate", rate)]), &apart(&[read(0, 100), read(0, 100)]));
        assert_eq!(story.took(1), 100 * sector_ns);
        assert_eq!(
            story.finish(0),
            100 * SECTOR + sector_ns,
            "of a miss only the last sector's transfer shows"
        );
    }
}

#[test]
fn the_link_carries_one_transfer_at_a_time() {
    let hits = [read(0, 100), at(100.0, read(0, 100)), at(100.0, read(50, 50))];
    let story = tell(&with(&[("interface.link_rate", "512MB")]), &hits);
    assert_eq!((story.took(1), story.took(2)), (100 * MICROSECOND, 150 * MICROSECOND));
}

#[test]
fn overlap_sends_data_to_the_host_while_the_rest_is_read() {
    let took = |rate, overlap| {
        tell(&with(&[("interface.link_rate", rate), ("interface.overlap", overlap)]), &[read(50, 100)])
            .took(0)
    };
    // A fast link: 1 µs a sector.
    assert_eq!(took("512MB", "true"), 150 * SECTOR + MICROSECOND);
    assert_eq!(took("512MB", "false"), 150 * SECTOR + 100 * MICROSECOND);
    // A link half as fast as the medium: from the first sector on it is never idle.
    assert_eq!(took("12800kB", "true"), 50 * SECTOR + 100 * 2 * SECTOR);
    assert_eq!(took("12800kB", "false"), 150 * SECTOR + 100 * 2 * SECTOR);
}

#[test]
fn overlap_writes_the_first_sectors_while_the_rest_is_on_its_way() {
    // 1 ms a sector: all 8 are there after 8 ms, just when sector 400 passes. The write needs 0.16 ms.
    let took = |overlap, lba| {
        tell(&with(&[("interface.link_rate", "512kB"), ("interface.overlap", overlap)]), &[write(lba, 8)])
            .took(0)
    };
    assert_eq!(took("true", 395), 403 * SECTOR);
    assert_eq!(took("false", 395), TURN + 403 * SECTOR);
    assert_eq!(took("true", 391), TURN + 399 * SECTOR, "its last sector would pass before it is there");
}

#[test]
fn immediate_partial_sends_the_cached_part_while_the_rest_is_fetched() {
    // 20 µs a sector on the link. Of 200 sectors the first 100 are cached; the others pass from 2 ms to 4 ms.
    let took = |rate, partial| {
        let spec = with(&[("interface.link_rate", rate), ("interface.immediate_partial", partial)]);
        tell(&spec, &apart(&[read(0, 100), read(0, 200)])).took(1)
    };
    assert_eq!(took("25600kB", "true"), 200 * SECTOR + SECTOR);
    assert_eq!(took("25600kB", "false"), 100 * SECTOR + 200 * SECTOR);
}

#[test]
fn immediate_partial_does_not_send_what_has_not_come_yet() {
    // 40 µs a sector: the 50 cached ones are over after 2 ms. The others begin to pass after 6 ms, faster than the
    // link takes them; in between it has nothing to send.
    let spec = with(&[("interface.link_rate", "12800kB"), ("cache.read_ahead.mode", "off")]);
    let story = tell(&spec, &apart(&[read(250, 50), read(250, 150)]));
    assert_eq!(story.took(1), 300 * SECTOR + 100 * 2 * SECTOR);
}

/// An overhead as it shows up in a command's account: the command `before` it, and the `setup`, are long over.
fn overhead(settings: &[(&str, &str)], setup: Arrival, before: Arrival, command: Arrival) -> u64 {
    let mut all = vec![("interface.link_rate", "1000TiB")]; // nothing that could be measured
    all.extend(settings);
    tell(&writing(&all), &apart(&[setup, before, command])).of(2).breakdown.overhead.0
}

/// Checks a kind's three keys: one duration for all, and two by the command before.
fn check_kind([key, after_read, after_write]: [&str; 3], command: Arrival) {
    let (setup, a_read, a_write) = (read(0, 8), read(40_000, 1), write(40_000, 1));
    let took = |settings: &[(&str, &str)], before| overhead(settings, setup, before, command);
    assert_eq!(took(&[(key, "70us")], a_read), 70 * MICROSECOND);
    assert_eq!(took(&[(key, "70us")], a_write), 70 * MICROSECOND);
    let apart = [(key, "70us"), (after_read, "30us"), (after_write, "90us")];
    assert_eq!(took(&apart, a_read), 30 * MICROSECOND);
    assert_eq!(took(&apart, a_write), 90 * MICROSECOND);
    assert_eq!(took(&apart, flush()), 30 * MICROSECOND, "a flush is no write");
    assert_eq!(took(&apart[..2], a_write), 70 * MICROSECOND, "the other one keeps its value");
}

#[test]
fn read_hit_overhead_is_charged_by_the_command_before() {
    check_kind(
        [
            "interface.overhead.read_hit",
            "interface.overhead.read_hit.after_read",
            "interface.overhead.read_hit.after_write",
        ],
        read(0, 8),
    );
}

#[test]
fn read_miss_overhead_is_charged_by_the_command_before() {
    check_kind(
        [
            "interface.overhead.read_miss",
            "interface.overhead.read_miss.after_read",
            "interface.overhead.read_miss.after_write",
        ],
        read(80_000, 8),
    );
}

#[test]
fn write_hit_overhead_is_charged_by_the_command_before() {
    check_kind(
        [
            "interface.overhead.write_hit",
            "interface.overhead.write_hit.after_read",
            "interface.overhead.write_hit.after_write",
        ],
        write(80_000, 8),
    );
}

#[test]
fn write_miss_overhead_is_charged_by_the_command_before() {
    check_kind(
        [
            "interface.overhead.write_miss",
            "interface.overhead.write_miss.after_read",
            "interface.overhead.write_miss.after_write",
        ],
        fua(80_000, 8),
    );
}

#[test]
fn control_overhead_is_charged_by_the_command_before() {
    let keys = [
        "interface.overhead.control",
        "interface.overhead.control.after_read",
        "interface.overhead.control.after_write",
    ];
    check_kind(keys, discard(80_000, 8));
    // Also of a flush that had to wait for the write before it.
    check_kind(keys, flush());
}

#[test]
fn a_write_that_waited_for_room_is_charged_by_the_command_before_it() {
    let spec = writing(&[
        ("interface.overhead.write_hit", "70us"),
        ("interface.overhead.write_hit.after_read", "30us"),
    ]);
    let story = tell(&spec, &[write(0, 128), at(1.0, read(100_000, 1)), at(1.0, write(50_000, 1))]);
    assert_eq!(story.class(2), MEDIA);
    assert_eq!(story.of(2).breakdown.overhead.0, 30 * MICROSECOND);
}

#[test]
fn overhead_delays_the_arm_and_can_cost_a_turn() {
    let took = |time| tell(&with(&[("interface.overhead.read_miss", time)]), &[read(50, 1)]).took(0);
    assert_eq!(took("1ms"), 51 * SECTOR);
    assert_eq!(took("1.01ms"), TURN + 51 * SECTOR);
}

#[test]
fn completion_is_added_to_every_command() {
    let commands = apart(&[
        read(TRACK, 8),
        read(TRACK, 8),
        write(9_000, 8),
        fua(9_000, 8),
        discard(9_000, 8),
        flush(),
        read(1 << 60, 8),
    ]);
    let ahead = [read(0, 8), at(0.2, read(20, 8))];
    let both = |spec: DriveSpec| (tell(&spec, &commands), tell(&spec, &ahead));
    let ahead_on = ("cache.read_ahead.mode", "fixed");
    let (plain, plain_ahead) = both(writing(&[ahead_on]));
    let (later, later_ahead) = both(writing(&[ahead_on, ("interface.overhead.completion", "0.3ms")]));
    for request in 0..commands.len() as u64 {
        let class = plain.class(request);
        assert_eq!(later.took(request), plain.took(request) + 300 * MICROSECOND, "{}", class.name());
    }
    assert_eq!(plain_ahead.class(1), ACTIVE_HIT);
    assert_eq!(later_ahead.took(1), plain_ahead.took(1) + 300 * MICROSECOND);
}
