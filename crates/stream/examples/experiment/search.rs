//! The best division of each phase, and the best one of the whole run, by measuring all that hold the rate.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use sakiyomi_stream::Settings;
use serde_json::{Value, json};

use crate::arms::{cores, nanos, two_cpus};
use crate::driver::chain::{SINK, chain, workers};
use crate::driver::figures::{bins, median, medians};
use crate::driver::load::{OPERATORS, Pattern, Phase, Spacing};

/// Measurements of a division, in turn with the others.
const ROUNDS: u64 = 3;

/// Utilization beyond which a division is not measured: its queue grows for longer than a measurement takes.
const UTILIZATION_MAX: f64 = 0.97;

/// Mean latencies of a load by the division of the chain.
struct Measured {
    load: Phase,
    /// Infinite where the division does not hold the rate.
    mean_ns: Vec<f64>,
}

/// Figures of all divisions.
pub(crate) struct Search {
    loads: Vec<Measured>,
    /// For each phase its load, and how long it takes.
    phases: Vec<(usize, u64)>,
}

impl Search {
    /// Measures each division of each load for a while.
    ///
    /// # Errors
    /// If a thread cannot be started or pinned, or was lost.
    pub(crate) fn new(pattern: &Pattern, time: Duration, seed: u64) -> Result<Search, Box<dyn Error>> {
        let mut loads: Vec<Measured> = Vec::new();
        let mut phases = Vec::new();
        for (index, phase) in pattern.phases.iter().enumerate() {
            let known = loads.iter().position(|known| known.load.has_load_of(phase));
            let load = known.unwrap_or_else(|| {
                loads.push(Measured { load: phase.clone(), mean_ns: Vec::new() });
                loads.len() - 1
            });
            phases.push((load, pattern.phase_end_ns(index) - phase.from_ns));
        }
        for measured in &mut loads {
            eprintln!("divisions at {:.0} tuples/s", measured.load.rate_per_s);
            measured.mean_ns = divisions(&measured.load, time, seed)?;
        }
        Ok(Search { loads, phases })
    }

    /// The division with the least latency in a phase.
    pub(crate) fn best_cut(&self, phase: usize) -> usize {
        let (load, _) = self.phases[phase];
        best(0..=SINK, |cut| self.loads[load].mean_ns[cut])
    }

    /// Cores of that division.
    pub(crate) fn best_cores(&self, phase: usize) -> usize {
        cores(self.best_cut(phase))
    }

    /// The division between two cores with the least latency over all phases.
    pub(crate) fn static_cut(&self) -> usize {
        let all_ns = |cut: usize| {
            let phases = self.phases.iter();
            phases.map(|&(load, time_ns)| self.loads[load].mean_ns[cut] * time_ns as f64).sum::<f64>()
        };
        best(1..=SINK, all_ns)
    }

    pub(crate) fn json(&self) -> Value {
        let of = |measured: &Measured| {
            let means = measured.mean_ns.iter().map(|mean_ns| mean_ns.is_finite().then_some(*mean_ns));
            json!({
                "rate_per_s": measured.load.rate_per_s,
                "passed_ratio": measured.load.passed_ratio,
                "mean_ns_by_cut": means.collect::<Vec<_>>(),
            })
        };
        self.loads.iter().map(of).collect()
    }
}

fn best(cuts: std::ops::RangeInclusive<usize>, figure: impl Fn(usize) -> f64) -> usize {
    cuts.min_by(|&one, &other| figure(one).total_cmp(&figure(other))).unwrap_or(0)
}

/// The mean latency of each division.
fn divisions(load: &Phase, time: Duration, seed: u64) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut means = vec![Vec::new(); SINK + 1];
    for round in 0..ROUNDS {
        for cut in (0..=SINK).filter(|&cut| holds(load, cut)) {
            let pattern = Arc::new(Pattern::steady(load, nanos(time), Spacing::Poisson));
            let running = chain(&pattern, seed + round)?;
            let report = running.start(Settings::pinned(&two_cpus()?), &workers(cut))?.finish()?;
            // The first bin has the start of the threads.
            means[cut].extend(
                medians(bins(&report, SINK).get(1..).unwrap_or_default()).map(|(mean_ns, _)| mean_ns),
            );
        }
    }
    Ok(means.into_iter().map(|means| median(means).unwrap_or(f64::INFINITY)).collect())
}

fn holds(load: &Phase, cut: usize) -> bool {
    // The source stands before the first operator, and the sink behind the last one.
    load.utilization(cut.saturating_sub(1).min(OPERATORS)) < UTILIZATION_MAX
}
