//! Metrics of a daemon that prefetches for the processes of a machine.

use super::{family, seconds};
use crate::result::DaemonStatus;

/// Returns the metrics of a daemon.
#[must_use]
pub fn daemon(status: &DaemonStatus) -> String {
    let mut text = String::new();
    for (name, help, value) in [
        ("daemon_followed_processes", "Processes that are followed now.", status.followed.len() as f64),
        ("daemon_workers", "Worker processes.", status.workers as f64),
        ("daemon_elapsed_seconds", "Time since the daemon started.", seconds(status.elapsed_ns)),
        ("daemon_cpu_seconds_total", "CPU time of the daemon and its workers.", seconds(status.own_cpu_ns)),
        (
            "daemon_ended_processes_total",
            "Processes that were followed and are no longer.",
            status.ended as f64,
        ),
        (
            "daemon_refused_processes_total",
            "Processes whose files may not be inspected.",
            status.refused as f64,
        ),
        ("daemon_worker_failures_total", "Workers that ended unexpectedly.", status.failures as f64),
        (
            "daemon_io_wait_seconds_total",
            "Time that these processes waited for I/O.",
            seconds(status.io_wait_ns),
        ),
        (
            "daemon_io_hidden_seconds_total",
            "Estimated I/O time hidden by prefetching.",
            seconds(status.io_hidden_ns),
        ),
        ("daemon_prefetched_bytes_total", "Bytes that were prefetched.", status.prefetched_bytes as f64),
        ("daemon_wasted_bytes_total", "Prefetched bytes that were not read.", status.wasted_bytes as f64),
        (
            "daemon_replayed_bytes_total",
            "Bytes that were prefetched because an earlier run of the same command had read them.",
            status.replayed_bytes as f64,
        ),
    ] {
        family(&mut text, name, help, [("", value)]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::DaemonProcess;

    #[test]
    fn totals_are_those_of_the_processes_that_have_ended() {
        let mut status = DaemonStatus::default();
        for pid in 1..=30 {
            status.end(DaemonProcess {
                pid,
                prefetched_bytes: 1000,
                io_wait_ns: 500_000_000,
                ..DaemonProcess::default()
            });
        }
        assert_eq!((status.latest.len(), status.latest[0].pid), (20, 30));
        let text = daemon(&status);
        assert!(text.contains("\nsakiyomi_daemon_prefetched_bytes_total 30000\n"), "{text}");
        assert!(text.contains("\nsakiyomi_daemon_io_wait_seconds_total 15\n"), "{text}");
        assert!(text.contains("# TYPE sakiyomi_daemon_followed_processes gauge\n"), "{text}");
    }
}
