//! Known processes, and the rates that apply to them: their own, those of trees, and those of control groups.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::protocol::Target;
use sakiyomi_os::process::{self, ExitWatcher};

use super::{LOOKUP_MAX_AGE, is_in_group};
use crate::server::process_ref::{ProcessRef, Shared};

/// Maximum number of processes whose exit is awaited, even if more files may be open.
const AWAITED_MAX: usize = 16_384;
/// Maximum number of other processes in the table.
const OTHER_PROCESSES_MAX: usize = 1024;

/// Ancestors of a process that are searched for a rate: more than occur in practice.
const ANCESTORS_MAX: usize = 4096;

/// Attempts to find the parent of a process while its parents exit.
const PARENT_LOOKUPS_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Table {
    limits: DescriptorLimits,
    last: u32,
    /// By process ID: the process that currently has it.
    pub(super) processes: BTreeMap<u32, Shared>,
    /// By serial number: processes whose exit is awaited, because they have a rate or belong to a tree. The ID of an
    /// ended process may be reused before its exit is reported.
    awaited: BTreeMap<u32, Shared>,
    pub(super) rated: BTreeMap<u32, RatedOwner>,
    /// Owners of trees, by the serial numbers of their roots.
    pub(super) trees: BTreeMap<u32, u32>,
    /// Number of trees added so far.
    trees_changed: u64,
    /// Owners of groups, by path.
    pub(super) groups: BTreeMap<String, u32>,
}

/// Limits on the number of processes held open.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct DescriptorLimits {
    /// Processes whose exit is awaited, and groups with a rate.
    pub(in crate::server) awaited: usize,
    /// Other processes.
    others: usize,
}

impl DescriptorLimits {
    /// Computes the limits for an open-files limit of `descriptors`, half of which are for files that the mount serves:
    /// a process takes a descriptor, and one more if its exit is awaited.
    pub(in crate::server) fn of(descriptors: usize) -> DescriptorLimits {
        DescriptorLimits {
            awaited: AWAITED_MAX.min(descriptors / 16 * 3),
            others: OTHER_PROCESSES_MAX.min(descriptors / 16),
        }
    }
}

/// An owner that has a rate.
#[derive(Clone, Debug)]
pub(in crate::server) struct RatedOwner {
    pub(super) target: Target,
    /// The user that set the rate.
    pub(in crate::server) by: u32,
    /// The process, or the root of the tree; `None` for a group.
    pub(super) process: Option<Shared>,
    /// Number of known processes of a tree that have not ended.
    members: usize,
}

/// The target of a rate, resolved.
#[derive(Debug)]
pub(in crate::server) enum ResolvedTarget {
    Process(Shared),
    Tree(Shared),
    Group(String),
}

impl ResolvedTarget {
    /// Returns whether it is, or is in, a control group or one below it.
    pub(in crate::server) fn is_in_group(&self, group: &str) -> bool {
        match self {
            ResolvedTarget::Process(process) | ResolvedTarget::Tree(process) => is_in_group(process, group),
            ResolvedTarget::Group(path) => is_within(path, group),
        }
    }
}

impl Table {
    pub(super) fn new(limits: DescriptorLimits) -> Table {
        Table {
            limits,
            last: 0,
            processes: BTreeMap::new(),
            awaited: BTreeMap::new(),
            rated: BTreeMap::new(),
            trees: BTreeMap::new(),
            trees_changed: 0,
            groups: BTreeMap::new(),
        }
    }

    /// Returns whether the maximum number of rates has been reached.
    pub(super) fn is_full(&self) -> bool {
        self.awaited.len() + self.groups.len() >= self.limits.awaited
    }

    pub(super) fn next(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    pub(super) fn knows(&self, process: &Shared) -> bool {
        self.processes.get(&process.pid()).is_some_and(|known| known == process)
    }

    pub(super) fn add(
        &mut self,
        number: u32,
        held: ResolvedTarget,
        by: u32,
        exits: &ExitWatcher,
    ) -> io::Result<()> {
        let (target, process) = match &held {
            ResolvedTarget::Process(process) => {
                (Target::Process { pid: process.pid() }, Some(process.clone()))
            }
            ResolvedTarget::Tree(root) => (Target::Tree { pid: root.pid() }, Some(root.clone())),
            ResolvedTarget::Group(path) => (Target::Group { path: path.clone() }, None),
        };
        let rated = self.rated.entry(number).or_insert(RatedOwner { target, by, process, members: 0 });
        rated.by = by;
        match held {
            ResolvedTarget::Process(process) => {
                self.wait_for(&process, exits)?;
            }
            ResolvedTarget::Tree(root) => {
                self.trees.insert(root.serial, number);
                self.trees_changed += 1;
                self.join(&root, number, exits)?;
                self.move_into_tree(number, exits);
            }
            ResolvedTarget::Group(path) => {
                self.groups.insert(path, number);
                self.processes.values().for_each(|process| process.known().group = None);
            }
        }
        Ok(())
    }

    /// Returns the process of an existing thread.
    pub(super) fn process_of(&mut self, thread: u32) -> Option<Shared> {
        let pid = process::Process::open(thread).ok()?.status().ok()?.process;
        let process = self.open(pid)?;
        // Otherwise its ID has been reused.
        process.has_thread(thread).then_some(process)
    }

    /// Returns the process that currently has this ID.
    fn open(&mut self, pid: u32) -> Option<Shared> {
        if let Some(known) = self.processes.get(&pid).filter(|known| known.is_there()) {
            return Some(known.clone());
        }
        self.make_room();
        let process = Arc::new(ProcessRef::open(pid, self.next()).ok()?);
        self.processes.insert(pid, process.clone());
        Some(process)
    }

    fn make_room(&mut self) {
        let Table { processes, awaited, limits, .. } = self;
        if processes.len().saturating_sub(awaited.len()) >= limits.others {
            processes.retain(|_, process| awaited.contains_key(&process.serial));
        }
    }

    pub(super) fn owner_of(&mut self, process: &Shared, exits: &ExitWatcher) -> (u32, bool) {
        if self.rated.contains_key(&process.serial) {
            return (process.serial, true);
        }
        let shared = self.tree_of(process, exits).or_else(|| self.group_of(process));
        shared.map_or((process.serial, false), |number| (number, true))
    }

    /// Returns the users that set the rates of a target, and of all trees and groups that it is part of.
    pub(super) fn set_by(&mut self, held: &ResolvedTarget) -> Vec<u32> {
        let mut numbers: Vec<u32> = Vec::new();
        numbers.extend(
            self.groups.iter().filter(|(group, _)| held.is_in_group(group)).map(|(_, number)| number),
        );
        if let ResolvedTarget::Process(process) | ResolvedTarget::Tree(process) = held {
            numbers.push(process.serial);
            let mut next = Some(process.clone());
            for _ in 0..ANCESTORS_MAX {
                let Some(ancestor) = next else { break };
                numbers.extend(self.trees.get(&ancestor.serial));
                next = if self.trees.is_empty() { None } else { self.parent_of(&ancestor) };
            }
        }
        numbers.iter().filter_map(|number| self.rated.get(number)).map(|rated| rated.by).collect()
    }

    /// Returns the nearest tree that contains a process.
    fn tree_of(&mut self, process: &Shared, exits: &ExitWatcher) -> Option<u32> {
        if self.trees.is_empty() || process.known().outside == Some(self.trees_changed) {
            return None;
        }
        let mut way = vec![process.clone()];
        let found = loop {
            let last = &way.last().expect("it begins with one").clone();
            let of_root = self.trees.get(&last.serial).copied();
            let known = last.known().tree.filter(|tree| self.rated.contains_key(tree));
            if let Some(number) = of_root.or(known) {
                break number;
            }
            match self.parent_of(last).filter(|_| way.len() < ANCESTORS_MAX) {
                Some(parent) => way.push(parent),
                None => {
                    process.known().outside = Some(self.trees_changed);
                    return None;
                }
            }
        };
        for process in &way {
            // Failure means that the process has ended, and need not be remembered.
            let _ = self.join(process, found, exits);
        }
        Some(found)
    }

    /// Returns the parent of a process: the one that started it, or that has adopted it.
    fn parent_of(&mut self, process: &Shared) -> Option<Shared> {
        for _ in 0..PARENT_LOOKUPS_MAX {
            let number = process.process().status().ok()?.parent;
            let parent = (number > 0).then(|| self.open(number))?;
            // It was alive throughout, so it is the parent that was opened. Otherwise the process has another parent
            // now.
            if parent.is_some() && process.process().status().ok()?.parent == number {
                return parent;
            }
        }
        None
    }

    /// Awaits the exit of a process. A tree may exceed the limit for that: its further processes are looked up each
    /// time.
    fn wait_for(&mut self, process: &Shared, exits: &ExitWatcher) -> io::Result<()> {
        if self.is_full() && !self.awaited.contains_key(&process.serial) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        exits.add(process.serial, process.process())?;
        self.processes.insert(process.pid(), process.clone());
        self.awaited.insert(process.serial, process.clone());
        Ok(())
    }

    /// Adds a process to a tree until it exits.
    fn join(&mut self, process: &Shared, number: u32, exits: &ExitWatcher) -> io::Result<()> {
        let before = process.known().tree.replace(number);
        if before == Some(number) {
            return Ok(());
        }
        if let Some(left) = before.and_then(|before| self.rated.get_mut(&before)) {
            left.members -= 1;
        }
        if before.is_none_or(|before| !self.rated.contains_key(&before)) {
            self.wait_for(process, exits).inspect_err(|_| process.known().tree = None)?;
        }
        self.rated.get_mut(&number).expect("trees have rates").members += 1;
        Ok(())
    }

    /// Moves processes from other trees to a new one that is nearer to them.
    fn move_into_tree(&mut self, number: u32, exits: &ExitWatcher) {
        let all: Vec<Shared> = self.awaited.values().cloned().collect();
        for process in all {
            let before = process.known().tree;
            if before.is_none() || before == Some(number) || self.trees.contains_key(&process.serial) {
                continue;
            }
            let mut way = process.clone();
            for _ in 0..ANCESTORS_MAX {
                let Some(parent) = self.parent_of(&way) else { break };
                if let Some(&nearest) = self.trees.get(&parent.serial) {
                    let _ = self.join(&process, nearest, exits);
                    break;
                }
                way = parent;
            }
        }
    }

    /// Returns the group with the longest path that contains a process.
    fn group_of(&self, process: &Shared) -> Option<u32> {
        if self.groups.is_empty() {
            return None;
        }
        let known = process.known().group.filter(|(looked, _)| looked.elapsed() < LOOKUP_MAX_AGE);
        if let Some((_, group)) =
            known.filter(|(_, group)| group.is_none_or(|group| self.rated.contains_key(&group)))
        {
            return group;
        }
        let own = process.process().control_groups().ok()?;
        let within = self.groups.iter().filter(|(path, _)| own.iter().any(|own| is_within(own, path)));
        let group = within.max_by_key(|(path, _)| path.len()).map(|(_, &number)| number);
        process.known().group = Some((Instant::now(), group));
        group
    }

    /// Removes a process that has ended; returns the owners that thereby lost their rate.
    pub(super) fn ended(&mut self, serial: u32) -> Vec<u32> {
        let Some(process) = self.awaited.remove(&serial) else { return Vec::new() };
        if self.knows(&process) {
            self.processes.remove(&process.pid());
        }
        let mut gone = Vec::from_iter(self.rated.remove(&serial).map(|_| serial));
        let tree = process.known().tree.take();
        if let Some((number, rated)) = tree.and_then(|tree| Some((tree, self.rated.get_mut(&tree)?))) {
            rated.members -= 1;
            if rated.members == 0 {
                self.remove(number);
                gone.push(number);
            }
        }
        gone
    }

    pub(super) fn remove(&mut self, number: u32) {
        self.rated.remove(&number);
        self.trees.retain(|_, tree| *tree != number);
        self.groups.retain(|_, group| *group != number);
        for process in self.awaited.values() {
            let mut known = process.known();
            known.tree = known.tree.filter(|tree| *tree != number);
        }
    }

    pub(super) fn wait_only_for_those_needed(&mut self, exits: &ExitWatcher) {
        let Table { awaited, rated, .. } = self;
        awaited.retain(|serial, process| {
            let needed = rated.contains_key(serial) || process.known().tree.is_some();
            if !needed {
                exits.remove(*serial);
            }
            needed
        });
    }
}

/// Returns whether a control group is `path`, or lies below it.
pub(in crate::server) fn is_within(group: &str, path: &str) -> bool {
    let rest = group.strip_prefix(path.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
