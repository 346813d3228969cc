//! Predictions from recordings of storage that is known: of simulated programs whose events are made by hand.

use sakiyomi_drive::fixed::FixedSpec;
use sakiyomi_explain::record::MeasuredPlace;
use sakiyomi_explain::recording::{FileIndex, MeasuredStorage, Pattern, RecordedFile, ThreadState, Wait};
use sakiyomi_explain::remedies::{Remedy, remedies};
use sakiyomi_explain::replay::{IsCached, MetadataCost, Program, ProgramOptions};
use sakiyomi_explain::summary::summary;
use sakiyomi_explain::{Change, Ledger, PredictError, Present, Recording, Storage};
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_os::system_call::CallKind;
use sakiyomi_os::tracefs::{Activity, ActivityKind};

use crate::events::{DEVICE, call, event, exit, interrupted, range, recorded, switch};

const MS: u64 = 1_000_000;
/// Bytes of a read.
const READ: u64 = 4096;

/// Returns the recording of a program that makes `reads` scattered reads, each of which takes `latency`, and computes
/// for `computing` after each.
fn scattered(reads: u64, latency: u64, computing: u64) -> Recording {
    scattered_beside_another(reads, latency, computing, 0)
}

/// Like [`scattered`]; after each read, another program computes for `occupied` on the core.
fn scattered_beside_another(reads: u64, latency: u64, computing: u64, occupied: u64) -> Recording {
    let mut events: Vec<Activity> = vec![switch(0, 0, false, 10)];
    let mut now = 0;
    for index in 0..reads {
        // Far apart, in no order.
        let at = index * 7919 % reads * (1 << 20);
        events.push(event(now, 10, call(CallKind::Read, Some(3))));
        events.push(event(now, 10, ActivityKind::Adds(range(100, at, at + READ))));
        events.push(switch(now, 10, true, 99));
        now += latency;
        events.push(interrupted(now, 10));
        now += occupied;
        events.push(switch(now, 99, false, 10));
        events.push(event(now, 10, ActivityKind::Reads(range(100, at, at + READ))));
        now += computing;
    }
    events.push(exit(now, 10));
    let mut recording = recorded(&[10], &events, now);
    recording.files[0].size_bytes = Some(reads << 20);
    recording.storage = Some(MeasuredStorage {
        device: DEVICE,
        latency_ns: Nanos(latency),
        parallel: 32,
        bandwidth_bytes_per_s: 1_000_000_000,
        read_ahead_bytes: Some(128 << 10),
        wait_cpu_ns: Nanos::ZERO,
    });
    recording
}

fn assert_near(found: Nanos, expected: u64, ratio: f64) {
    let error = (found.0 as f64 - expected as f64).abs() / expected as f64;
    assert!(error <= ratio, "{found:?} for {expected} ns");
}

#[test]
fn the_latency_of_the_storage_is_found_and_another_one_predicted() {
    for (latency, computing) in [(10 * MS, MS), (MS, 5 * MS), (MS / 10, MS / 5)] {
        let recording = scattered(200, latency, computing);
        let present = Present::fit(&recording).unwrap();
        assert_near(present.storage.latency, latency, 0.05);
        assert!(present.error_ratio < 0.01, "{}", present.error_ratio);
        for other in [latency / 4, latency * 3] {
            let fixed = format!("latency={other}ns,parallel=32,bandwidth=1GB").parse().unwrap();
            let change = Change { storage: Storage::Fixed(fixed), ..Change::NONE };
            let prediction = present.predict(&change).unwrap();
            assert_near(prediction.elapsed, 200 * (other + computing), 0.03);
            assert!(
                prediction.low.0 <= 200 * (other + computing)
                    && 200 * (other + computing) <= prediction.high.0
            );
        }
    }
}

#[test]
fn the_cpu_time_of_a_wait_is_that_of_the_storage_which_is_waited_for() {
    // Of the computing after each read, a part is that of its wait.
    let (reads, latency, computing, wait_cpu) = (200, 10 * MS, 2 * MS, MS / 2);
    let mut recording = scattered(reads, latency, computing);
    recording.storage.as_mut().unwrap().wait_cpu_ns = Nanos(wait_cpu);
    let present = Present::fit(&recording).unwrap();
    assert_near(present.storage.latency, latency, 0.05);
    let predict = |storage| present.predict(&Change { storage, ..Change::NONE }).unwrap().elapsed;
    let fixed: FixedSpec = format!("latency={MS}ns,parallel=32,bandwidth=1GB").parse().unwrap();
    assert_near(predict(Storage::Fixed(fixed)), reads * (MS + computing), 0.03);
    let measured = MeasuredPlace { storage: fixed, wait_cpu: Nanos(MS / 10) };
    assert_near(predict(Storage::Measured(measured)), reads * (MS + computing - wait_cpu + MS / 10), 0.03);
    // Where nothing is waited for, it is gone.
    let bound = present.predict(&Remedy::NoWaiting.change()).unwrap();
    assert_near(bound.elapsed, reads * (computing - wait_cpu), 0.03);
}

#[test]
fn a_program_that_did_not_wait_does_not_tell_the_latency() {
    // Its file is cached. The replay is a little shorter than the program was, at any latency.
    let events = [
        switch(0, 0, false, 10),
        event(0, 10, call(CallKind::Read, Some(3))),
        event(MS, 10, ActivityKind::Reads(range(100, 0, READ))),
        exit(20 * MS, 10),
    ];
    let mut recording = recorded(&[10], &events, 20 * MS);
    recording.elapsed_ns = Nanos(21 * MS);
    let present = Present::fit(&recording).unwrap();
    assert_eq!(present.storage.latency, Present::LATENCY_MIN);
}

#[test]
fn a_core_that_another_program_uses_is_not_time_of_the_storage() {
    for (latency, occupied) in [(2 * MS, 3 * MS), (MS, 20 * MS)] {
        let mut recording = scattered_beside_another(100, latency, MS, occupied);
        recording.machine.cores = 1;
        let present = Present::fit(&recording).unwrap();
        assert_near(present.storage.latency, latency, 0.05);
        let bound = present.predict(&Remedy::NoWaiting.change()).unwrap();
        assert_near(bound.elapsed, 100 * (occupied + MS), 0.03);
    }
}

#[test]
fn a_core_that_the_own_threads_use_is_not_waited_for_twice() {
    // Two threads compute for 10 ms each on one core, in turns of 1 ms.
    let mut events = vec![switch(0, 0, false, 10), event(0, 10, ActivityKind::Starts(11))];
    for turn in 1..20 {
        let (from, to) = if turn % 2 == 1 { (10, 11) } else { (11, 10) };
        events.push(switch(turn * MS, from, false, to));
    }
    events.push(event(20 * MS, 11, ActivityKind::Wakes(10)));
    events.push(exit(20 * MS, 11));
    let mut recording = recorded(&[10], &events, 20 * MS);
    recording.machine.cores = 1;
    let options = ProgramOptions {
        device: DEVICE,
        metadata: MetadataCost::Recorded,
        sync_ratio: 1.0,
        prefetches: false,
        is_cached: IsCached::AsRecorded,
        recorded_wait_cpu: Nanos::ZERO,
        wait_cpu: Nanos::ZERO,
        keeps_served_waits: true,
    };
    let program = Program::new(&recording, &options);
    assert!(!format!("{program:?}").contains("Pause"), "{program:?}");
}

#[test]
fn a_thread_that_looks_again_and_again_waits_for_the_one_that_ends_its_wait() {
    // The reader takes 20 reads of 10 ms; its parent waits for it in turns of 7 ms.
    let (latency, turn, reads) = (10 * MS, 7 * MS, 20);
    let mut events = vec![switch(0, 0, false, 10), event(0, 10, ActivityKind::Starts(11))];
    let mut of_parent = vec![event(5, 10, call(CallKind::Lock, None)), switch(6, 10, true, 0)];
    for look in 1..=(reads * latency / turn) {
        let at = look * turn;
        of_parent.push(interrupted(at, 10));
        of_parent.push(switch(at + 1, 0, false, 10));
        of_parent.push(event(at + 2, 10, call(CallKind::Lock, None)));
        of_parent.push(switch(at + 3, 10, true, 0));
    }
    let mut of_reader = vec![switch(10, 0, false, 11)];
    for index in 0..reads {
        let (now, at) = (10 + index * latency, index * 7 % reads * (1 << 20));
        of_reader.push(event(now, 11, call(CallKind::Read, Some(3))));
        of_reader.push(event(now, 11, ActivityKind::Adds(range(100, at, at + READ))));
        of_reader.push(switch(now, 11, true, 0));
        of_reader.push(interrupted(now + latency, 11));
        of_reader.push(switch(now + latency, 0, false, 11));
        of_reader.push(event(now + latency, 11, ActivityKind::Reads(range(100, at, at + READ))));
    }
    let end = 10 + reads * latency;
    of_reader.extend([event(end, 11, ActivityKind::Wakes(10)), exit(end + 1, 11)]);
    events.extend(of_parent);
    events.extend(of_reader);
    events.sort_by_key(|event| event.time);
    events.extend([switch(end + 2, 0, false, 10), exit(end + 3, 10)]);
    let mut recording = recorded(&[10], &events, end + 3);
    recording.files[0].size_bytes = Some(reads << 20);
    let present = Present::fit(&recording).unwrap();
    assert_near(present.storage.latency, latency, 0.05);
    let fixed = "latency=1ms,parallel=32,bandwidth=1GB".parse().unwrap();
    let faster = Change { storage: Storage::Fixed(fixed), ..Change::NONE };
    assert_near(present.predict(&faster).unwrap().elapsed, reads * MS, 0.05);
}

#[test]
fn pages_of_a_mapping_that_were_loaded_with_others_are_read_ahead_as_well() {
    // Only the first page of each 32 is recorded: the others were there when they were touched.
    let (latency, window) = (10 * MS, 128 << 10);
    let mut events = vec![switch(0, 0, false, 10)];
    let mut now = 0;
    for index in 0..320 {
        let at = index * window;
        events.push(event(now, 10, ActivityKind::Faults(range(100, at, at + 4096))));
        events.push(event(now, 10, ActivityKind::Adds(range(100, at, at + window))));
        events.push(switch(now, 10, true, 0));
        now += latency;
        events.push(interrupted(now, 10));
        events.push(switch(now, 0, false, 10));
        now += MS / 10;
    }
    events.push(exit(now, 10));
    let mut recording = recorded(&[10], &events, now);
    recording.files[0].size_bytes = Some(320 * window);
    recording.storage = Some(MeasuredStorage {
        device: DEVICE,
        latency_ns: Nanos(latency),
        parallel: 32,
        bandwidth_bytes_per_s: 1_000_000_000,
        read_ahead_bytes: Some(window),
        wait_cpu_ns: Nanos::ZERO,
    });
    let present = Present::fit(&recording).unwrap();
    let prefetched = present.predict(&Remedy::Run.change()).unwrap();
    assert!(prefetched.elapsed.0 * 4 < now, "{prefetched:?} of {now}");
}

#[test]
fn many_small_files_of_a_tree_are_one_row_where_none_is_worth_its_own() {
    let mut recording = scattered(100, 10 * MS, MS / 10);
    let wait = |file| ThreadState::Waiting {
        wait: Wait::Read { file: FileIndex(file), pattern: Pattern::Scattered },
        woken_by: None,
    };
    let named = |index: usize| RecordedFile {
        device: DEVICE,
        name: Some(format!("/tree/{}/{index}", index % 9)),
        ..RecordedFile::default()
    };
    recording.files = (0..100).map(named).collect();
    let waits = recording.threads[0].spans.iter_mut();
    let waits = waits.filter(|span| matches!(span.state, ThreadState::Waiting { .. }));
    for (index, span) in waits.enumerate() {
        // One file is waited for as long as 20 others.
        span.state = wait(if index < 20 { 0 } else { index });
    }
    let rows = summary(&recording, &Ledger::of(&recording));
    let shown: Vec<(Option<&str>, usize)> =
        rows.iter().map(|row| (row.place.as_deref(), row.files)).collect();
    // Each directory has about nine files, a twelfth of the time.
    assert!(shown.contains(&(Some("/tree/0/0"), 1)), "{shown:?}");
    assert_eq!(shown.iter().map(|(_, files)| files).sum::<usize>(), 81);
    assert!(
        rows.iter().all(|row| row.place.is_none() || row.time.0 * 20 >= recording.elapsed_ns.0),
        "{rows:?}"
    );

    // Of many directories, each too small, the tree is the row.
    for (index, file) in recording.files.iter_mut().enumerate() {
        file.name = Some(format!("/tree/{index}/file"));
    }
    let rows = summary(&recording, &Ledger::of(&recording));
    let tree = rows.iter().find(|row| row.place.as_deref() == Some("/tree")).expect("the tree");
    assert_eq!(tree.files, 80);
}

#[test]
fn remedies_that_gain_nothing_are_not_worthwhile() {
    // Neither reading ahead nor a larger window knows the next of scattered reads.
    let recording = scattered(200, 10 * MS, MS);
    let present = Present::fit(&recording).unwrap();
    let all = remedies(&present, Bytes(128 << 10)).unwrap();
    // A run that has learned them does.
    let worthwhile: Vec<Remedy> = all
        .iter()
        .filter(|remedy| remedy.is_worthwhile(recording.elapsed_ns))
        .map(|remedy| remedy.remedy)
        .collect();
    assert_eq!(worthwhile, [Remedy::LearnedRun]);
    let bound = all.last().unwrap();
    assert_eq!(bound.remedy, Remedy::NoWaiting);
    assert_near(bound.prediction.elapsed, 200 * MS, 0.05);
}

#[test]
fn a_recording_from_which_nothing_can_be_predicted_says_why() {
    let computing = recorded(&[10], &[switch(0, 0, false, 10), exit(MS, 10)], MS);
    assert_eq!(Present::fit(&computing), Err(PredictError::NoFiles));
    let sampled = Recording { method: sakiyomi_explain::recording::Method::Sampled, ..scattered(10, MS, MS) };
    assert_eq!(Present::fit(&sampled), Err(PredictError::Sampled));
}

#[test]
fn a_pipeline_overlaps_in_a_replay_as_it_did() {
    // A reader hands each of 100 blocks to a consumer, which computes for as long as a read takes.
    let (latency, reads) = (2 * MS, 100);
    let mut events = vec![switch(0, 0, false, 10), event(0, 10, ActivityKind::Starts(11))];
    let mut now = 10;
    for index in 0..reads {
        let at = index * 37 % reads * (1 << 20);
        events.push(event(now, 10, call(CallKind::Read, Some(3))));
        events.push(event(now, 10, ActivityKind::Adds(range(100, at, at + READ))));
        events.push(switch(now, 10, true, 0));
        if index > 0 {
            // The consumer has the block before.
            events.push(switch(now + 1, 0, false, 11));
            events.push(event(now + latency - 10, 11, call(CallKind::Read, Some(5))));
            events.push(switch(now + latency - 5, 11, true, 0));
        }
        now += latency;
        events.push(interrupted(now, 10));
        events.push(switch(now, 0, false, 10));
        events.push(event(now + 1, 10, ActivityKind::Reads(range(100, at, at + READ))));
        events.push(event(now + 2, 10, call(CallKind::Write, Some(5))));
        events.push(event(now + 3, 10, ActivityKind::Wakes(11)));
        now += 10;
    }
    events.push(exit(now, 10));
    let mut recording = recorded(&[10], &events, now);
    recording.files[0].size_bytes = Some(reads << 20);
    let present = Present::fit(&recording).unwrap();
    assert_near(present.storage.latency, latency, 0.05);
    // With storage that takes no time, the consumer is the bound.
    let bound = present.predict(&Remedy::NoWaiting.change()).unwrap();
    assert_near(bound.elapsed, latency * (reads - 1), 0.03);
}
