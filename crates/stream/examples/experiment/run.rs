//! Results of a run of an arm.

use std::time::Duration;

use serde_json::{Value, json};

use crate::driver::figures::Bin;
use crate::driver::load::Pattern;

/// Time from a change of the load until a phase counts as steady.
pub(crate) const SETTLE_NS: u64 = 1_000_000_000;

/// A change of the placement.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// When it was complete.
    pub(crate) at_ns: u64,
    /// How long it took, from the decision if there was one.
    pub(crate) duration_ns: u64,
    /// Cores in use from then on.
    pub(crate) cores: usize,
    /// The reason, or else the cut.
    pub(crate) reason: String,
}

impl Change {
    pub(crate) fn text(&self) -> String {
        format!("{}, {} cores, after {:.3} ms", self.reason, self.cores, self.duration_ns as f64 * 1e-6)
    }
}

/// A run of an arm.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) bins: Vec<Bin>,
    /// Cores in use at the beginning.
    pub(crate) cores: usize,
    pub(crate) changes: Vec<Change>,
    /// For each phase the share of the CPUs' time that others took while it was steady.
    pub(crate) others_ratio: Vec<f64>,
    /// CPU time of the process.
    pub(crate) cpu: Duration,
    /// Tuples that were lost, doubled or out of order.
    pub(crate) violations: u64,
}

impl Run {
    /// Mean latency while a phase is steady; none without results.
    pub(crate) fn mean_ns(&self, pattern: &Pattern, phase: usize) -> Option<f64> {
        let (from_ns, to_ns) = (pattern.phases[phase].from_ns + SETTLE_NS, pattern.phase_end_ns(phase));
        let bins = || self.bins.iter().filter(|bin| (from_ns..to_ns).contains(&bin.start_ns));
        let results: u64 = bins().map(|bin| bin.results).sum();
        let sum_ns: f64 = bins().map(|bin| bin.mean_ns * bin.results as f64).sum();
        (results > 0).then(|| sum_ns / results as f64)
    }

    pub(crate) fn json(&self) -> Value {
        let changes = self.changes.iter().map(|change| {
            json!({
                "at_ns": change.at_ns,
                "duration_ns": change.duration_ns,
                "cores": change.cores,
                "reason": change.reason,
            })
        });
        json!({
            "bins": self.bins.iter().map(Bin::json).collect::<Vec<_>>(),
            "cores": self.cores,
            "changes": changes.collect::<Vec<_>>(),
            "others_ratio": self.others_ratio,
            "cpu_s": self.cpu.as_secs_f64(),
            "violations": self.violations,
        })
    }
}
