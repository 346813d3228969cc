//! Full rings pause what is before them; late tuples are shed if the source declares so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sakiyomi_stream::{Emitter, Next, OperatorId, Overload, Settings, Source, StreamBuilder, each};

use crate::inputs::{Collect, Numbers};

/// Numbers that were all due at the start.
struct Overdue {
    next: u64,
    overload: Overload,
}

/// Numbers of [`Overdue`].
const OVERDUE_COUNT: u64 = 1_000;

impl Source for Overdue {
    type Out = u64;

    fn next(&mut self, _: u64) -> Next<u64> {
        self.next += 1;
        if self.next > OVERDUE_COUNT { Next::End } else { Next::Value { value: self.next, arrival_ns: 0 } }
    }

    fn overload(&self) -> Overload {
        self.overload
    }
}

#[test]
fn late_tuples_are_shed_and_counted_or_wait() {
    for (overload, shed) in [
        (Overload::Wait, 0),
        (Overload::Shed { late_max_ns: 0 }, OVERDUE_COUNT),
        (Overload::Shed { late_max_ns: u64::MAX }, 0),
    ] {
        let builder = StreamBuilder::new(4);
        let (collect, collected) = Collect::new();
        builder.source("overdue", Overdue { next: 0, overload }).sink("sink", collect);
        let report =
            builder.build().unwrap().start(Settings::unpinned(2), &[0, 1]).unwrap().finish().unwrap();
        assert_eq!(report.operators[0].shed, shed, "{overload:?}");
        assert_eq!(collected.lock().unwrap().values.len() as u64, OVERDUE_COUNT - shed);
        let latency = report.operators[1].latency.as_ref();
        assert_eq!(latency.map_or(0, |latency| latency.total.len()), OVERDUE_COUNT - shed);
    }
}

#[test]
fn a_ring_of_one_slot_holds_the_source_back_and_loses_nothing() {
    let builder = StreamBuilder::new(1);
    let (collect, collected) = Collect::new();
    let copies = each(|number: u64, out: &mut Emitter<u64>| (0..7).for_each(|_| out.emit(number)));
    builder.source("numbers", Numbers::count(998)).then("copies", copies).sink("sink", collect);
    let report = builder.build().unwrap().start(Settings::unpinned(3), &[0, 1, 2]).unwrap().finish().unwrap();
    let expected: Vec<u64> = (0..998).flat_map(|number| [number; 7]).collect();
    assert_eq!(collected.lock().unwrap().values, expected);
    assert_eq!((report.operators[1].ring_high_water, report.operators[2].ring_high_water), (1, 1));
}

#[test]
fn sources_that_are_ended_from_outside_drain_in_order() {
    let builder = StreamBuilder::new(32);
    let (collect, collected) = Collect::new();
    let numbers = Numbers::count(u64::MAX);
    builder
        .source("numbers", numbers)
        .then("same", each(|n, out: &mut Emitter<u64>| out.emit(n)))
        .sink("sink", collect);
    let mut running = builder.build().unwrap().start(Settings::unpinned(2), &[0, 0, 1]).unwrap();
    while running.report().operators[2].tuples_in == 0 {
        std::thread::yield_now();
    }
    running.relocate(OperatorId(0), 1).unwrap();
    running.end_sources();
    let report = running.finish().unwrap();
    let collected = collected.lock().unwrap();
    assert_eq!(collected.values.len() as u64, report.operators[0].tuples_out);
    assert!(collected.values.is_sorted());
    assert!(
        report.operators.iter().all(|operator| operator.busy_ns > 0),
        "sources are timed as well: {report:?}"
    );
    assert_eq!(collected.ends, 1);
}

/// A source whose `next` names the present time as the time of its next value, again and again.
struct Procrastinates(Arc<AtomicBool>);

impl Source for Procrastinates {
    type Out = u64;

    fn next(&mut self, now_ns: u64) -> Next<u64> {
        if self.0.load(Ordering::Relaxed) { Next::End } else { Next::At(now_ns) }
    }
}

#[test]
fn a_source_that_is_always_due_now_leaves_its_worker_to_the_others() {
    let is_done = Arc::new(AtomicBool::new(false));
    let builder = StreamBuilder::new(4);
    let (collect, _) = Collect::new();
    builder.source("procrastinates", Procrastinates(Arc::clone(&is_done))).sink("none", collect);
    let last = each(move |number: u64, out: &mut Emitter<u64>| {
        is_done.store(number == 500, Ordering::Relaxed);
        out.emit(number);
    });
    let (collect, collected) = Collect::new();
    builder.source("numbers", Numbers::count(501)).then("last", last).sink("sink", collect);
    builder.build().unwrap().start(Settings::unpinned(1), &[0; 5]).unwrap().finish().unwrap();
    assert_eq!(collected.lock().unwrap().values.len(), 501);
}

/// Two values that are due when the source is first called, the second of which is reached late.
struct Pair(Option<u64>, u64);

impl Source for Pair {
    type Out = u64;

    fn next(&mut self, now_ns: u64) -> Next<u64> {
        let arrival_ns = *self.0.get_or_insert(now_ns);
        self.1 += 1;
        if self.1 > 2 { Next::End } else { Next::Value { value: self.1, arrival_ns } }
    }

    fn overload(&self) -> Overload {
        Overload::Shed { late_max_ns: PAIR_LATE_MAX_NS }
    }
}

/// Accepted delay of the values of [`Pair`]; the processing of its first one takes longer.
const PAIR_LATE_MAX_NS: u64 = 50_000_000;

#[test]
fn a_tuple_that_a_long_one_before_it_has_made_late_is_shed() {
    let builder = StreamBuilder::new(4);
    let (collect, collected) = Collect::new();
    let slow = each(|number: u64, out: &mut Emitter<u64>| {
        let start = Instant::now();
        while start.elapsed() <= Duration::from_nanos(PAIR_LATE_MAX_NS) {
            std::hint::spin_loop();
        }
        out.emit(number);
    });
    builder.source("pair", Pair(None, 0)).then("slow", slow).sink("sink", collect);
    let report = builder.build().unwrap().start(Settings::unpinned(1), &[0; 3]).unwrap().finish().unwrap();
    // The first one may be late as well on a machine that is very busy.
    assert!(!collected.lock().unwrap().values.contains(&2));
    assert!(report.operators[0].shed > 0);
}
