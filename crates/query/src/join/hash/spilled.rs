//! Join of two spilled sides: pairs of partitions, which threads take in turn.
//!
//! Pairs are joined at the same time as far as memory allows: if it is short, threads wait for the tables of others. A
//! pair whose table exceeds all of the memory is divided again by the thread that takes it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::blocks::Blocks;
use super::build::load_block;
use super::context::Context;
use super::memory::{PARTITION_BITS, SpillMemory};
use super::partition::{DIVIDED_BITS_MAX, Division, Partition, divide_again};
use super::probe::{Build, Probe};
use super::rule::Alone;
use super::stream::ResultStream;
use crate::job::Reservation;
use crate::join::joined::{NextPart, Parts};
use crate::spill::SpillFiles;
use crate::{Batches, Error};

/// One part in this many of the build rows in one partition means that most of them have one key, which no division
/// separates.
const OTHER_KEYS_PARTS: u64 = 16;

/// Pairs of spilled partitions.
pub(super) struct SpilledPairs {
    pub(super) context: Arc<Context>,
    files: SpillFiles,
    memory: Arc<SpillMemory>,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Notified when a pair was joined or divided.
    changed: Condvar,
    /// Memory of the tables of all pairs.
    tables: Reservation,
}

#[derive(Default)]
struct State {
    tasks: Vec<Task>,
    /// Number of pairs given out.
    given: usize,
    /// Number of pairs that are being joined or divided, and of those that are being divided.
    open: usize,
    dividing: usize,
    /// Bytes of the tables of these pairs.
    used: usize,
}

/// Two partitions to be joined.
struct Task {
    build: Partition,
    probe: Partition,
    work: Work,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    /// The table fits into the memory.
    Join,
    /// Most rows have one key, and exceed the memory.
    JoinBlocks,
    /// Both partitions are divided again, after these bits.
    Divide { used_bits: u32 },
}

/// Memory of a pair that was given out.
struct Claim {
    shared: Arc<Shared>,
    bytes: usize,
    is_dividing: bool,
}

impl SpilledPairs {
    /// Takes partitions that were divided by `used_bits` bits; `tables` is the memory of their tables.
    pub(super) fn new(
        context: Context,
        files: SpillFiles,
        memory: SpillMemory,
        tables: Reservation,
        partitions: [Vec<Partition>; 2],
        used_bits: u32,
    ) -> SpilledPairs {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), tables });
        let pairs = SpilledPairs { context: Arc::new(context), files, memory: Arc::new(memory), shared };
        pairs.add(&mut pairs.shared.lock(), partitions, used_bits);
        pairs
    }

    /// Adds the pairs that give rows.
    fn add(&self, state: &mut State, [builds, probes]: [Vec<Partition>; 2], used_bits: u32) {
        let (rule, tables) = (self.context.rule, self.shared.tables.bytes());
        let all: u64 = builds.iter().map(|build| build.size.rows).sum();
        for (build, probe) in builds.into_iter().zip(probes) {
            let is_empty = |partition: &Partition| partition.size.rows == 0;
            let gives_rows = match (is_empty(&build), is_empty(&probe)) {
                (true, true) => false,
                (true, false) => !rule.is_empty_without_build(),
                (false, true) => rule.build_alone == Alone::Unmatched,
                (false, false) => true,
            };
            let is_one_key = all - build.size.rows <= all / OTHER_KEYS_PARTS;
            let work = match build.size.merged().fits(tables) {
                true => Work::Join,
                false if is_one_key || used_bits >= DIVIDED_BITS_MAX => Work::JoinBlocks,
                false => Work::Divide { used_bits },
            };
            if gives_rows {
                state.tasks.push(Task { build, probe, work });
            }
        }
    }

    /// Returns the bytes of tables that a task needs.
    fn table_bytes(&self, task: &Task) -> usize {
        match task.work {
            Work::Join => task.build.size.table_bytes,
            Work::JoinBlocks => self.shared.tables.bytes(),
            Work::Divide { .. } => 0,
        }
    }

    /// Returns the place of the next task: the largest one whose table fits beside the open ones. Divisions come first,
    /// because they give work to other threads.
    fn find(&self, state: &State) -> Option<usize> {
        let tables = self.shared.tables.bytes();
        let fits = |task: &Task| {
            state.open == 0
                || state.open < self.memory.threads
                    && state.used.saturating_add(self.table_bytes(task)) <= tables
        };
        let fitting = state.tasks.iter().enumerate().filter(|(_, task)| fits(task));
        fitting.max_by_key(|(_, task)| (task.work, task.build.size.table_bytes)).map(|(place, _)| place)
    }

    /// Takes the next task; waits for memory, and for divisions that may give more tasks.
    fn take(&self) -> Result<Option<(Task, Claim)>, Error> {
        let mut state = self.shared.lock();
        loop {
            self.context.job.check()?;
            if let Some(place) = self.find(&state) {
                let task = state.tasks.swap_remove(place);
                let (bytes, is_dividing) =
                    (self.table_bytes(&task), matches!(task.work, Work::Divide { .. }));
                state.open += 1;
                state.dividing += usize::from(is_dividing);
                state.used += bytes;
                let shared = Arc::clone(&self.shared);
                return Ok(Some((task, Claim { shared, bytes, is_dividing })));
            }
            if state.tasks.is_empty() && state.dividing == 0 {
                return Ok(None);
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Divides both partitions of a task again.
    fn divide(&self, build: Partition, probe: Partition, used_bits: u32) -> Result<(), Error> {
        let spill = (&self.files, &*self.memory);
        let block = self.memory.block;
        let division = Division { used_bits, bits: PARTITION_BITS, block, is_build: true };
        let builds = divide_again(&self.context, spill, build, division)?;
        let division = Division { is_build: false, ..division };
        let probes = divide_again(&self.context, spill, probe, division)?;
        self.add(&mut self.shared.lock(), [builds, probes], used_bits + PARTITION_BITS);
        Ok(())
    }

    /// Starts the join of two partitions whose table fits into memory.
    fn probe(&self, build: Partition, probe: Partition) -> Result<Probe, Error> {
        let SpillMemory { account, block, .. } = &*self.memory;
        let mut rows = build.drain(account, *block)?;
        let mut left = None;
        let batches = load_block(&self.context, &mut rows, &mut left, usize::MAX)?;
        if left.is_some() {
            // Rows take more bytes in the batches that are read than in those that were counted.
            return Err(Error::Query(
                "a partition of the smaller side exceeds the 2 GiB of a hash table".into(),
            ));
        }
        let schema = rows.schema();
        drop(rows);
        let table = Arc::new(Build::new(&self.context, schema, batches, None, 1)?);
        let rows = Box::new(probe.drain(account, *block)?);
        Ok(Probe::new(&self.context, table, rows, None))
    }
}

impl Parts for SpilledPairs {
    fn next_part(&self) -> Result<NextPart, Error> {
        loop {
            let Some((Task { build, probe, work }, claim)) = self.take()? else { return Ok(None) };
            let part: Box<dyn Batches> = match work {
                Work::Join => Box::new(ResultStream::new(&self.context, self.probe(build, probe)?, claim)),
                Work::JoinBlocks => {
                    let bytes = self.shared.tables.bytes();
                    let blocks =
                        Blocks::new(&self.context, (build, probe), (&self.files, &self.memory), bytes)?;
                    Box::new(ResultStream::new(&self.context, blocks, claim))
                }
                Work::Divide { used_bits } => {
                    self.divide(build, probe, used_bits)?;
                    drop(claim);
                    continue;
                }
            };
            let mut state = self.shared.lock();
            let number = state.given;
            state.given += 1;
            return Ok(Some((number, part)));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state stays consistent; the panic itself reaches the thread's caller.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.open -= 1;
        state.dividing -= usize::from(self.is_dividing);
        state.used -= self.bytes;
        drop(state);
        self.shared.changed.notify_all();
    }
}
