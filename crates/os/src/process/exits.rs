//! Exits of processes, reported by the kernel (pidfd, epoll): ten thousand processes are watched without polling
//! them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

use super::Process;

/// Key of the event that ends the thread. The keys of processes have 32 bits.
const STOP_EVENT: u64 = u64::MAX;

/// Watches processes, identified by keys of the caller's choice.
#[derive(Debug)]
pub struct ExitWatcher {
    all: OwnedFd,
    /// Readable once the watcher has been stopped.
    stop: OwnedFd,
    stopped: AtomicBool,
    /// Closing a descriptor ends the watch.
    watched: Mutex<BTreeMap<u32, OwnedFd>>,
}

impl ExitWatcher {
    /// Creates a watcher without processes.
    ///
    /// # Errors
    /// If no descriptors are left.
    pub fn new() -> io::Result<ExitWatcher> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        epoll::add(&all, &stop, epoll::EventData::new_u64(STOP_EVENT), epoll::EventFlags::IN)?;
        Ok(ExitWatcher { all, stop, stopped: AtomicBool::new(false), watched: Mutex::default() })
    }

    /// Wakes the waiting thread, and prevents further waits.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // The counter cannot overflow.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }

    /// Returns whether it has been stopped.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, OwnedFd>> {
        // No code under the lock can panic halfway.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a process from now on.
    ///
    /// # Errors
    /// If it has ended already.
    pub fn add(&self, key: u32, process: &Process) -> io::Result<()> {
        let end = process.end()?;
        epoll::add(&self.all, &end, epoll::EventData::new_u64(key.into()), epoll::EventFlags::IN)?;
        self.lock().insert(key, end);
        Ok(())
    }

    /// Stops watching a process.
    pub fn remove(&self, key: u32) {
        self.lock().remove(&key);
    }

    /// Waits until watched processes have ended, or for `timeout`; appends their keys, which are no longer watched.
    ///
    /// # Errors
    /// Returns the errors of epoll_wait(2), which are not expected.
    pub fn wait(&self, timeout: Duration, ended: &mut Vec<u32>) -> io::Result<()> {
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        let mut events = Vec::with_capacity(64);
        match epoll::wait(&self.all, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.iter().filter(|event| event.data.u64() != STOP_EVENT) {
            let key = event.data.u64() as u32;
            self.remove(key);
            ended.push(key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn an_exit_is_reported_once() {
        let watcher = ExitWatcher::new().unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        watcher.add(7, &Process::open(child.id()).unwrap()).unwrap();
        watcher.add(8, &Process::open(std::process::id()).unwrap()).unwrap();
        let mut ended = Vec::new();
        watcher.wait(Duration::ZERO, &mut ended).unwrap();
        assert!(ended.is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        watcher.wait(Duration::from_secs(20), &mut ended).unwrap();
        watcher.wait(Duration::ZERO, &mut ended).unwrap();
        assert_eq!(ended, [7]);
    }
}
