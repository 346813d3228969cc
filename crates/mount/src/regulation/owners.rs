//! Whose I/O it is: from the thread that the kernel names to the owner whose rate counts.
//!
//! A process is one owner as long as nothing else is said; a rate can be given to it, to a tree of processes, or to a
//! control group. Of several the one that is nearest counts: the process's own, then the nearest tree's, then the
//! longest group's.
//!
//! The kernel gives numbers of threads and processes anew. So that a rate is not passed on with a number, a process is
//! held by its directory in `/proc`, and that a thread is one of its own is asked each time when it has a rate (1 us).
//! What has none is believed to be what it was for [`BELIEVED`].

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use sakiyomi_iorate::protocol::Target;
use sakiyomi_linux::process;

use super::ends::Ends;
use super::seen::{Seen, Shared};
use crate::per_thread::PerThread;

/// So long a thread without a rate is taken for what it was.
const BELIEVED: Duration = Duration::from_millis(100);

/// Threads that are remembered at most, by each of those that take requests.
const THREADS_MAX: usize = 4096;

/// Processes without a rate that are held at most.
const PROCESSES_MAX: usize = 1024;

/// From a process to the root of all: more than anybody has.
const ANCESTORS_MAX: usize = 4096;

/// The owner of what the kernel itself asks for, and of what cannot be told.
pub(crate) const NOBODY: u32 = 0;

/// Finds the owners of threads.
#[derive(Debug)]
pub(crate) struct Owners {
    table: Mutex<Table>,
    /// Changes when who owns what has changed.
    generation: AtomicU64,
    threads: PerThread<HashMap<u32, Thread>>,
    ends: Ends,
}

/// What is known of a thread.
#[derive(Debug)]
struct Thread {
    generation: u64,
    looked: Instant,
    owner: u32,
    has_rate: bool,
    process: Weak<Seen>,
}

#[derive(Debug, Default)]
struct Table {
    last: u32,
    processes: BTreeMap<u32, Shared>,
    rated: BTreeMap<u32, Rated>,
    /// Owners of trees, by the serial numbers of their roots.
    trees: BTreeMap<u32, u32>,
    /// How often another tree has come.
    trees_changed: u64,
    /// Owners of groups, by their paths.
    groups: BTreeMap<String, u32>,
}

/// An owner that has a rate.
#[derive(Clone, Debug)]
pub(super) struct Rated {
    pub(super) target: Target,
    /// The user who has given it.
    pub(super) by: u32,
    /// Of a process, or the root of a tree.
    process: Option<Shared>,
    /// Those of a tree that are known and have not ended.
    members: usize,
}

/// Whom a rate is for, held.
#[derive(Debug)]
pub(super) enum Held {
    Process(Shared),
    Tree(Shared),
    Group(String),
}

impl Owners {
    pub(crate) fn new() -> io::Result<Owners> {
        Ok(Owners {
            table: Mutex::default(),
            generation: AtomicU64::new(0),
            threads: PerThread::default(),
            ends: Ends::new()?,
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // What is in there is right after each step.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner of what a thread asks for. It is there as long as it waits for its answer.
    pub(crate) fn of_thread(&self, thread: u32) -> u32 {
        if thread == 0 {
            return NOBODY;
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
        let Some(process) = still.or_else(|| table.process_of(thread)) else { return (NOBODY, None) };
        let (owner, has_rate) = table.owner_of(&process, &self.ends);
        let process = Arc::downgrade(&process);
        (owner, Some(Thread { generation, looked: Instant::now(), owner, has_rate, process }))
    }

    /// The process that a thread belongs to.
    pub(super) fn process_of(&self, thread: u32) -> Option<Shared> {
        if thread == 0 { None } else { self.table().process_of(thread) }
    }

    /// The process with this number, if there is one.
    pub(super) fn process(&self, pid: u32) -> Option<Shared> {
        self.process_of(pid).filter(|process| process.pid() == pid)
    }

    /// The owner that `held` is, or would be when it is given a rate.
    pub(super) fn number(&self, held: &Held) -> u32 {
        let mut table = self.table();
        let known = match held {
            Held::Process(process) => Some(process.serial),
            Held::Tree(root) => table.trees.get(&root.serial).copied(),
            Held::Group(path) => table.groups.get(path).copied(),
        };
        known.unwrap_or_else(|| table.next())
    }

    /// The owner that has a rate under this name.
    pub(super) fn rated(&self, held: &Held) -> Option<(u32, Rated)> {
        let table = self.table();
        let number = match held {
            Held::Process(process) => Some(process.serial),
            Held::Tree(root) => table.trees.get(&root.serial).copied(),
            Held::Group(path) => table.groups.get(path).copied(),
        }?;
        Some((number, table.rated.get(&number)?.clone()))
    }

    pub(super) fn has_rate(&self, number: u32) -> bool {
        self.table().rated.contains_key(&number)
    }

    /// How many have a rate.
    pub(super) fn rated_count(&self) -> usize {
        self.table().rated.len()
    }

    /// An owner has a rate from now on.
    ///
    /// # Errors
    /// If its process has ended.
    pub(super) fn add(&self, number: u32, held: Held, by: u32) -> io::Result<()> {
        let mut table = self.table();
        let added = table.add(number, held, by, &self.ends);
        if added.is_err() {
            table.remove(number);
        }
        self.changed();
        added
    }

    /// An owner has no rate any more.
    pub(super) fn remove(&self, number: u32) {
        let mut table = self.table();
        table.remove(number);
        table.wait_only_for_those_needed(&self.ends);
        self.changed();
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Waits until processes end, or for so long; gives the serial numbers of those that have.
    pub(super) fn wait_for_ends(&self, patience: Duration) -> io::Result<Vec<u32>> {
        let mut ended = Vec::new();
        self.ends.wait(patience, &mut ended)?;
        Ok(ended)
    }

    /// Forgets processes that have ended; tells the owners that have no rate any more by that.
    pub(super) fn take_ended(&self, serials: &[u32]) -> Vec<u32> {
        let mut table = self.table();
        let gone: Vec<u32> = serials.iter().flat_map(|&serial| table.ended(serial)).collect();
        if !gone.is_empty() {
            self.changed();
        }
        gone
    }

    /// Nobody waits for ends any more.
    pub(super) fn stop(&self) {
        self.ends.stop();
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.ends.has_stopped()
    }

    /// Who an owner is, and what it is called; none if it is forgotten.
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
        if !self.has_rate && self.looked.elapsed() < BELIEVED {
            return true;
        }
        // A group may have been left, so that it is looked up anew now and then.
        self.has_rate
            && self.looked.elapsed() < BELIEVED * 10
            && self.process.upgrade().is_some_and(|process| process.has_thread(thread))
    }
}

impl Table {
    fn next(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    fn knows(&self, process: &Shared) -> bool {
        self.processes.get(&process.pid()).is_some_and(|known| known == process)
    }

    fn add(&mut self, number: u32, held: Held, by: u32, ends: &Ends) -> io::Result<()> {
        let (target, process) = match &held {
            Held::Process(process) => (Target::Process { pid: process.pid() }, Some(process.clone())),
            Held::Tree(root) => (Target::Tree { pid: root.pid() }, Some(root.clone())),
            Held::Group(path) => (Target::Group { path: path.clone() }, None),
        };
        let rated = self.rated.entry(number).or_insert(Rated { target, by, process, members: 0 });
        rated.by = by;
        match held {
            Held::Process(process) => {
                self.processes.insert(process.pid(), process.clone());
                ends.add(process.serial, process.process())?;
            }
            Held::Tree(root) => {
                self.processes.insert(root.pid(), root.clone());
                self.trees.insert(root.serial, number);
                self.trees_changed += 1;
                self.join(&root, number, ends)?;
                self.move_into_tree(number, ends);
            }
            Held::Group(path) => {
                self.groups.insert(path, number);
                self.processes.values().for_each(|process| process.known().group = None);
            }
        }
        Ok(())
    }

    /// The process that a thread, which is there, belongs to.
    fn process_of(&mut self, thread: u32) -> Option<Shared> {
        let pid = process::Process::open(thread).ok()?.status().ok()?.process;
        let process = self.open(pid)?;
        // Else its number is another's by now.
        process.has_thread(thread).then_some(process)
    }

    /// The process with this number now.
    fn open(&mut self, pid: u32) -> Option<Shared> {
        if let Some(known) = self.processes.get(&pid).filter(|known| known.is_there()) {
            return Some(known.clone());
        }
        self.make_room();
        let process = Arc::new(Seen::open(pid, self.next()).ok()?);
        self.processes.insert(pid, process.clone());
        Some(process)
    }

    fn make_room(&mut self) {
        let Table { processes, rated, .. } = self;
        if processes.len() - rated.len().min(processes.len()) < PROCESSES_MAX {
            return;
        }
        processes.retain(|_, process| rated.contains_key(&process.serial) || process.known().tree.is_some());
    }

    fn owner_of(&mut self, process: &Shared, ends: &Ends) -> (u32, bool) {
        if self.rated.contains_key(&process.serial) {
            return (process.serial, true);
        }
        let shared = self.tree_of(process, ends).or_else(|| self.group_of(process));
        shared.map_or((process.serial, false), |number| (number, true))
    }

    /// The nearest tree that a process is in.
    fn tree_of(&mut self, process: &Shared, ends: &Ends) -> Option<u32> {
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
            // One that has ended meanwhile need not be remembered.
            let _ = self.join(process, found, ends);
        }
        Some(found)
    }

    /// Who has started a process, or has taken it over.
    fn parent_of(&mut self, process: &Shared) -> Option<Shared> {
        let number = process.process().status().ok()?.parent;
        let parent = (number > 0).then(|| self.open(number))??;
        // It was there all the time in between: so it is the parent that was opened.
        (process.process().status().ok()?.parent == number).then_some(parent)
    }

    /// A process is in a tree from now on, until it ends.
    fn join(&mut self, process: &Shared, number: u32, ends: &Ends) -> io::Result<()> {
        let before = process.known().tree.replace(number);
        if before == Some(number) {
            return Ok(());
        }
        if let Some(left) = before.and_then(|before| self.rated.get_mut(&before)) {
            left.members -= 1;
        }
        if before.is_none_or(|before| !self.rated.contains_key(&before)) {
            ends.add(process.serial, process.process()).inspect_err(|_| process.known().tree = None)?;
        }
        self.rated.get_mut(&number).expect("trees have rates").members += 1;
        Ok(())
    }

    /// Processes that are known to be in another tree may be in a nearer one, which is new.
    fn move_into_tree(&mut self, number: u32, ends: &Ends) {
        let all: Vec<Shared> = self.processes.values().cloned().collect();
        for process in all {
            let before = process.known().tree;
            if before.is_none() || before == Some(number) || self.trees.contains_key(&process.serial) {
                continue;
            }
            let mut way = process.clone();
            for _ in 0..ANCESTORS_MAX {
                let Some(parent) = self.parent_of(&way) else { break };
                if let Some(&nearest) = self.trees.get(&parent.serial) {
                    let _ = self.join(&process, nearest, ends);
                    break;
                }
                way = parent;
            }
        }
    }

    /// The group with the longest path that a process is in.
    fn group_of(&self, process: &Shared) -> Option<u32> {
        if self.groups.is_empty() {
            return None;
        }
        let known = process.known().group.filter(|(looked, _)| looked.elapsed() < BELIEVED);
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

    /// A process has ended; who has lost its rate by that.
    fn ended(&mut self, serial: u32) -> Vec<u32> {
        let ended = self.processes.values().find(|process| process.serial == serial).cloned();
        let Some(process) = ended else { return Vec::new() };
        self.processes.remove(&process.pid());
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

    fn remove(&mut self, number: u32) {
        self.rated.remove(&number);
        self.trees.retain(|_, tree| *tree != number);
        self.groups.retain(|_, group| *group != number);
        for process in self.processes.values() {
            let mut known = process.known();
            known.tree = known.tree.filter(|tree| *tree != number);
        }
    }

    fn wait_only_for_those_needed(&self, ends: &Ends) {
        let needed =
            |process: &Seen| self.rated.contains_key(&process.serial) || process.known().tree.is_some();
        self.processes
            .values()
            .filter(|process| !needed(process))
            .for_each(|process| ends.remove(process.serial));
    }
}

/// Whether a control group is `path`, or lies below it.
pub(super) fn is_within(group: &str, path: &str) -> bool {
    let rest = group.strip_prefix(path.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
