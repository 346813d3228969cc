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
    Emitter, Error, Join, OnPanic, Operator, OperatorId, Recover, Report, Running, SaveState, Settings,
    Snapshot, Stream, StreamBuilder, each,
};

use crate::inputs::{
    Digest, Digests, Emitted, Numbers, POISON, below, emitted, emitted_before, hush_poison, mix, saved, saves,
};

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

saves!(Sums: 0);

impl Recover for Sums {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }

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

saves!(Skips: 0);

impl Recover for Skips {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }

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

saves!(Both: left, right);

impl Recover for Both {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

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
            relocate(&mut running, OPERATORS, self.workers, random);
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
pub(crate) fn relocate(running: &mut Running, operators: usize, workers: usize, random: &mut Pcg64) {
    let (operator, worker) = (OperatorId(below(random, operators)), below(random, workers));
    let is_head = running.segments().any(|(head, _)| head == operator);
    if !is_head {
        return running.split(operator, worker).unwrap();
    }
    if below(random, 2) == 0 {
        match running.fuse(operator) {
            Ok(()) => return,
            Err(Error::Segment { .. }) => {} // a source
            Err(error) => panic!("{error}"),
        }
    }
    running.relocate(operator, worker).unwrap();
}

/// The results of the loop for the first `count` numbers.
pub(crate) fn expected(count: u64) -> [Digest; 2] {
    let mut all = Loop::default();
    emitted(count).for_each(|emitted| all.next(emitted));
    all.second.add(all.both.left ^ all.both.right);
    [all.first, all.second.as_set()]
}

/// The computation of the graph as a loop, and its states.
#[derive(Default)]
struct Loop {
    sums: Sums,
    saved_sums: Sums,
    skips: Skips,
    both: Both,
    first: Digest,
    second: Digest,
    values: u64,
}

impl Loop {
    fn next(&mut self, emitted: Emitted) {
        let number = match emitted {
            Emitted::Value(number) => number,
            Emitted::Watermark(time_ns) => {
                self.first.add_watermark(time_ns);
                self.second.add_watermark(time_ns);
                return;
            }
        };
        if self.values.is_multiple_of(SNAPSHOT_EVERY) {
            self.saved_sums = self.sums.clone();
        }
        self.values += 1;
        let Some(sum) = self.sums.next(number) else {
            self.sums = self.saved_sums.clone();
            return;
        };
        if let Ok(Some(value)) = self.skips.next(sum) {
            self.first.add(value);
            self.second.add(self.both.next_right(value));
        }
        expand(sum).for_each(|value| self.second.add(self.both.next_left(value)));
    }
}

/// Checks that the states of a snapshot are those of the loop where the source has come to, so that its cut is
/// consistent.
pub(crate) fn check_cut(snapshot: &Snapshot) {
    let state = |operator: usize| snapshot.operators[operator].state.clone().expect("it is saved");
    let mut numbers = Numbers::count(0);
    numbers.load(&state(0)).unwrap();
    let mut all = Loop::default();
    emitted_before(numbers.next).for_each(|emitted| all.next(emitted));
    assert_eq!(snapshot.operators[0].progress.tuples, all.values);
    assert_eq!(state(1), saved(&all.sums));
    assert_eq!(snapshot.operators[1].restart_state, Some(saved(&all.saved_sums)));
    assert_eq!(state(3), saved(&all.skips));
    assert_eq!(state(5), all.first.bytes());
    assert_eq!(state(7), saved(&all.both));
    // The order at the join depends on the placement.
    let mut second = Digest::default();
    let bytes = state(8);
    second.count = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    second.unordered = u64::from_le_bytes(bytes[16..].try_into().unwrap());
    assert_eq!(second, all.second.as_set());
}
