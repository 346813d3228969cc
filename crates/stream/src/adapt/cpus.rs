//! How long the workers are kept waiting for their CPUs, as the kernel accounts for it.

use sakiyomi_os::cpu::stolen_times;
use sakiyomi_os::process::Thread;

use super::ownership::{CpuWatch, Ownership};

/// Time between two samples: the window of [`CpuWatch`], within which a further one tells nothing. Reading the times of a
/// thread takes 2 µs, those of all CPUs 50 µs.
const CPU_SAMPLE_PERIOD_NS: u64 = 200_000_000;

/// The workers' CPUs. A worker whose times the kernel does not tell is not watched.
pub(crate) struct Cpus {
    workers: Vec<Watched>,
    next_ns: u64,
}

struct Watched {
    worker: usize,
    /// The CPU that it is pinned to.
    cpu: Option<usize>,
    times: Thread,
    watch: CpuWatch,
}

impl Cpus {
    /// Returns the CPUs of workers, in order, each pinned to a CPU or not, with the times of its thread if
    /// the kernel reports them.
    pub(crate) fn new(pinned_to: &[Option<usize>], times: Vec<Option<Thread>>) -> Cpus {
        let workers = times.into_iter().zip(pinned_to).enumerate();
        let watched = workers.filter_map(|(worker, (times, &cpu))| {
            Some(Watched { worker, cpu, times: times?, watch: CpuWatch::new() })
        });
        Cpus { workers: watched.collect(), next_ns: 0 }
    }

    /// Returns the number of workers that are watched.
    pub(crate) fn watched(&self) -> usize {
        self.workers.len()
    }

    /// Returns the changes, by worker.
    pub(crate) fn sample(&mut self, now_ns: u64) -> Vec<(usize, Ownership)> {
        if now_ns < self.next_ns || self.workers.is_empty() {
            return Vec::new();
        }
        self.next_ns = now_ns + CPU_SAMPLE_PERIOD_NS;
        let stolen = stolen_times();
        let change = |worker: &mut Watched| {
            let queued = worker.times.times().ok()?.queued;
            let stolen = worker.cpu.and_then(|cpu| stolen.get(&cpu).copied()).unwrap_or_default();
            let waited_ns = u64::try_from((queued + stolen).as_nanos()).unwrap_or(u64::MAX);
            Some((worker.worker, worker.watch.add(now_ns, waited_ns)?))
        };
        self.workers.iter_mut().filter_map(change).collect()
    }
}
