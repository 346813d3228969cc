//! `nexmark`: both engines at the same rates, as tables and JSON.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use sakiyomi_bench_streams::compare::{Extent, compare, compare_records};
use sakiyomi_bench_streams::event::{Feed, Pool, Schedule};
use sakiyomi_bench_streams::query::Query;
use sakiyomi_bench_streams::records::{self, Lines};
use sakiyomi_bench_streams::table;
use sakiyomi_os::affinity::usable_cpus;
use sakiyomi_os::machine;
use serde_json::json;

/// NEXMark on sakiyomi's streams and on timely dataflow
///
/// The tables go to standard output, progress to standard error.
#[derive(Debug, Parser)]
#[command(name = "nexmark")]
struct Options {
    /// Three rounds of a second with one worker, in about four minutes
    #[arg(long)]
    quick: bool,

    /// Queries to run
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 3, 5, 7, 8])]
    queries: Vec<u32>,

    /// Numbers of workers, each on a CPU of its own [default: 1,2; with --quick 1]
    #[arg(long, value_delimiter = ',')]
    workers: Vec<usize>,

    /// Runs of each engine at each rate [default: 5; with --quick 3]
    #[arg(long)]
    rounds: Option<usize>,

    /// Length of a run, in seconds [default: 4; with --quick 1]
    #[arg(long)]
    seconds: Option<f64>,

    /// Rates, in per cent of the slower engine's peak
    #[arg(long, value_delimiter = ',', default_values_t = [20.0, 50.0, 80.0])]
    rates: Vec<f64>,

    /// Time between the ends of two windows, in milliseconds
    #[arg(long, default_value_t = 10)]
    hop_ms: u64,

    /// Seed of the events
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Leave out the pipelines in TOML
    #[arg(long)]
    no_toml: bool,

    /// Write the result as JSON to a file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Events that are generated and repeated: more than the caches hold, so that a run reads them from memory.
const POOL_EVENTS: usize = 1 << 20;

/// Events whose bids are the lines of JSON, per second of a run.
const LINES_EVENTS_PER_S: f64 = 1e6;

/// Rate of the lines by their event times.
const LINES_RATE_PER_S: f64 = 1e6;

/// Nanoseconds of a millisecond.
const MS_NS: u64 = 1_000_000;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let queries = options.queries.iter().map(|&number| {
        Query::of_number(number).with_context(|| format!("query {number} is not one of 1, 2, 3, 5, 7 and 8"))
    });
    let queries = queries.collect::<Result<Vec<Query>>>()?;
    let extent = extent(options)?;
    let workers = workers(options, extent.cpus.len())?;
    eprintln!("generating events");
    let pool = Arc::new(Pool::generate(options.seed, POOL_EVENTS));
    let (mut comparisons, mut record_comparisons) = (Vec::new(), Vec::new());
    for &query in &queries {
        for &workers in &workers {
            eprintln!("{query}, {workers} worker(s)");
            comparisons.push(compare(query, workers, &pool, &extent)?);
        }
    }
    if !options.no_toml {
        let events = (extent.run_s * LINES_EVENTS_PER_S) as u64;
        let schedule = Schedule { events, rate_per_s: LINES_RATE_PER_S };
        let lines = Lines::of(Feed::new(Arc::clone(&pool), schedule, 0, 1));
        for query in records::QUERIES.into_iter().filter(|query| queries.contains(query)) {
            eprintln!("{query} as a pipeline in TOML");
            record_comparisons.push(compare_records(query, &lines, &extent)?);
        }
    }
    print!("{}", table::text(&comparisons, &record_comparisons));
    if let Some(path) = &options.json {
        let document = json!({
            "schema": "sakiyomi.bench.nexmark/1",
            "run": {
                "kernel": machine::kernel(),
                "cpu": machine::cpu(),
                "cpus": extent.cpus,
                "seed": options.seed,
                "rounds": extent.rounds,
                "run_s": extent.run_s,
                "hop_ns": extent.hop_ns,
            },
            "result": { "comparisons": comparisons, "records": record_comparisons },
        });
        std::fs::write(path, format!("{document:#}\n"))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn extent(options: &Options) -> Result<Extent> {
    let run_s = options.seconds.unwrap_or(if options.quick { 1.0 } else { 4.0 });
    ensure!((0.1..=600.0).contains(&run_s), "--seconds is from 0.1 to 600, not {run_s}");
    let rounds = options.rounds.unwrap_or(if options.quick { 3 } else { 5 });
    ensure!((1..=1000).contains(&rounds), "--rounds is from 1 to 1000, not {rounds}");
    ensure!((1..=60_000).contains(&options.hop_ms), "--hop-ms is from 1 to 60000, not {}", options.hop_ms);
    let is_share = |rate: &f64| (1.0..=100.0).contains(rate);
    ensure!(options.rates.iter().all(is_share), "--rates are from 1 to 100 per cent");
    let shares = options.rates.iter().map(|rate| rate / 100.0).collect();
    Ok(Extent { rounds, run_s, shares, hop_ns: options.hop_ms * MS_NS, cpus: usable_cpus()? })
}

fn workers(options: &Options, cpus: usize) -> Result<Vec<usize>> {
    if options.workers.is_empty() {
        return Ok(if options.quick || cpus < 2 { vec![1] } else { vec![1, 2] });
    }
    for &workers in &options.workers {
        ensure!((1..=2).contains(&workers), "--workers are 1 or 2, not {workers}");
        ensure!(workers <= cpus, "{workers} workers need as many CPUs; this process may use {cpus}");
    }
    Ok(options.workers.clone())
}
