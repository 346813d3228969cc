//! The experiment of Ueda et al. (IEICE Trans. D 96(5), 2013): a chain whose load shifts between its operators, run by
//! six arms in turn, of which one adapts. The pattern counts only if the best static division takes half as long again
//! as the best of each phase in two of them; `bench/streams.py` judges, and draws the page.
//!
//! ```text
//! cargo run --release -p sakiyomi-stream --example experiment -- \
//!     [--unit 5] [--rounds 2] [--seed 1] [--patterns 0] [--search 0.4] [--json]
//! ```
//!
//! | option | value |
//! |---|---|
//! | `--unit` | seconds between two changes of the load; the first is after two of them |
//! | `--rounds` | runs of each arm; every second round goes through the arms backwards |
//! | `--seed` | seed of arrivals and of random patterns |
//! | `--patterns` | number of random patterns in place of the paper's: nothing was tuned with them |
//! | `--search` | seconds for which a division is measured, three times, to find the best of a phase |
//! | `--json` | everything as JSON |
//!
//! | arm | operators |
//! |---|---|
//! | `one core` | all on one core |
//! | `static` | divided between two cores, best for the whole run |
//! | `threads` | a thread for each, channels between them, on two cores |
//! | `stub` | divided best for each phase, by the paper's mechanism: a moved operator leaves a stub that forwards |
//! | `adaptive` | moved by `stream::adapt`, which is told nothing |
//! | `oracle` | divided best for each phase, at the moment when it begins |
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its table")]

mod arms;
#[path = "../driver/mod.rs"]
#[allow(dead_code, reason = "each example uses a part")]
mod driver;
mod run;
mod search;
mod stub;
mod threads;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use sakiyomi_os::affinity::usable_cpus;
use serde_json::{Value, json};

use arms::Arm;
use driver::load::Pattern;
use driver::options::Options;
use run::Run;
use search::Search;

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = Options::of_process();
    let unit = Duration::from_secs_f64(options.value("--unit", 5.0)?);
    let rounds: usize = options.value("--rounds", 2)?;
    let seed: u64 = options.value("--seed", 1)?;
    let patterns: u64 = options.value("--patterns", 0)?;
    let time = Duration::from_secs_f64(options.value("--search", 0.4)?);
    let is_json = options.flag("--json");
    options.end()?;
    if usable_cpus()?.len() < 2 {
        return Err("the experiment needs two CPUs".into());
    }
    let unit_ns = u64::try_from(unit.as_nanos())?;
    let named: Vec<(String, Pattern)> = match patterns {
        0 => vec![("paper".to_owned(), Pattern::of_paper(unit_ns))],
        _ => (0..patterns)
            .map(|number| (format!("random {}", seed + number), Pattern::random(seed + number, unit_ns)))
            .collect(),
    };
    let mut results = Vec::new();
    for (name, pattern) in named {
        let pattern = Arc::new(pattern);
        let search = Search::new(&pattern, time, seed)?;
        let runs = measure(&pattern, &search, rounds, seed)?;
        if !is_json {
            print(&name, &pattern, &search, &runs);
        }
        results.push(json(&name, &pattern, &search, &runs));
    }
    if is_json {
        println!("{}", json!({ "patterns": results }));
    }
    Ok(())
}

/// Runs of arms, by round.
type Runs = [(Arm, usize, Run)];

/// Runs all arms in turn.
fn measure(
    pattern: &Arc<Pattern>,
    search: &Search,
    rounds: usize,
    seed: u64,
) -> Result<Box<Runs>, Box<dyn Error>> {
    let mut runs = Vec::new();
    for round in 0..rounds {
        let mut arms = Arm::ALL;
        if round % 2 == 1 {
            arms.reverse();
        }
        for arm in arms {
            eprintln!("round {}, {}", round + 1, arm.name());
            runs.push((arm, round, arm.run(pattern, search, seed + round as u64)?));
        }
    }
    Ok(runs.into())
}

fn json(name: &str, pattern: &Pattern, search: &Search, runs: &Runs) -> Value {
    let phases = pattern.phases.iter().enumerate().map(|(index, phase)| {
        json!({
            "from_ns": phase.from_ns,
            "to_ns": pattern.phase_end_ns(index),
            "rate_per_s": phase.rate_per_s,
            "passed_ratio": phase.passed_ratio,
            "best_cut": search.best_cut(index),
            "best_cores": search.best_cores(index),
        })
    });
    let runs = runs.iter().map(|(arm, round, run)| {
        let mut value = run.json();
        value["arm"] = json!(arm.name());
        value["round"] = json!(round);
        value
    });
    json!({
        "name": name,
        "phases": phases.collect::<Vec<_>>(),
        "divisions": search.json(),
        "static_cut": search.static_cut(),
        "runs": runs.collect::<Vec<_>>(),
    })
}

fn print(name: &str, pattern: &Pattern, search: &Search, runs: &Runs) {
    println!(
        "{name}: microseconds in the mean, by phase from a second after its begin; static cut {}",
        search.static_cut()
    );
    print!("{:24}", "cut of the oracle");
    (0..pattern.phases.len()).for_each(|phase| print!(" {:9}", search.best_cut(phase)));
    println!();
    for (arm, round, run) in runs {
        print!("{:14} round {:3}", arm.name(), round + 1);
        for phase in 0..pattern.phases.len() {
            print!(" {:9.2}", run.mean_ns(pattern, phase).unwrap_or(f64::NAN) * 1e-3);
        }
        println!("  {:.1} CPU s, {} out of order", run.cpu.as_secs_f64(), run.violations);
        for change in &run.changes {
            println!("    {:8.1} ms: {}", change.at_ns as f64 * 1e-6, change.text());
        }
    }
}
