//! Interleaved runs of both engines, and their medians.
//!
//! The rates at which latencies are compared are shares of the peak of the slower engine, so that both have the same
//! absolute rates. Runs alternate between the engines, and each other round begins with the other engine. The results of
//! all runs of a schedule have to agree.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use sakiyomi_os::topology::Cpus;
use sakiyomi_stream::Settings;
use serde::Serialize;

use crate::event::{Pool, Schedule};
use crate::load::{Load, Outcome, Pace, Results, on_cpus};
use crate::query::{Query, Windows};
use crate::records::{self, Lines};
use crate::{dataflow, operators};

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// This project's streams.
    Sakiyomi,
    /// Timely dataflow.
    Timely,
}

impl Engine {
    /// Both engines.
    pub const ALL: [Engine; 2] = [Engine::Sakiyomi, Engine::Timely];

    /// Runs a query.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn run(self, load: &Load) -> Result<Outcome> {
        match self {
            Engine::Sakiyomi => operators::run(load),
            Engine::Timely => dataflow::run(load),
        }
    }
}

/// The extent of the measurements.
#[derive(Clone, Debug)]
pub struct Extent {
    /// Runs of each engine at each rate, of which the median is taken.
    pub rounds: usize,
    /// Length of a run, in seconds.
    pub run_s: f64,
    /// Rates, as shares of the peak of the slower engine.
    pub shares: Vec<f64>,
    /// Time between the ends of two windows, in nanoseconds.
    pub hop_ns: u64,
    /// CPUs for the workers.
    pub cpus: Cpus,
}

/// A query on both engines with a number of workers.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Number of the query.
    pub query: u32,
    /// Workers of each engine.
    pub workers: usize,
    /// Time that timely's workers poll, in microseconds: the one with the least 99th percentile.
    pub timely_spin_us: u64,
    /// Highest throughput of the engines.
    pub peaks: Vec<Peak>,
    /// Latencies at the same rates.
    pub rates: Vec<AtRate>,
}

/// The highest throughput of an engine.
#[derive(Clone, Debug, Serialize)]
pub struct Peak {
    /// The engine.
    pub engine: Engine,
    /// Events in a second.
    pub events_per_s: f64,
    /// CPU time of an event, in nanoseconds.
    pub event_cpu_ns: f64,
}

/// Both engines at a rate.
#[derive(Clone, Debug, Serialize)]
pub struct AtRate {
    /// The rate as a share of the peak of the slower engine.
    pub peak_ratio: f64,
    /// Events in a second.
    pub events_per_s: f64,
    /// Rows of a run.
    pub rows: u64,
    /// The engines.
    pub engines: Vec<Figures>,
}

/// Medians of the runs of an engine at a rate.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The engine.
    pub engine: Engine,
    /// Median latency in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile of the latency; none of fewer than 100 rows.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile of the latency; none of fewer than 1,000 rows.
    pub p99_9_ns: Option<u64>,
    /// Largest latency.
    pub latency_max_ns: u64,
    /// CPU time of a run, in seconds.
    pub cpu_s: f64,
    /// Length of a run, in seconds.
    pub elapsed_s: f64,
}

/// A query as a pipeline in TOML and as a program in Rust.
#[derive(Clone, Debug, Serialize)]
pub struct RecordComparison {
    /// Number of the query.
    pub query: u32,
    /// Lines of a run.
    pub lines: u64,
    /// Lines in a second of the pipeline.
    pub pipeline_lines_per_s: f64,
    /// Lines in a second of the program.
    pub program_lines_per_s: f64,
    /// Throughput of the pipeline in relation to that of the program.
    pub throughput_ratio: f64,
    /// CPU time of a line in the pipeline, in nanoseconds.
    pub pipeline_line_cpu_ns: f64,
    /// CPU time of a line in the program, in nanoseconds.
    pub program_line_cpu_ns: f64,
}

/// Nominal rate before a peak is known, which gives events their times.
const ESTIMATE_RATE_PER_S: f64 = 1e6;

/// Events of the first run of an estimate.
const ESTIMATE_EVENTS: u64 = 100_000;

/// Length of the last run of an estimate: longer than the start of threads by far.
const ESTIMATE_TIME: Duration = Duration::from_millis(200);

/// Times that timely's workers poll, one of which is chosen for each query: its default is 10 µs.
const TIMELY_SPINS_US: [u64; 4] = [0, 10, 100, 1_000];

/// The share of the peak at which the polling is chosen.
const TUNING_RATE_RATIO: f64 = 0.5;

/// Length of a run by which the polling is chosen.
const TUNING_RUN_S: f64 = 0.5;

/// Time that our workers poll: that of `Settings::pinned`.
const OWN_SPIN: Duration = Duration::from_micros(20);

/// Compares the engines on a query.
///
/// # Errors
/// If an engine fails, or their results differ.
pub fn compare(query: Query, workers: usize, pool: &Arc<Pool>, extent: &Extent) -> Result<Comparison> {
    let bench = Bench { query, workers, pool, extent };
    let timely_default = Duration::from_micros(TIMELY_SPINS_US[1]);
    let estimates = Engine::ALL.map(|engine| bench.estimate(engine, spin(engine, timely_default)));
    let [ours, theirs] = estimates;
    let nominal = ours?.min(theirs?);
    let peaks = bench.peaks(nominal, timely_default)?;
    let slower = peaks.iter().map(|peak| peak.events_per_s).fold(f64::INFINITY, f64::min);
    let tuned = bench.tune_timely(slower * TUNING_RATE_RATIO)?;
    let rates = extent.shares.iter().map(|&share| bench.at_rate(share, slower * share, tuned));
    let rates = rates.collect::<Result<_>>()?;
    let timely_spin_us = u64::try_from(tuned.as_micros())?;
    Ok(Comparison { query: query.number(), workers, timely_spin_us, peaks, rates })
}

/// Polling of an engine.
fn spin(engine: Engine, timely: Duration) -> Duration {
    match engine {
        Engine::Sakiyomi => OWN_SPIN,
        Engine::Timely => timely,
    }
}

/// The measurements of a query.
struct Bench<'a> {
    query: Query,
    workers: usize,
    pool: &'a Arc<Pool>,
    extent: &'a Extent,
}

impl Bench<'_> {
    fn load(&self, schedule: Schedule, pace: Pace, spin: Duration) -> Load {
        Load {
            query: self.query,
            windows: Windows { hop_ns: self.extent.hop_ns, until_ns: schedule.end_ns() },
            pool: Arc::clone(self.pool),
            schedule,
            pace,
            workers: on_cpus(&self.extent.cpus, self.workers),
            spin,
            keeps_rows: false,
        }
    }

    /// Events in a second that an engine processes about.
    fn estimate(&self, engine: Engine, spin: Duration) -> Result<f64> {
        let mut events = ESTIMATE_EVENTS;
        loop {
            let schedule = Schedule { events, rate_per_s: ESTIMATE_RATE_PER_S };
            let elapsed = engine.run(&self.load(schedule, Pace::Unlimited, spin))?.elapsed;
            if elapsed >= ESTIMATE_TIME {
                return Ok(events as f64 / elapsed.as_secs_f64());
            }
            events *= 2;
        }
    }

    /// One run of each engine for each round, in turns; the outcomes of each engine.
    fn rounds(&self, schedule: Schedule, pace: Pace, timely_spin: Duration) -> Result<[Vec<Outcome>; 2]> {
        let mut outcomes = [Vec::new(), Vec::new()];
        let mut first: Option<Results> = None;
        for round in 0..self.extent.rounds {
            for turn in 0..2 {
                let index = (round + turn) % 2;
                let engine = Engine::ALL[index];
                let outcome = engine.run(&self.load(schedule, pace, spin(engine, timely_spin)))?;
                let expected = first.get_or_insert_with(|| outcome.results.clone());
                ensure!(
                    outcome.results.agrees(expected),
                    "{}: the rows of {engine:?} differ: {} instead of {}",
                    self.query,
                    outcome.results.count,
                    expected.count
                );
                outcomes[index].push(outcome);
            }
        }
        Ok(outcomes)
    }

    fn peaks(&self, nominal_per_s: f64, timely_spin: Duration) -> Result<Vec<Peak>> {
        let events = (nominal_per_s * self.extent.run_s) as u64;
        let schedule = Schedule { events, rate_per_s: nominal_per_s };
        let outcomes = self.rounds(schedule, Pace::Unlimited, timely_spin)?;
        let peak = |(engine, outcomes): (Engine, &Vec<Outcome>)| Peak {
            engine,
            events_per_s: median(outcomes.iter().map(|run| events as f64 / run.elapsed.as_secs_f64())),
            event_cpu_ns: median(outcomes.iter().map(|run| run.cpu.as_secs_f64() * 1e9 / events as f64)),
        };
        Ok(Engine::ALL.into_iter().zip(&outcomes).map(peak).collect())
    }

    /// The polling of timely's workers with the least 99th percentile, of few rows the median, at a rate.
    fn tune_timely(&self, rate_per_s: f64) -> Result<Duration> {
        let schedule = Schedule { events: (rate_per_s * TUNING_RUN_S) as u64, rate_per_s };
        let mut best: Option<(u64, Duration)> = None;
        for spin in TIMELY_SPINS_US.map(Duration::from_micros) {
            let outcome = Engine::Timely.run(&self.load(schedule, Pace::Scheduled, spin))?;
            let latency_ns =
                percentile(&outcome, 0.99).unwrap_or_else(|| outcome.latency.value_at_quantile(0.5));
            if best.is_none_or(|(least_ns, _)| latency_ns < least_ns) {
                best = Some((latency_ns, spin));
            }
        }
        Ok(best.map_or(Duration::ZERO, |(_, spin)| spin))
    }

    fn at_rate(&self, peak_ratio: f64, rate_per_s: f64, timely_spin: Duration) -> Result<AtRate> {
        let schedule = Schedule { events: (rate_per_s * self.extent.run_s) as u64, rate_per_s };
        let outcomes = self.rounds(schedule, Pace::Scheduled, timely_spin)?;
        let rows = outcomes[0].first().map_or(0, |outcome| outcome.results.count);
        let engines = Engine::ALL.into_iter().zip(&outcomes);
        let engines = engines.map(|(engine, outcomes)| Figures::of(engine, outcomes)).collect();
        Ok(AtRate { peak_ratio, events_per_s: rate_per_s, rows, engines })
    }
}

impl Figures {
    fn of(engine: Engine, outcomes: &[Outcome]) -> Figures {
        let quantile = |quantile: f64| {
            let each: Option<Vec<f64>> = outcomes
                .iter()
                .map(|outcome| percentile(outcome, quantile).map(|latency_ns| latency_ns as f64))
                .collect();
            each.map(|each| median(each.into_iter()) as u64)
        };
        Figures {
            engine,
            p50_ns: quantile(0.5).unwrap_or(0),
            p99_ns: quantile(0.99),
            p99_9_ns: quantile(0.999),
            latency_max_ns: median(outcomes.iter().map(|outcome| outcome.latency.max() as f64)) as u64,
            cpu_s: median(outcomes.iter().map(|outcome| outcome.cpu.as_secs_f64())),
            elapsed_s: median(outcomes.iter().map(|outcome| outcome.elapsed.as_secs_f64())),
        }
    }
}

/// A percentile of the latency in nanoseconds, if at least one row is beyond it.
fn percentile(outcome: &Outcome, quantile: f64) -> Option<u64> {
    let beyond = outcome.latency.len() as f64 * (1.0 - quantile);
    // In floating point, 0.9999999 of 1,000 rows are beyond 99.9 %.
    (beyond > 0.999).then(|| outcome.latency.value_at_quantile(quantile))
}

/// The median; of an even number the mean of both in the middle, of none 0.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        length if length % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// Compares a pipeline in TOML with a program in Rust, on one worker each.
///
/// # Errors
/// If one of them fails, or the numbers of their rows differ.
pub fn compare_records(query: Query, lines: &Lines, extent: &Extent) -> Result<RecordComparison> {
    let settings = Settings { workers: on_cpus(&extent.cpus, 1), spin: OWN_SPIN };
    let mut outcomes = [Vec::new(), Vec::new()];
    for round in 0..extent.rounds {
        for turn in 0..2 {
            let index = (round + turn) % 2;
            let (hop_ns, settings) = (extent.hop_ns, settings.clone());
            let outcome = match index {
                0 => records::run_pipeline(query, hop_ns, lines, settings)?,
                _ => records::run_program(query, hop_ns, lines, settings, false)?.0,
            };
            outcomes[index].push(outcome);
        }
    }
    let [pipeline, program] = &outcomes;
    let rows: Vec<u64> = pipeline.iter().chain(program).map(|outcome| outcome.rows).collect();
    ensure!(rows.iter().all(|&count| count == rows[0]), "{query}: the numbers of rows differ: {rows:?}");
    let line_count = lines.count as f64;
    let per_s = |outcomes: &[records::Outcome]| {
        median(outcomes.iter().map(|outcome| line_count / outcome.elapsed.as_secs_f64()))
    };
    let cpu_ns = |outcomes: &[records::Outcome]| {
        median(outcomes.iter().map(|outcome| outcome.cpu.as_secs_f64() * 1e9 / line_count))
    };
    Ok(RecordComparison {
        query: query.number(),
        lines: lines.count,
        pipeline_lines_per_s: per_s(pipeline),
        program_lines_per_s: per_s(program),
        throughput_ratio: per_s(pipeline) / per_s(program),
        pipeline_line_cpu_ns: cpu_ns(pipeline),
        program_line_cpu_ns: cpu_ns(program),
    })
}
