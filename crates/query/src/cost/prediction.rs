//! Predictions: figures of each phase and of the whole job, and those of storage-only models.

use serde::Serialize;

use super::correction::{Correction, Corrections, Factor};
use super::flow::{Direction, Flow, Role};
use super::stage::{Bound, Cores, Figures, Stage};
use super::step::PhaseKind;
use super::streams::{BareDevice, Streams};

/// Predicted figures of a phase: a part of the job that does not overlap with others. Names and units are those of the
/// measured [`crate::phase::Phase`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhasePrediction {
    /// Its name.
    pub name: String,
    /// Its kind, which has its own correction.
    #[serde(flatten)]
    pub kind: PhaseKind,
    /// Names of the recorded phases that belong to it.
    pub records: Vec<String>,
    /// Bytes transferred by its I/O.
    pub bytes: u64,
    /// Busy time of its busiest device, in nanoseconds.
    pub device_ns: u64,
    /// CPU time of operators, in nanoseconds.
    pub user_ns: u64,
    /// CPU time of I/O and page faults in kernel mode, on threads of the job and the engine, in nanoseconds.
    pub system_ns: u64,
    /// CPU time of kernel threads, in nanoseconds.
    pub kernel_threads_ns: u64,
    /// I/O wait of compute threads, summed over threads, in nanoseconds.
    pub waited_ns: u64,
    /// Elapsed time, in nanoseconds.
    pub elapsed_ns: u64,
    /// Peak memory in bytes.
    pub memory_bytes: u64,
    /// The limiting resource.
    pub bound: Bound,
    /// Uncertainty of the corrected times; `None` if they are not corrected.
    pub uncertainty: Option<Uncertainty>,
    /// Predictions of the other models.
    pub comparison: Comparison,
}

/// Uncertainty of a prediction: about two thirds of the jobs of the calibration were within 1 + this of their corrected
/// predictions, multiplied or divided.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Uncertainty {
    /// Uncertainty of the elapsed time.
    pub elapsed_ratio: f64,
    /// Uncertainty of the CPU time.
    pub cpu_ratio: f64,
}

/// Predictions of this model without corrections, and elapsed times predicted by storage-only models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Elapsed time without corrections, in nanoseconds.
    pub uncorrected_ns: u64,
    /// CPU time in user and kernel mode without corrections, in nanoseconds.
    pub uncorrected_cpu_ns: u64,
    /// Bytes over the device's best throughput, in nanoseconds: the model of query optimizers that section 2 of Ueda
    /// 2013 rejects.
    pub storage_only_ns: u64,
    /// Bytes over the best throughput plus the latency of each round of transfers, in nanoseconds: REMOP (arXiv
    /// 2606.19576).
    pub remop_ns: u64,
}

/// A predicted job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The phases in execution order.
    pub phases: Vec<PhasePrediction>,
    /// Elapsed time, in nanoseconds.
    pub elapsed_ns: u64,
    /// CPU time of operators, in nanoseconds.
    pub user_ns: u64,
    /// CPU time in kernel mode, without kernel threads, in nanoseconds.
    pub system_ns: u64,
    /// CPU time of kernel threads, in nanoseconds.
    pub kernel_threads_ns: u64,
    /// I/O wait of compute threads, in nanoseconds.
    pub waited_ns: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Peak memory in bytes.
    pub memory_bytes: u64,
    /// Uncertainty of the corrected times; `None` if they are not corrected.
    pub uncertainty: Option<Uncertainty>,
    /// Predictions of the other models.
    pub comparison: Comparison,
    /// Assumptions made for missing measurements, one sentence each.
    pub assumptions: Vec<String>,
}

/// Inputs of a prediction.
pub(crate) struct Basis<'a> {
    pub(crate) stages: &'a [Stage],
    pub(crate) cores: &'a Cores<'a>,
    pub(crate) streams: &'a Streams,
    /// Bytes of memory of each stage.
    pub(crate) memory: &'a dyn Fn(&Stage) -> f64,
    pub(crate) devices: &'a [BareDevice],
    /// Bytes of a block of each role.
    pub(crate) block: &'a dyn Fn(Role) -> f64,
}

impl Prediction {
    pub(crate) fn new(basis: &Basis<'_>) -> Prediction {
        let phases: Vec<PhasePrediction> = basis.stages.iter().map(|stage| phase(basis, stage)).collect();
        let sum = |of: fn(&PhasePrediction) -> u64| phases.iter().map(of).fold(0, u64::saturating_add);
        let flows = basis.stages.iter().flat_map(|stage| &stage.flows);
        let corrections = &basis.cores.operators.corrections;
        let corrected = |ns: u64, factor: Factor| whole(ns as f64 * factor.ratio);
        let Correction { elapsed, cpu } = corrections.whole;
        Prediction {
            elapsed_ns: corrected(sum(|phase| phase.elapsed_ns), elapsed),
            user_ns: corrected(sum(|phase| phase.user_ns), cpu),
            system_ns: corrected(sum(|phase| phase.system_ns), cpu),
            uncertainty: uncertainty(corrections, corrections.whole),
            kernel_threads_ns: sum(|phase| phase.kernel_threads_ns),
            waited_ns: sum(|phase| phase.waited_ns),
            bytes: sum(|phase| phase.bytes),
            memory_bytes: phases.iter().map(|phase| phase.memory_bytes).max().unwrap_or(0),
            comparison: Comparison {
                uncorrected_ns: sum(|phase| phase.comparison.uncorrected_ns),
                uncorrected_cpu_ns: sum(|phase| phase.comparison.uncorrected_cpu_ns),
                storage_only_ns: sum(|phase| phase.comparison.storage_only_ns),
                remop_ns: sum(|phase| phase.comparison.remop_ns),
            },
            assumptions: basis.streams.assumptions(flows).describe(),
            phases,
        }
    }
}

fn uncertainty(corrections: &Corrections, correction: Correction) -> Option<Uncertainty> {
    let elapsed_ratio = corrections.uncertainty(correction.elapsed)?;
    Some(Uncertainty { elapsed_ratio, cpu_ratio: corrections.uncertainty(correction.cpu)? })
}

fn phase(basis: &Basis<'_>, stage: &Stage) -> PhasePrediction {
    let Figures { bytes, device_ns, user_ns, system_ns, kernel_threads_ns, waited_ns, elapsed_ns, bound } =
        stage.predict(basis.cores, basis.streams);
    let uncorrected = stage.predict_uncorrected(basis.cores, basis.streams);
    let (kind, corrections) = (stage.kind(), &basis.cores.operators.corrections);
    PhasePrediction {
        name: stage.step.phase_name().to_owned(),
        kind,
        records: stage.records.iter().map(|&name| name.to_owned()).collect(),
        bytes: whole(bytes),
        device_ns: whole(device_ns),
        user_ns: whole(user_ns),
        system_ns: whole(system_ns),
        kernel_threads_ns: whole(kernel_threads_ns),
        waited_ns: whole(waited_ns),
        elapsed_ns: whole(elapsed_ns),
        memory_bytes: whole((basis.memory)(stage)),
        bound,
        uncertainty: uncertainty(corrections, corrections.of(kind)),
        comparison: Comparison {
            uncorrected_ns: whole(uncorrected.elapsed_ns),
            uncorrected_cpu_ns: whole(uncorrected.user_ns + uncorrected.system_ns),
            ..storage_models(basis, &stage.flows)
        },
    }
}

/// Predictions of the storage-only models. Both assume the best figures of the device for any engine, and no overlap.
fn storage_models(basis: &Basis<'_>, flows: &[Flow]) -> Comparison {
    let (mut storage_only, mut remop) = (0.0, 0.0);
    let depth = basis.cores.engine.depth.max(1) as f64;
    for flow in flows {
        let direction = usize::from(flow.direction == Direction::Write);
        let channels = basis.streams.devices_of(flow.role);
        let count = channels.clone().count().max(1) as f64;
        let rounds = (flow.bytes / ((basis.block)(flow.role) * depth)).ceil();
        let devices = channels.filter_map(|device| basis.devices.get(device));
        let slowest = |of: &dyn Fn(&BareDevice) -> f64| devices.clone().map(of).fold(0.0, f64::max);
        let transfer = flow.bytes / count * slowest(&|device| device.ns_per_byte[direction]);
        storage_only += transfer;
        remop += transfer + rounds * slowest(&|device| device.latency_ns[direction]);
    }
    Comparison { storage_only_ns: whole(storage_only), remop_ns: whole(remop), ..Comparison::default() }
}

/// Rounds to an integer, saturating.
fn whole(figure: f64) -> u64 {
    figure.round() as u64
}
