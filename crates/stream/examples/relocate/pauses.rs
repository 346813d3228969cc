//! Pauses of a segment that moves to and fro while tuples arrive at a constant rate.
//!
//! The thread that asks for a move needs a CPU, and on a machine of two it takes that of a worker. So it asks while the
//! worker that gives the segment away is busy with a tuple that takes long, on the CPU of the other worker, which has
//! its CPU back when that tuple is done. What is measured is then the pause of the protocol: from the end of the last
//! tuples on one worker to the end of the first on the other.
//!
//! Declared beforehand, a move is left out if
//! - the worker that gives away had to wait for its CPU at all, or the other one for more than the asking thread ran
//!   and 5 µs: a preemption;
//! - the host gave time to other guests: steal, by clock ticks.
//!
//! A request that came too late for the long tuple is not made, and counted.

use std::fmt::Write;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sakiyomi_os::affinity::pin;
use sakiyomi_os::cpu::{of_this_thread, stolen_times};
use sakiyomi_os::priority::precise_timers;
use sakiyomi_os::process::{Process, Thread};
use sakiyomi_os::topology::Cpus;
use sakiyomi_stream::{Emitter, OperatorId, Running, Settings, Stream, StreamBuilder, each};
use serde_json::{Value, json};

use crate::chain::{RING_SLOTS, Sum, Ticks};

/// Time between two tuples: 500,000 tuples per second.
const PERIOD_NS: u64 = 2_000;

/// Tuples from one that takes long to the next: 2 ms.
const LONG_TUPLE_PERIOD: u64 = 1_000;

/// Time that such a tuple takes: enough for a thread to wake up and ask, and at most 100 tuples wait behind it.
const LONG_TUPLE_TIME: Duration = Duration::from_micros(200);

/// Time that must be left of it when a move is requested: that of a thread that goes to sleep and another one that
/// continues.
const ASK_TIME_MIN: Duration = Duration::from_micros(60);

/// Time for which a worker may wait for its CPU beyond the time that the asking thread ran: its switches to and fro.
const WAIT_MAX: Duration = Duration::from_micros(5);

/// Requests per move before the measurement is given up.
const ATTEMPTS_RATIO: usize = 8;

/// The operator that begins the segment that moves.
const MOVING: OperatorId = OperatorId(1);

/// Pauses of all moves.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// In nanoseconds, of moves that count.
    kept_ns: Vec<u64>,
    /// Pauses of all moves.
    raw_ns: Vec<u64>,
    preempted: usize,
    stolen: usize,
    /// Requests that were not made.
    late: usize,
    violations: u64,
}

/// Moves the chain to and fro.
///
/// # Errors
/// If a thread cannot be started, pinned or watched.
pub(crate) fn measure(
    moves: usize,
    settings: &Settings,
    cpus: &Cpus,
) -> Result<Pauses, Box<dyn std::error::Error>> {
    // Where the kernel does not allow it, more requests come too late.
    let _ = precise_timers();
    let start = Instant::now();
    let busy_until_ns = Arc::new(AtomicU64::new(0));
    let settings = Settings { spin: Duration::from_micros(500), ..settings.clone() };
    let mut running = chain(start, &busy_until_ns)?.start(settings, &[0; 4])?;
    running.split(MOVING, 1)?;
    let mut watch = Watch { workers: workers()?, stolen: stolen(), moves: running.report().relocations };
    let mut pauses = Pauses::default();
    let mut from = 1;
    for _ in 0..moves.saturating_mul(ATTEMPTS_RATIO) {
        if pauses.raw_ns.len() >= moves {
            break;
        }
        let to = 1 - from;
        let _pinned = pin(&cpus.iter().copied().skip(to).take(1).collect())?;
        std::thread::sleep(time_to_long_tuple(start.elapsed()));
        let cpu = of_this_thread();
        let busy_until = Duration::from_nanos(busy_until_ns.load(Ordering::Relaxed));
        let left = busy_until.saturating_sub(start.elapsed());
        if left < ASK_TIME_MIN {
            pauses.late += 1;
            continue;
        }
        let before = watch.waited(from, to)?;
        running.relocate(MOVING, to)?;
        let asking = of_this_thread() - cpu;
        let after = watch.waited(from, to)?;
        let is_preempted = after[0] > before[0] || after[1].saturating_sub(before[1]) > asking + WAIT_MAX;
        watch.add(&running, is_preempted, &mut pauses);
        from = to;
    }
    running.end_sources();
    let report = running.finish()?;
    pauses.violations = report.operators.iter().map(|operator| operator.sequence_violations).sum();
    Ok(pauses)
}

/// Time until the next long tuple is in progress.
fn time_to_long_tuple(now: Duration) -> Duration {
    let period = Duration::from_nanos(LONG_TUPLE_PERIOD * PERIOD_NS);
    let into = Duration::from_nanos((now.as_nanos() % period.as_nanos()) as u64);
    period - into + LONG_TUPLE_TIME / 8
}

struct Watch {
    workers: [Thread; 2],
    stolen: Duration,
    moves: sakiyomi_stream::Relocations,
}

impl Watch {
    /// Time for which the workers have waited for their CPUs.
    fn waited(&self, from: usize, to: usize) -> std::io::Result<[Duration; 2]> {
        Ok([self.workers[from].times()?.queued, self.workers[to].times()?.queued])
    }

    /// Adds the pauses since the last call.
    fn add(&mut self, running: &Running, is_preempted: bool, pauses: &mut Pauses) {
        let (before, now) = (std::mem::replace(&mut self.moves, running.report().relocations), &self.moves);
        let mut new = now.pause_ns.clone();
        // A later count is never smaller.
        new.subtract(&before.pause_ns).expect("pauses are only added");
        let stolen = stolen();
        let is_stolen = std::mem::replace(&mut self.stolen, stolen) != stolen;
        for value in new.iter_recorded() {
            let times = std::iter::repeat_n(value.value_iterated_to(), value.count_at_value() as usize);
            pauses.raw_ns.extend(times.clone());
            match (is_preempted, is_stolen) {
                (true, _) => pauses.preempted += 1,
                (false, true) => pauses.stolen += 1,
                (false, false) => pauses.kept_ns.extend(times),
            }
        }
    }
}

fn stolen() -> Duration {
    stolen_times().into_values().sum()
}

/// The threads of both workers.
fn workers() -> Result<[Thread; 2], Box<dyn std::error::Error>> {
    let process = Process::open(std::process::id())?;
    let named = |name: &str| -> Result<Thread, Box<dyn std::error::Error>> {
        for number in process.threads()? {
            let found = fs::read_to_string(format!("/proc/self/task/{number}/comm"))?;
            if found.trim() == name {
                return Ok(process.thread(number)?);
            }
        }
        Err(format!("thread {name} was not found").into())
    };
    Ok([named("stream-0")?, named("stream-1")?])
}

/// Ticks, an operator of which one tuple in a thousand takes long, another operator, and a sink. Tells until when such a
/// tuple takes, in nanoseconds since `start`.
fn chain(start: Instant, busy_until_ns: &Arc<AtomicU64>) -> Result<Stream, sakiyomi_stream::Error> {
    let busy_until_ns = Arc::clone(busy_until_ns);
    let long = each(move |number: u64, out: &mut Emitter<u64>| {
        if number.is_multiple_of(LONG_TUPLE_PERIOD) {
            let end = start.elapsed() + LONG_TUPLE_TIME;
            busy_until_ns.store(end.as_nanos() as u64, Ordering::Relaxed);
            while start.elapsed() < end {
                std::hint::spin_loop();
            }
        }
        out.emit(number);
    });
    let builder = StreamBuilder::new(RING_SLOTS);
    let ticks = builder.source("ticks", Ticks { next: 0, count: u64::MAX, period_ns: PERIOD_NS });
    let add = each(|number: u64, out: &mut Emitter<u64>| out.emit(number + 1));
    ticks.then("long", long).then("add", add).sink("sink", Sum(0));
    builder.build()
}

/// The value that this share of sorted values do not exceed; 0 without values.
fn quantile(sorted: &[u64], share: f64) -> u64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

impl Pauses {
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, pauses_ns: &[u64]| {
            let mut sorted = pauses_ns.to_vec();
            sorted.sort_unstable();
            let at = |share| quantile(&sorted, share);
            let (moves, p50, p90, p99) = (sorted.len(), at(0.5), at(0.9), at(0.99));
            let _ =
                writeln!(text, "pause of {moves:5} moves {name}: p50 {p50} ns, p90 {p90} ns, p99 {p99} ns");
        };
        line("without preemption or steal", &self.kept_ns);
        line("in all", &self.raw_ns);
        let Pauses { preempted, stolen, late, violations, .. } = self;
        let _ = writeln!(
            text,
            "left out: {preempted} by preemption, {stolen} by steal; {late} requests were late and not made"
        );
        let _ = writeln!(text, "tuples out of order, lost or doubled: {violations}");
        text
    }

    pub(crate) fn json(&self) -> Value {
        let figures = |pauses_ns: &[u64]| {
            let mut sorted = pauses_ns.to_vec();
            sorted.sort_unstable();
            let at = |share| quantile(&sorted, share);
            json!({ "moves": sorted.len(), "p50_ns": at(0.5), "p90_ns": at(0.9), "p99_ns": at(0.99) })
        };
        json!({
            "kept": figures(&self.kept_ns),
            "raw": figures(&self.raw_ns),
            "preempted": self.preempted,
            "stolen": self.stolen,
            "late": self.late,
            "violations": self.violations,
        })
    }
}
