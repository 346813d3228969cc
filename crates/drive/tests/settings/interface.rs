//! Effects of the link and command processing keys.

use sakiyomi_drive::replay::Arrival;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::{Extent, Sectors};

use crate::common::{
    ACTIVE_HIT, MEDIA, SECTOR, Story, TRACK, TURN, apart, at, discard, flush, fua, read, tell, with, write,
    writing,
};

pub(crate) const KEYS: &[&str] = &[
    "interface.link_rate",
    "interface.link_rate_write",
    "interface.overlap",
    "interface.read_watermark",
    "interface.immediate_partial",
    "interface.overhead.read_hit",
    "interface.overhead.read_hit.after_read",
    "interface.overhead.read_hit.after_write",
    "interface.overhead.read_hit.in_sequence",
    "interface.overhead.read_miss",
    "interface.overhead.read_miss.after_read",
    "interface.overhead.read_miss.after_write",
    "interface.overhead.read_miss.in_sequence",
    "interface.overhead.write_hit",
    "interface.overhead.write_hit.after_read",
    "interface.overhead.write_hit.after_write",
    "interface.overhead.write_hit.in_sequence",
    "interface.overhead.write_miss",
    "interface.overhead.write_miss.after_read",
    "interface.overhead.write_miss.after_write",
    "interface.overhead.write_miss.in_sequence",
    "interface.overhead.write_data",
    "interface.overhead.write_data.after_read",
    "interface.overhead.write_data.after_write",
    "interface.overhead.write_data.in_sequence",
    "interface.overhead.control",
    "interface.overhead.control.after_read",
    "interface.overhead.control.after_write",
    "interface.overhead.reconnect",
    "interface.overhead.completion",
    "interface.overhead.completion_write",
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
fn link_rate_write_is_the_way_from_the_host() {
    // 1 µs a sector to the host.
    let story = |rate: &[(&str, &str)], commands: &[Arrival]| {
        tell(&writing(&[&[("interface.link_rate", "512MB")], rate].concat()), &apart(commands))
    };
    let commands = [write(0, 100), read(0, 100)];
    for (rate, from_host) in [(&[][..], 100), (&[("interface.link_rate_write", "51200kB")][..], 1000)] {
        let story = story(rate, &commands);
        assert_eq!((story.took(0), story.took(1)), (from_host * MICROSECOND, 100 * MICROSECOND));
    }
    // A write to the medium: 100 sectors of 40 µs have arrived after 4 ms, and pass from 2 ms on.
    let slow = ("interface.link_rate_write", "12800kB");
    let forced = |rates: &[(&str, &str)], lba| story(rates, &[fua(lba, 100)]).finish(0);
    assert_eq!(
        (forced(&[], 5), forced(&[slow], 100), forced(&[slow], 99)),
        (105 * SECTOR, 200 * SECTOR, TURN + 199 * SECTOR)
    );
}

#[test]
fn read_watermark_is_how_much_must_have_come_before_it_goes_to_the_host() {
    // 40 µs per sector on the link, 20 µs under the head: the link determines the finish time.
    let took = |watermark, overlap| {
        let spec = with(&[
            ("interface.link_rate", "12800kB"),
            ("interface.read_watermark", watermark),
            ("interface.overlap", overlap),
        ]);
        tell(&spec, &[read(50, 100)]).took(0)
    };
    for (watermark, before) in [("0", 0), ("0.01", 0), ("0.25", 24), ("0.5", 49), ("0.509", 49), ("1", 99)] {
        assert_eq!(took(watermark, "true"), (50 + before) * SECTOR + 100 * 2 * SECTOR, "{watermark}");
        assert_eq!(took(watermark, "false"), 150 * SECTOR + 100 * 2 * SECTOR);
    }
}

#[test]
fn read_watermark_is_a_share_of_what_is_missing() {
    // 100 of 200 sectors are cached; half of the others have begun to pass with sector 149, at 2.98 ms.
    let took = |watermark, partial| {
        let spec = with(&[
            ("interface.link_rate", "12800kB"),
            ("interface.read_watermark", watermark),
            ("interface.immediate_partial", partial),
        ]);
        tell(&spec, &apart(&[read(0, 100), read(0, 200)])).took(1)
    };
    assert_eq!((took("0", "false"), took("0.5", "false")), (500 * SECTOR, (149 + 400) * SECTOR));
    // The cached part is sent at once, until 4 ms; the others follow it, or the watermark.
    assert_eq!((took("0", "true"), took("0.5", "true")), (400 * SECTOR, 400 * SECTOR));
    assert_eq!(took("1", "true"), 400 * SECTOR);
    let later = |watermark| {
        let spec = with(&[("interface.link_rate", "12800kB"), ("interface.read_watermark", watermark)]);
        tell(&spec, &apart(&[read(250, 50), read(250, 150)])).took(1)
    };
    assert_eq!((later("0"), later("0.5")), ((300 + 200) * SECTOR, (349 + 200) * SECTOR));
}

#[test]
fn read_watermark_holds_for_a_read_that_joins_a_read_ahead() {
    let took = |watermark| {
        let spec = with(&[
            ("interface.link_rate", "12800kB"),
            ("interface.read_watermark", watermark),
            ("cache.read_ahead.mode", "fixed"),
        ]);
        let story = tell(&spec, &[read(0, 8), at(1.0, read(100, 100))]);
        assert_eq!(story.class(1), ACTIVE_HIT);
        story.finish(1)
    };
    assert_eq!((took("0"), took("0.5")), ((100 + 200) * SECTOR, (149 + 200) * SECTOR));
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
    // A fast link: 1 µs per sector.
    assert_eq!(took("512MB", "true"), 150 * SECTOR + MICROSECOND);
    assert_eq!(took("512MB", "false"), 150 * SECTOR + 100 * MICROSECOND);
    // A link half as fast as the medium: it is never idle from the first sector on.
    assert_eq!(took("12800kB", "true"), 50 * SECTOR + 100 * 2 * SECTOR);
    assert_eq!(took("12800kB", "false"), 150 * SECTOR + 100 * 2 * SECTOR);
}

#[test]
fn overlap_writes_the_first_sectors_while_the_rest_is_on_its_way() {
    // 1 ms per sector: all 8 have arrived after 8 ms, just when sector 400 passes. The write needs 0.16 ms.
    let took = |overlap, lba| {
        tell(&with(&[("interface.link_rate", "512kB"), ("interface.overlap", overlap)]), &[write(lba, 8)])
            .took(0)
    };
    assert_eq!(took("true", 395), 403 * SECTOR);
    assert_eq!(took("false", 395), TURN + 403 * SECTOR);
    assert_eq!(took("true", 391), TURN + 399 * SECTOR, "its last sector would pass before it is there");
}

#[test]
fn overlap_lets_no_sector_of_a_write_pass_before_its_data_came_on_a_later_track_either() {
    // 22 µs per sector on the link, 20 µs under the head: 500 sectors have arrived after 11 ms. The last 8 of the first
    // track pass from 9.84 ms on; the next track, 50 sectors later, from 11 ms: its data has arrived from 0.198 ms on.
    let took = |overlap, rate, sectors| {
        let spec = with(&[("interface.link_rate", rate), ("interface.overlap", overlap)]);
        tell(&spec, &[write(492, sectors)]).took(0)
    };
    let next = |sectors| (TRACK + 50 + sectors - 8) * SECTOR;
    assert_eq!(took("true", "1TB", 20), next(20));
    // 0.5 ms per sector: 20 have arrived after 10 ms, 8 after 4 ms; the first track's end passes, and the next one's
    // start.
    assert_eq!(took("true", "1024kB", 20), next(20));
    // 30 have arrived after 15 ms, long after sector 21 of the next track passed: a revolution is lost, although its
    // first sectors were in time.
    assert_eq!(took("true", "1024kB", 30), TURN + next(30));
    // 22 have arrived after 11 ms, 23 after 11.5 ms; of the next track 14 pass until 11.28 ms, 15 until 11.3 ms.
    assert_eq!((took("true", "1024kB", 22), took("true", "1024kB", 23)), (next(22), TURN + next(23)));
    assert_eq!(took("false", "1024kB", 20), TURN + next(20), "all must be there when the arm sets out");
}

#[test]
fn immediate_partial_sends_the_cached_part_while_the_rest_is_fetched() {
    // 20 µs per sector on the link. The first 100 of 200 sectors are cached; the others pass from 2 ms to 4 ms.
    let took = |rate, partial| {
        let spec = with(&[("interface.link_rate", rate), ("interface.immediate_partial", partial)]);
        tell(&spec, &apart(&[read(0, 100), read(0, 200)])).took(1)
    };
    assert_eq!(took("25600kB", "true"), 200 * SECTOR + SECTOR);
    assert_eq!(took("25600kB", "false"), 100 * SECTOR + 200 * SECTOR);
}

#[test]
fn immediate_partial_does_not_send_what_has_not_come_yet() {
    // 40 µs per sector: the 50 cached ones are sent after 2 ms. The others begin to pass after 6 ms, faster than the
    // link transfers them; in between the link is idle.
    let spec = with(&[("interface.link_rate", "12800kB"), ("cache.read_ahead.mode", "off")]);
    let story = tell(&spec, &apart(&[read(250, 50), read(250, 150)]));
    assert_eq!(story.took(1), 300 * SECTOR + 100 * 2 * SECTOR);
}

/// Returns the overhead in a command's breakdown; `setup` and the command `before` it have long finished.
fn overhead(settings: &[(&str, &str)], setup: Arrival, before: Arrival, command: Arrival) -> u64 {
    let mut all = vec![("interface.link_rate", "1000TiB")]; // negligible transfer time
    all.extend(settings);
    tell(&writing(&all), &apart(&[setup, before, command])).breakdown(2).overhead.0
}

/// Checks a kind's first three keys: one duration for all, and two depending on the previous command.
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

/// Checks a kind's exception for a command that continues one of the same kind. `setup` is submitted first.
fn check_in_sequence(key: &str, in_sequence: &str, setup: Arrival, before: [Arrival; 2], command: Arrival) {
    let took = |settings: &[(&str, &str)], before| overhead(settings, setup, before, command);
    let exception = [(key, "70us"), (in_sequence, "20us")];
    let [continued, of_another_kind] = before;
    assert_eq!(took(&exception, continued), 20 * MICROSECOND);
    assert_eq!(took(&exception[..1], continued), 70 * MICROSECOND, "by default no exception");
    assert_eq!(took(&exception, of_another_kind), 70 * MICROSECOND, "of another kind");
    let mut gap = continued;
    gap.extent = Extent::new(gap.extent.start, gap.extent.sectors - Sectors(1));
    assert_eq!(took(&exception, gap), 70 * MICROSECOND, "it ended elsewhere");
    // The exception takes precedence over the times after a read or a write.
    let (after_read, after_write) = (format!("{key}.after_read"), format!("{key}.after_write"));
    let all = [(key, "70us"), (&after_read, "30us"), (&after_write, "90us"), (in_sequence, "20us")];
    assert_eq!(took(&all, continued), 20 * MICROSECOND);
}

#[test]
fn in_sequence_overhead_is_charged_where_a_command_goes_on() {
    let before = [read(39_992, 8), write(39_992, 8)];
    check_in_sequence(
        "interface.overhead.read_hit",
        "interface.overhead.read_hit.in_sequence",
        read(40_000, 8),
        before,
        read(40_000, 8),
    );
    check_in_sequence(
        "interface.overhead.read_miss",
        "interface.overhead.read_miss.in_sequence",
        read(0, 8),
        before,
        read(40_000, 8),
    );
    let before = [write(39_992, 8), read(39_992, 8)];
    check_in_sequence(
        "interface.overhead.write_hit",
        "interface.overhead.write_hit.in_sequence",
        read(0, 8),
        before,
        write(40_000, 8),
    );
    check_in_sequence(
        "interface.overhead.write_miss",
        "interface.overhead.write_miss.in_sequence",
        read(0, 8),
        before,
        fua(40_000, 8),
    );
}

#[test]
fn in_sequence_means_the_command_before_and_no_other() {
    let spec = with(&[
        ("interface.overhead.read_miss", "70us"),
        ("interface.overhead.read_miss.in_sequence", "20us"),
    ]);
    let overheads = |commands: &[Arrival]| {
        let story = tell(&spec, &apart(commands));
        (0..commands.len() as u64)
            .map(|request| story.breakdown(request).overhead.0 / MICROSECOND)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        overheads(&[read(0, 8), read(8, 8), read(16, 8)]),
        [70, 20, 20],
        "the first has none before it"
    );
    assert_eq!(overheads(&[read(0, 8), read(900, 8), read(8, 8)]), [70, 70, 70]);
    assert_eq!(overheads(&[read(8, 8), read(0, 8), read(8, 8)])[..2], [70, 70], "backwards is no sequence");
}

#[test]
fn write_data_overhead_is_when_the_data_of_a_write_is_asked_for() {
    let key = "interface.overhead.write_data";
    let (after_read, after_write) =
        ("interface.overhead.write_data.after_read", "interface.overhead.write_data.after_write");
    let in_sequence = "interface.overhead.write_data.in_sequence";
    // 0.1 ms on the link for the one sector. Without overlap the arm may move when it has arrived.
    let overhead_of = |settings: &[(&str, &str)], before: Arrival| {
        let all = [&[("interface.link_rate", "5120kB"), ("interface.overlap", "false")], settings].concat();
        tell(&writing(&all), &apart(&[before, fua(80_000, 1)])).breakdown(1).overhead.0
    };
    let (a_read, a_write, continued) = (read(40_000, 1), write(40_000, 1), fua(79_999, 1));
    let miss = ("interface.overhead.write_miss", "70us");
    assert_eq!(overhead_of(&[miss], a_read), 170 * MICROSECOND, "by default as write_miss");
    for (time, expected) in [("20us", 120), ("70us", 170), ("150us", 250), ("0", 100)] {
        assert_eq!(overhead_of(&[miss, (key, time)], a_read), expected * MICROSECOND);
        assert_eq!(overhead_of(&[miss, (key, time)], a_write), expected * MICROSECOND);
    }
    let apart = [miss, (key, "0"), (after_read, "30us"), (after_write, "90us"), (in_sequence, "50us")];
    let took = [a_read, a_write, continued].map(|before| overhead_of(&apart, before));
    assert_eq!(took, [130 * MICROSECOND, 190 * MICROSECOND, 150 * MICROSECOND]);
    assert_eq!(overhead_of(&apart[..4], continued), 190 * MICROSECOND);
    // Command processing must have finished as well.
    assert_eq!(
        overhead_of(&[("interface.overhead.write_miss", "0.5ms"), (key, "0")], a_read),
        500 * MICROSECOND
    );
}

#[test]
fn write_data_may_come_before_or_after_the_arm_sets_out() {
    // The sector takes 1 ms on the link, and the arm, already on its track, may move after 0.5 ms.
    let took = |asked, lba| {
        let spec = with(&[
            ("interface.link_rate", "512kB"),
            ("interface.overhead.write_miss", "0.5ms"),
            ("interface.overhead.write_data", asked),
        ]);
        tell(&spec, &[write(lba, 1)]).took(0)
    };
    assert_eq!((took("0.5ms", 75), took("0.5ms", 74)), (76 * SECTOR, TURN + 75 * SECTOR));
    assert_eq!((took("0", 50), took("0", 49)), (51 * SECTOR, TURN + 50 * SECTOR));
    assert_eq!((took("2ms", 150), took("2ms", 149)), (151 * SECTOR, TURN + 150 * SECTOR));
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
    // Also for a flush that had to wait for the write before it.
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
    assert_eq!(story.breakdown(2).overhead.0, 30 * MICROSECOND);
}

#[test]
fn overhead_delays_the_arm_and_can_cost_a_turn() {
    let took = |time| tell(&with(&[("interface.overhead.read_miss", time)]), &[read(50, 1)]).took(0);
    assert_eq!(took("1ms"), 51 * SECTOR);
    assert_eq!(took("1.01ms"), TURN + 51 * SECTOR);
}

#[test]
fn reconnect_comes_before_data_that_a_read_waited_for() {
    // 1 µs per sector on the link. Reconnection is hidden as long as data is still arriving.
    let finish = |time, overlap, reads: &[Arrival]| {
        let spec = with(&[
            ("interface.link_rate", "512MB"),
            ("interface.overlap", overlap),
            ("interface.overhead.reconnect", time),
        ]);
        let story = tell(&spec, &apart(reads));
        story.took(reads.len() as u64 - 1)
    };
    let miss = [read(50, 100)];
    assert_eq!(finish("0", "true", &miss), 150 * SECTOR + MICROSECOND);
    assert_eq!(finish("1ms", "true", &miss), 150 * SECTOR + MICROSECOND);
    assert_eq!(finish("3ms", "true", &miss), 50 * SECTOR + 3_000 * MICROSECOND + 100 * MICROSECOND);
    assert_eq!(finish("0", "false", &miss), 150 * SECTOR + 100 * MICROSECOND);
    assert_eq!(finish("3ms", "false", &miss), 150 * SECTOR + 3_000 * MICROSECOND + 100 * MICROSECOND);
    // Cached data is sent without reconnection.
    for overlap in ["true", "false"] {
        assert_eq!(finish("3ms", overlap, &[read(50, 100), read(50, 100)]), 100 * MICROSECOND);
    }
}

#[test]
fn reconnect_holds_for_the_rest_of_a_partial_hit_and_for_a_read_that_joins() {
    // The first 50 of 150 sectors are cached; the others pass from 6 ms to 8 ms.
    let partial = |time, immediate| {
        let spec = with(&[
            ("interface.link_rate", "512MB"),
            ("interface.immediate_partial", immediate),
            ("interface.overhead.reconnect", time),
        ]);
        tell(&spec, &apart(&[read(250, 50), read(250, 150)])).took(1)
    };
    let rest = 300 * SECTOR + 4_000 * MICROSECOND;
    assert_eq!(
        (partial("1ms", "true"), partial("1ms", "false")),
        (400 * SECTOR + MICROSECOND, 400 * SECTOR + MICROSECOND)
    );
    assert_eq!(
        (partial("4ms", "true"), partial("4ms", "false")),
        (rest + 100 * MICROSECOND, rest + 150 * MICROSECOND)
    );
    let joined = |time| {
        let spec = with(&[
            ("interface.link_rate", "512MB"),
            ("interface.overhead.reconnect", time),
            ("cache.read_ahead.mode", "fixed"),
        ]);
        let story = tell(&spec, &[read(0, 8), at(1.0, read(100, 100))]);
        assert_eq!(story.class(1), ACTIVE_HIT);
        story.finish(1)
    };
    assert_eq!(
        (joined("1ms"), joined("4ms")),
        (200 * SECTOR + MICROSECOND, 100 * SECTOR + 4_100 * MICROSECOND)
    );
}

#[test]
fn completion_write_is_that_of_writes_to_the_medium_alone() {
    let commands =
        apart(&[read(TRACK, 8), read(TRACK, 8), write(9_000, 8), fua(9_000, 8), discard(9_000, 8), flush()]);
    let story = |settings: &[(&str, &str)]| tell(&writing(settings), &commands);
    let all = ("interface.overhead.completion", "0.3ms");
    let (plain, same) = (story(&[]), story(&[all]));
    let apart = story(&[all, ("interface.overhead.completion_write", "0.8ms")]);
    let none = story(&[all, ("interface.overhead.completion_write", "0")]);
    for request in 0..commands.len() as u64 {
        let (own, without) = if request == 3 { (800, 0) } else { (300, 300) };
        let took = |story: &Story| story.took(request) - plain.took(request);
        assert_eq!(
            [took(&same), took(&apart), took(&none)],
            [300, own, without].map(|time| time * MICROSECOND),
            "{request}"
        );
    }
    assert_eq!(apart.breakdown(3).overhead.0 - plain.breakdown(3).overhead.0, 800 * MICROSECOND);
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
