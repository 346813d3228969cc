//! Result of `daemon status`.

use serde::{Deserialize, Serialize};

use crate::number::{bytes, duration, plural};
use crate::words::one_line;

/// Status of a daemon, with totals since it started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// PID of the daemon.
    pub pid: u32,
    /// Time since it started.
    pub elapsed_ns: u64,
    /// CPU time of the daemon and its workers.
    pub own_cpu_ns: u64,
    /// Limit of the memory for data prefetched for all followed processes together; absent: a quarter of the available
    /// memory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_bytes: Option<u64>,
    /// Worker processes: one for each set of credentials (user and groups) among the followed processes.
    pub workers: u64,
    /// Processes that are followed now, each with its descendants.
    pub followed: Vec<DaemonProcess>,
    /// Number of processes that are no longer followed.
    pub ended: u64,
    /// The latest of them, the last one first.
    pub latest: Vec<DaemonProcess>,
    /// Processes that could not be followed, because their files may not be inspected.
    pub refused: u64,
    /// Workers that ended unexpectedly, and were replaced.
    pub failures: u64,
    /// Time that the processes in `ended` waited for I/O.
    pub io_wait_ns: u64,
    /// Estimated I/O time hidden by prefetching.
    pub io_hidden_ns: u64,
    /// Bytes that were prefetched for them.
    pub prefetched_bytes: u64,
    /// Prefetched bytes that they did not read.
    pub wasted_bytes: u64,
    /// Bytes that were prefetched because an earlier run of the same command had read them.
    pub replayed_bytes: u64,
}

/// A process that is or was followed with its descendants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DaemonProcess {
    /// Its PID.
    pub pid: u32,
    /// Name of its program.
    pub name: String,
    /// Its user ID.
    pub user: u32,
    /// Time for which it has been followed, or was.
    pub elapsed_ns: u64,
    /// Time that it waited for I/O; 0 while it is followed.
    pub io_wait_ns: u64,
    /// Estimated I/O time hidden by prefetching; 0 while it is followed.
    pub io_hidden_ns: u64,
    /// Bytes that were prefetched for it; 0 while it is followed.
    pub prefetched_bytes: u64,
    /// Prefetched bytes that it did not read; 0 while it is followed.
    pub wasted_bytes: u64,
    /// Bytes that were prefetched because an earlier run of the same command had read them; 0 while it is followed.
    pub replayed_bytes: u64,
}

impl DaemonStatus {
    /// Adds a process whose following has ended.
    pub fn end(&mut self, process: DaemonProcess) {
        /// Processes that `latest` holds.
        const LATEST_MAX: usize = 20;
        self.ended += 1;
        for (total, of_process) in [
            (&mut self.io_wait_ns, process.io_wait_ns),
            (&mut self.io_hidden_ns, process.io_hidden_ns),
            (&mut self.prefetched_bytes, process.prefetched_bytes),
            (&mut self.wasted_bytes, process.wasted_bytes),
            (&mut self.replayed_bytes, process.replayed_bytes),
        ] {
            *total = total.saturating_add(of_process);
        }
        self.latest.insert(0, process);
        self.latest.truncate(LATEST_MAX);
    }

    /// Returns the status as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![format!(
            "Running for {} as PID {}, with {} of CPU time and {}.",
            duration(self.elapsed_ns),
            self.pid,
            duration(self.own_cpu_ns),
            plural(self.workers, "worker")
        )];
        lines.push(match self.followed.len() {
            0 => "No process is followed.".to_owned(),
            count => format!("Following {}:", plural(count as u64, "process")),
        });
        lines.extend(
            self.followed
                .iter()
                .map(|process| format!("  {}, for {}", process.named(), duration(process.elapsed_ns))),
        );
        if self.ended > 0 {
            lines.push(format!(
                "Followed before: {}, which waited {} for I/O. Prefetched: {}, of which {} were not read; \
                 I/O hidden, estimated: about {}.",
                plural(self.ended, "process"),
                duration(self.io_wait_ns),
                bytes(self.prefetched_bytes.saturating_add(self.replayed_bytes)),
                bytes(self.wasted_bytes),
                duration(self.io_hidden_ns),
            ));
        }
        lines.extend(self.latest.iter().map(|process| {
            format!(
                "  {}: waited {}, {} prefetched",
                process.named(),
                duration(process.io_wait_ns),
                bytes(process.prefetched_bytes.saturating_add(process.replayed_bytes))
            )
        }));
        if self.refused > 0 {
            let refused = plural(self.refused, "process");
            lines.push(format!("{refused} could not be followed: their files may not be inspected."));
        }
        if self.failures > 0 {
            lines.push(format!("{} ended unexpectedly.", plural(self.failures, "worker")));
        }
        lines.join("\n")
    }
}

impl DaemonProcess {
    fn named(&self) -> String {
        format!("{} (PID {}, user {})", one_line(&self.name), self.pid, self.user)
    }
}
