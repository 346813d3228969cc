//! The maintenance thread of the rates: waits for exits of processes, lets killed ones end, and samples the backing disk.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::RateServer;

/// Time between two samples of the backing disk.
const DISK_POLL_PERIOD: Duration = Duration::from_secs(1);

/// Time between two polls for killed processes that wait for I/O: a killed process ends within this time and that of one
/// access.
const KILLED_POLL_PERIOD: Duration = Duration::from_millis(50);

/// Handle of the thread, which ends when this is dropped.
#[derive(Debug)]
pub struct MaintenanceThread {
    server: Arc<RateServer>,
    thread: Option<JoinHandle<()>>,
}

impl MaintenanceThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(server: Arc<RateServer>) -> io::Result<MaintenanceThread> {
        let kept = Arc::clone(&server);
        let keep = move || {
            let (mut next, channel) = (Instant::now(), mpsc::channel());
            while !kept.owners.has_stopped() {
                let wait = next.saturating_duration_since(Instant::now());
                if kept.wait_for_ends(wait.min(KILLED_POLL_PERIOD)).is_err() {
                    thread::sleep(DISK_POLL_PERIOD);
                }
                kept.cancel_killed(&channel);
                if Instant::now() >= next {
                    next = Instant::now() + DISK_POLL_PERIOD;
                    kept.look_beside();
                }
            }
        };
        let thread = thread::Builder::new().name("rates".to_owned()).spawn(keep)?;
        Ok(MaintenanceThread { server, thread: Some(thread) })
    }

    /// Returns the server.
    #[must_use]
    pub fn server(&self) -> &RateServer {
        &self.server
    }
}

impl Drop for MaintenanceThread {
    fn drop(&mut self) {
        self.server.owners.stop();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has already reported it.
            let _ = thread.join();
        }
    }
}
