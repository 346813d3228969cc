//! The ends of processes, told by the kernel: nobody looks again and again whether ten thousand are still there.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use sakiyomi_os::process::Process;

/// No process's name: those are shorter.
const STOP: u64 = u64::MAX;

/// Processes that are waited for, by names of ours.
#[derive(Debug)]
pub(super) struct Ends {
    all: OwnedFd,
    /// Readable when nobody is to wait any more.
    stop: OwnedFd,
    stopped: AtomicBool,
    /// Closed, a descriptor is not waited for any more.
    waited: Mutex<BTreeMap<u32, OwnedFd>>,
}

impl Ends {
    pub(super) fn new() -> io::Result<Ends> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        epoll::add(&all, &stop, epoll::EventData::new_u64(STOP), epoll::EventFlags::IN)?;
        Ok(Ends { all, stop, stopped: AtomicBool::new(false), waited: Mutex::default() })
    }

    /// Who waits is woken, and whoever would wait does not.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // It cannot be full.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, OwnedFd>> {
        // Nothing that is done under the lock can panic half-way.
        self.waited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a process from now on.
    ///
    /// # Errors
    /// If it has ended already.
    pub(super) fn add(&self, name: u32, process: &Process) -> io::Result<()> {
        let end = process.end()?;
        epoll::add(&self.all, &end, epoll::EventData::new_u64(name.into()), epoll::EventFlags::IN)?;
        self.lock().insert(name, end);
        Ok(())
    }

    /// Does not wait for it any more.
    pub(super) fn remove(&self, name: u32) {
        self.lock().remove(&name);
    }

    /// Waits until some have ended, or for so long; they are not waited for any more.
    pub(super) fn wait(&self, patience: Duration, ended: &mut Vec<u32>) -> io::Result<()> {
        let patience =
            Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
        let mut events = Vec::with_capacity(64);
        match epoll::wait(&self.all, rustix::buffer::spare_capacity(&mut events), Some(&patience)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.iter().filter(|event| event.data.u64() != STOP) {
            let name = event.data.u64() as u32;
            self.remove(name);
            ended.push(name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn an_end_is_told_once() {
        let ends = Ends::new().unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        ends.add(7, &Process::open(child.id()).unwrap()).unwrap();
        ends.add(8, &Process::open(std::process::id()).unwrap()).unwrap();
        let mut ended = Vec::new();
        ends.wait(Duration::ZERO, &mut ended).unwrap();
        assert!(ended.is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        ends.wait(Duration::from_secs(20), &mut ended).unwrap();
        ends.wait(Duration::ZERO, &mut ended).unwrap();
        assert_eq!(ended, [7]);
    }
}
