//! Stages: parts of a job that follow one another, and the time that each takes.
//!
//! The form of facts section 5. In a stage whose I/O overlaps with computing (*asynchronous*),
//!
//! ```text
//! T = max(D, C / p, S) + fill and drain
//! ```
//!
//! with the device time `D` (of the busiest device; reads and writes of one device add up), the CPU time `C` of
//! operators and I/O on the cores that may be used, and the longest serial part `S`: work that one thread does alone.
//! In a stage whose thread waits for each transfer (*synchronous*), `T = D + C_op / p`: device times come from the
//! wall time of calls, and contain the CPU time of the I/O already.
//!
//! Threads of the kernel take cores away: their CPU time counts against all cores, and io_uring's polling thread has
//! a core of its own. An engine with threads of its own does its I/O beside the computing threads, the others within
//! them.

use sakiyomi_io::{EngineKind, EngineSpec};
use serde::Serialize;

use super::flow::{Direction, Flow};
use super::operators::OperatorCosts;
use super::streams::Streams;

/// Whether the threads of a stage wait for each transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Overlap {
    /// Transfers are in flight while threads compute.
    #[default]
    Asynchronous,
    /// A thread waits for each of its transfers.
    Synchronous,
}

/// A part of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    /// Phases of a run ([`crate::phase::Phases`]) that are part of it.
    pub(crate) records: &'static [&'static str],
    pub(crate) flows: Vec<Flow>,
    /// CPU time of operators, in nanoseconds of a thread that runs alone.
    pub(crate) user_ns: f64,
    /// CPU time of the longest part that only one thread can do; it is contained in `user_ns`.
    pub(crate) serial_ns: f64,
    /// Portions of work that threads share; 0 for very many.
    pub(crate) portions: f64,
    pub(crate) overlap: Overlap,
    /// Bytes that are read before the first row can be worked on.
    pub(crate) fill_bytes: f64,
    /// CPU time of the last portion, which overlaps with no reading.
    pub(crate) drain_ns: f64,
    /// Bytes of I/O buffers and of rows in them, without those of reading tables and writing results.
    pub(crate) buffer_bytes: f64,
    /// Bytes of the allocator.
    pub(crate) heap_bytes: f64,
    /// Bytes of memory that are used for the first time in this stage.
    pub(crate) fresh_bytes: f64,
}

/// The resource that a stage waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The devices.
    Io,
    /// All cores.
    Cpu,
    /// One core: work that one thread does alone.
    SerialCpu,
}

impl Bound {
    /// In words: `I/O`, `CPU`, `one core`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Bound::Io => "I/O",
            Bound::Cpu => "CPU",
            Bound::SerialCpu => "one core",
        }
    }
}

/// The machine and the threads of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cores<'a> {
    pub(crate) operators: &'a OperatorCosts,
    /// Cores that may be used.
    pub(crate) cores: usize,
    /// Threads that compute.
    pub(crate) threads: usize,
    pub(crate) engine: EngineSpec,
}

/// Predicted figures of a stage; times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    pub(crate) bytes: f64,
    pub(crate) device_ns: f64,
    pub(crate) user_ns: f64,
    pub(crate) system_ns: f64,
    pub(crate) kernel_threads_ns: f64,
    pub(crate) waited_ns: f64,
    pub(crate) elapsed_ns: f64,
    pub(crate) bound: Bound,
}

impl Cores<'_> {
    /// Cores that are not taken by a polling thread of the kernel.
    fn available(&self) -> usize {
        let polling = usize::from(self.engine.kind == EngineKind::UringSqpoll);
        self.cores.saturating_sub(polling).max(1)
    }

    /// Whether I/O is done by threads that do not compute.
    fn has_io_threads(&self) -> bool {
        matches!(self.engine.kind, EngineKind::Read | EngineKind::Pread | EngineKind::Populate)
    }
}

impl Stage {
    /// Its figures with the streams of a plan.
    pub(crate) fn predict(&self, cores: &Cores<'_>, streams: &Streams) -> Figures {
        let computing = cores.threads.min(cores.available()).max(1);
        let slowdown = cores.operators.slowdown(computing);
        let user = self.user_ns * slowdown;
        let faults = self.fresh_bytes * cores.operators.fresh_memory_system_ns_per_byte;
        let sum = |of: &dyn Fn(&Flow) -> f64| self.flows.iter().map(of).sum::<f64>();
        let io = sum(&|flow| flow.bytes * streams.transfer(flow).cpu_ns_per_byte);
        let kernel = match cores.engine.kind {
            EngineKind::UringSqpoll => 0.0,
            _ => sum(&|flow| flow.bytes * streams.transfer(flow).kernel_ns_per_byte),
        };
        let device = streams.device_ns(&self.flows);
        // In a synchronous stage the device time has the CPU time of its calls in it.
        let within = if self.overlap == Overlap::Synchronous || cores.has_io_threads() { 0.0 } else { io };
        let of_threads = (user + faults) * self.imbalance(computing) + within;
        let all = (user + faults + io + kernel) / cores.available() as f64;
        let cpu = (of_threads / computing as f64).max(all);
        let serial = self.serial_ns * slowdown;
        let body = match self.overlap {
            Overlap::Asynchronous => device.max(cpu).max(serial),
            Overlap::Synchronous => device + cpu.max(serial),
        };
        let elapsed = body + self.fill_and_drain(streams) + self.drain_ns * slowdown;
        Figures {
            bytes: sum(&|flow| flow.bytes),
            device_ns: device,
            user_ns: user,
            system_ns: faults + io,
            kernel_threads_ns: kernel,
            waited_ns: computing as f64 * (elapsed - cpu).max(0.0),
            elapsed_ns: elapsed,
            bound: match () {
                () if device >= cpu.max(serial) => Bound::Io,
                () if serial > cpu => Bound::SerialCpu,
                () => Bound::Cpu,
            },
        }
    }

    /// The factor by which threads take longer because the portions do not come out even.
    fn imbalance(&self, threads: usize) -> f64 {
        let threads = threads as f64;
        if self.portions < 1.0 { 1.0 } else { (self.portions / threads).ceil() * threads / self.portions }
    }

    /// Time until the first bytes are there, and from the last bytes computed until they are written.
    fn fill_and_drain(&self, streams: &Streams) -> f64 {
        if self.overlap == Overlap::Synchronous {
            return 0.0;
        }
        let latency = |direction: Direction| {
            let same = self.flows.iter().filter(move |flow| flow.direction == direction && flow.bytes > 0.0);
            same.map(|flow| streams.transfer(flow).latency_ns).fold(0.0, f64::max)
        };
        let first = self.flows.iter().find(|flow| flow.direction == Direction::Read);
        let fill = first.map_or(0.0, |flow| self.fill_bytes * streams.transfer(flow).device_ns_per_byte);
        latency(Direction::Read) + latency(Direction::Write) + fill
    }
}
