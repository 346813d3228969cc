//! Stages: consecutive parts of a job, and the predicted time of each.
//!
//! ```text
//! T = max(network(C, D, p + q), network(C, D', p + a), S) + fill and drain
//! ```
//!
//! `C` is the CPU time of operators and I/O on `p` cores, `D` the time of the busiest device (reads and writes add up),
//! and `S` the longest single-threaded part. `p` units of work are computed, and the transfers of others are in flight:
//! `q` blocks are read ahead or written behind the threads by the engine. `D'` is the time of the flows of which only
//! `a` units are (`Flow::ahead`). `network` gives the time of cores and device for a number of units: it tends
//! to `max(D, C / p)` for many, and is `C + D` for one.
//!
//! The CPU time of kernel threads counts against all cores, and io_uring's polling thread occupies one core. Engines
//! with separate I/O threads do I/O beside the compute threads; other engines do it on the compute threads.

use sakiyomi_io::{EngineKind, EngineSpec};
use serde::Serialize;

use super::correction::Correction;
use super::flow::{Direction, Flow, Role};
use super::network::Network;
use super::operators::OperatorCosts;
use super::step::{PhaseKind, Step};
use super::streams::Streams;

/// A part of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stage {
    pub(crate) step: Step,
    /// Names of the recorded phases ([`crate::phase::Phases`]) that belong to it.
    pub(crate) records: &'static [&'static str],
    pub(crate) flows: Vec<Flow>,
    /// CPU time of operators, in nanoseconds of a single busy thread.
    pub(crate) user_ns: f64,
    /// CPU time of the longest serial part, in nanoseconds; included in `user_ns`.
    pub(crate) serial_ns: f64,
    /// Number of work units distributed over threads; 0 if there are very many.
    pub(crate) portions: f64,
    /// Bytes read before computation can begin.
    pub(crate) fill_bytes: f64,
    /// Times that each thread waits for a transfer with nothing to compute and no other one in flight.
    pub(crate) pauses: Pauses,
    /// Bytes of I/O buffers and rows in them, without the buffers of table reads and result writes.
    pub(crate) buffer_bytes: f64,
    /// Bytes of allocator memory.
    pub(crate) heap_bytes: f64,
    /// Bytes of allocator memory for groups of rows that are encoded: as many as the limit allows.
    pub(crate) passing_heap_bytes: f64,
    /// Most bytes that are in spill files at a time.
    pub(crate) spilled_bytes: f64,
    /// Bytes of buffers used for the first time in this stage.
    pub(crate) fresh_buffer_bytes: f64,
    /// Bytes of allocator memory used for the first time in this stage.
    pub(crate) fresh_heap_bytes: f64,
}

/// Waits of a thread for single transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pauses {
    /// For the first read of something.
    pub(crate) reads: f64,
    /// For the last write of something.
    pub(crate) writes: f64,
}

/// The limiting resource of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The devices.
    Io,
    /// All cores.
    Cpu,
    /// One core: single-threaded work.
    SerialCpu,
}

impl Bound {
    /// Returns the name for display: `I/O`, `CPU`, `one core`.
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
    /// Cores not occupied by a polling kernel thread.
    fn available(&self) -> usize {
        let polling = usize::from(self.engine.kind == EngineKind::UringSqpoll);
        self.cores.saturating_sub(polling).max(1)
    }

    /// Returns whether the engine does I/O on separate threads.
    fn has_io_threads(&self) -> bool {
        matches!(self.engine.kind, EngineKind::Read | EngineKind::Pread | EngineKind::Populate)
    }
}

impl Stage {
    /// Returns the kind of its phase.
    pub(crate) fn kind(&self) -> PhaseKind {
        let is_spilled = self.flows.iter().any(|flow| flow.role == Role::Spill);
        PhaseKind { step: self.step, is_spilled }
    }

    /// Predicts the figures with the streams of a plan, corrected.
    pub(crate) fn predict(&self, cores: &Cores<'_>, streams: &Streams) -> Figures {
        self.figures(cores, streams, cores.operators.corrections.of(self.kind()))
    }

    /// Predicts the figures without corrections.
    pub(crate) fn predict_uncorrected(&self, cores: &Cores<'_>, streams: &Streams) -> Figures {
        self.figures(cores, streams, Correction::default())
    }

    fn figures(&self, cores: &Cores<'_>, streams: &Streams, correction: Correction) -> Figures {
        let Correction { elapsed: elapsed_factor, cpu: cpu_factor } = correction;
        let computing = cores.threads.min(cores.available()).max(1);
        let slowdown = cores.operators.slowdown(computing) * cpu_factor.ratio;
        let user = self.user_ns * slowdown;
        let faults = cpu_factor.ratio
            * (self.fresh_buffer_bytes * cores.operators.fresh_memory_system_ns_per_byte
                + self.fresh_heap_bytes * cores.operators.fresh_heap_system_ns_per_byte);
        let sum = |of: &dyn Fn(&Flow) -> f64| self.flows.iter().map(of).sum::<f64>();
        let io = cpu_factor.ratio * sum(&|flow| flow.bytes * streams.transfer(flow).cpu_ns_per_byte);
        let kernel = match cores.engine.kind {
            EngineKind::UringSqpoll => 0.0,
            _ => sum(&|flow| flow.bytes * streams.transfer(flow).kernel_ns_per_byte),
        };
        let device = streams.device_ns(&self.flows);
        let within = if cores.has_io_threads() { 0.0 } else { io };
        let of_threads = (user + faults) * self.imbalance(computing) + within;
        let all = (user + faults + io + kernel) / cores.available() as f64;
        let cpu = (of_threads / computing as f64).max(all);
        let serial = self.serial_ns * slowdown;
        let cpu_ns = cpu * computing as f64;
        let time = |device_ns, ahead: usize| {
            let units = computing.saturating_add(ahead);
            Network { cpu_ns, device_ns, servers: computing, units }.time_ns()
        };
        let queued = self.flows.iter().map(|flow| streams.transfer(flow).ahead).min().unwrap_or(0);
        let (limited, ahead): (Vec<Flow>, Vec<usize>) =
            self.flows.iter().filter_map(|flow| Some((*flow, flow.ahead?))).unzip();
        let waiting = time(streams.device_ns(&limited), ahead.into_iter().min().unwrap_or(0));
        let body = time(device, queued).max(waiting).max(serial);
        let elapsed = (body + self.fill_and_drain(streams)) * elapsed_factor.ratio;
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

    /// Returns the slowdown because portions are not divisible evenly among threads.
    fn imbalance(&self, threads: usize) -> f64 {
        let threads = threads as f64;
        if self.portions < 1.0 { 1.0 } else { (self.portions / threads).ceil() * threads / self.portions }
    }

    /// Returns the time until the first bytes arrive plus time to write the last bytes, of the stage and of what a
    /// thread does between pauses, in nanoseconds.
    fn fill_and_drain(&self, streams: &Streams) -> f64 {
        let latency = |direction: Direction| {
            let same = self.flows.iter().filter(move |flow| flow.direction == direction && flow.bytes > 0.0);
            same.map(|flow| streams.transfer(flow).latency_ns).fold(0.0, f64::max)
        };
        let first = self.flows.iter().find(|flow| flow.direction == Direction::Read);
        let fill = first.map_or(0.0, |flow| self.fill_bytes * streams.transfer(flow).device_ns_per_byte);
        let Pauses { reads, writes } = self.pauses;
        reads.max(1.0) * latency(Direction::Read) + writes.max(1.0) * latency(Direction::Write) + fill
    }
}
