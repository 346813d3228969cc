//! A long run: many tuples, many changes of the placement, and operators that panic. Each result is checked against what a
//! loop would give.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_stream::{
    Emitter, Next, OnPanic, Operator, OperatorId, Recover, Relocations, Running, Settings, Sink, Source,
    Stream, StreamBuilder, Tuple,
};
use serde_json::{Value, json};

use crate::chain::RING_SLOTS;

/// Tuples between two panics of an operator that skips them and continues.
const SKIPPED_PERIOD: u64 = 100_003;

/// Tuples between two panics of an operator that restarts from a snapshot.
const RESTARTED_PERIOD: u64 = 1_000_003;

/// Tuples between two snapshots of that operator.
const SNAPSHOT_PERIOD: u64 = 1_000;

/// The operators that segments may begin with: two operators, and the sink.
const HEADS: u64 = 3;

/// Tuples after which the source tells how many there were.
const TELL_PERIOD: u64 = 256;

/// Time between two polls of that number.
const POLL_PERIOD: Duration = Duration::from_micros(50);

/// Results.
pub(crate) struct Endured {
    tuples: u64,
    time: Duration,
    relocations: Relocations,
    panics: u64,
    /// Results that were not the next ones, and those missing at the end; and numbers of edges that were not.
    pub(crate) violations: u64,
}

/// Passes `tuples` through a chain whose placement changes `changes` times meanwhile.
///
/// # Errors
/// If a thread cannot be started or pinned, or was lost.
pub(crate) fn run(
    tuples: u64,
    changes: u64,
    seed: u64,
    settings: Settings,
) -> Result<Endured, sakiyomi_stream::Error> {
    // Panics are a part of the run.
    std::panic::set_hook(Box::new(|_| {}));
    let (sent, wrong, results) = <(Arc<AtomicU64>, Arc<AtomicU64>, Arc<AtomicU64>)>::default();
    let start = Instant::now();
    let mut running = chain(tuples, &sent, &wrong, &results)?.start(settings, &[0; 4])?;
    let mut random = Pcg64::seed_from_u64(seed);
    for change in 0..changes {
        let due = (u128::from(change) * u128::from(tuples) / u128::from(changes)) as u64;
        while sent.load(Ordering::Relaxed) < due {
            std::thread::sleep(POLL_PERIOD);
        }
        relocate(&mut running, &mut random)?;
    }
    let report = running.finish()?;
    let time = start.elapsed();
    let _ = std::panic::take_hook();
    // Both are prime, so that few numbers are multiples of both.
    let poison =
        tuples / SKIPPED_PERIOD + tuples / RESTARTED_PERIOD - tuples / (SKIPPED_PERIOD * RESTARTED_PERIOD);
    let missing = (tuples - poison).abs_diff(results.load(Ordering::Relaxed));
    let edges: u64 = report.operators.iter().map(|operator| operator.sequence_violations).sum();
    let panics = report.operators.iter().map(|operator| operator.dead_letters).sum();
    let violations = missing + edges + wrong.load(Ordering::Relaxed) + u64::from(!report.failures.is_empty());
    Ok(Endured { tuples, time, relocations: report.relocations, panics, violations })
}

/// Any change that is possible.
fn relocate(running: &mut Running, random: &mut Pcg64) -> Result<(), sakiyomi_stream::Error> {
    let head = OperatorId(1 + (random.next_u64() % HEADS) as usize);
    let worker = running.segments().find(|&(first, _)| first == head).map(|(_, worker)| worker);
    match worker {
        None => running.split(head, (random.next_u64() % 2) as usize),
        Some(worker) if !random.next_u64().is_multiple_of(4) => running.relocate(head, 1 - worker),
        Some(_) => running.fuse(head),
    }
}

fn is_poison(number: u64) -> bool {
    number.is_multiple_of(SKIPPED_PERIOD) || number.is_multiple_of(RESTARTED_PERIOD)
}

fn chain(
    tuples: u64,
    sent: &Arc<AtomicU64>,
    wrong: &Arc<AtomicU64>,
    results: &Arc<AtomicU64>,
) -> Result<Stream, sakiyomi_stream::Error> {
    let builder = StreamBuilder::new(RING_SLOTS);
    let numbers = builder.source("numbers", Numbers { next: 1, tuples, sent: Arc::clone(sent) });
    let skips = Fragile { period: SKIPPED_PERIOD, on_panic: OnPanic::Skip };
    let restart = OnPanic::Restart { snapshot_every: SNAPSHOT_PERIOD };
    let restarts = Fragile { period: RESTARTED_PERIOD, on_panic: restart };
    let check = Check { next: 1, count: 0, wrong: Arc::clone(wrong), results: Arc::clone(results) };
    numbers.then("skips", skips).then("restarts", restarts).sink("check", check);
    builder.build()
}

/// The numbers from 1, as fast as they are taken.
struct Numbers {
    next: u64,
    tuples: u64,
    sent: Arc<AtomicU64>,
}

impl Source for Numbers {
    type Out = u64;

    fn next(&mut self, now_ns: u64) -> Next<u64> {
        if self.next > self.tuples {
            self.sent.store(self.tuples, Ordering::Relaxed);
            return Next::End;
        }
        let value = self.next;
        self.next += 1;
        if value.is_multiple_of(TELL_PERIOD) {
            self.sent.store(value, Ordering::Relaxed);
        }
        Next::Value { value, arrival_ns: now_ns }
    }
}

/// Passes numbers on, and panics at the multiples of one.
#[derive(Clone)]
struct Fragile {
    period: u64,
    on_panic: OnPanic,
}

impl Recover for Fragile {
    fn on_panic(&self) -> OnPanic {
        self.on_panic
    }

    fn snapshot(&self) -> Option<Fragile> {
        Some(self.clone())
    }
}

impl Operator for Fragile {
    type In = u64;
    type Out = u64;

    fn process(&mut self, number: u64, out: &mut Emitter<u64>) {
        assert!(!number.is_multiple_of(self.period), "poison");
        out.emit(number);
    }
}

/// Checks that each number that is not poison comes once, in order.
struct Check {
    next: u64,
    count: u64,
    wrong: Arc<AtomicU64>,
    results: Arc<AtomicU64>,
}

impl Recover for Check {}

impl Sink for Check {
    type In = u64;

    fn consume(&mut self, tuple: Tuple<u64>) {
        while is_poison(self.next) {
            self.next += 1;
        }
        if tuple.value != self.next {
            self.wrong.fetch_add(1, Ordering::Relaxed);
        }
        self.next = tuple.value + 1;
        self.count += 1;
    }

    fn end(&mut self) {
        self.results.store(self.count, Ordering::Relaxed);
    }
}

impl Endured {
    pub(crate) fn text(&self) -> String {
        let Relocations { moves, splits, fusions, handover_ns, .. } = &self.relocations;
        format!(
            "{} tuples in {:.1} s, {} panics; {moves} moves, {splits} splits, {fusions} fusions, hand-over p50 {} ns\n\
             tuples out of order, lost or doubled: {}",
            self.tuples,
            self.time.as_secs_f64(),
            self.panics,
            handover_ns.value_at_quantile(0.5),
            self.violations
        )
    }

    pub(crate) fn json(&self) -> Value {
        let Relocations { moves, splits, fusions, .. } = self.relocations;
        json!({
            "tuples": self.tuples,
            "time_s": self.time.as_secs_f64(),
            "panics": self.panics,
            "relocations": moves + splits + fusions,
            "moves": moves,
            "splits": splits,
            "fusions": fusions,
            "violations": self.violations,
        })
    }
}
