//! Predictions: figures of each phase and of the whole job, and those of storage-only models.

use serde::Serialize;

use super::flow::{Direction, Flow, Role};
use super::stage::{Bound, Cores, Figures, Stage};
use super::streams::{BareDevice, Streams};

/// Predicted figures of a phase: a part of the job that does not overlap with others. Names and units are those of the
/// measured [`crate::phase::Phase`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PhasePrediction {
    /// Its name.
    pub name: String,
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
    /// Predictions of the other models.
    pub comparison: Comparison,
}

/// Elapsed times predicted by storage-only models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Bytes over the device's best throughput, in nanoseconds: the model of query optimizers that section 2 of Ueda
    /// 2013 rejects.
    pub storage_only_ns: u64,
    /// Bytes over the best throughput plus the latency of each round of transfers, in nanoseconds: REMOP (arXiv
    /// 2606.19576).
    pub remop_ns: u64,
}

/// A predicted job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
        Prediction {
            elapsed_ns: sum(|phase| phase.elapsed_ns),
            user_ns: sum(|phase| phase.user_ns),
            system_ns: sum(|phase| phase.system_ns),
            kernel_threads_ns: sum(|phase| phase.kernel_threads_ns),
            waited_ns: sum(|phase| phase.waited_ns),
            bytes: sum(|phase| phase.bytes),
            memory_bytes: phases.iter().map(|phase| phase.memory_bytes).max().unwrap_or(0),
            comparison: Comparison {
                storage_only_ns: sum(|phase| phase.comparison.storage_only_ns),
                remop_ns: sum(|phase| phase.comparison.remop_ns),
            },
            assumptions: basis.streams.assumptions(flows).describe(),
            phases,
        }
    }
}

fn phase(basis: &Basis<'_>, stage: &Stage) -> PhasePrediction {
    let Figures { bytes, device_ns, user_ns, system_ns, kernel_threads_ns, waited_ns, elapsed_ns, bound } =
        stage.predict(basis.cores, basis.streams);
    PhasePrediction {
        name: stage.name.to_owned(),
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
        comparison: comparison(basis, &stage.flows),
    }
}

/// Both models assume the best figures of the device for any engine, and no overlap.
fn comparison(basis: &Basis<'_>, flows: &[Flow]) -> Comparison {
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
    Comparison { storage_only_ns: whole(storage_only), remop_ns: whole(remop) }
}

/// Rounds to an integer, saturating.
fn whole(figure: f64) -> u64 {
    figure.round() as u64
}
