//! A process that has been seen, held so that it is never mistaken for another that has its number later.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sakiyomi_os::process::Process;

/// A process. Its serial number is unique, however often the kernel reuses its process number.
#[derive(Debug)]
pub(super) struct Seen {
    /// Its owner number by default.
    pub(super) serial: u32,
    process: Process,
    known: Mutex<Known>,
}

/// Cached facts about it.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The tree that it belongs to, by its owner: also when its parent has ended.
    pub(super) tree: Option<u32>,
    /// The number of trees so far when it was found to be in none.
    pub(super) outside: Option<u64>,
    /// The owner of its control group, and when that was looked up.
    pub(super) group: Option<(Instant, Option<u32>)>,
    /// Its program's name when it was last read.
    pub(super) name: String,
}

impl Seen {
    pub(super) fn open(pid: u32, serial: u32) -> io::Result<Seen> {
        Ok(Seen { serial, process: Process::open(pid)?, known: Mutex::default() })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.number()
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing that is done under the lock can panic half-way.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is still there, and a thread is one of its own.
    pub(super) fn has_thread(&self, thread: u32) -> bool {
        self.process.has_thread(thread)
    }

    pub(super) fn is_there(&self) -> bool {
        self.has_thread(self.pid())
    }

    /// The name of its program; the last one known when it has ended.
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

impl PartialEq for Seen {
    fn eq(&self, other: &Seen) -> bool {
        self.serial == other.serial
    }
}

/// Processes by their numbers, opened once.
pub(super) type Shared = Arc<Seen>;
