//! A reference to a process that cannot be confused with a later process of the same ID.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sakiyomi_os::process::Process;

/// A process. Its serial number is unique, however often the kernel reuses its process ID.
#[derive(Debug)]
pub(super) struct ProcessRef {
    /// Serial number, by default its owner number.
    pub(super) serial: u32,
    process: Process,
    known: Mutex<ProcessFacts>,
}

/// Cached facts about it.
#[derive(Debug, Default)]
pub(super) struct ProcessFacts {
    /// Owner of the tree that it belongs to, even after its parent has ended.
    pub(super) tree: Option<u32>,
    /// Number of trees when it was found to be in none.
    pub(super) outside: Option<u64>,
    /// Owner of its control group, and the time of that lookup.
    pub(super) group: Option<(Instant, Option<u32>)>,
    /// Name of its program when last read.
    pub(super) name: String,
}

impl ProcessRef {
    pub(super) fn open(pid: u32, serial: u32) -> io::Result<ProcessRef> {
        Ok(ProcessRef { serial, process: Process::open(pid)?, known: Mutex::default() })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.number()
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    pub(super) fn known(&self) -> MutexGuard<'_, ProcessFacts> {
        // No operation under this lock can panic half-way.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether it still exists and the thread belongs to it.
    pub(super) fn has_thread(&self, thread: u32) -> bool {
        self.process.has_thread(thread)
    }

    pub(super) fn is_there(&self) -> bool {
        self.has_thread(self.pid())
    }

    /// Returns the name of its program; after its end, the last known one.
    pub(super) fn name(&self) -> String {
        match self.process.name() {
            Ok(name) => {
                self.known().name.clone_from(&name);
                name
            }
            Err(_) => self.known().name.clone(),
        }
    }
}

impl PartialEq for ProcessRef {
    fn eq(&self, other: &ProcessRef) -> bool {
        self.serial == other.serial
    }
}

/// A process, opened once and shared.
pub(super) type Shared = Arc<ProcessRef>;
