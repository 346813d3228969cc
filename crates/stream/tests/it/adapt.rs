//! A stream that adapts, on threads that are not pinned: what it ends as, and nothing about how quickly.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sakiyomi_placement::{Constraints, Hop, Topology};
use sakiyomi_stream::adapt::events::{EventKind, Reason};
use sakiyomi_stream::adapt::{AdaptSettings, Adaptive};
use sakiyomi_stream::{Emitter, Error, Flow, Next, Source, Stream, StreamBuilder, each};

use crate::inputs::{Collect, Collected, Numbers};

/// Operators that compute.
const BURNERS: usize = 3;

/// Time that each of them takes, at least.
const BURN: Duration = Duration::from_micros(100);

/// Time after which a test that waits for something gives up: for machines on which threads seldom run.
const PATIENCE: Duration = Duration::from_secs(120);

/// Numbers at equal intervals, which may be changed meanwhile; 0 ends them.
struct Paced {
    next: u64,
    due_ns: u64,
    interval_ns: Arc<AtomicU64>,
}

impl Source for Paced {
    type Out = u64;

    fn next(&mut self, now_ns: u64) -> Next<u64> {
        let interval_ns = self.interval_ns.load(Ordering::Relaxed);
        if interval_ns == 0 {
            return Next::End;
        }
        if self.due_ns > now_ns {
            return Next::At(self.due_ns);
        }
        let arrival_ns = self.due_ns;
        self.due_ns += interval_ns;
        self.next += 1;
        Next::Value { value: self.next - 1, arrival_ns }
    }
}

fn burn(number: u64, out: &mut Emitter<u64>) {
    let start = Instant::now();
    while start.elapsed() < BURN {
        std::hint::spin_loop();
    }
    out.emit(number);
}

type Output = Arc<Mutex<Collected<u64>>>;

/// A chain that computes, between a source and a sink.
fn chain(source: impl Source<Out = u64>) -> (Stream, Output) {
    let builder = StreamBuilder::new(256);
    let mut flow: Flow<u64> = builder.source("numbers", source);
    for number in 0..BURNERS {
        flow = flow.then(&format!("burn {number}"), each(burn));
    }
    let (collect, collected) = Collect::new();
    flow.sink("sink", collect);
    (builder.build().unwrap(), collected)
}

fn two_cores() -> Topology {
    Topology::uniform(2, Hop { send_ns: 50.0, receive_ns: 100.0, wake_ns: 2e4, waker_ns: 5e3, ..Hop::FREE })
        .unwrap()
}

fn settings() -> AdaptSettings {
    AdaptSettings { is_pinned: false, ..AdaptSettings::default() }
}

/// Waits until something is so; whether it has become so.
fn wait_until(adaptive: &Adaptive, is_so: impl Fn(&Adaptive) -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if is_so(adaptive) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// The cores in use after each change, and the reason of it.
fn changes(adaptive: &Adaptive) -> Vec<(usize, Reason)> {
    let change = |kind: &EventKind| match kind {
        EventKind::PlanChanged { reason, to, .. } => Some((to.cores_used(), *reason)),
        _ => None,
    };
    adaptive.events_since(0).iter().filter_map(|event| change(&event.kind)).collect()
}

#[test]
fn a_stream_that_one_core_cannot_hold_goes_on_to_two_and_loses_nothing() {
    // Two thirds more than one core can do.
    let interval_ns = Arc::new(AtomicU64::new(BURN.as_nanos() as u64 * BURNERS as u64 * 3 / 5));
    let (stream, collected) = chain(Paced { next: 0, due_ns: 0, interval_ns: Arc::clone(&interval_ns) });
    let adaptive = stream.start_adaptive(two_cores(), settings()).unwrap();
    assert_eq!(adaptive.status().placement.cores_used(), 1);
    assert!(wait_until(&adaptive, |adaptive| !changes(adaptive).is_empty()), "{:?}", adaptive.status());
    assert_eq!(changes(&adaptive)[0].0, 2, "{:?}", adaptive.events_since(0));
    // On a core each, or as far as this machine gives them: what has been told is what is.
    let (placement, segments) = adaptive.with_running(|running| {
        let segments: Vec<(usize, usize)> =
            running.segments().map(|(head, worker)| (head.0, worker)).collect();
        (changes(&adaptive), segments)
    });
    assert!(!placement.is_empty() && segments.len() > 1, "{segments:?}");
    interval_ns.store(0, Ordering::Relaxed);
    let finished = adaptive.finish().unwrap();
    let collected = collected.lock().unwrap();
    assert_eq!(collected.values, (0..finished.report.operators[0].tuples_out).collect::<Vec<_>>());
    assert_eq!(collected.ends, 1);
    assert!(finished.report.operators.iter().all(|operator| operator.sequence_violations == 0));
    assert!(finished.report.relocations.splits > 0);
    let last = finished.events.iter().rev().find_map(|event| match &event.kind {
        EventKind::PlanChanged { to, .. } => Some(to),
        _ => None,
    });
    assert_eq!(last, Some(&finished.status.placement));
}

#[test]
fn a_stream_that_ends_before_anything_is_known_ends_well() {
    let (stream, collected) = chain(Numbers::count(3));
    let finished = stream.start_adaptive(two_cores(), settings()).unwrap().finish().unwrap();
    assert_eq!(collected.lock().unwrap().values, [0, 1, 2]);
    assert_eq!(finished.status.placement.cores_used(), 1);
}

#[test]
fn a_stream_that_is_dropped_while_it_adapts_ends() {
    let interval_ns = Arc::new(AtomicU64::new(1_000));
    let (stream, _) = chain(Paced { next: 0, due_ns: 0, interval_ns });
    let adaptive = stream.start_adaptive(two_cores(), settings()).unwrap();
    assert!(wait_until(&adaptive, |adaptive| adaptive.status().rate_per_s.is_some()));
    drop(adaptive);
}

#[test]
fn a_rate_beyond_all_cores_is_told_and_what_arrives_is_processed_in_order() {
    let interval_ns = Arc::new(AtomicU64::new(BURN.as_nanos() as u64 / 20));
    let (stream, collected) = chain(Paced { next: 0, due_ns: 0, interval_ns: Arc::clone(&interval_ns) });
    let adaptive = stream.start_adaptive(two_cores(), settings()).unwrap();
    let is_told = |adaptive: &Adaptive| {
        let mut events = adaptive.events_since(0).into_iter();
        events.any(|event| matches!(event.kind, EventKind::Shortfall { .. }))
    };
    assert!(wait_until(&adaptive, is_told), "{:?}, {:?}", adaptive.status(), adaptive.events_since(0));
    interval_ns.store(0, Ordering::Relaxed);
    adaptive.finish().unwrap();
    let collected = collected.lock().unwrap();
    assert!(collected.values.iter().copied().eq(0..collected.values.len() as u64));
}

#[test]
fn settings_and_constraints_that_make_no_sense_are_errors() {
    let start = |settings: AdaptSettings| {
        chain(Numbers::count(1)).0.start_adaptive(two_cores(), settings).map(drop).unwrap_err()
    };
    let planner = sakiyomi_placement::Settings::default().with_utilization_max(2.0);
    assert!(matches!(start(AdaptSettings { planner, ..settings() }), Error::Planning(_)));
    let constraints = Constraints::default().reserve(7);
    assert!(matches!(start(AdaptSettings { constraints, ..settings() }), Error::Planning(_)));
    let control = sakiyomi_placement::ControlSettings::default().with_settle_ns(0);
    assert!(matches!(start(AdaptSettings { control, ..settings() }), Error::Planning(_)));
}

#[test]
fn operators_that_must_stay_begin_on_their_cores() {
    let constraints = Constraints::default().pin(0, 0).pin(BURNERS + 1, 1);
    let (stream, collected) = chain(Numbers::count(100));
    let adaptive = stream.start_adaptive(two_cores(), AdaptSettings { constraints, ..settings() }).unwrap();
    assert_eq!(adaptive.status().placement.cores_used(), 2);
    adaptive.finish().unwrap();
    assert_eq!(collected.lock().unwrap().values.len(), 100);
}
