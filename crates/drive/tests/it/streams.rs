//! Commands that continue one another: queued streams run at the rate of the medium, under any policy.

use crate::common::{
    CYLINDER, SECTOR, TRACK, TURN, a_turn, at, flush, order, read, run_iter, sustained, tell, with, write,
    writing,
};
use sakiyomi_drive::replay::{Arrival, Pace};
use sakiyomi_drive::spec::{BUILTIN, DriveSpec};
use sakiyomi_model::Nanos;

const POLICIES: [&str; 5] = ["fcfs", "sstf", "look", "c_look", "sptf"];
const KIB: u64 = 2;
const LENGTH: u64 = (16 << 10) * KIB;

/// Checks that a stream of `LENGTH` with queue depth `depth` takes no longer than at the sustained rate plus one
/// positioning.
fn runs_at_the_rate_of_the_medium(
    spec: &DriveSpec,
    rate: f64,
    (sectors, depth): (u64, usize),
    stream: impl Fn(u64, u64) -> Arrival,
) {
    let count = LENGTH.div_ceil(sectors);
    let arrivals = (0..count).map(|i| stream(i * sectors, sectors));
    let (summary, host) = run_iter(spec, Pace::Closed { outstanding: depth }, arrivals);
    assert_eq!(summary.tally.counts.commands, count);
    let (took, ideal) = (host.end.as_secs_f64(), (count * sectors * 512) as f64 / rate);
    let positioning = 60.0 / spec.servo.rpm + 0.002;
    assert!(
        (ideal * 0.99..ideal * 1.01 + positioning).contains(&took),
        "{} {:?}, {depth} of {sectors} sectors: {:.1} ms, at the rate of the medium {:.1} ms",
        spec.name,
        spec.queue.policy,
        took * 1e3,
        ideal * 1e3
    );
}

fn with_policy(mut spec: DriveSpec, policy: &str) -> DriveSpec {
    spec.set("queue.policy", policy).unwrap();
    spec.set("queue.depth", "32").unwrap();
    spec.check().unwrap();
    spec
}

#[test]
fn queued_reads_in_sequence_run_at_the_rate_of_the_medium_under_every_policy_on_every_builtin_drive() {
    for builtin in BUILTIN {
        let rate = sustained(&builtin.spec());
        for policy in POLICIES {
            let spec = with_policy(builtin.spec(), policy);
            for queued in [(128, 8), (400, 32), (2048, 2), (2048, 8)] {
                runs_at_the_rate_of_the_medium(&spec, rate, queued, read);
            }
        }
    }
}

#[test]
fn queued_writes_in_sequence_run_at_the_rate_of_the_medium_without_a_cache() {
    for policy in POLICIES {
        let spec = with_policy(with(&[]), policy);
        for queued in [(8, 2), (128, 4), (2048, 2), (2048, 32)] {
            runs_at_the_rate_of_the_medium(&spec, sustained(&spec), queued, write);
        }
    }
}

#[test]
fn no_builtin_drive_lets_a_queued_stream_keep_it_for_good() {
    const OTHER: u64 = 3;
    for builtin in BUILTIN {
        let spec = builtin.spec();
        let four_seconds = (4.0 * sustained(&spec) / 512.0) as u64;
        let mut arrivals: Vec<_> = (0..four_seconds / 2048).map(|i| read(i * 2048, 2048)).collect();
        arrivals.insert(OTHER as usize, read(2 * four_seconds, 8));
        let took = tell(&spec, &arrivals).of(OTHER).device_time();
        assert!(took < Nanos::from_secs_f64(3.5), "{}: {:.1} s", builtin.id, took.as_secs_f64());
    }
}

#[test]
fn what_goes_on_where_another_one_ends_is_not_begun_with() {
    let [before, behind, elsewhere] = [(20, 80), (100, 50), (300, 1)].map(|(s, n)| read(TRACK + s, n));
    // Alone, the second read is reached nine tenths of a revolution sooner than the first.
    let apart = read(TRACK + 20, 79);
    assert_eq!(order(&[], &[a_turn(), apart, behind]), [0, 2, 1]);
    assert_eq!(order(&[], &[a_turn(), before, behind]), [0, 1, 2]);
    assert_eq!(order(&[], &[a_turn(), behind, before]), [0, 2, 1]);
    let story = tell(&with(&[("geometry.zones.0.track_skew", "0")]), &[a_turn(), behind, before]);
    assert_eq!(story.finish(1), 2 * TURN + 150 * SECTOR, "both in one access");
    // Continued commands are compared by the position of the first of them.
    assert_eq!(order(&[], &[a_turn(), before, behind, elsewhere]), [0, 3, 1, 2]);
    // An overdue command goes first, even from the middle of a stream.
    let late = [a_turn(), behind, at(9.0, before)];
    assert_eq!(order(&[("queue.age_limit", "5ms")], &late), [0, 1, 2]);
    assert_eq!(order(&[("queue.policy", "fcfs")], &late), [0, 1, 2]);
    // A command that is not ready yet has no successor. The read of a revolution begins after one and ends after two.
    let processed = |arrives| {
        let arrivals = [a_turn(), at(1.1, behind), at(arrives, before)];
        order(&[("interface.overhead.read_miss", "1ms")], &arrivals)
    };
    assert_eq!((processed(18.9), processed(19.1)), (vec![0, 2, 1], vec![0, 1, 2]));
}

#[test]
fn a_sweep_outwards_reads_a_stream_from_its_beginning() {
    // 40 tracks outside of the arm's position, requested cylinder by cylinder.
    let stream: Vec<_> = (0..10).map(|i| at(1.0, read((100 + i) * CYLINDER, CYLINDER))).collect();
    let arrivals: Vec<_> = [read(1000 * CYLINDER, 1)].into_iter().chain(stream).collect();
    let story = tell(&with(&[("queue.policy", "look")]), &arrivals);
    assert_eq!(story.order(), (0..=10).collect::<Vec<_>>());
    assert_eq!(story.usage.seeks.read, 2);
}

/// Returns a stream of reads of a tenth of a revolution, each issued before the previous one has ended, and a read
/// elsewhere.
fn stream_and_another(pieces: u64) -> Vec<Arrival> {
    let piece = |i: u64| at(if i < 2 { 0.0 } else { (i - 1) as f64 - 0.5 }, read(i * TRACK / 10, TRACK / 10));
    let mut all: Vec<_> = (0..pieces).map(piece).collect();
    all.push(at(2.0, read(CYLINDER, 1)));
    all.sort_by_key(|arrival| arrival.at);
    all
}

/// Returns how many reads of the stream finished before the read elsewhere.
fn pieces_before(settings: &[(&str, &str)]) -> usize {
    let arrivals = stream_and_another(40);
    let other = arrivals.iter().position(|arrival| arrival.extent.start.0 == CYLINDER).unwrap() as u64;
    let mut all = vec![("geometry.zones.0.track_skew", "0")];
    all.extend(settings);
    tell(&with(&all), &arrivals).order().iter().position(|id| *id == other).unwrap()
}

#[test]
fn first_come_first_served_holds_for_a_stream_too() {
    // Reads 0 to 2 arrived before it, at 0, 0 and 0.5 ms, and read 3 at 1.5 ms.
    assert_eq!(pieces_before(&[("queue.policy", "fcfs")]), 4);
    for policy in ["sstf", "look", "c_look", "sptf"] {
        assert_eq!(pieces_before(&[("queue.policy", policy)]), 40, "{policy}: the arm need not move");
    }
}

#[test]
fn age_outweighs_a_stream_as_it_outweighs_a_near_command() {
    let [none, little, much] = ["0", "0.5", "5"].map(|weight| pieces_before(&[("queue.age_weight", weight)]));
    assert_eq!(none, 40);
    assert!(4 < much && much < little && little < 40, "{much}, {little}");
}

#[test]
fn a_read_whose_beginning_has_come_while_it_waits_is_weighed_by_what_is_missing() {
    let ahead = [("cache.read_ahead.mode", "fixed"), ("cache.read_ahead.max", "25600B")];
    let mut settings = vec![("geometry.zones.0.track_skew", "0"), ("cache.read_ahead.min", "25600B")];
    settings.extend(ahead);
    let arrivals = |other| {
        [
            // Reads on to sector 150 in any case.
            read(0, 100),
            // Prevents reads from joining, and then moves the head to sector 300 of the next track.
            at(0.1, write(TRACK + 300, 1)),
            at(0.5, flush()),
            // Begins within the read-ahead: its sectors from 150 on are missing.
            at(2.5, read(120, 100)),
            at(2.5, read(2 * TRACK + other, 1)),
        ]
    };
    let order = |other| tell(&writing(&settings), &arrivals(other)).order();
    assert_eq!(order(149), [1, 0, 2, 4, 3], "a sector before what is missing");
    assert_eq!(order(151), [1, 0, 2, 3, 4], "a sector behind it");
}
