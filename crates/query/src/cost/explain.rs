//! Explanations: a plan as a tree with its predicted phases, the plans that it was preferred to, and after a run the
//! measured phases beside the predicted ones.

use serde::Serialize;

use super::prediction::{Comparison, PhasePrediction};
use super::rejected::Rejected;
use super::search::Choice;
use super::shape::Task;
use super::stage::Bound;
use super::tree::{Node, tree};
use crate::phase::Phase;

/// What is done, why, and how long it takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The plan as a tree, the result at its root.
    pub tree: Node,
    /// The plan, its figures, and the plans that were rejected.
    #[serde(flatten)]
    pub choice: Choice,
    /// The measured figures beside the predicted ones, if the job was run.
    pub analysis: Option<Analysis>,
}

/// Measured figures of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Its phases.
    pub phases: Vec<Phase>,
    /// From its beginning to its end, in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of the process in user mode, in nanoseconds.
    pub user_ns: u64,
    /// CPU time of the process in the kernel, in nanoseconds.
    pub system_ns: u64,
    /// Threads that computed.
    pub threads: usize,
}

/// Measured and predicted figures side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Analysis {
    /// Phases that were predicted or measured, in the order of the prediction, then of the run.
    pub phases: Vec<AnalyzedPhase>,
    /// The whole job, measured.
    pub measured: Measured,
    /// Errors of the whole.
    #[serde(flatten)]
    pub errors: Errors,
}

/// A phase, measured and predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AnalyzedPhase {
    /// Its name.
    pub name: String,
    /// Its prediction; none if the model does not know it.
    pub predicted: Option<PhasePrediction>,
    /// Its figures; none if it did not happen.
    pub measured: Option<Phase>,
    /// The resource that limited it, by its figures.
    pub measured_bound: Option<Bound>,
    /// Errors of the predictions, if it was both predicted and measured.
    #[serde(flatten)]
    pub errors: Option<Errors>,
}

/// Relative errors: predicted over measured, less 1. Below 0 the prediction was too short. None without a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// Of the elapsed time.
    pub elapsed_error_ratio: Option<f64>,
    /// Of the CPU time.
    pub cpu_error_ratio: Option<f64>,
    /// Of the elapsed time as the storage-only model predicts it.
    pub storage_only_error_ratio: Option<f64>,
    /// Of the elapsed time as REMOP's form predicts it.
    pub remop_error_ratio: Option<f64>,
}

impl Explanation {
    /// Explains a choice.
    #[must_use]
    pub fn new(task: &Task, choice: Choice) -> Explanation {
        Explanation { tree: tree(task, &choice.plan), choice, analysis: None }
    }

    /// Puts measured figures beside the predicted ones.
    #[must_use]
    pub fn analyzed(mut self, measured: Measured) -> Explanation {
        let predicted = &self.choice.prediction;
        let find = |name: &str| measured.phases.iter().find(|phase| phase.name == name);
        let known = predicted.phases.iter().map(|phase| (phase.name.clone(), Some(phase), find(&phase.name)));
        let is_known = |phase: &&Phase| predicted.phases.iter().any(|known| known.name == phase.name);
        let unknown = measured.phases.iter().filter(|phase| !is_known(phase));
        let unknown = unknown.map(|phase| (phase.name.clone(), None, Some(phase)));
        let phases = known.chain(unknown).map(|(name, predicted, found)| AnalyzedPhase {
            name,
            predicted: predicted.cloned(),
            measured: found.cloned(),
            measured_bound: found.map(|phase| measured_bound(phase, measured.threads)),
            errors: predicted.zip(found).map(|(predicted, found)| {
                let cpu = predicted.user_ns + predicted.system_ns;
                let times = (predicted.elapsed_ns, cpu, predicted.comparison);
                Errors::new(times, found.elapsed_ns, found.user_ns + found.system_ns)
            }),
        });
        let phases = phases.collect();
        let times = (predicted.elapsed_ns, predicted.user_ns + predicted.system_ns, predicted.comparison);
        let errors = Errors::new(times, measured.elapsed_ns, measured.user_ns + measured.system_ns);
        self.analysis = Some(Analysis { phases, measured, errors });
        self
    }

    /// The rejected plans, the fastest first.
    #[must_use]
    pub fn rejected(&self) -> &[Rejected] {
        &self.choice.rejected
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
            storage_only_error_ratio: error(comparison.storage_only_ns, measured_ns),
            remop_error_ratio: error(comparison.remop_ns, measured_ns),
        }
    }
}

/// The part of its threads' time that a phase waits for I/O, from which on it is bound by I/O: half of it.
const IO_BOUND_WAIT_RATIO: f64 = 0.5;
/// Cores that a phase of several threads uses when one of them does most of the work, at most.
const SERIAL_CORES_MAX: f64 = 1.3;

/// The resource that limited a measured phase: I/O if its threads waited for it most of the time, one core if only one of
/// several threads had anything to do, else the CPU.
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
