//! Costs of calls, rings and moves on this machine, and a long run that is to lose nothing.
//!
//! ```text
//! cargo run --release -p sakiyomi-stream --example relocate -- [--moves 2000] [--json]
//! cargo run --release -p sakiyomi-stream --example relocate -- --tuples 1000000000 --relocations 100000 [--seed 1]
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its table")]

mod chain;
#[path = "../driver/mod.rs"]
#[allow(dead_code, reason = "each example uses a part")]
mod driver;
mod endurance;
mod pauses;

use std::error::Error;
use std::time::Instant;

use sakiyomi_os::affinity::usable_cpus;
use sakiyomi_os::cpu::of_this_process;
use sakiyomi_stream::{Settings, Stream};
use serde_json::json;

use chain::chain;
use driver::options::Options;

/// Tuples of a measurement without pauses.
const TUPLE_COUNT: u64 = 5_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = Options::of_process();
    let moves: usize = options.value("--moves", 2_000)?;
    let tuples: u64 = options.value("--tuples", 0)?;
    let relocations: u64 = options.value("--relocations", tuples / 10_000)?;
    let seed: u64 = options.value("--seed", 1)?;
    let is_json = options.flag("--json");
    options.end()?;
    let cpus = usable_cpus()?.into_iter().take(2).collect();
    let settings = Settings::pinned(&cpus);
    if settings.workers.len() < 2 {
        return Err("rings and moves need two CPUs".into());
    }
    if tuples > 0 {
        let endured = endurance::run(tuples, relocations, seed, settings)?;
        println!("{}", if is_json { endured.json().to_string() } else { endured.text() });
        return if endured.violations == 0 {
            Ok(())
        } else {
            Err("tuples were lost, doubled or out of order".into())
        };
    }
    let operators = chain::OPERATORS + 2;
    let [wall_ns, cpu_ns] = time(chain(TUPLE_COUNT, 0)?, &settings, &vec![0; operators])?;
    let halves: Vec<usize> = (0..operators).map(|operator| usize::from(operator > operators / 2)).collect();
    let [halves_ns, halves_cpu_ns] = time(chain(TUPLE_COUNT, 0)?, &settings, &halves)?;
    let pauses = pauses::measure(moves, &settings, &cpus)?;
    if is_json {
        let per_operator_ns = wall_ns / operators as f64;
        println!(
            "{}",
            json!({ "call_ns": per_operator_ns, "halves_ns": halves_ns, "pauses": pauses.json() })
        );
        return Ok(());
    }
    println!(
        "one core: {:.1} ns a tuple and operator ({:.1} ns of CPU time)",
        wall_ns / operators as f64,
        cpu_ns / operators as f64
    );
    println!("two halves on two cores: {halves_ns:.1} ns a tuple ({halves_cpu_ns:.1} ns of CPU time)");
    print!("{}", pauses.text());
    Ok(())
}

/// Nanoseconds per tuple of a stream that is run to its end: elapsed, and of the CPUs.
fn time(
    stream: Stream,
    settings: &Settings,
    worker_of: &[usize],
) -> Result<[f64; 2], sakiyomi_stream::Error> {
    let (start, cpu) = (Instant::now(), of_this_process());
    stream.start(settings.clone(), worker_of)?.finish()?;
    let times = [start.elapsed(), of_this_process() - cpu];
    Ok(times.map(|time| time.as_nanos() as f64 / TUPLE_COUNT as f64))
}
