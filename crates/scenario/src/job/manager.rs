//! The task manager of Kohagura & Kono 2014 (section 3): which task is done next, by whom.
//!
//! A file is cut into *parts*, one task each, and so many parts make a *task block*. Only a few blocks are under way, so
//! that the descriptors of tasks do not fill memory: when all tasks of one have ended the next is made. In a blocked read
//! each block has a task that reads it, and its parts wait for that one. Tasks that wait for nothing are active, and are
//! done in the order in which they became so.
//!
//! Pure: it is told which task has ended on which thread, and is asked for the next one.

use std::collections::{BTreeMap, VecDeque};

use crate::spec::{JobSpec, ReadMethod};
use crate::workload::ThreadIndex;

/// An action of a thread. Positions and lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Reads so much into the buffer: a block, or with [`ReadMethod::Read`] the file.
    Read { block: u64, at: u64, length: u64 },
    /// Computes on a part.
    Compute { block: u64, at: u64, length: u64 },
}

/// A task that waits for nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Active {
    pub(crate) task: Task,
    /// The thread whose task had to end before; none at the beginning.
    pub(crate) from: Option<ThreadIndex>,
}

/// Who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worker {
    /// A thread that computes.
    Any,
    /// The thread for I/O.
    Io,
}

/// One run of a job on its way.
#[derive(Clone, Debug)]
pub(crate) struct Manager {
    method: ReadMethod,
    size: u64,
    part: u64,
    block: u64,
    blocks: usize,
    /// Blocks that are still to be made, the next one first.
    to_make: VecDeque<u64>,
    /// Active tasks, for any thread and for the thread for I/O.
    any: VecDeque<Active>,
    io: VecDeque<Active>,
    /// Blocks under way, with the parts of each that are not done.
    under_way: BTreeMap<u64, u64>,
}

impl Manager {
    /// A run that takes the blocks in the given order: all of them, once.
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

    /// How many blocks a file has.
    pub(crate) fn blocks(spec: &JobSpec) -> u64 {
        spec.size.0.div_ceil(spec.part.0 * u64::from(spec.block))
    }

    /// Whether there is a task for such a thread.
    pub(crate) fn has_task(&self, worker: Worker) -> bool {
        match worker {
            Worker::Any => !self.any.is_empty(),
            Worker::Io => !self.io.is_empty(),
        }
    }

    /// The next task for such a thread.
    pub(crate) fn next(&mut self, worker: Worker) -> Option<Active> {
        match worker {
            Worker::Any => self.any.pop_front(),
            Worker::Io => self.io.pop_front(),
        }
    }

    /// A task has ended on a thread.
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

    /// Makes blocks, as many as may be under way.
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

    /// The parts of a block wait for nothing any more.
    fn activate(&mut self, block: u64, from: Option<ThreadIndex>) {
        let (start, length) = self.extent(block);
        let parts = (start..start + length).step_by(self.part as usize).map(|at| {
            let length = self.part.min(start + length - at);
            Active { task: Task::Compute { block, at, length }, from }
        });
        self.any.extend(parts);
    }

    /// Where a block begins and how long it is.
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
        /// However the threads take turns, and in whichever order the blocks come.
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
