//! Partitions of groups to be merged: those of all workers, in memory or spilled, and the parts of those that did not
//! fit into memory.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::Error;
use crate::spill::FrameRun;

use super::groups::{Groups, PARTITION_COUNT, Partitioned};
use super::overflow::{Overflow, Partial};

/// Maximum number of groups of a sorted result: small enough for a person to read, and cheap to sort.
pub(crate) const SORTED_GROUPS_MAX: usize = 1 << 16;

/// Unmerged groups of one partition in memory.
#[derive(Debug)]
pub(super) enum Source {
    Memory { groups: Arc<Groups>, partitioned: Arc<Partitioned>, partition: usize },
    All(Arc<Groups>),
}

/// All groups of a partition; partitions have disjoint keys.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) level: u32,
    pub(super) sources: Vec<Source>,
    /// Spilled groups.
    pub(super) runs: Vec<FrameRun>,
}

impl Work {
    pub(super) fn new(level: u32, sources: Vec<Source>) -> Work {
        Work { level, sources, runs: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.sources.is_empty() && self.runs.is_empty()
    }
}

/// Partitions to be merged, shared by all threads.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    shared: Arc<Shared>,
    /// Whether all groups are in spill files.
    pub(crate) is_spilled: bool,
}

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<Pending>,
    /// Notified when partitions are added, and when one has been merged.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    works: VecDeque<Work>,
    /// Partitions that threads are merging, and may divide.
    merging: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A partition that is being merged; it ends when this is dropped, after an error or a panic as well.
#[derive(Debug)]
pub(super) struct Merging(Arc<Shared>);

impl Drop for Merging {
    fn drop(&mut self) {
        self.0.lock().merging -= 1;
        self.0.changed.notify_all();
    }
}

impl Queue {
    /// Makes a queue of the workers' groups. Merging several tables may double their memory, so that a total
    /// of more than half of `bytes` is spilled.
    pub(crate) fn new(partials: Vec<Partial>, bytes: usize) -> Result<Queue, Error> {
        let groups: usize = partials.iter().map(|partial| partial.groups.len()).sum();
        let held: usize = partials.iter().map(|partial| partial.groups.held_bytes()).sum();
        let is_merged = partials.iter().filter(|partial| partial.groups.len() > 0).count() > 1;
        let is_spilled = partials.iter().any(|partial| !partial.overflow.is_empty())
            || is_merged && groups > SORTED_GROUPS_MAX && held > bytes / 2;
        let works = match (is_spilled, groups > SORTED_GROUPS_MAX) {
            (false, false) => {
                let partials = partials.into_iter().filter(|partial| partial.groups.len() > 0);
                let sources = partials.map(|partial| Source::All(Arc::new(partial.groups))).collect();
                vec![Work::new(0, sources)]
            }
            (false, true) => in_memory(partials),
            (true, _) => spilled(partials)?,
        };
        let works = works.into_iter().filter(|work| !work.is_empty()).collect();
        let pending = Mutex::new(Pending { works, merging: 0 });
        Ok(Queue { shared: Arc::new(Shared { pending, ..Shared::default() }), is_spilled })
    }

    /// Returns the number of partitions in the queue.
    pub(crate) fn len(&self) -> usize {
        self.shared.lock().works.len()
    }

    /// Takes the next partition. Waits for one while other threads may divide theirs; `None` when all are merged.
    pub(super) fn pop(&self) -> Option<(Work, Merging)> {
        let mut pending = self.shared.lock();
        loop {
            if let Some(work) = pending.works.pop_front() {
                pending.merging += 1;
                return Some((work, Merging(Arc::clone(&self.shared))));
            }
            if pending.merging == 0 {
                return None;
            }
            pending = self.shared.changed.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds the partitions of groups that were divided.
    pub(super) fn divide(&self, level: u32, overflow: Overflow) {
        let mut works = empty_works(level);
        add_runs(&mut works, overflow);
        works.into_iter().filter(|work| !work.is_empty()).for_each(|work| self.push(work));
    }

    /// Adds a partition.
    pub(super) fn push(&self, work: Work) {
        self.shared.lock().works.push_back(work);
        self.shared.changed.notify_one();
    }
}

fn empty_works(level: u32) -> Vec<Work> {
    (0..PARTITION_COUNT).map(|_| Work::new(level, Vec::new())).collect()
}

fn in_memory(partials: Vec<Partial>) -> Vec<Work> {
    let mut works = empty_works(1);
    for partial in partials {
        let partitioned = Arc::new(partial.groups.partitioned(0));
        let groups = Arc::new(partial.groups);
        for (partition, work) in works.iter_mut().enumerate() {
            let (groups, partitioned) = (Arc::clone(&groups), Arc::clone(&partitioned));
            if !partitioned.part(partition).is_empty() {
                work.sources.push(Source::Memory { groups, partitioned, partition });
            }
        }
    }
    works
}

/// Spills the groups in memory as well, to free the memory for merging: each worker's on a thread, as they were made.
fn spilled(partials: Vec<Partial>) -> Result<Vec<Work>, Error> {
    let spill = |mut partial: Partial| {
        partial.spill()?;
        Ok(partial.overflow)
    };
    let overflows: Vec<Result<Overflow, Error>> = thread::scope(|scope| {
        let threads: Vec<_> =
            partials.into_iter().map(|partial| scope.spawn(move || spill(partial))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|joined| joined.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let mut works = empty_works(1);
    for overflow in overflows {
        add_runs(&mut works, overflow?);
    }
    Ok(works)
}

fn add_runs(works: &mut [Work], overflow: Overflow) {
    for (work, runs) in works.iter_mut().zip(overflow.into_runs()) {
        work.runs.extend(runs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_for_partitions_that_another_may_divide() {
        let pending = Pending { works: VecDeque::from([Work::new(0, Vec::new())]), merging: 0 };
        let shared = Shared { pending: Mutex::new(pending), ..Shared::default() };
        let queue = Queue { shared: Arc::new(shared), is_spilled: true };
        let (_, merging) = queue.pop().unwrap();
        thread::scope(|scope| {
            let other = scope.spawn(|| queue.pop().map(|(work, _merging)| work.level));
            queue.push(Work::new(1, Vec::new()));
            drop(merging);
            assert_eq!(other.join().unwrap(), Some(1));
        });
        assert!(queue.pop().is_none());
    }
}
