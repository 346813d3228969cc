//! The file descriptors of recorded threads, and the names of the files that they use, from `/proc`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sakiyomi_os::process::{Kind, Process, process_of};

use crate::timeline::{Descriptors, Meaning};

/// Share of the elapsed time that look-ups in `/proc` may take.
const LOOKUP_SHARE: f64 = 0.02;
/// Time for look-ups at the start, and the most that is saved up.
const LOOKUP_CREDIT: Duration = Duration::from_millis(20);

/// Resolves descriptors by `/proc`, soon after their use.
#[derive(Debug)]
pub(super) struct ProcDescriptors {
    meanings: HashMap<(u32, u32), Meaning>,
    processes: HashMap<u32, u32>,
    /// Names of the files that were used, by device and inode.
    pub(super) names: HashMap<(u64, u64), PathBuf>,
    begun: Instant,
    spent: Duration,
}

impl ProcDescriptors {
    pub(super) fn new() -> ProcDescriptors {
        ProcDescriptors {
            meanings: HashMap::new(),
            processes: HashMap::new(),
            names: HashMap::new(),
            begun: Instant::now(),
            spent: Duration::ZERO,
        }
    }

    /// Returns whether another look-up is within its share of the time.
    fn may_look(&self) -> bool {
        self.spent < LOOKUP_CREDIT + self.begun.elapsed().mul_f64(LOOKUP_SHARE)
    }

    fn process(&mut self, thread: u32) -> u32 {
        // A thread that has ended was perhaps a process of its own.
        *self.processes.entry(thread).or_insert_with(|| process_of(thread).unwrap_or(thread))
    }

    fn look_up(&mut self, process: u32, descriptor: u32) -> Meaning {
        let Ok(opened) = Process::open(process) else { return Meaning::Unknown };
        match opened.identity(descriptor) {
            Ok(identity) if identity.kind == Kind::Regular => {
                let key = (identity.device, identity.inode);
                if let Ok(name) = opened.name_of(descriptor) {
                    self.names.entry(key).or_insert(name);
                }
                Meaning::File { device: key.0, inode: key.1 }
            }
            Ok(_) => Meaning::Other,
            Err(_) => Meaning::Unknown,
        }
    }

    /// Names the open and mapped files of a process that have no name yet.
    fn name_all(&mut self, process: u32, wanted: (u64, u64)) {
        let Ok(opened) = Process::open(process) else { return };
        for descriptor in opened.open_files().unwrap_or_default() {
            let Ok(identity) = opened.identity(descriptor) else { continue };
            let key = (identity.device, identity.inode);
            if identity.kind == Kind::Regular
                && !self.names.contains_key(&key)
                && let Ok(name) = opened.name_of(descriptor)
            {
                self.names.insert(key, name);
            }
        }
        if !self.names.contains_key(&wanted) {
            for mapped in opened.mappings().unwrap_or_default() {
                self.names.entry((mapped.device, mapped.inode)).or_insert(mapped.path);
            }
        }
    }
}

impl Descriptors for ProcDescriptors {
    fn meaning(&mut self, thread: u32, descriptor: u32) -> Meaning {
        let process = self.process(thread);
        if let Some(&meaning) = self.meanings.get(&(process, descriptor)) {
            return meaning;
        }
        if !self.may_look() {
            return Meaning::Unknown;
        }
        let begun = Instant::now();
        let meaning = self.look_up(process, descriptor);
        self.spent += begun.elapsed();
        if meaning != Meaning::Unknown {
            self.meanings.insert((process, descriptor), meaning);
        }
        meaning
    }

    fn closed(&mut self, thread: u32, descriptor: u32) {
        let process = self.process(thread);
        self.meanings.remove(&(process, descriptor));
    }

    fn used(&mut self, thread: u32, device: u64, inode: u64) {
        let key = (device, inode);
        if self.names.contains_key(&key) || !self.may_look() {
            return;
        }
        let begun = Instant::now();
        let process = self.process(thread);
        self.name_all(process, key);
        self.spent += begun.elapsed();
    }
}
