//! Guarantees of each kind of command: force unit access, flush, discard, and refused commands.

use crate::common::{
    ABSORBED, CYLINDER, FULL_HIT, MEDIA, PURE_MISS, SECTOR, TRACK, TURN, apart, at, bare, comes_round,
    discard, flush, fua, read, request, tell, with, write, writing,
};
use sakiyomi_drive::Drive;
use sakiyomi_drive::log::{CacheChange, DiskCause};
use sakiyomi_drive::replay::Arrival;
use sakiyomi_model::{Class, Device, Op, Outcome};

/// Returns a read that occupies the arm for the first revolution.
fn a_turn() -> Arrival {
    read(0, TRACK)
}

#[test]
fn force_unit_access_bypasses_the_cache() {
    let story = tell(&writing(&[]), &[fua(100, 8), at(100.0, read(100, 8))]);
    assert_eq!((story.class(0), story.finish(0)), (MEDIA, 108 * SECTOR));
    assert_eq!(story.accesses()[0].cause, DiskCause::Write);
    assert!(story.cache_events(CacheChange::Dirty).is_empty());
    assert_eq!(story.class(1), PURE_MISS, "nothing of it stays");
}

#[test]
fn force_unit_access_replaces_dirty_data_of_the_same_sectors() {
    let story = tell(&writing(&[]), &apart(&[write(100, 24), fua(108, 8), flush()]));
    let written: Vec<_> = story.destages().iter().map(|access| (access.lba.0, access.wanted.0)).collect();
    assert_eq!(written.len(), 2);
    assert!(written.contains(&(100, 8)) && written.contains(&(116, 8)), "what it did not cover: {written:?}");
}

#[test]
fn data_that_is_being_replaced_by_a_forced_write_is_still_flushed() {
    // The forced write waits for the revolution to end; a flush in the meantime must not report the older data as
    // durable.
    let story =
        tell(&writing(&[]), &[write(300, 8), at(1.0, a_turn()), at(2.0, fua(300, 8)), at(3.0, flush())]);
    let on_medium =
        story.accesses().iter().filter(|access| access.lba.0 == 300).map(|access| access.end.0).min();
    assert!(story.finish(3) >= on_medium.unwrap(), "{} before {on_medium:?}", story.finish(3));
}

#[test]
fn what_was_read_before_a_waiting_write_reached_the_medium_is_out_of_date() {
    // After the revolution the read's first sector passes before the write's: the old content is cached, then replaced.
    let [written, around, within] =
        [write(CYLINDER + 300, 8), read(CYLINDER + 290, 20), read(CYLINDER + 302, 2)];
    let story = tell(&bare(), &[a_turn(), at(1.0, written), at(2.0, around), at(100.0, within)]);
    assert!(story.finish(2) < story.finish(1), "the read goes first");
    assert_ne!(story.class(3), FULL_HIT);
}

#[test]
fn a_younger_write_survives_a_forced_one_that_came_before_it() {
    let story =
        tell(&writing(&[]), &[a_turn(), at(1.0, fua(300, 8)), at(2.0, write(300, 8)), at(60.0, flush())]);
    assert_eq!(story.destages().len(), 1, "the younger data goes to the medium after the forced write");
}

#[test]
fn flush_waits_for_older_dirty_data_and_for_every_part_of_a_split_write() {
    let spec = writing(&[("cache.write.destage_max", "20KiB")]);
    let story = tell(&spec, &[write(0, 100), write(CYLINDER, 8), at(1.0, flush())]);
    let destages = story.destages();
    let mut sectors: Vec<_> = destages.iter().map(|access| access.wanted.0).collect();
    sectors.sort_unstable();
    assert_eq!(sectors, [8, 20, 40, 40]);
    assert_eq!(story.finish(2), destages.iter().map(|access| access.end.0).max().unwrap());
    assert_eq!(story.class(2), Class::Flush);
}

#[test]
fn flush_does_not_wait_for_younger_data() {
    let story =
        tell(&writing(&[]), &[a_turn(), write(0, 8), at(1.0, flush()), at(2.0, write(1000 * CYLINDER, 8))]);
    assert_eq!(story.finish(2), TURN + 8 * SECTOR);
    assert_eq!(story.destages().len(), 1, "the younger write stays in the cache");
}

#[test]
fn flush_of_a_clean_cache_takes_its_overhead_alone() {
    let spec = writing(&[("interface.overhead.control", "0.2ms")]);
    assert_eq!(tell(&spec, &apart(&[read(0, 8), flush()])).took(1), 200_000);
}

#[test]
fn flush_goes_before_waiting_commands_and_before_a_stream_that_would_keep_the_arm() {
    // Successive reads of a millisecond each, joined to the access before, for 200 ms.
    let stream = (0..200).map(|i| at(0.9 * i as f64, read(50 * i, 50)));
    let mut commands: Vec<_> = stream.chain([at(1.0, write(3_000_000, 8)), at(2.0, flush())]).collect();
    commands.sort_by_key(|command| command.at);
    let flush = commands.iter().position(|command| command.op == Op::Flush).unwrap() as u64;
    for settings in [&[][..], &[("cache.read_ahead.mode", "fixed")]] {
        let story = tell(&writing(settings), &commands);
        // At most a read that has already arrived, a seek and a revolution.
        assert!(story.took(flush) < 30_000_000, "{}", story.of(flush).device_time());
    }
}

#[test]
fn data_too_old_goes_before_a_stream_that_would_keep_the_arm() {
    let stream = (0..200).map(|i| at(0.9 * i as f64, read(50 * i, 50)));
    let mut commands: Vec<_> = stream.chain([at(1.0, write(3_000_000, 8))]).collect();
    commands.sort_by_key(|command| command.at);
    let story = tell(&writing(&[("cache.write.max_age", "50ms")]), &commands);
    let start = story.destages()[0].start.0;
    // The stream arrives a little faster than it is read: reads that have already joined finish first.
    assert!((51_000_000..65_000_000).contains(&start), "{start}");
}

#[test]
fn a_write_that_waits_for_room_longer_than_the_age_limit_goes_before_such_a_stream() {
    let stream = (0..200).map(|i| at(0.9 * i as f64, read(50 * i, 50)));
    let writes = [at(1.0, write(3_000_000, 128)), at(2.0, write(3_100_000, 8))];
    let mut commands: Vec<_> = stream.chain(writes).collect();
    commands.sort_by_key(|command| command.at);
    let late = commands.iter().position(|command| command.extent.start.0 == 3_100_000).unwrap() as u64;
    let story = tell(&writing(&[("queue.age_limit", "50ms")]), &commands);
    assert!((50_000_000..90_000_000).contains(&story.took(late)), "{}", story.of(late).device_time());
}

#[test]
fn discard_drops_dirty_data_and_cached_reads() {
    let story = tell(&writing(&[]), &apart(&[write(0, 24), discard(8, 8), flush(), read(8, 8)]));
    let written: Vec<_> = story.destages().iter().map(|access| (access.lba.0, access.wanted.0)).collect();
    assert_eq!(written, [(0, 8), (16, 8)]);
    assert_eq!((story.class(1), story.class(3)), (Class::Discard, PURE_MISS));

    let spec = with(&[("cache.near_window", "0")]);
    assert_eq!(tell(&spec, &apart(&[read(0, 8), discard(0, 8), read(0, 8)])).class(2), PURE_MISS);
    let rest = tell(&spec, &apart(&[read(0, 24), discard(0, 8), read(8, 16)]));
    assert_eq!(rest.class(2), FULL_HIT, "what it did not name stays");
}

#[test]
fn a_flush_ends_when_all_that_it_waits_for_is_discarded_or_written_through() {
    // The arm is busy for the first revolution.
    let dirty = at(1.0, write(40_000, 8));
    let story = tell(&writing(&[]), &[a_turn(), dirty, at(2.0, flush()), at(3.0, discard(40_000, 8))]);
    assert_eq!(story.finish(2), 3_000_000, "nothing is left to wait for");
    let story = tell(
        &writing(&[]),
        &[a_turn(), dirty, at(2.0, flush()), at(3.0, fua(40_000, 8)), at(4.0, read(0, 8))],
    );
    assert_eq!(story.done.len(), 5, "nothing hangs");
}

#[test]
fn a_write_that_waits_for_room_goes_on_when_a_discard_makes_room() {
    let commands =
        [a_turn(), at(1.0, write(40_000, 128)), at(2.0, write(80_000, 8)), at(3.0, discard(40_000, 128))];
    let story = tell(&writing(&[]), &commands);
    assert_eq!((story.class(1), story.class(2)), (ABSORBED, MEDIA));
    assert_eq!(story.finish(2), 3_000_000 + 4, "8 sectors over the link");
}

#[test]
fn what_lies_beyond_the_end_is_refused() {
    let capacity = Drive::new(&bare()).unwrap().capacity().0;
    for op in [Op::Read, Op::Write, Op::Discard] {
        let commands = [
            request(op, capacity - 8, 8),
            request(op, capacity - 7, 8),
            request(op, capacity, 1),
            request(op, u64::MAX, 1),
        ];
        let story = tell(&writing(&[]), &apart(&commands));
        let outcomes: Vec<_> = (0..4).map(|i| story.of(i).outcome).collect();
        assert_eq!(outcomes, [Outcome::Done, Outcome::Error, Outcome::Error, Outcome::Error], "{op:?}");
        assert!((1..4).all(|i| story.class(i) == Class::Refused));
    }
}

#[test]
fn a_read_or_write_of_nothing_is_refused_and_a_discard_of_nothing_is_done() {
    let story = tell(&bare(), &apart(&[read(5, 0), write(5, 0), discard(5, 0), read(5, 1)]));
    let outcomes: Vec<_> = (0..4).map(|i| story.of(i).outcome).collect();
    assert_eq!(outcomes, [Outcome::Error, Outcome::Error, Outcome::Done, Outcome::Done]);
}

#[test]
fn a_full_queue_refuses_and_the_host_keeps_what_it_refused() {
    let spec = with(&[("queue.depth", "2"), ("queue.policy", "fcfs")]);
    let commands: Vec<_> = (0..10).map(|i| read(i * CYLINDER, 1)).collect();
    let story = tell(&spec, &commands);
    assert_eq!(story.order(), (0..10).collect::<Vec<_>>());
    for later in 2..10 {
        assert_eq!(
            story.of(later).submitted,
            story.of(later - 2).finish,
            "as soon as one of the two is over"
        );
    }
}

#[test]
fn reading_what_is_on_its_way_to_the_medium_is_a_hit() {
    // The flush starts the access at once; sector 100 passes after 2 ms.
    let story = tell(&writing(&[]), &[write(100, 8), flush(), at(1.0, read(100, 8))]);
    assert_eq!(story.finish(1), comes_round(0, 100) + 8 * SECTOR);
    assert_eq!((story.class(2), story.took(2)), (FULL_HIT, 4));
}
