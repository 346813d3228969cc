//! Panics end at the operator that caused them.

use std::sync::{Arc, Mutex};

use sakiyomi_stream::{
    DueValues, Emitter, Error, Failure, Next, OnPanic, Operator, OperatorId, Overload, Pause, Recover,
    Report, Settings, Sink, Source, StreamBuilder, Tuple,
};

use crate::inputs::{Collect, Numbers, POISON, hush_poison};

/// Counts its input, and panics at each tenth number.
struct Counts {
    count: u64,
    on_panic: OnPanic,
    copies: bool,
}

impl Recover for Counts {
    fn on_panic(&self) -> OnPanic {
        self.on_panic
    }

    fn snapshot(&self) -> Option<Counts> {
        self.copies.then_some(Counts { ..*self })
    }
}

impl Operator for Counts {
    type In = u64;
    type Out = u64;

    fn process(&mut self, number: u64, out: &mut Emitter<u64>) {
        self.count += 1;
        out.emit(self.count);
        if number % 10 == 9 {
            std::panic::panic_any(POISON);
        }
    }
}

/// Counts of 30 numbers, on one core and on three.
fn counts(on_panic: OnPanic) -> (Vec<u64>, Report) {
    hush_poison();
    let run = |workers: [usize; 3]| {
        let builder = StreamBuilder::new(4);
        let (collect, collected) = Collect::new();
        let counts = Counts { count: 0, on_panic, copies: true };
        builder.source("numbers", Numbers::count(30)).then("counts", counts).sink("sink", collect);
        let report =
            builder.build().unwrap().start(Settings::unpinned(3), &workers).unwrap().finish().unwrap();
        let collected = collected.lock().unwrap();
        assert_eq!(collected.ends, 1, "the end passes");
        (collected.values.clone(), report)
    };
    let (values, report) = run([0, 1, 2]);
    assert_eq!(run([0, 0, 0]).0, values);
    (values, report)
}

#[test]
fn an_operator_that_stops_names_the_tuple_and_the_others_go_on() {
    let (values, report) = counts(OnPanic::Stop);
    assert_eq!(values, (1..10).collect::<Vec<u64>>());
    let failure = Failure {
        operator: OperatorId(1),
        name: "counts".to_owned(),
        tuple: Some(9),
        message: POISON.to_owned(),
    };
    assert_eq!(failure.to_string(), "operator counts stopped at tuple 9: poison");
    assert_eq!(report.failures, [failure]);
    assert_eq!((report.operators[0].tuples_out, report.operators[1].discarded), (30, 20));
}

#[test]
fn an_operator_that_skips_keeps_its_state_and_emits_nothing_of_the_tuple() {
    let (values, report) = counts(OnPanic::Skip);
    assert_eq!(values, (1..=30).filter(|count| count % 10 != 0).collect::<Vec<u64>>());
    assert_eq!(report.operators[1].dead_letters, 3);
    assert!(report.failures.is_empty());
}

#[test]
fn an_operator_that_restarts_goes_on_from_its_last_snapshot() {
    let (values, report) = counts(OnPanic::Restart { snapshot_every: 4 });
    // Snapshots are taken before tuples 4, 8, 12, …: at tuple 9 the state is that of before tuple 8.
    let mut expected = Vec::new();
    let (mut count, mut saved) = (0, 0);
    for number in 0..30 {
        if number % 4 == 0 {
            saved = count;
        }
        count += 1;
        if number % 10 == 9 {
            count = saved;
        } else {
            expected.push(count);
        }
    }
    assert_eq!(values, expected);
    assert_eq!((report.operators[1].restarts, report.operators[1].dead_letters), (3, 3));
}

#[test]
fn an_operator_without_a_snapshot_may_not_restart() {
    let builder = StreamBuilder::new(4);
    let on_panic = OnPanic::Restart { snapshot_every: 1 };
    let counts = Counts { count: 0, on_panic, copies: false };
    builder.source("numbers", Numbers::count(1)).then("counts", counts).sink("sink", Collect::new().0);
    assert!(matches!(builder.build(), Err(Error::NoSnapshot(name)) if name == "counts"));
}

/// Panics at its third number.
struct Poisoned(u64);

impl Source for Poisoned {
    type Out = u64;

    fn next(&mut self, arrival_ns: u64) -> Next<u64> {
        self.0 += 1;
        if self.0 == 3 {
            std::panic::panic_any(POISON);
        }
        Next::Value { value: self.0, arrival_ns }
    }
}

#[test]
fn a_source_that_panics_ends() {
    hush_poison();
    let builder = StreamBuilder::new(4);
    let (collect, collected) = Collect::new();
    builder.source("poisoned", Poisoned(0)).sink("sink", collect);
    let report = builder.build().unwrap().start(Settings::unpinned(1), &[0, 0]).unwrap().finish().unwrap();
    assert_eq!(collected.lock().unwrap().values, [1, 2]);
    assert_eq!(report.failures[0].to_string(), "operator poisoned stopped at tuple 2: poison");
}

/// Says twice that no more is taken and gives nothing; then it gives two values at once, and panics.
struct Careless(u64);

impl Source for Careless {
    type Out = u64;

    fn next(&mut self, _: u64) -> Next<u64> {
        unreachable!("the stream asks for all values that are due")
    }

    fn fill(&mut self, now_ns: u64, due: &mut DueValues<'_, u64>) -> Option<Pause> {
        self.0 += 1;
        if self.0 > 2 {
            due.push(10, now_ns);
            due.push(20, now_ns);
            std::panic::panic_any(POISON);
        }
        None
    }
}

#[test]
fn values_that_a_source_gave_before_it_panicked_are_kept() {
    hush_poison();
    let builder = StreamBuilder::new(4);
    let (collect, collected) = Collect::new();
    builder.source("careless", Careless(0)).sink("sink", collect);
    let report = builder.build().unwrap().start(Settings::unpinned(1), &[0, 0]).unwrap().finish().unwrap();
    assert_eq!(collected.lock().unwrap().values, [10, 20]);
    assert_eq!(report.operators[0].tuples_out, 2);
    assert_eq!(report.failures[0].to_string(), "operator careless stopped at tuple 2: poison");
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::panic_any(POISON);
    }
}

/// Panics at each value with a payload that panics when it is dropped, as do its copies.
struct Explodes(Bomb);

impl Recover for Explodes {
    fn on_panic(&self) -> OnPanic {
        OnPanic::Restart { snapshot_every: 2 }
    }

    fn snapshot(&self) -> Option<Explodes> {
        Some(Explodes(Bomb))
    }
}

impl Operator for Explodes {
    type In = u64;
    type Out = u64;

    fn process(&mut self, _: u64, _: &mut Emitter<u64>) {
        let _state = &self.0;
        std::panic::resume_unwind(Box::new(Bomb));
    }
}

/// Bombs, all of which are late.
struct Bombs(u64);

impl Source for Bombs {
    type Out = Bomb;

    fn next(&mut self, _: u64) -> Next<Bomb> {
        self.0 += 1;
        if self.0 > 3 { Next::End } else { Next::Value { value: Bomb, arrival_ns: 0 } }
    }

    fn overload(&self) -> Overload {
        Overload::Shed { late_max_ns: 0 }
    }
}

#[test]
fn values_snapshots_and_payloads_that_panic_when_dropped_harm_no_worker() {
    hush_poison();
    let builder = StreamBuilder::new(4);
    builder
        .source("numbers", Numbers::count(5))
        .then("explodes", Explodes(Bomb))
        .sink("sink", Collect::new().0);
    builder.source("bombs", Bombs(0)).sink("sink of bombs", Collect::new().0);
    let report = builder.build().unwrap().start(Settings::unpinned(1), &[0; 5]).unwrap().finish().unwrap();
    assert_eq!((report.operators[1].restarts, report.operators[1].dead_letters), (5, 5));
    assert_eq!(report.operators[3].shed, 3);
}

/// Panics at each value, watermark and end.
struct Poisonous(OnPanic);

impl Recover for Poisonous {
    fn on_panic(&self) -> OnPanic {
        self.0
    }
}

impl Sink for Poisonous {
    type In = u64;

    fn consume(&mut self, _: Tuple<u64>) {
        std::panic::panic_any(POISON);
    }

    fn watermark(&mut self, _: u64) {
        std::panic::panic_any(POISON);
    }

    fn end(&mut self) {
        std::panic::panic_any(POISON);
    }
}

#[test]
fn panics_at_watermarks_and_ends_are_counted_and_a_stopped_sink_has_no_latencies() {
    hush_poison();
    for (on_panic, letters, marks) in [(OnPanic::Skip, 1_099, 2), (OnPanic::Stop, 1, 0)] {
        let builder = StreamBuilder::new(4);
        builder.source("numbers", Numbers::count(1_100)).sink("poisonous", Poisonous(on_panic));
        let stream = builder.build().unwrap();
        let report = stream.start(Settings::unpinned(1), &[0; 2]).unwrap().finish().unwrap();
        let sink = &report.operators[1];
        assert_eq!((sink.dead_letters, sink.dead_marks), (letters, marks), "{sink:?}");
        assert_eq!(sink.latency.as_ref().unwrap().total.len(), letters);
    }
}

/// Values and watermarks.
struct Script(std::vec::IntoIter<(bool, u64)>);

impl Source for Script {
    type Out = u64;

    fn next(&mut self, now_ns: u64) -> Next<u64> {
        match self.0.next() {
            Some((true, time_ns)) => Next::Watermark(time_ns),
            Some((false, value)) => Next::Value { value, arrival_ns: now_ns },
            None => Next::End,
        }
    }
}

/// Makes a watermark of each value, and panics at 0.
struct Ahead;

impl Recover for Ahead {}

impl Operator for Ahead {
    type In = u64;
    type Out = u64;

    fn process(&mut self, value: u64, out: &mut Emitter<u64>) {
        if value == 0 {
            std::panic::panic_any(POISON);
        }
        out.watermark(value);
    }

    fn makes_watermarks(&self) -> bool {
        true
    }
}

/// Keeps the watermarks.
struct Marks(Arc<Mutex<Vec<u64>>>);

impl Recover for Marks {}

impl Sink for Marks {
    type In = u64;

    fn consume(&mut self, _: Tuple<u64>) {}

    fn watermark(&mut self, time_ns: u64) {
        self.0.lock().unwrap().push(time_ns);
    }
}

#[test]
fn watermarks_go_on_from_the_last_one_that_a_stopped_operator_has_made() {
    hush_poison();
    let script =
        vec![(true, 5), (false, 1_000), (true, 6), (false, 0), (true, 500), (true, 1_000), (true, 1_500)];
    let marks = Arc::new(Mutex::new(Vec::new()));
    let builder = StreamBuilder::new(4);
    builder
        .source("script", Script(script.into_iter()))
        .then("ahead", Ahead)
        .sink("marks", Marks(Arc::clone(&marks)));
    let report = builder.build().unwrap().start(Settings::unpinned(1), &[0; 3]).unwrap().finish().unwrap();
    assert_eq!(report.failures.len(), 1);
    assert_eq!(*marks.lock().unwrap(), [1_000, 1_500]);
}
