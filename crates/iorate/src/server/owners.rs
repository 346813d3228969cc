//! Owners of I/O: the mapping from the thread that the kernel names to the owner whose rate applies.
//!
//! By default a process is one owner; a rate can be given to it, to a tree of processes, or to a control group. If
//! several apply, the nearest counts: the process's own, then that of the nearest tree, then that of the group with the
//! longest path.
//!
//! The kernel reuses thread and process IDs. So that a rate is not inherited with an ID, a process is referred to by
//! its open directory in `/proc`, and as long as it has a rate, each request checks that the thread belongs to it (1
//! us). A thread without a rate is assumed to be the same for [`LOOKUP_MAX_AGE`].

mod table;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::protocol::Target;
use sakiyomi_os::process::ExitWatcher;

use super::process_ref::{ProcessRef, Shared};
use sakiyomi_os::per_thread::PerThread;
pub(super) use table::{DescriptorLimits, ResolvedTarget, is_within};
use table::{RatedOwner, Table};

/// Time for which the owner of a thread without a rate is cached.
const LOOKUP_MAX_AGE: Duration = Duration::from_millis(100);

/// Number of threads whose owners each serving thread caches.
const THREADS_MAX: usize = 4096;

/// Owner of the kernel's own requests, and of those whose thread is unknown.
pub(super) const KERNEL_OWNER: u32 = 0;

/// Finds the owners of threads.
#[derive(Debug)]
pub(super) struct Owners {
    table: Mutex<Table>,
    /// Changes with every change of an owner.
    generation: AtomicU64,
    threads: PerThread<HashMap<u32, Thread>>,
    exits: ExitWatcher,
}

/// Cached owner of a thread.
#[derive(Debug)]
struct Thread {
    generation: u64,
    looked: Instant,
    owner: u32,
    has_rate: bool,
    process: Weak<ProcessRef>,
}

impl Owners {
    pub(super) fn new(limits: DescriptorLimits) -> io::Result<Owners> {
        Ok(Owners {
            table: Mutex::new(Table::new(limits)),
            generation: AtomicU64::new(0),
            threads: PerThread::default(),
            exits: ExitWatcher::new()?,
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // The table is consistent after each step.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the owner of a thread's requests. The thread exists as long as it waits for its reply.
    pub(crate) fn of_thread(&self, thread: u32) -> u32 {
        if thread == 0 {
            return KERNEL_OWNER;
        }
        let generation = self.generation.load(Ordering::Acquire);
        self.threads.with(|threads| {
            if let Some(known) = threads.get_mut(&thread).filter(|known| known.generation == generation)
                && known.is_still(thread)
            {
                return known.owner;
            }
            let hint = threads.get(&thread).and_then(|known| known.process.upgrade());
            let (owner, found) = self.look_up(thread, hint, generation);
            if threads.len() >= THREADS_MAX {
                threads.clear();
            }
            match found {
                Some(found) => threads.insert(thread, found),
                None => threads.remove(&thread),
            };
            owner
        })
    }

    fn look_up(&self, thread: u32, hint: Option<Shared>, generation: u64) -> (u32, Option<Thread>) {
        let mut table = self.table();
        let still = hint.filter(|process| table.knows(process) && process.has_thread(thread));
        let Some(process) = still.or_else(|| table.process_of(thread)) else { return (KERNEL_OWNER, None) };
        let (owner, has_rate) = table.owner_of(&process, &self.exits);
        let process = Arc::downgrade(&process);
        (owner, Some(Thread { generation, looked: Instant::now(), owner, has_rate, process }))
    }

    /// Returns the process of a thread.
    pub(super) fn process_of(&self, thread: u32) -> Option<Shared> {
        if thread == 0 { None } else { self.table().process_of(thread) }
    }

    /// Returns the process with this ID, if it exists.
    pub(super) fn process(&self, pid: u32) -> Option<Shared> {
        self.process_of(pid).filter(|process| process.pid() == pid)
    }

    /// Returns the owner number of `held`; assigns one if it has no rate.
    pub(super) fn number(&self, held: &ResolvedTarget) -> u32 {
        let mut table = self.table();
        let known = match held {
            ResolvedTarget::Process(process) => Some(process.serial),
            ResolvedTarget::Tree(root) => table.trees.get(&root.serial).copied(),
            ResolvedTarget::Group(path) => table.groups.get(path).copied(),
        };
        known.unwrap_or_else(|| table.next())
    }

    /// Returns the number and the rate of `held`, if it has a rate.
    pub(super) fn rated(&self, held: &ResolvedTarget) -> Option<(u32, RatedOwner)> {
        let table = self.table();
        let number = match held {
            ResolvedTarget::Process(process) => Some(process.serial),
            ResolvedTarget::Tree(root) => table.trees.get(&root.serial).copied(),
            ResolvedTarget::Group(path) => table.groups.get(path).copied(),
        }?;
        Some((number, table.rated.get(&number)?.clone()))
    }

    /// Returns the users that set the rates which concern `held`: its own, and those of all trees and groups that it is
    /// part of, also where a nearer rate counts at present.
    pub(super) fn set_by(&self, held: &ResolvedTarget) -> Vec<u32> {
        self.table().set_by(held)
    }

    /// Returns the owners whose rates a user has set.
    pub(super) fn rated_by(&self, user: u32) -> Vec<u32> {
        let table = self.table();
        table.rated.iter().filter(|(_, rated)| rated.by == user).map(|(number, _)| *number).collect()
    }

    /// Returns the owners with rates whose processes are in a control group or below it.
    pub(super) fn rated_in(&self, group: &str) -> Vec<u32> {
        let table = self.table();
        let is_in = |rated: &RatedOwner| match (&rated.target, &rated.process) {
            (Target::Group { path }, _) => is_within(path, group),
            (_, Some(process)) => is_in_group(process, group),
            _ => false,
        };
        table.rated.iter().filter(|(_, rated)| is_in(rated)).map(|(number, _)| *number).collect()
    }

    pub(super) fn has_rate(&self, number: u32) -> bool {
        self.table().rated.contains_key(&number)
    }

    /// Returns whether the maximum number of rates has been reached.
    pub(super) fn is_full(&self) -> bool {
        self.table().is_full()
    }

    /// Records that an owner has a rate.
    ///
    /// # Errors
    /// If its process has ended.
    pub(super) fn add(&self, number: u32, held: ResolvedTarget, by: u32) -> io::Result<()> {
        let mut table = self.table();
        let added = table.add(number, held, by, &self.exits);
        if added.is_err() {
            table.remove(number);
        }
        self.changed();
        added
    }

    /// Records that an owner no longer has a rate.
    pub(super) fn remove(&self, number: u32) {
        let mut table = self.table();
        table.remove(number);
        table.wait_only_for_those_needed(&self.exits);
        self.changed();
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Waits until processes end, or for `patience`; returns the serial numbers of those that have ended.
    pub(super) fn wait_for_ends(&self, patience: Duration) -> io::Result<Vec<u32>> {
        let mut ended = Vec::new();
        self.exits.wait(patience, &mut ended)?;
        Ok(ended)
    }

    /// Removes processes that have ended; returns the owners that thereby lost their rate.
    pub(super) fn take_ended(&self, serials: &[u32]) -> Vec<u32> {
        let mut table = self.table();
        let gone: Vec<u32> = serials.iter().flat_map(|&serial| table.ended(serial)).collect();
        if !gone.is_empty() {
            self.changed();
        }
        gone
    }

    /// Ends the wait for exits.
    pub(super) fn stop(&self) {
        self.exits.stop();
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.exits.has_stopped()
    }

    /// Returns the target and the name of an owner; `None` if it is unknown.
    pub(super) fn who(&self, number: u32) -> Option<(Target, String)> {
        let table = self.table();
        if let Some(rated) = table.rated.get(&number) {
            let process = rated.process.clone();
            let target = rated.target.clone();
            drop(table);
            let name = match &target {
                Target::Group { path } => path.clone(),
                Target::Process { .. } | Target::Tree { .. } => {
                    process.map_or(String::new(), |one| one.name())
                }
            };
            return Some((target, name));
        }
        let process = table.processes.values().find(|process| process.serial == number).cloned();
        drop(table);
        process.map(|process| (Target::Process { pid: process.pid() }, process.name()))
    }
}

impl Thread {
    fn is_still(&mut self, thread: u32) -> bool {
        if !self.has_rate && self.looked.elapsed() < LOOKUP_MAX_AGE {
            return true;
        }
        // The process may have left its group, so the lookup is repeated periodically.
        self.has_rate
            && self.looked.elapsed() < LOOKUP_MAX_AGE * 10
            && self.process.upgrade().is_some_and(|process| process.has_thread(thread))
    }
}

/// Returns whether a process is in a control group or below it.
pub(super) fn is_in_group(process: &ProcessRef, group: &str) -> bool {
    let groups = process.process().control_groups();
    groups.is_ok_and(|groups| groups.iter().any(|own| is_within(own, group)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::{Child, Command};

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Starts a process with the ID of one that has ended.
    fn successor(number: u32) -> Option<Child> {
        for _ in 0..200 {
            fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).ok()?;
            let child = sleeper();
            if child.id() == number {
                return Some(child);
            }
            end(child);
        }
        None
    }

    #[test]
    fn a_process_is_forgotten_whose_number_another_one_has_before_its_end_is_told() {
        for tree in [false, true] {
            let owners = Owners::new(DescriptorLimits::of(1024)).unwrap();
            let held =
                |process| if tree { ResolvedTarget::Tree(process) } else { ResolvedTarget::Process(process) };
            let child = sleeper();
            let pid = child.id();
            let first = held(owners.process(pid).unwrap());
            let number = owners.number(&first);
            owners.add(number, first, 0).unwrap();
            end(child);
            let Some(child) = successor(pid) else {
                let why = "a number cannot be given anew here: needs /proc/sys/kernel/ns_last_pid";
                return sakiyomi_testing::skipped("a_process_is_forgotten", why);
            };
            let second = held(owners.process(pid).unwrap());
            assert!(owners.rated(&second).is_none(), "it has no rate");
            let of_second = owners.number(&second);
            owners.add(of_second, second, 0).unwrap();
            assert_eq!(owners.table().rated.len(), 2);
            let ended = owners.wait_for_ends(Duration::from_secs(20)).unwrap();
            assert_eq!(owners.take_ended(&ended), [number]);
            assert!(owners.has_rate(of_second) && owners.of_thread(pid) == of_second);
            end(child);
            let ended = owners.wait_for_ends(Duration::from_secs(20)).unwrap();
            assert_eq!(owners.take_ended(&ended), [of_second]);
            assert_eq!(owners.table().rated.len(), 0);
        }
    }

    #[test]
    fn no_more_are_held_than_files_may_be_open() {
        let owners = Owners::new(DescriptorLimits::of(48)).unwrap();
        let children: Vec<Child> = (0..9).map(|_| sleeper()).collect();
        let held = |child: &Child| ResolvedTarget::Process(owners.process(child.id()).unwrap());
        for child in &children {
            assert!(!owners.is_full());
            owners.add(owners.number(&held(child)), held(child), 0).unwrap();
        }
        // The rate of an owner that has one can still be changed.
        owners.add(owners.number(&held(&children[0])), held(&children[0]), 0).unwrap();
        let own = owners.process(std::process::id()).unwrap();
        assert!(owners.is_full());
        let own = ResolvedTarget::Process(own);
        assert!(owners.add(owners.number(&own), own, 0).is_err());
        children.into_iter().for_each(end);
        while owners.is_full() {
            let ended = owners.wait_for_ends(Duration::from_secs(20)).unwrap();
            assert!(!ended.is_empty());
            owners.take_ended(&ended);
        }
    }
}
