//! A graph with all kinds of operators, and the same computation as a loop.
//!
//! ```text
//! 0 numbers ─ 1 sums ─ 2 split ─┬─ 3 skips ─ 4 split ─┬─ 5 sink
//!                               │                     └──────────┐ second input
//!                               └─ 6 expands ─────────────── 7 join ─ 8 sink
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rand_pcg::Pcg64;
use sakiyomi_stream::{
    Emitter, Join, OnPanic, Operator, OperatorId, Recover, Report, Running, Settings, Stream, StreamBuilder,
    each,
};

use crate::inputs::{Digest, Digests, Emitted, Numbers, POISON, below, emitted, hush_poison, mix};

/// Number of operators.
pub(crate) const OPERATORS: usize = 9;

/// Tuples between two panics of the operators that are poisoned, about.
const POISON_EVERY: u64 = 1_009;

/// Tuples between two snapshots of [`Sums`].
const SNAPSHOT_EVERY: u64 = 100;

/// Adds up its input; restarts after a panic.
#[derive(Clone, Default)]
struct Sums(u64);

impl Sums {
    fn next(&mut self, value: u64) -> Option<u64> {
        self.0 = self.0.wrapping_add(mix(value));
        (!mix(value).is_multiple_of(POISON_EVERY)).then_some(self.0)
    }
}

impl Recover for Sums {
    fn on_panic(&self) -> OnPanic {
        OnPanic::Restart { snapshot_every: SNAPSHOT_EVERY }
    }

    fn snapshot(&self) -> Option<Sums> {
        Some(self.clone())
    }
}

impl Operator for Sums {
    type In = u64;
    type Out = u64;

    fn process(&mut self, value: u64, out: &mut Emitter<u64>) {
        match self.next(value) {
            Some(sum) => out.emit(sum),
            None => {
                out.emit(u64::MAX);
                std::panic::panic_any(POISON);
            }
        }
    }
}

/// Drops a third, and skips poison. The state changes before the panic, and stays.
#[derive(Default)]
struct Skips(u64);

impl Skips {
    fn next(&mut self, value: u64) -> Result<Option<u64>, ()> {
        self.0 += 1;
        match mix(value) {
            mixed if mixed % POISON_EVERY == 1 => Err(()),
            mixed => Ok((mixed % 3 != 0).then_some(mixed ^ self.0)),
        }
    }
}

impl Recover for Skips {
    fn on_panic(&self) -> OnPanic {
        OnPanic::Skip
    }
}

impl Operator for Skips {
    type In = u64;
    type Out = u64;

    fn process(&mut self, value: u64, out: &mut Emitter<u64>) {
        match self.next(value) {
            Ok(value) => value.into_iter().for_each(|value| out.emit(value)),
            Err(()) => std::panic::panic_any(POISON),
        }
    }
}

fn expand(value: u64) -> impl Iterator<Item = u64> {
    (0..value % 3).map(move |copy| mix(value ^ copy))
}

/// Passes both inputs on, told apart; each side has a state of its own, so that the set of outputs does not depend
/// on how the sides interleave.
#[derive(Default)]
struct Both {
    left: u64,
    right: u64,
}

impl Both {
    fn next_left(&mut self, value: u64) -> u64 {
        self.left += 1;
        mix(value ^ self.left)
    }

    fn next_right(&mut self, value: u64) -> u64 {
        self.right += 1;
        !mix(value ^ self.right)
    }
}

impl Recover for Both {}

impl Join for Both {
    type Left = u64;
    type Right = u64;
    type Out = u64;

    fn left(&mut self, value: u64, out: &mut Emitter<u64>) {
        out.emit(self.next_left(value));
    }

    fn right(&mut self, value: u64, out: &mut Emitter<u64>) {
        out.emit(self.next_right(value));
    }

    fn end(&mut self, out: &mut Emitter<u64>) {
        out.emit(self.left ^ self.right);
    }
}

/// A graph with random relocations, and its results.
pub(crate) struct Run {
    pub(crate) tuples_min: u64,
    pub(crate) relocations: usize,
    pub(crate) workers: usize,
    pub(crate) ring_slots: usize,
    /// Numbers between two pauses of the source; 0 for none.
    pub(crate) burst: u64,
}

impl Run {
    /// Runs it, checks the results, and returns the report.
    pub(crate) fn check(&self, random: &mut Pcg64) -> Report {
        hush_poison();
        let is_enough = Arc::new(AtomicBool::new(false));
        let Run { tuples_min: count_min, ring_slots, burst, .. } = *self;
        let numbers =
            Numbers { next: 0, count_min, is_enough: Arc::clone(&is_enough), burst, is_pausing: false };
        let (stream, results) = graph(numbers, ring_slots);
        let start: Vec<usize> = (0..OPERATORS).map(|_| below(random, self.workers)).collect();
        let mut running = stream.start(Settings::unpinned(self.workers), &start).unwrap();
        for _ in 0..self.relocations {
            relocate(&mut running, self.workers, random);
        }
        is_enough.store(true, Ordering::Relaxed);
        let report = running.finish().unwrap();
        let count = report.operators[0].tuples_out;
        let [first, second] = results.map(|result| result.lock().unwrap().expect("the end has come"));
        assert_eq!([first, second.as_set()], expected(count), "{count} tuples");
        for operator in &report.operators {
            assert_eq!(operator.sequence_violations, 0, "{operator:?}");
        }
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        report
    }
}

/// The graph, and the digests of its sinks.
pub(crate) fn graph(numbers: Numbers, ring_slots: usize) -> (Stream, [Arc<Mutex<Option<Digest>>>; 2]) {
    let builder = StreamBuilder::new(ring_slots);
    let sums = builder.source("numbers", numbers).then("sums", Sums::default());
    let (left, right) = sums.split("split");
    let (to_sink, to_join) = left.then("skips", Skips::default()).split("split again");
    let (digests, first) = Digests::new();
    to_sink.sink("sink", digests);
    let expands = right.then("expands", each(|value, out| expand(value).for_each(|value| out.emit(value))));
    let (digests, second) = Digests::new();
    expands.join("join", to_join, Both::default()).sink("sink of the join", digests);
    (builder.build().unwrap(), [first, second])
}

/// One random change.
pub(crate) fn relocate(running: &mut Running, workers: usize, random: &mut Pcg64) {
    let (operator, worker) = (OperatorId(below(random, OPERATORS)), below(random, workers));
    let is_head = running.segments().any(|(head, _)| head == operator);
    match (is_head, operator) {
        (false, _) => running.split(operator, worker),
        (true, OperatorId(1..)) if below(random, 2) == 0 => running.fuse(operator),
        (true, _) => running.relocate(operator, worker),
    }
    .unwrap();
}

/// The results of the loop for the first `count` numbers.
fn expected(count: u64) -> [Digest; 2] {
    let (mut sums, mut saved, mut skips, mut both) =
        (Sums::default(), Sums::default(), Skips::default(), Both::default());
    let (mut first, mut second) = (Digest::default(), Digest::default());
    let mut index = 0;
    for emitted in emitted(count) {
        let number = match emitted {
            Emitted::Value(number) => number,
            Emitted::Watermark(time_ns) => {
                first.add_watermark(time_ns);
                second.add_watermark(time_ns);
                continue;
            }
        };
        if u64::is_multiple_of(index, SNAPSHOT_EVERY) {
            saved = sums.clone();
        }
        index += 1;
        let Some(sum) = sums.next(number) else {
            sums = saved.clone();
            continue;
        };
        if let Ok(Some(value)) = skips.next(sum) {
            first.add(value);
            second.add(both.next_right(value));
        }
        expand(sum).for_each(|value| second.add(both.next_left(value)));
    }
    second.add(both.left ^ both.right);
    [first, second.as_set()]
}
