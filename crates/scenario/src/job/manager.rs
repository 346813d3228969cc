//! The task manager of Kohagura & Kono 2014 (section 3): chooses the next task of a thread.
//!
//! A file is divided into *parts*, one task each, and a number of parts forms a *task block*. Only a few blocks exist
//! at a time, so that task descriptors do not fill memory: when all tasks of a block have ended, the next block is
//! created. In a blocked read each block has a task that reads it, on which its parts depend. Tasks without unfinished
//! dependencies are active, and run in the order in which they became active.
//!
//! Pure: it receives the ended tasks with their threads, and returns the next one.

use std::collections::{BTreeMap, VecDeque};

use crate::spec::{JobSpec, ReadMethod};
use crate::workload::ThreadIndex;

/// A task. Positions and lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Reads into the buffer: a block, or with [`ReadMethod::Read`] the file.
    Read { block: u64, at: u64, length: u64 },
    /// Computes on a part.
    Compute { block: u64, at: u64, length: u64 },
}

/// A task without unfinished dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Active {
    pub(crate) task: Task,
    /// Thread that ended the last dependency; `None` at the beginning.
    pub(crate) from: Option<ThreadIndex>,
}

/// Kind of thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worker {
    /// A compute thread.
    Any,
    /// The I/O thread.
    Io,
}

/// The state of one run of a job.
#[derive(Clone, Debug)]
pub(crate) struct Manager {
    method: ReadMethod,
    size: u64,
    part: u64,
    block: u64,
    blocks: usize,
    /// Blocks still to be created, next first.
    to_make: VecDeque<u64>,
    /// Active tasks for compute threads, and for the I/O thread.
    any: VecDeque<Active>,
    io: VecDeque<Active>,
    /// Current blocks, with the number of unfinished parts of each.
    under_way: BTreeMap<u64, u64>,
}

impl Manager {
    /// Creates a run that processes the blocks in the given order, each once.
    pub(crate) fn new(spec: &JobSpec, order: impl IntoIterator<Item = u64>) -> Manager {
        let mut manager = Manager {
            method: spec.method,
            size: spec.size.0,
            part: spec.part.0,
            block: spec.part.0 * u64::from(spec.block),
            blocks: spec.blocks as usize,
            to_make: order.into_iter().collect(),
            any: VecDeque::new(),
            io: VecDeque::new(),
            under_way: BTreeMap::new(),
        };
        match spec.method {
            ReadMethod::Read => {
                let task = Task::Read { block: 0, at: 0, length: manager.size };
                manager.any.push_back(Active { task, from: None });
            }
            _ => manager.make(None),
        }
        manager
    }

    /// Returns the number of blocks of a file.
    pub(crate) fn blocks(spec: &JobSpec) -> u64 {
        spec.size.0.div_ceil(spec.part.0 * u64::from(spec.block))
    }

    /// Returns whether there is a task for this kind of thread.
    pub(crate) fn has_task(&self, worker: Worker) -> bool {
        match worker {
            Worker::Any => !self.any.is_empty(),
            Worker::Io => !self.io.is_empty(),
        }
    }

    /// Returns the next task for this kind of thread.
    pub(crate) fn next(&mut self, worker: Worker) -> Option<Active> {
        match worker {
            Worker::Any => self.any.pop_front(),
            Worker::Io => self.io.pop_front(),
        }
    }

    /// Records the end of a task on a thread.
    pub(crate) fn ended(&mut self, task: Task, thread: ThreadIndex) {
        let from = Some(thread);
        match task {
            Task::Read { .. } if self.method == ReadMethod::Read => self.make(from),
            Task::Read { block, .. } => self.activate(block, from),
            Task::Compute { block, .. } => {
                let left = self.under_way.get_mut(&block).expect("a part's block is under way");
                *left -= 1;
                if *left == 0 {
                    self.under_way.remove(&block);
                    self.make(from);
                }
            }
        }
    }

    /// Creates blocks up to the maximum number.
    fn make(&mut self, from: Option<ThreadIndex>) {
        while self.under_way.len() < self.blocks
            && let Some(block) = self.to_make.pop_front()
        {
            let (at, length) = self.extent(block);
            self.under_way.insert(block, length.div_ceil(self.part));
            match self.method {
                ReadMethod::Mmap | ReadMethod::Read => self.activate(block, from),
                ReadMethod::BlockedAny => {
                    self.any.push_back(Active { task: Task::Read { block, at, length }, from });
                }
                ReadMethod::BlockedIo => {
                    self.io.push_back(Active { task: Task::Read { block, at, length }, from });
                }
            }
        }
    }

    /// Activates the parts of a block.
    fn activate(&mut self, block: u64, from: Option<ThreadIndex>) {
        let (start, length) = self.extent(block);
        let parts = (start..start + length).step_by(self.part as usize).map(|at| {
            let length = self.part.min(start + length - at);
            Active { task: Task::Compute { block, at, length }, from }
        });
        self.any.extend(parts);
    }

    /// Returns start and length of a block.
    fn extent(&self, block: u64) -> (u64, u64) {
        let at = block * self.block;
        (at, self.block.min(self.size - at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sakiyomi_model::Bytes;

    const METHODS: [ReadMethod; 4] =
        [ReadMethod::Mmap, ReadMethod::Read, ReadMethod::BlockedAny, ReadMethod::BlockedIo];

    fn spec(method: ReadMethod) -> JobSpec {
        JobSpec {
            method,
            size: Bytes(10 * 4096),
            part: Bytes(4096),
            block: 3,
            blocks: 2,
            ..JobSpec::default()
        }
    }

    #[test]
    fn on_one_thread_reads_queue_behind_what_was_active_before() {
        let spec = spec(ReadMethod::BlockedAny);
        let mut manager = Manager::new(&spec, 0..4);
        let mut reads = Vec::new();
        let mut order = 0;
        while let Some(Active { task, .. }) = manager.next(Worker::Any) {
            if let Task::Read { block, .. } = task {
                reads.push((order, block));
            }
            order += 1;
            manager.ended(task, ThreadIndex(0));
        }
        // Two reads, the parts of both, two reads, the parts of both.
        assert_eq!(reads, [(0, 0), (1, 1), (8, 2), (9, 3)]);
    }

    #[test]
    fn nothing_is_computed_before_a_whole_read() {
        let mut manager = Manager::new(&spec(ReadMethod::Read), 0..4);
        let read = manager.next(Worker::Any).unwrap().task;
        assert_eq!(read, Task::Read { block: 0, at: 0, length: 10 * 4096 });
        assert_eq!(manager.next(Worker::Any), None);
        manager.ended(read, ThreadIndex(1));
        let task = Task::Compute { block: 0, at: 0, length: 4096 };
        assert_eq!(manager.next(Worker::Any), Some(Active { task, from: Some(ThreadIndex(1)) }));
    }

    proptest! {
        /// For any interleaving of threads, and any order of blocks.
        #[test]
        fn every_part_is_read_before_it_is_computed_on_and_both_once(
            method in prop::sample::select(METHODS.to_vec()),
            size in 1u64..200_000,
            (block, blocks, threads) in (1u32..8, 1u32..5, 1usize..6),
            is_reversed: bool,
            turns in prop::collection::vec(any::<prop::sample::Index>(), 1..60),
        ) {
            let spec = JobSpec { method, size: Bytes(size), part: Bytes(4096), block, blocks, ..JobSpec::default() };
            let mut order: Vec<u64> = (0..Manager::blocks(&spec)).collect();
            if is_reversed {
                order.reverse();
            }
            let mut manager = Manager::new(&spec, order);
            let pages = size.div_ceil(4096) as usize;
            let (mut read, mut computed) = (vec![0; pages], vec![0; pages]);
            let mut busy: Vec<Option<Task>> = vec![None; threads + 1];
            let mut turns = turns.iter().cycle();
            loop {
                for (thread, doing) in busy.iter_mut().enumerate() {
                    let worker = if thread == threads { Worker::Io } else { Worker::Any };
                    *doing = doing.or_else(|| Some(manager.next(worker)?.task));
                }
                prop_assert!(manager.under_way.len() <= blocks as usize);
                let working: Vec<usize> = (0..busy.len()).filter(|&thread| busy[thread].is_some()).collect();
                if working.is_empty() {
                    break;
                }
                let thread = working[turns.next().unwrap().index(working.len())];
                let task = busy[thread].take().unwrap();
                let (Task::Read { at, length, .. } | Task::Compute { at, length, .. }) = task;
                for page in (at / 4096) as usize..(at + length).div_ceil(4096) as usize {
                    let count = if matches!(task, Task::Read { .. }) { &mut read } else { &mut computed };
                    count[page] += 1;
                    prop_assert!(method == ReadMethod::Mmap || read[page] == 1);
                }
                manager.ended(task, ThreadIndex(thread));
            }
            prop_assert!(computed.iter().all(|&count| count == 1));
            prop_assert!(read.iter().all(|&count| count == u32::from(method != ReadMethod::Mmap)));
        }
    }
}
