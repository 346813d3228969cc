//! Explanations: a plan as a tree with its predicted phases, the rejected plans, and after a run the measured phases
//! beside the predicted ones.

use serde::Serialize;

use super::correction::{ObservedJob, ObservedPart, Times};
use super::prediction::{Comparison, PhasePrediction, Prediction};
use super::rejected::Rejected;
use super::search::Choice;
use super::shape::Task;
use super::stage::Bound;
use super::tree::{Node, tree};
use crate::phase::Phase;

/// A chosen plan with its predicted times and the rejected plans.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The task.
    #[serde(skip)]
    pub task: Task,
    /// The plan as a tree, the result at its root.
    pub tree: Node,
    /// The plan, its figures, and the plans that were rejected.
    #[serde(flatten)]
    pub choice: Choice,
    /// Measured and predicted figures side by side, if the job was run.
    pub analysis: Option<Analysis>,
}

/// Measured figures of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Its phases.
    pub phases: Vec<Phase>,
    /// Elapsed time of the job, in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of the process in user mode, in nanoseconds.
    pub user_ns: u64,
    /// CPU time of the process in the kernel, in nanoseconds.
    pub system_ns: u64,
    /// Number of compute threads.
    pub threads: usize,
}

/// Measured and predicted figures side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Analysis {
    /// Parts of the job in the order of the prediction, then phases without a prediction.
    pub phases: Vec<AnalyzedPhase>,
    /// Measured figures of the whole job.
    pub measured: Measured,
    /// Prediction errors of the whole job.
    #[serde(flatten)]
    pub errors: Errors,
}

/// A part of a job, measured and predicted. Phases that overlap are one part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AnalyzedPhase {
    /// Its name: that of its last predicted phase.
    pub name: String,
    /// Its predicted phases; empty if it was not predicted.
    pub predicted: Vec<PhasePrediction>,
    /// Its measured phases; empty if it did not run.
    pub measured: Vec<Phase>,
    /// Predicted time, in nanoseconds.
    pub predicted_elapsed_ns: u64,
    /// Measured time, in nanoseconds.
    pub measured_elapsed_ns: u64,
    /// The resource that limited it, by its measured figures.
    pub measured_bound: Option<Bound>,
    /// Errors of the predictions, if it was both predicted and measured.
    #[serde(flatten)]
    pub errors: Option<Errors>,
}

/// Relative errors: predicted over measured, minus 1. Negative if the prediction was too short; `None` without a
/// measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// Error of the elapsed time.
    pub elapsed_error_ratio: Option<f64>,
    /// Error of the CPU time.
    pub cpu_error_ratio: Option<f64>,
    /// Error of the elapsed time predicted without corrections.
    pub uncorrected_error_ratio: Option<f64>,
    /// Error of the CPU time predicted without corrections.
    pub uncorrected_cpu_error_ratio: Option<f64>,
    /// Error of the elapsed time predicted by the storage-only model.
    pub storage_only_error_ratio: Option<f64>,
    /// Error of the elapsed time predicted by REMOP.
    pub remop_error_ratio: Option<f64>,
}

impl Explanation {
    /// Explains a choice.
    #[must_use]
    pub fn new(task: Task, choice: Choice) -> Explanation {
        Explanation { tree: tree(&task, &choice.plan), task, choice, analysis: None }
    }

    /// Adds measured figures.
    #[must_use]
    pub fn analyzed(mut self, measured: Measured) -> Explanation {
        self.analysis = Some(Analysis::new(&self.choice.prediction, measured));
        self
    }

    /// Returns the rejected plans, the fastest first.
    #[must_use]
    pub fn rejected(&self) -> &[Rejected] {
        &self.choice.rejected
    }
}

impl Analysis {
    /// Puts measured figures beside those of a prediction.
    #[must_use]
    pub fn new(predicted: &Prediction, measured: Measured) -> Analysis {
        let phases = parts(predicted, &measured);
        let times = (predicted.elapsed_ns, predicted.user_ns + predicted.system_ns, predicted.comparison);
        let errors = Errors::new(times, measured.elapsed_ns, measured.user_ns + measured.system_ns);
        Analysis { phases, measured, errors }
    }

    /// Returns the times of the job and of its parts that were both predicted and measured, for corrections.
    #[must_use]
    pub fn observed(&self, predicted: &Prediction) -> ObservedJob {
        let cpu = |user_ns: u64, system_ns: u64| user_ns.saturating_add(system_ns);
        let part = |part: &AnalyzedPhase| ObservedPart {
            kinds: part.predicted.iter().map(|phase| phase.kind).collect(),
            predicted: Times {
                elapsed_ns: part.predicted_elapsed_ns,
                cpu_ns: part.predicted.iter().map(|phase| cpu(phase.user_ns, phase.system_ns)).sum(),
            },
            measured: Times {
                elapsed_ns: part.measured_elapsed_ns,
                cpu_ns: part.measured.iter().map(|phase| cpu(phase.user_ns, phase.system_ns)).sum(),
            },
        };
        let (whole, measured) = (predicted, &self.measured);
        let is_both = |part: &&AnalyzedPhase| part.errors.is_some();
        ObservedJob {
            parts: self.phases.iter().filter(is_both).map(part).collect(),
            predicted: Times { elapsed_ns: whole.elapsed_ns, cpu_ns: cpu(whole.user_ns, whole.system_ns) },
            measured: Times {
                elapsed_ns: measured.elapsed_ns,
                cpu_ns: cpu(measured.user_ns, measured.system_ns),
            },
        }
    }
}

/// Returns the parts of a job, and the measured phases without a prediction.
fn parts(prediction: &Prediction, measured: &Measured) -> Vec<AnalyzedPhase> {
    let mut parts: Vec<Vec<&PhasePrediction>> = Vec::new();
    for phase in &prediction.phases {
        match parts.iter_mut().find(|part| part[0].records == phase.records) {
            Some(part) => part.push(phase),
            None => parts.push(vec![phase]),
        }
    }
    let mut left: Vec<&Phase> = measured.phases.iter().collect();
    let mut of = |records: &[String]| {
        let (taken, rest) = left.iter().copied().partition(|phase| records.contains(&phase.name));
        left = rest;
        taken
    };
    let mut found: Vec<(Vec<&PhasePrediction>, Vec<&Phase>)> = parts
        .into_iter()
        .map(|part| (of(&part[0].records), part))
        .map(|(taken, part)| (part, taken))
        .collect();
    found.extend(left.iter().map(|&phase| (Vec::new(), vec![phase])));
    let elapsed = |phases: &[&Phase]| phases.iter().map(|phase| phase.elapsed_ns).max().unwrap_or(0);
    // The phases of the last part alternate on each thread, so its time is the remainder of the elapsed time.
    let last = found.iter().rposition(|(predicted, taken)| !predicted.is_empty() && !taken.is_empty());
    let others = |last: usize| -> u64 {
        let others = found
            .iter()
            .enumerate()
            .filter(|&(index, (predicted, _))| index != last && !predicted.is_empty());
        others.map(|(_, (_, taken))| elapsed(taken)).sum()
    };
    let rest = last.map(|last| measured.elapsed_ns.saturating_sub(others(last)));
    let parts = found.iter().enumerate().map(|(index, (predicted, taken))| {
        let elapsed_ns = if Some(index) == last { rest.unwrap_or(0) } else { elapsed(taken) };
        analyzed(predicted, taken, elapsed_ns, measured.threads)
    });
    parts.collect()
}

fn analyzed(
    predicted: &[&PhasePrediction],
    taken: &[&Phase],
    elapsed_ns: u64,
    threads: usize,
) -> AnalyzedPhase {
    let sum = |of: fn(&PhasePrediction) -> u64| predicted.iter().map(|phase| of(phase)).sum::<u64>();
    let total = |of: fn(&Phase) -> u64| taken.iter().map(|phase| of(phase)).sum::<u64>();
    let comparison = Comparison {
        uncorrected_ns: sum(|phase| phase.comparison.uncorrected_ns),
        uncorrected_cpu_ns: sum(|phase| phase.comparison.uncorrected_cpu_ns),
        storage_only_ns: sum(|phase| phase.comparison.storage_only_ns),
        remop_ns: sum(|phase| phase.comparison.remop_ns),
    };
    let times = (sum(|phase| phase.elapsed_ns), sum(|phase| phase.user_ns + phase.system_ns), comparison);
    let whole = Phase {
        elapsed_ns,
        user_ns: total(|phase| phase.user_ns),
        system_ns: total(|phase| phase.system_ns),
        waited_ns: total(|phase| phase.waited_ns),
        ..Phase::default()
    };
    let is_both = !predicted.is_empty() && !taken.is_empty();
    let name = predicted.last().map(|phase| &phase.name).or(taken.first().map(|phase| &phase.name));
    AnalyzedPhase {
        name: name.cloned().unwrap_or_default(),
        predicted: predicted.iter().copied().cloned().collect(),
        measured: taken.iter().copied().cloned().collect(),
        predicted_elapsed_ns: times.0,
        measured_elapsed_ns: elapsed_ns,
        measured_bound: (!taken.is_empty()).then(|| measured_bound(&whole, threads)),
        errors: is_both.then(|| Errors::new(times, elapsed_ns, whole.user_ns + whole.system_ns)),
    }
}

impl Errors {
    fn new(
        (elapsed, cpu, comparison): (u64, u64, Comparison),
        measured_ns: u64,
        measured_cpu_ns: u64,
    ) -> Errors {
        let error =
            |predicted: u64, measured: u64| (measured > 0).then(|| predicted as f64 / measured as f64 - 1.0);
        Errors {
            elapsed_error_ratio: error(elapsed, measured_ns),
            cpu_error_ratio: error(cpu, measured_cpu_ns),
            uncorrected_error_ratio: error(comparison.uncorrected_ns, measured_ns),
            uncorrected_cpu_error_ratio: error(comparison.uncorrected_cpu_ns, measured_cpu_ns),
            storage_only_error_ratio: error(comparison.storage_only_ns, measured_ns),
            remop_error_ratio: error(comparison.remop_ns, measured_ns),
        }
    }
}

/// Fraction of thread time spent waiting for I/O from which a phase counts as I/O-bound.
const IO_BOUND_WAIT_RATIO: f64 = 0.5;
/// Maximum mean cores in use of a multi-threaded phase that counts as serial.
const SERIAL_CORES_MAX: f64 = 1.3;

/// Returns the resource that limited a measured phase: I/O if its threads waited for it at least half of the time, one
/// core if little more than one core was busy, else the CPU.
#[must_use]
pub fn measured_bound(phase: &Phase, threads: usize) -> Bound {
    let elapsed = phase.elapsed_ns.max(1) as f64;
    let cores = (phase.user_ns + phase.system_ns) as f64 / elapsed;
    let waited = phase.waited_ns as f64 / (elapsed * threads.max(1) as f64);
    match () {
        () if waited >= IO_BOUND_WAIT_RATIO => Bound::Io,
        () if threads > 1 && cores < SERIAL_CORES_MAX => Bound::SerialCpu,
        () => Bound::Cpu,
    }
}
