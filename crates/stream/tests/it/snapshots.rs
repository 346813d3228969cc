//! Streams that are killed and resume from snapshots.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rand_pcg::Pcg64;
use sakiyomi_placement::{Group, Hop, Placement, Topology};
use sakiyomi_stream::adapt::events::{Event, EventKind};
use sakiyomi_stream::adapt::{AdaptSettings, Finished, Status};
use sakiyomi_stream::{
    OperatorKind, OperatorSnapshot, PendingSnapshot, Recover, Running, Settings, Sink, Snapshot, Stream,
    StreamBuilder, Tuple, each,
};

use crate::graph::{OPERATORS, check_cut, expected, graph, relocate};
use crate::inputs::{Numbers, below, hush_poison, random, seeds};

const WORKERS: usize = 3;

/// Changes and snapshots in a life of a stream at most.
const LIFE_EVENTS_MAX: usize = 12;

/// Tuples of the source before the next event at most.
const EVENT_GAP_MAX_TUPLES: usize = 2_000;

/// Writes a snapshot and reads it back, as a file would.
fn written_and_read(snapshot: &Snapshot) -> Snapshot {
    let operators = snapshot.operators.iter().map(|operator| {
        let kind = OperatorKind::from_name(operator.kind.name()).unwrap();
        OperatorSnapshot::from_bytes(&operator.name, kind, &operator.to_bytes()).unwrap()
    });
    Snapshot { operators: operators.collect(), ..snapshot.clone() }
}

fn start(stream: Stream, from: Option<&Snapshot>, random: &mut Pcg64) -> Running {
    let workers: Vec<usize> = stream.names().map(|_| below(random, WORKERS)).collect();
    match from {
        Some(snapshot) => {
            stream.start_from(Settings::unpinned(WORKERS), &workers, &written_and_read(snapshot))
        }
        None => stream.start(Settings::unpinned(WORKERS), &workers),
    }
    .unwrap()
}

/// Waits until the source has emitted some more tuples.
fn pass_tuples(running: &Running, random: &mut Pcg64) {
    let emitted = || running.report().operators[0].tuples_in;
    let until = emitted() + below(random, EVENT_GAP_MAX_TUPLES) as u64;
    while emitted() < until {
        std::thread::yield_now();
    }
}

/// One life: random changes of the placement, and snapshots before, between and after them. Returns the last snapshot
/// that was complete.
fn live(running: &mut Running, random: &mut Pcg64) -> Option<Snapshot> {
    let (mut last, mut pending) = (None, Vec::<PendingSnapshot>::new());
    for _ in 0..below(random, LIFE_EVENTS_MAX) {
        match below(random, 4) {
            0 => pending.push(running.begin_snapshot()),
            1 => pending.drain(..).for_each(|pending| last = Some(pending.wait().unwrap())),
            2 => pass_tuples(running, random),
            _ => relocate(running, OPERATORS, WORKERS, random),
        }
    }
    let complete = pending.into_iter().filter(PendingSnapshot::is_complete);
    complete.map(|pending| pending.wait().unwrap()).last().or(last)
}

/// Kills the graph at random tuples, resumes it, and checks all snapshots and the results.
fn check_lives(random: &mut Pcg64) {
    hush_poison();
    let mut last: Option<Snapshot> = None;
    let (kills, burst) = (1 + below(random, 4), [0, 10, 100][below(random, 3)]);
    for life in 0..=kills {
        let is_enough = Arc::new(AtomicBool::new(false));
        let count_min = below(random, 5_000) as u64;
        let numbers =
            Numbers { next: 0, count_min, is_enough: Arc::clone(&is_enough), burst, is_pausing: false };
        let (stream, results) = graph(numbers, 1 + below(random, 40));
        let mut running = start(stream, last.as_ref(), random);
        let snapshot = live(&mut running, random);
        snapshot.iter().for_each(check_cut);
        let before = last.as_ref().map_or(0, |last| last.operators[0].progress.tuples);
        if life < kills {
            last = snapshot.or(last);
            continue; // which drops the stream
        }
        is_enough.store(true, Ordering::Relaxed);
        let report = running.finish().unwrap();
        let count = before + report.operators[0].tuples_out;
        let [first, second] = results.map(|result| result.lock().unwrap().expect("the end has come"));
        assert_eq!([first, second.as_set()], expected(count), "{count} tuples");
        assert!(report.operators.iter().all(|operator| operator.sequence_violations == 0), "{report:?}");
        assert!(report.failures.is_empty(), "{:?}", report.failures);
    }
}

#[test]
fn a_stream_that_resumes_ends_as_one_that_was_not_killed() {
    for seed in seeds(if cfg!(debug_assertions) { 12 } else { 300 }) {
        check_lives(&mut random(seed));
    }
}

/// Keeps what it receives by its number, over all lives.
struct Log(Arc<Mutex<BTreeMap<u64, u64>>>);

impl Recover for Log {}

impl Sink for Log {
    type In = u64;

    fn consume(&mut self, tuple: Tuple<u64>) {
        let before = self.0.lock().unwrap().insert(tuple.sequence, tuple.value);
        assert!(before.is_none_or(|before| before == tuple.value), "another tuple of this number");
    }
}

#[test]
fn tuples_since_the_snapshot_come_again_with_the_same_numbers_and_none_is_missing() {
    let (log, mut last) = (Arc::new(Mutex::new(BTreeMap::new())), None);
    for life in 0..6 {
        let random = &mut random(life);
        let builder = StreamBuilder::new(8);
        let numbers = Numbers { is_enough: Arc::new((life == 5).into()), ..Numbers::count(50_000) };
        let numbers = builder.source("numbers", numbers);
        let same = numbers.then("same", each(|n: u64, out| out.emit(n)));
        same.sink("log", Log(Arc::clone(&log)));
        let mut running = start(builder.build().unwrap(), last.as_ref(), random);
        if life == 5 {
            running.finish().unwrap();
            break;
        }
        pass_tuples(&running, random);
        last = Some(running.snapshot().unwrap());
        pass_tuples(&running, random);
    }
    let log = log.lock().unwrap();
    assert!(log.iter().all(|(sequence, value)| sequence == value));
    // A watermark takes the number of the value in place of which it is emitted.
    let count = log.keys().last().unwrap() + 1;
    assert!(count >= 50_000 && (0..count).all(|number| log.contains_key(&number) == (number % 2_000 != 999)));
}

#[test]
fn a_stream_that_had_ended_resumes_as_ended() {
    hush_poison();
    let (stream, _) = graph(Numbers::count(3_000), 16);
    let mut running = stream.start(Settings::unpinned(2), &[0, 0, 1, 1, 0, 0, 1, 0, 0]).unwrap();
    let has_ended = |snapshot: &Snapshot| snapshot.operators.iter().all(|saved| saved.progress.has_ended);
    let mut snapshot = running.snapshot().unwrap();
    while !has_ended(&snapshot) {
        snapshot = running.snapshot().unwrap();
    }
    check_cut(&Snapshot { operators: without_end(&snapshot), ..snapshot.clone() });
    let (stream, results) = graph(Numbers::count(9_000), 16);
    let report = stream.start_from(Settings::unpinned(1), &[0; OPERATORS], &snapshot).unwrap();
    assert!(report.finish().unwrap().operators.iter().all(|operator| operator.tuples_in == 0));
    assert!(results.iter().all(|result| result.lock().unwrap().is_none()), "`end` is not called again");
}

/// The placement with which a stream that adapts has begun.
fn first_placement(events: &[Event], status: &Status) -> Placement {
    let from = events.iter().find_map(|event| match &event.kind {
        EventKind::PlanChanged { from, .. } => Some(from.clone()),
        _ => None,
    });
    from.unwrap_or_else(|| status.placement.clone())
}

#[test]
fn a_stream_that_adapts_resumes_where_it_was_placed_and_ends_as_one_that_was_not_killed() {
    hush_poison();
    let workers = [0, 0, 0, 0, 0, 0, 1, 1, 1];
    let numbers = Numbers { is_enough: Arc::default(), ..Numbers::count(2_000) };
    let mut running = graph(numbers, 16).0.start(Settings::unpinned(2), &workers).unwrap();
    pass_tuples(&running, &mut random(1));
    let snapshot = running.snapshot().unwrap();
    assert_eq!(snapshot.workers, workers);
    drop(running);
    let split = Placement {
        groups: vec![
            Group { operators: (0..6).collect(), cores: vec![0] },
            Group { operators: (6..9).collect(), cores: vec![1] },
        ],
    };
    let settings = AdaptSettings { is_pinned: false, ..AdaptSettings::default() };
    for (cores, is_kept) in [(2, true), (1, false)] {
        let (stream, results) = graph(Numbers::count(9_000), 16);
        let topology = Topology::uniform(cores, Hop::FREE).unwrap();
        let adaptive = stream.start_adaptive_from(topology, settings.clone(), &snapshot).unwrap();
        let Finished { report, status, events } = adaptive.finish().unwrap();
        assert_eq!(first_placement(&events, &status) == split, is_kept, "{events:?}");
        let count = snapshot.operators[0].progress.tuples + report.operators[0].tuples_out;
        let [first, second] = results.map(|result| result.lock().unwrap().expect("the end has come"));
        assert_eq!([first, second.as_set()], expected(count), "{count} tuples");
    }
}

/// The operators of a snapshot, the last sink without the output of the join at its end.
fn without_end(snapshot: &Snapshot) -> Vec<OperatorSnapshot> {
    let mut operators = snapshot.operators.clone();
    let end = {
        let both = operators[7].state.as_ref().unwrap();
        let side = |at: usize| u64::from_le_bytes(both[at..at + 8].try_into().unwrap());
        crate::inputs::mix(side(0) ^ side(8))
    };
    let digest = operators[8].state.as_mut().unwrap();
    let number = |at: usize, digest: &[u8]| u64::from_le_bytes(digest[at..at + 8].try_into().unwrap());
    let (count, unordered) = (number(0, digest) - 1, number(16, digest).wrapping_sub(end));
    digest[..8].copy_from_slice(&count.to_le_bytes());
    digest[16..].copy_from_slice(&unordered.to_le_bytes());
    operators
}
