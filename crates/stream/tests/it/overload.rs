//! Full rings pause what is before them; late tuples are shed if the source declares so.

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
    assert_eq!(collected.ends, 1);
}
