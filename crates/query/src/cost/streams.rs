//! The streams of a plan: their devices and transfer costs.

use sakiyomi_io::EngineSpec;
use sakiyomi_probe::calibration::{DeviceCosts, EstimateError};
use sakiyomi_probe::setting::{CacheState, Operation};

use super::flow::{Direction, Flow, Role};
use super::plan::StreamPlan;
use super::transfer::{self, Assumptions, Interference, Pattern, Transfer};

/// The calibrated devices of a job.
#[derive(Clone, Debug)]
pub struct Storage<'a> {
    /// The device of each table.
    pub inputs: Vec<&'a DeviceCosts>,
    /// The devices of the spill directories, used in turn; empty if spilling is not possible.
    pub spills: Vec<&'a DeviceCosts>,
    /// The device of the result.
    pub output: Option<&'a DeviceCosts>,
}

/// File systems in memory.
const MEMORY_FILE_SYSTEMS: [&str; 2] = ["tmpfs", "ramfs"];

impl<'a> Storage<'a> {
    /// Uses one device for all roles.
    #[must_use]
    pub fn one(costs: &'a DeviceCosts, tables: usize) -> Storage<'a> {
        Storage { inputs: vec![costs; tables], spills: vec![costs], output: Some(costs) }
    }

    /// Returns the distinct devices.
    pub(crate) fn devices(&self) -> Vec<&'a DeviceCosts> {
        let mut devices: Vec<&DeviceCosts> = Vec::new();
        for &costs in self.inputs.iter().chain(&self.spills).chain(&self.output) {
            if !devices.iter().any(|known| is_same(known, costs)) {
                devices.push(costs);
            }
        }
        devices
    }

    /// Part of the spilled bytes that lie in memory, 0 or 1: beside a directory on a disk, one in memory takes only what
    /// the operators leave.
    pub(crate) fn spills_in_memory(&self) -> f64 {
        let is_in_memory = |costs: &DeviceCosts| MEMORY_FILE_SYSTEMS.contains(&&*costs.device.file_system);
        let all = !self.spills.is_empty() && self.spills.iter().all(|costs| is_in_memory(costs));
        f64::from(u8::from(all))
    }

    /// Returns the index of a device in [`Storage::devices`].
    pub(crate) fn index(&self, costs: &DeviceCosts) -> usize {
        self.devices().iter().position(|known| is_same(known, costs)).unwrap_or(0)
    }
}

fn is_same(a: &DeviceCosts, b: &DeviceCosts) -> bool {
    std::ptr::eq(a, b) || (a.target == b.target && a.device == b.device)
}

/// Transfers of one role on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Channel {
    /// Index of the device.
    pub(crate) device: usize,
    pub(crate) read: Transfer,
    pub(crate) random_read: Transfer,
    pub(crate) write: Transfer,
}

/// The streams of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Streams {
    pub(crate) inputs: Vec<Channel>,
    pub(crate) spills: Vec<Channel>,
    pub(crate) output: Option<Channel>,
    /// Interference of each device.
    pub(crate) interference: Vec<Interference>,
}

impl Streams {
    /// Returns the transfer of a flow; for a spill to several devices, that of the first device.
    pub(crate) fn transfer(&self, flow: &Flow) -> &Transfer {
        self.channels(flow.role).first().map_or(&NO_TRANSFER, |channel| channel.of(flow))
    }

    fn channels(&self, role: Role) -> &[Channel] {
        match role {
            Role::Input(table) => self.inputs.get(table).map_or(&[], std::slice::from_ref),
            Role::Spill => &self.spills,
            Role::Output => self.output.as_slice(),
        }
    }

    /// Indices of the devices of a role.
    pub(crate) fn devices_of(&self, role: Role) -> impl Iterator<Item = usize> + Clone + '_ {
        self.channels(role).iter().map(|channel| channel.device)
    }

    /// Busy time of the busiest device, in nanoseconds.
    pub(crate) fn device_ns(&self, flows: &[Flow]) -> f64 {
        let device = |(device, interference): (usize, &Interference)| {
            let (mut ns, mut read, mut all) = (0.0, 0.0, 0.0);
            for flow in flows {
                let channels = self.channels(flow.role);
                for channel in channels.iter().filter(|channel| channel.device == device) {
                    let bytes = flow.bytes / channels.len() as f64;
                    ns += bytes * channel.of(flow).device_ns_per_byte;
                    all += bytes;
                    read += if flow.direction == Direction::Read { bytes } else { 0.0 };
                }
            }
            if all > 0.0 { ns * interference.factor(read / all) } else { 0.0 }
        };
        self.interference.iter().enumerate().map(device).fold(0.0, f64::max)
    }

    /// Returns all assumptions about the transfers of some flows.
    pub(crate) fn assumptions<'a>(&self, flows: impl Iterator<Item = &'a Flow>) -> Assumptions {
        flows.fold(Assumptions::default(), |all, flow| all.and(self.transfer(flow).assumptions))
    }
}

/// The transfer of an unused role.
const NO_TRANSFER: Transfer = Transfer {
    device_ns_per_byte: 0.0,
    cpu_ns_per_byte: 0.0,
    kernel_ns_per_byte: 0.0,
    latency_ns: 0.0,
    ahead: usize::MAX,
    assumptions: Assumptions { extrapolated: false, sequential: false, memory: false },
};

impl Channel {
    fn of(&self, flow: &Flow) -> &Transfer {
        match (flow.direction, flow.random) {
            (Direction::Read, false) => &self.read,
            (Direction::Read, true) => &self.random_read,
            (Direction::Write, _) => &self.write,
        }
    }
}

fn pattern(engine: EngineSpec, stream: StreamPlan, cached_ratio: f64, random: bool) -> Pattern {
    let StreamPlan { block_bytes, page_cache } = stream;
    Pattern { engine, block_bytes, page_cache, cached_ratio, random }
}

/// Returns the channel of a table.
pub(crate) fn input(
    (device, costs): (usize, &DeviceCosts),
    engine: EngineSpec,
    stream: StreamPlan,
    cached_ratio: f64,
) -> Result<Channel, EstimateError> {
    let read = |random| transfer::read(costs, &pattern(engine, stream, cached_ratio, random));
    Ok(Channel { device, read: read(false)?, random_read: read(true)?, write: NO_TRANSFER })
}

/// Returns the channel of a spill. Reads through the page cache are assumed to miss it.
pub(crate) fn spill(
    (device, costs): (usize, &DeviceCosts),
    engine: EngineSpec,
    stream: StreamPlan,
) -> Result<Channel, EstimateError> {
    let read = |random| transfer::read(costs, &pattern(engine, stream, 0.0, random));
    let write = transfer::write(costs, &pattern(engine, stream, 0.0, false))?;
    Ok(Channel { device, read: read(false)?, random_read: read(true)?, write })
}

/// Returns the channel of a result.
pub(crate) fn output(
    (device, costs): (usize, &DeviceCosts),
    engine: EngineSpec,
    stream: StreamPlan,
) -> Result<Channel, EstimateError> {
    let write = transfer::write(costs, &pattern(engine, stream, 0.0, false))?;
    Ok(Channel { device, read: NO_TRANSFER, random_read: NO_TRANSFER, write })
}

/// Returns the interference of reads and writes of an engine on a device; none if it was not measured.
pub(crate) fn interference(costs: &DeviceCosts, engine: EngineSpec, stream: StreamPlan) -> Interference {
    let pattern = pattern(engine, stream, 0.0, false);
    match (transfer::read(costs, &pattern), transfer::write(costs, &pattern)) {
        (Ok(read), Ok(write)) => Interference::new(costs, &pattern, &read, &write),
        _ => Interference::default(),
    }
}

/// A device as seen by models without engines: its best throughput and lowest latency, for reads and writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BareDevice {
    pub(crate) ns_per_byte: [f64; 2],
    pub(crate) latency_ns: [f64; 2],
}

impl BareDevice {
    pub(crate) fn new(costs: &DeviceCosts) -> BareDevice {
        let [read, write] = [Operation::Read, Operation::Write].map(|op| bare(costs, op));
        // Without write measurements, writes are assumed to cost the same as reads.
        let write = write.or(read);
        let of = |of: fn((f64, f64)) -> f64| [read, write].map(|figures| figures.map_or(0.0, of));
        BareDevice { ns_per_byte: of(|figures| figures.0), latency_ns: of(|figures| figures.1) }
    }
}

/// Nanoseconds per byte at the best throughput, and the lowest median latency in nanoseconds.
fn bare(costs: &DeviceCosts, op: Operation) -> Option<(f64, f64)> {
    let is_of_device = |cost: &&sakiyomi_probe::calibration::Cost| {
        cost.op == op && cost.cache != CacheState::Cached && cost.engine != sakiyomi_io::EngineKind::Null
    };
    let points = costs.costs.iter().filter(is_of_device).flat_map(|cost| &cost.depths);
    let points = points.flat_map(|depth| &depth.points);
    let best = points.clone().map(|point| point.throughput_bytes_per_s).fold(0.0, f64::max);
    let latencies = points.filter_map(|point| point.latency_p50_ns);
    (best > 0.0).then(|| (1e9 / best, latencies.min().map_or(0.0, |ns| ns as f64)))
}

/// The fastest transfers of all devices and engines: a lower bound for all plans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fastest {
    ns_per_byte: [f64; 2],
}

impl Fastest {
    pub(crate) fn new(devices: &[&DeviceCosts]) -> Fastest {
        let of = |op: Operation| {
            let costs = devices.iter().flat_map(|device| &device.costs);
            let costs = costs.filter(move |cost| cost.op == op || matches!(cost.op, Operation::Mix { .. }));
            let points = costs.flat_map(|cost| &cost.depths).flat_map(|depth| &depth.points);
            1e9 / points.map(|point| point.throughput_bytes_per_s).fold(f64::MIN_POSITIVE, f64::max)
        };
        let finite = |ns: f64| if ns.is_finite() { ns } else { 0.0 };
        Fastest { ns_per_byte: [Operation::Read, Operation::Write].map(|op| finite(of(op))) }
    }

    /// Minimum nanoseconds per byte.
    pub(crate) fn ns_per_byte(&self, direction: Direction) -> f64 {
        self.ns_per_byte[usize::from(direction == Direction::Write)]
    }
}
