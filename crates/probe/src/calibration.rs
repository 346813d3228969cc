//! The measurements of a cost model, stored as JSON.
//!
//! For each combination of engine, operation, cache state, access order and kind of memory there is a [`Cost`]; it
//! has, for each measured depth and block size, the throughput, the latency and the CPU time per operation
//! ([`Point`]). [`Calibration::load`] validates all of it, and [`DeviceCosts::estimate`] interpolates between the
//! points.
//!
//! The CPU time of an operation is modeled as a constant plus a part proportional to its bytes. If an engine was
//! measured with more than one block size, both are fitted (least squares, weighted so that relative errors count
//! alike); with one size all of it is attributed to the bytes.
//!
//! The file identifies its machine and its devices, and is valid for no others. A later measurement of a device
//! replaces the same points of an earlier one and leaves the others ([`Calibration::complete_with`]).

mod check;
pub mod document;
mod estimate;
mod file;
mod fit;
mod merge;
mod names;

use sakiyomi_io::EngineKind;
use sakiyomi_os::machine;
use serde::{Deserialize, Serialize};

pub use document::LoadError;
pub use estimate::{EXTRAPOLATION_MAX, Estimate, EstimateError, Query};
pub use file::{default_directory, saved};

use crate::case::Case;
use crate::cores::CoreCost;
use crate::setting::{Buffers, CacheState, Operation, Setting};
use crate::target::{Device, Target};

/// Schema of the file: name and version.
pub const SCHEMA: &str = "sakiyomi.calibration/3";

/// A calibration: costs of operations on some devices, and of messages between the cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// [`SCHEMA`].
    pub schema: String,
    /// Time of the last measurement, in seconds since 1970.
    pub measured_unix_s: u64,
    /// The machine that it was measured on.
    pub machine: Machine,
    /// Costs by device.
    pub devices: Vec<DeviceCosts>,
    /// Costs of messages between cores, by distance.
    pub cores: Vec<CoreCost>,
}

/// The machine and the kernel that a calibration is valid for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel and its release.
    pub kernel: String,
    /// The CPU's name.
    pub cpu: String,
    /// CPUs that the process may use.
    pub cores: usize,
}

impl Machine {
    /// Returns the current machine.
    #[must_use]
    pub fn current() -> Machine {
        Machine { kernel: machine::kernel(), cpu: machine::cpu(), cores: machine::cores() }
    }

    /// Returns the differences from another machine: `kernel`, `CPU`, `number of cores`.
    #[must_use]
    pub fn differences(&self, other: &Machine) -> Vec<&'static str> {
        let all = [
            (self.kernel != other.kernel, "kernel"),
            (self.cpu != other.cpu, "CPU"),
            (self.cores != other.cores, "number of cores"),
        ];
        all.into_iter().filter(|(differs, _)| *differs).map(|(_, what)| what).collect()
    }
}

/// Costs of operations on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceCosts {
    /// The measured target: `path`, `tmpfs`, `loop`.
    pub target: String,
    /// The device that it lies on.
    pub device: Device,
    /// Costs by engine and kind of access, each once.
    pub costs: Vec<Cost>,
}

/// Costs of one kind of operation with one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The engine.
    #[serde(with = "names::engine")]
    pub engine: EngineKind,
    /// Reads, writes or a mix.
    #[serde(with = "names::operation")]
    pub op: Operation,
    /// How the page cache is used.
    pub cache: CacheState,
    /// Whether offsets are random.
    pub random: bool,
    /// The memory of the operations.
    pub buffers: Buffers,
    /// Costs by depth, ascending.
    pub depths: Vec<DepthCost>,
}

impl Cost {
    /// Returns the kind of operation, unique within a device.
    fn key(&self) -> (EngineKind, Operation, CacheState, bool, Buffers) {
        (self.engine, self.op, self.cache, self.random, self.buffers)
    }
}

/// Costs of operations at one queue depth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DepthCost {
    /// Operations in flight, threads, or mappings.
    pub depth: usize,
    /// Fitted constant part of the CPU time of an operation, in nanoseconds.
    pub cpu_ns_per_op: f64,
    /// Fitted CPU time per byte, in nanoseconds.
    pub cpu_ns_per_byte: f64,
    /// Costs by block size, ascending.
    pub points: Vec<Point>,
}

/// Measurements with one block size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Bytes of an operation.
    pub block_bytes: u64,
    /// Bytes per second, of reads and writes together.
    pub throughput_bytes_per_s: f64,
    /// CPU time of this process per operation, in nanoseconds.
    pub cpu_ns_per_op: f64,
    /// CPU time of kernel threads per operation, in nanoseconds, including write-back.
    pub kernel_threads_cpu_ns_per_op: f64,
    /// Median service time in nanoseconds; of a mix, of its reads. `None` if the engine does not report it.
    pub latency_p50_ns: Option<u64>,
    /// 99th percentile of the service time in nanoseconds.
    pub latency_p99_ns: Option<u64>,
    /// Time of the measurement, in seconds since 1970.
    pub measured_unix_s: u64,
}

impl Calibration {
    /// Creates a calibration from the cases of some targets.
    #[must_use]
    pub fn new<'a>(
        measured_unix_s: u64,
        targets: impl Iterator<Item = (&'a Target, &'a [Case])>,
        cores: Vec<CoreCost>,
    ) -> Calibration {
        let devices = targets.map(|(target, cases)| DeviceCosts {
            target: target.name.to_owned(),
            device: target.device.clone(),
            costs: costs(cases, measured_unix_s),
        });
        let (schema, machine) = (SCHEMA.to_owned(), Machine::current());
        Calibration { schema, measured_unix_s, machine, devices: devices.collect(), cores }
    }

    /// Returns the costs on a device.
    #[must_use]
    pub fn device(&self, device: &Device) -> Option<&DeviceCosts> {
        self.devices.iter().find(|costs| costs.device == *device)
    }

    /// Splits the calibration by device, as it is saved by default.
    #[must_use]
    pub fn by_device(&self) -> Vec<Calibration> {
        let of = |costs: &DeviceCosts| Calibration { devices: vec![costs.clone()], ..self.clone() };
        self.devices.iter().map(of).collect()
    }
}

fn costs(cases: &[Case], measured_unix_s: u64) -> Vec<Cost> {
    let key = |setting: Setting| Setting {
        block: 0,
        engine: sakiyomi_io::EngineSpec { depth: 1, ..setting.engine },
        ..setting
    };
    let mut keys: Vec<Setting> = cases.iter().map(|case| key(case.setting)).collect();
    keys.sort();
    keys.dedup();
    let all = keys.into_iter().map(|wanted| {
        let same: Vec<&Case> = cases.iter().filter(|case| key(case.setting) == wanted).collect();
        let Setting { engine, op, cache, random, buffers, .. } = wanted;
        Cost { engine: engine.kind, op, cache, random, buffers, depths: depths(&same, measured_unix_s) }
    });
    all.filter(|cost| !cost.depths.is_empty()).collect()
}

fn depths(cases: &[&Case], measured_unix_s: u64) -> Vec<DepthCost> {
    let mut depths: Vec<usize> = cases.iter().map(|case| case.setting.engine.depth).collect();
    depths.sort_unstable();
    depths.dedup();
    let of = |depth: usize| {
        let same = cases.iter().filter(|case| case.setting.engine.depth == depth);
        let mut points: Vec<Point> =
            same.map(|case| point(case, measured_unix_s)).filter(Point::is_sound).collect();
        points.sort_by_key(|point| point.block_bytes);
        DepthCost::fitted(depth, points)
    };
    depths.into_iter().map(of).filter(|cost| !cost.points.is_empty()).collect()
}

fn point(case: &Case, measured_unix_s: u64) -> Point {
    let bytes = case.setting.block as f64;
    let latency = |of: fn((u64, u64)) -> u64| case.latency.map(of);
    Point {
        block_bytes: case.setting.block as u64,
        throughput_bytes_per_s: case.throughput,
        cpu_ns_per_op: case.cpu_ns_per_byte * bytes,
        kernel_threads_cpu_ns_per_op: case.kernel_threads_cpu_ns_per_byte * bytes,
        latency_p50_ns: latency(|(p50, _)| p50),
        latency_p99_ns: latency(|(_, p99)| p99),
        measured_unix_s,
    }
}

#[cfg(test)]
mod tests;
