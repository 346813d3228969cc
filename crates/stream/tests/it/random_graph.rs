//! Random graphs, whose results do not depend on how the inputs of joins interleave.

use std::sync::{Arc, Mutex};

use rand_core::SeedableRng;
use rand_pcg::Pcg64;
use sakiyomi_stream::{
    Emitter, Flow, Join, OnPanic, Operator, PendingSnapshot, Recover, SaveState, Settings, Sink, Snapshot,
    Stream, StreamBuilder, Tuple,
};

use crate::graph::relocate;
use crate::inputs::{Numbers, POISON, below, hush_poison, mix, random, saves, seeds};

/// Values between two panics of an operator, about.
const POISON_EVERY: u64 = 503;

/// Operators that are added to a graph at most, besides its sources and sinks.
const STEPS_MAX: usize = 12;

/// Outputs without a consumer at most while a graph is built, so that some are joined.
const FLOWS_MAX: usize = 6;

/// Number and sum of values, whatever their order.
#[derive(Default)]
struct Tally {
    id: u64,
    count: u64,
    sum: u64,
}

impl Tally {
    fn of(id: usize) -> Tally {
        Tally { id: mix(id as u64), ..Tally::default() }
    }

    fn add(&mut self, value: u64) -> u64 {
        self.count += 1;
        self.sum = self.sum.wrapping_add(mix(value));
        let mixed = mix(value ^ self.id);
        if mixed.is_multiple_of(POISON_EVERY) {
            std::panic::panic_any(POISON);
        }
        mixed
    }

    fn result(&self) -> u64 {
        mix(self.count ^ self.sum ^ self.id)
    }
}

saves!(Tally: count, sum);

impl Recover for Tally {
    fn on_panic(&self) -> OnPanic {
        OnPanic::Skip
    }

    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

/// Drops a quarter, doubles a quarter, and emits its tally at the end.
impl Operator for Tally {
    type In = u64;
    type Out = u64;

    fn process(&mut self, value: u64, out: &mut Emitter<u64>) {
        let value = self.add(value);
        (0..[0, 1, 1, 2][(value % 4) as usize]).for_each(|copy| out.emit(value ^ copy));
    }

    fn end(&mut self, out: &mut Emitter<u64>) {
        out.emit(self.result());
    }
}

/// A tally of each side.
struct Tallies(Tally, Tally);

saves!(Tallies: 0.count, 0.sum, 1.count, 1.sum);

impl Recover for Tallies {
    fn on_panic(&self) -> OnPanic {
        OnPanic::Skip
    }

    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl Join for Tallies {
    type Left = u64;
    type Right = u64;
    type Out = u64;

    fn left(&mut self, value: u64, out: &mut Emitter<u64>) {
        out.emit(self.0.add(value));
    }

    fn right(&mut self, value: u64, out: &mut Emitter<u64>) {
        out.emit(self.1.add(value));
    }

    fn end(&mut self, out: &mut Emitter<u64>) {
        out.emit(mix(self.0.result()) ^ self.1.result());
    }
}

/// Tells the tally at the end.
struct Total(Tally, Arc<Mutex<Vec<u64>>>);

saves!(Total: 0.count, 0.sum);

impl Recover for Total {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl Sink for Total {
    type In = u64;

    fn consume(&mut self, tuple: Tuple<u64>) {
        self.0.count += 1;
        self.0.sum = self.0.sum.wrapping_add(mix(tuple.value));
    }

    fn end(&mut self) {
        self.1.lock().unwrap().push(self.0.result());
    }
}

/// The graph of a seed, with its results and its number of operators.
fn graph(seed: u64, ring_slots: usize) -> (Stream, Arc<Mutex<Vec<u64>>>, usize) {
    let random = &mut Pcg64::seed_from_u64(seed);
    let builder = StreamBuilder::new(ring_slots);
    let mut names = 0..;
    let mut id = || names.next().expect("there is no end of numbers");
    let mut flows: Vec<Flow<u64>> = (0..1 + below(random, 3))
        .map(|_| {
            let burst = [0, 7, 100][below(random, 3)];
            let numbers = Numbers { burst, ..Numbers::count(below(random, 3_000) as u64) };
            builder.source(&format!("numbers {}", id()), numbers)
        })
        .collect();
    for _ in 0..below(random, STEPS_MAX) {
        let flow = flows.swap_remove(below(random, flows.len()));
        let id = id();
        match below(random, 3) {
            0 if flows.len() < FLOWS_MAX => flows.extend(<[_; 2]>::from(flow.split(&format!("split {id}")))),
            1 if !flows.is_empty() => {
                let other = flows.swap_remove(below(random, flows.len()));
                let join = Tallies(Tally::of(2 * id), Tally::of(2 * id + 1));
                flows.push(flow.join(&format!("join {id}"), other, join));
            }
            _ => flows.push(flow.then(&format!("tally {id}"), Tally::of(2 * id))),
        }
    }
    let totals = Arc::new(Mutex::new(Vec::new()));
    for flow in flows {
        let id = id();
        flow.sink(&format!("total {id}"), Total(Tally::of(2 * id), Arc::clone(&totals)));
    }
    let stream = builder.build().unwrap();
    let operators = stream.names().count();
    (stream, totals, operators)
}

/// The results of a stream that is not interrupted, on one worker.
fn uninterrupted(seed: u64) -> Vec<u64> {
    let (stream, totals, operators) = graph(seed, 64);
    stream.start(Settings::unpinned(1), &vec![0; operators]).unwrap().finish().unwrap();
    let mut totals = std::mem::take(&mut *totals.lock().unwrap());
    totals.sort_unstable();
    totals
}

/// The results of all lives of a stream that is killed and resumes.
fn interrupted(seed: u64, random: &mut Pcg64) -> Vec<u64> {
    let mut last: Option<Snapshot> = None;
    let mut results = Vec::new();
    for life in (0..1 + below(random, 4)).rev() {
        let (stream, totals, operators) = graph(seed, 1 + below(random, 16));
        let workers = 1 + below(random, 4);
        let placing: Vec<usize> = (0..operators).map(|_| below(random, workers)).collect();
        let settings = Settings::unpinned(workers);
        let mut running = match &last {
            Some(snapshot) => stream.start_from(settings, &placing, snapshot).unwrap(),
            None => stream.start(settings, &placing).unwrap(),
        };
        let mut pending = Vec::<PendingSnapshot>::new();
        for _ in 0..below(random, 15) {
            match below(random, 4) {
                0 => pending.push(running.begin_snapshot()),
                1 => pending.drain(..).for_each(|pending| last = Some(pending.wait().unwrap())),
                _ => relocate(&mut running, operators, workers, random),
            }
        }
        if life == 0 {
            let report = running.finish().unwrap();
            assert!(report.operators.iter().all(|operator| operator.sequence_violations == 0), "{report:?}");
        } else {
            drop(running);
        }
        results.append(&mut totals.lock().unwrap());
    }
    // If a sink ended after the snapshot from which its next life started, both lives report equal results.
    results.sort_unstable();
    results.dedup();
    results
}

#[test]
fn random_graphs_that_are_killed_and_resume_have_the_results_of_those_that_are_not() {
    hush_poison();
    for seed in seeds(if cfg!(debug_assertions) { 30 } else { 1_000 }) {
        let mut random = random(seed);
        let expected = uninterrupted(seed);
        assert_eq!(interrupted(seed, &mut random), expected);
    }
}
