//! Effects of the queue keys.

use sakiyomi_drive::Drive;
use sakiyomi_model::{Device, Extent, Lba, Nanos, Op, Request, RequestId, Sectors, StreamId};

use crate::common::{
    CYLINDER, SECTOR, TRACK, TURN, a_turn, at, flush, order, read, tell, with, write, writing,
};

pub(crate) const KEYS: &[&str] = &[
    "queue.depth",
    "queue.policy",
    "queue.age_weight",
    "queue.age_limit",
    "queue.window",
    "queue.rpo_margin",
    "queue.read_preference",
];

/// Returns a sector on the neighboring track, whose sector `n` passes after `n` × 20 µs, if that is more than the 1 ms
/// of the head switch.
fn next_track(sector: u64) -> u64 {
    TRACK + sector
}

#[test]
fn depth_is_how_many_commands_the_drive_takes() {
    for depth in [1, 3] {
        let mut drive = Drive::new(&with(&[("queue.depth", &depth.to_string())])).unwrap();
        let request = |id| Request {
            id: RequestId(id),
            stream: StreamId(0),
            op: Op::Read,
            fua: false,
            extent: Extent::new(Lba(id * CYLINDER), Sectors(1)),
            arrival: Nanos::ZERO,
        };
        let accepted = (0..depth).filter(|id| drive.submit(Nanos::ZERO, request(*id)).is_ok()).count();
        assert_eq!(accepted as u64, depth);
        let refused = drive.submit(Nanos::ZERO, request(9)).unwrap_err();
        assert_eq!(refused.0, request(9), "the request comes back as it was");
        // A command end frees a slot.
        let end = drive.next_event().unwrap();
        let mut done = Vec::new();
        let mut now = end;
        while done.is_empty() {
            drive.advance(now, &mut done);
            now = drive.next_event().unwrap_or(now);
        }
        assert!(drive.submit(done[0].finish.max(now), request(9)).is_ok());
    }
}

#[test]
fn policy_decides_the_order() {
    let cylinders = [1000, 1600, 1010, 850, 1300, 900];
    let reads = cylinders.map(|cylinder| read(cylinder * CYLINDER, 1));
    let expected = [
        ("fcfs", [0, 1, 2, 3, 4, 5]),
        // From 1010 the nearest is 900, then 850, then 1300.
        ("sstf", [0, 2, 5, 3, 4, 1]),
        // Inwards to the last, then back; or again from the outermost.
        ("look", [0, 2, 4, 1, 5, 3]),
        ("c_look", [0, 2, 4, 1, 3, 5]),
    ];
    for (policy, expected) in expected {
        assert_eq!(order(&[("queue.policy", policy)], &reads), expected, "{policy}");
    }
}

#[test]
fn sptf_takes_what_comes_round_first_where_sstf_takes_the_older_one() {
    let reads = [a_turn(), read(next_track(400), 1), read(next_track(100), 1)];
    assert_eq!(order(&[("queue.policy", "sstf")], &reads), [0, 1, 2]);
    assert_eq!(order(&[("queue.policy", "sptf")], &reads), [0, 2, 1]);
}

#[test]
fn age_weight_is_the_exchange_rate_of_waiting_for_positioning() {
    // After a revolution the older read has waited 9 ms longer and is 7 ms further away: it wins from a weight of 7/9
    // on.
    let reads = [a_turn(), read(next_track(450), 1), at(9.0, read(next_track(100), 1))];
    assert_eq!(order(&[("queue.age_weight", "0")], &reads), [0, 2, 1]);
    assert_eq!(order(&[("queue.age_weight", "0.777")], &reads), [0, 2, 1]);
    assert_eq!(order(&[("queue.age_weight", "0.778")], &reads), [0, 1, 2]);
}

#[test]
fn age_limit_bounds_the_wait_of_a_far_command_under_sptf() {
    let near = (0..40).map(|i| read((5 + i) * CYLINDER, 1));
    let far = 3_900_000;
    let reads: Vec<_> = [a_turn(), read(far, 1)].into_iter().chain(near).collect();
    let last = |limit: &str| {
        let story = tell(&with(&[("queue.depth", "64"), ("queue.age_limit", limit)]), &reads);
        let accesses = story.accesses();
        let place = accesses.iter().position(|access| access.lba.0 == far).unwrap();
        (place, accesses)
    };
    let (place, accesses) = last("0");
    assert_eq!(place, accesses.len() - 1, "without a limit the far one is always the worst choice");
    let limit = Nanos(30_000_000);
    let (place, accesses) = last("30ms");
    assert!(accesses[place].start > limit, "its time comes at the first command end after the limit");
    assert!(accesses[place - 1].start <= limit && place > 1, "which is not before the limit");
}

#[test]
fn window_hides_all_but_the_oldest_commands() {
    let reads = [a_turn(), read(next_track(400), 1), read(next_track(300), 1), read(next_track(100), 1)];
    assert_eq!(order(&[("queue.window", "1")], &reads), [0, 1, 2, 3]);
    // First 300 of 400 and 300; from there the older of the two waiting, because 400 now comes first.
    assert_eq!(order(&[("queue.window", "2")], &reads), [0, 2, 1, 3]);
    assert_eq!(order(&[("queue.window", "3")], &reads), [0, 3, 2, 1]);
}

#[test]
fn rpo_margin_gives_up_a_sector_that_comes_too_soon_after_the_arm() {
    // The head is on the next track after 1 ms, 0.1 ms before sector 55 and 1 ms before sector 100.
    let reads = [a_turn(), read(next_track(55), 1), read(next_track(100), 1)];
    assert_eq!(order(&[("queue.rpo_margin", "0")], &reads), [0, 1, 2]);
    assert_eq!(order(&[("queue.rpo_margin", "0.1ms")], &reads), [0, 1, 2]);
    assert_eq!(order(&[("queue.rpo_margin", "0.101ms")], &reads), [0, 2, 1]);
}

#[test]
fn rpo_margin_does_not_count_where_the_head_is_on_the_track() {
    // After nine tenths of the revolution sector 4 has been evicted from the buffer.
    let reads = [a_turn(), read(next_track(100), 1), at(9.0, read(4, 1))];
    assert_eq!(order(&[("queue.rpo_margin", "0.101ms")], &reads), [0, 2, 1]);
}

#[test]
fn rpo_margin_holds_for_dirty_data_too() {
    let first_written = |margin: &str| {
        let spec = writing(&[("geometry.zones.0.track_skew", "0"), ("queue.rpo_margin", margin)]);
        let two = [write(next_track(55), 1), write(next_track(100), 1), at(10.0, flush())];
        tell(&spec, &two).destages()[0].lba.0
    };
    assert_eq!((first_written("0.1ms"), first_written("0.101ms")), (next_track(55), next_track(100)));
}

#[test]
fn read_preference_is_how_much_worse_a_read_may_be_than_a_write() {
    // The write is reached after 2 ms, the read after 5 ms.
    let pair = [a_turn(), write(next_track(100), 1), read(next_track(250), 1)];
    assert_eq!(order(&[("queue.read_preference", "0")], &pair), [0, 1, 2]);
    assert_eq!(order(&[("queue.read_preference", "2.999ms")], &pair), [0, 1, 2]);
    assert_eq!(order(&[("queue.read_preference", "3.001ms")], &pair), [0, 2, 1]);
}

#[test]
fn read_preference_is_waiting_time_under_fcfs_and_seek_time_under_sstf() {
    let pair = [a_turn(), at(2.0, write(next_track(100), 1)), at(5.0, read(next_track(250), 1))];
    let fcfs = |preference| order(&[("queue.policy", "fcfs"), ("queue.read_preference", preference)], &pair);
    assert_eq!((fcfs("2.999ms"), fcfs("3.001ms")), (vec![0, 1, 2], vec![0, 2, 1]));
    // One cylinder for the write; three for the read, which take 1.606 ms (Lee's curve).
    let pair = [a_turn(), write(CYLINDER, 1), read(3 * CYLINDER, 1)];
    let sstf = |preference| order(&[("queue.policy", "sstf"), ("queue.read_preference", preference)], &pair);
    assert_eq!((sstf("0.05ms"), sstf("1ms")), (vec![0, 1, 2], vec![0, 2, 1]));
}

#[test]
fn read_preference_under_look_sweeps_over_the_reads_before_the_writes() {
    let cylinders = [1000, 1100, 900, 700, 1200];
    let mut commands = cylinders.map(|cylinder| read(cylinder * CYLINDER, 1));
    for write in [1, 4] {
        commands[write].op = Op::Write;
    }
    let look =
        |preference| order(&[("queue.policy", "look"), ("queue.read_preference", preference)], &commands);
    assert_eq!(look("0"), [0, 1, 4, 2, 3]);
    assert_eq!(look("1ms"), [0, 2, 3, 1, 4], "both reads lie behind: the sweep turns, nearest first");
}

#[test]
fn the_first_choice_costs_what_the_closed_form_says() {
    let reads = [a_turn(), read(next_track(400), 1), read(next_track(100), 1)];
    let story = tell(&with(&[("geometry.zones.0.track_skew", "0")]), &reads);
    assert_eq!(story.finish(0), TURN);
    assert_eq!(story.finish(2), TURN + 101 * SECTOR);
    assert_eq!(story.finish(1), TURN + 401 * SECTOR);
}
