//! Cost of spilling on a device, from its calibration (`sakiyomi probe`).

use std::path::Path;

use sakiyomi_io::{Access, EngineSpec};
use sakiyomi_probe::calibration::{Calibration, DeviceCosts, Query};
use sakiyomi_probe::setting::{Buffers, CacheState, Operation};
use sakiyomi_probe::target::Device;

use super::SpillOptions;

/// Costs of a spilled byte that is written once and read once, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpillCosts {
    /// Through the page cache or around it.
    pub access: Access,
    /// Time of the device to write it.
    pub write_ns: f64,
    /// Time of the device to read it.
    pub read_ns: f64,
    /// CPU time to write it, that of the kernel's threads included.
    pub write_cpu_ns: f64,
    /// CPU time to read it.
    pub read_cpu_ns: f64,
}

impl SpillCosts {
    /// Costs of chunks with an access; `None` if nothing like it was measured on the device.
    #[must_use]
    pub fn of(device: &DeviceCosts, engine: EngineSpec, chunk: usize, access: Access) -> Option<SpillCosts> {
        let states: &[CacheState] = match access {
            Access::Direct => &[CacheState::Direct],
            // Spilled data is read back when it has left the page cache: otherwise it would not have been spilled.
            _ => &[CacheState::Cold, CacheState::Cached],
        };
        let costs = |op: Operation| {
            let of = |&cache: &CacheState| {
                [Buffers::Huge, Buffers::Ordinary].into_iter().find_map(|buffers| {
                    let block_bytes = chunk as u64;
                    let query = Query { engine, op, cache, random: false, buffers, block_bytes };
                    device.estimate(&query).ok()
                })
            };
            let found = states.iter().find_map(of)?;
            let cpu_ns = found.cpu_ns_per_op + found.kernel_threads_cpu_ns_per_op;
            Some((1e9 / found.throughput_bytes_per_s, cpu_ns / chunk as f64))
        };
        let ((write_ns, write_cpu_ns), (read_ns, read_cpu_ns)) =
            (costs(Operation::Write)?, costs(Operation::Read)?);
        Some(SpillCosts { access, write_ns, read_ns, write_cpu_ns, read_cpu_ns })
    }

    /// Returns the time of a byte when the device and `threads` busy threads work at the same time (the longer of
    /// both).
    fn ns(&self, threads: usize) -> f64 {
        let cpu = |cpu_ns: f64| cpu_ns / threads.max(1) as f64;
        self.write_ns.max(cpu(self.write_cpu_ns)) + self.read_ns.max(cpu(self.read_cpu_ns))
    }
}

/// The costs of spilling to a directory with the access that is faster there; with that of the options if it is given.
/// `None` if no calibration is of its device.
#[must_use]
pub fn spill_costs(
    calibrations: &[Calibration],
    directory: &Path,
    options: &SpillOptions,
) -> Option<SpillCosts> {
    let device = Device::of(directory).ok()?;
    let costs = calibrations.iter().find_map(|calibration| calibration.device(&device))?;
    let all = match options.access {
        Some(access) => vec![access],
        None => vec![Access::Direct, Access::Buffered],
    };
    let all =
        all.into_iter().filter_map(|access| SpillCosts::of(costs, options.engine, options.chunk, access));
    all.min_by(|a, b| a.ns(options.threads).total_cmp(&b.ns(options.threads)))
}
