//! Costs of calls, rings and moves on this machine: `cargo run --release -p sakiyomi-stream --example relocate`.
#![allow(clippy::print_stdout)] // its result

use std::time::{Duration, Instant};

use sakiyomi_os::affinity::usable_cpus;
use sakiyomi_os::cpu::of_this_process;
use sakiyomi_stream::{
    Emitter, Error, Flow, Next, OperatorId, Recover, Settings, Sink, Source, Stream, StreamBuilder, Tuple,
    each,
};

/// Tuples of a measurement without pauses.
const TUPLE_COUNT: u64 = 5_000_000;

/// Operators of the chain between source and sink.
const CHAIN_OPERATORS: usize = 8;

/// Moves of the last segment while tuples flow.
const MOVE_COUNT: usize = 2_000;

/// Time between two moves: 500 tuples.
const MOVE_PERIOD: Duration = Duration::from_millis(1);

/// Time between two tuples while segments move: 500,000 tuples per second.
const PERIOD_NS: u64 = 2_000;

fn main() -> Result<(), Error> {
    let cpus = usable_cpus()?.into_iter().take(2).collect();
    let settings = Settings::pinned(&cpus);
    let operators = CHAIN_OPERATORS + 2;

    let [wall_ns, cpu_ns] = time(chain(TUPLE_COUNT, 0)?, &settings, &vec![0; operators])?;
    let per_operator = |ns: f64| ns / operators as f64;
    println!(
        "one core: {:.1} ns a tuple and operator ({:.1} ns of CPU time)",
        per_operator(wall_ns),
        per_operator(cpu_ns)
    );
    if settings.workers.len() < 2 {
        println!("rings and moves need two CPUs");
        return Ok(());
    }
    let halves: Vec<usize> = (0..operators).map(|operator| usize::from(operator > operators / 2)).collect();
    let [wall_ns, cpu_ns] = time(chain(TUPLE_COUNT, 0)?, &settings, &halves)?;
    println!("two halves on two cores: {wall_ns:.1} ns a tuple ({cpu_ns:.1} ns of CPU time)");
    moves(settings, operators)
}

/// Nanoseconds per tuple of a stream that is run to its end: elapsed, and of the CPUs.
fn time(stream: Stream, settings: &Settings, worker_of: &[usize]) -> Result<[f64; 2], Error> {
    let (start, cpu) = (Instant::now(), of_this_process());
    stream.start(settings.clone(), worker_of)?.finish()?;
    let times = [start.elapsed(), of_this_process() - cpu];
    Ok(times.map(|time| time.as_nanos() as f64 / TUPLE_COUNT as f64))
}

/// Moves the second half of the chain to and fro while tuples arrive at a constant rate.
fn moves(settings: Settings, operators: usize) -> Result<(), Error> {
    let second = OperatorId(operators / 2);
    let settings = Settings { spin: Duration::from_micros(100), ..settings };
    let mut running = chain(u64::MAX, PERIOD_NS)?.start(settings, &vec![0; operators])?;
    running.split(second, 1)?;
    for number in 0..MOVE_COUNT {
        running.relocate(second, number % 2)?;
        std::thread::sleep(MOVE_PERIOD);
    }
    running.end_sources();
    let report = running.finish()?;
    let relocations = &report.relocations;
    let at = |quantile| relocations.handover_ns.value_at_quantile(quantile);
    println!("{} moves at 500,000 tuples/s:", relocations.moves);
    println!("  hand-over p50 {} ns, p90 {} ns, p99 {} ns", at(0.5), at(0.9), at(0.99));
    let at = |quantile| relocations.pause_ns.value_at_quantile(quantile);
    println!("  pause     p50 {} ns, p90 {} ns, p99 {} ns", at(0.5), at(0.9), at(0.99));
    if let Some(latency) = &report.operators[operators - 1].latency {
        let at = |quantile| latency.total.value_at_quantile(quantile);
        println!("  latency   p50 {} ns, p90 {} ns, p99 {} ns", at(0.5), at(0.9), at(0.99));
    }
    let violations: u64 = report.operators.iter().map(|operator| operator.sequence_violations).sum();
    println!("  tuples out of order, lost or doubled: {violations}");
    Ok(())
}

/// A chain of operators that add 1.
fn chain(count: u64, period_ns: u64) -> Result<Stream, Error> {
    let builder = StreamBuilder::new(1_024);
    let mut flow: Flow<u64> = builder.source("ticks", Ticks { next: 0, count, period_ns });
    for number in 0..CHAIN_OPERATORS {
        flow = flow.then(&format!("add {number}"), each(|n: u64, out: &mut Emitter<u64>| out.emit(n + 1)));
    }
    flow.sink("sink", Sum(0));
    builder.build()
}

/// Numbers at a constant rate, or as fast as they are taken if the period is 0.
struct Ticks {
    next: u64,
    count: u64,
    period_ns: u64,
}

impl Source for Ticks {
    type Out = u64;

    fn next(&mut self, now_ns: u64) -> Next<u64> {
        let due_ns = self.next * self.period_ns;
        if self.next == self.count {
            return Next::End;
        }
        if due_ns > now_ns {
            return Next::At(due_ns);
        }
        self.next += 1;
        Next::Value { value: self.next, arrival_ns: if self.period_ns == 0 { now_ns } else { due_ns } }
    }
}

struct Sum(u64);

impl Recover for Sum {}

impl Sink for Sum {
    type In = u64;

    fn consume(&mut self, tuple: Tuple<u64>) {
        self.0 = std::hint::black_box(self.0.wrapping_add(tuple.value));
    }
}
