//! Hash join: a hash table of the build side, probed with the probe side.
//!
//! If the build side exceeds the memory, both sides are spilled into partitions by key hash. Partitions are joined one
//! after another, and partitioned again if they are still too large. Equal keys that exceed the memory are joined in
//! parts: each part of the build side is probed with the whole probe side. The order of the result is undefined.
//! A build side that fits into memory is probed by many threads ([`start()`]).

pub(crate) mod partition;
mod probe;
mod rule;
mod start;
pub(crate) mod table;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::condition::Condition;
use super::kind::JoinKind;
use super::pairs::Pairs;
use super::result::{RESULT_BATCH_ROWS, ResultBatches};
use crate::batch_bytes::{batch_bytes, compact, row_bytes_max};
use crate::job::Reservation;
use crate::spill::SpillFiles;
use crate::{Batches, Error, Job};
use partition::{PARTITION_LEVELS_MAX, Partition, Partitioner, RunBatches};
use probe::{Build, Context, Found, Probe};
use table::TABLE_ROW_BYTES;

pub use rule::JoinSide;
pub(super) use start::{Started, start};

/// Name of the hash table's memory in errors.
const TABLE_MEMORY: &str = "the hash table of a join";

/// Bytes of a key of at most two 64-bit columns; longer keys are counted exactly.
const KEY_BYTES: usize = 16;

/// Bytes of the table of a hash join for each build row, besides the row itself and what a long key has more.
pub(crate) const ENTRY_BYTES: usize = TABLE_ROW_BYTES + KEY_BYTES + size_of::<u64>();

/// Copies of the build side while its batches are concatenated.
pub(crate) const BUILD_COPIES: usize = 2;

/// Result stream of a hash join.
pub struct HashJoin {
    context: Context,
    /// Remaining tasks, the next one last.
    tasks: Vec<Task>,
    current: Option<Current>,
    pairs: Pairs,
    result: ResultBatches,
}

/// A build and a probe input to be joined.
struct Task {
    build: Source,
    probe: Source,
    /// Number of times that they were partitioned.
    level: u32,
}

enum Source {
    Input(Box<dyn Batches>),
    Partition(Partition),
}

enum Current {
    Probe(Box<Probe>),
    Parts(Box<Parts>),
}

/// A build side in parts, each of which is probed with the whole probe side.
struct Parts {
    build: Box<dyn Batches>,
    /// Build batch that did not fit into the previous part.
    pending: Option<RecordBatch>,
    probe: Partition,
    stage: Stage,
}

enum Stage {
    Probe(Box<Probe>),
    /// Returns unpaired probe rows; `before` counts the probe rows of previous batches.
    Alone {
        rows: Box<RunBatches>,
        found: Found,
        before: usize,
    },
    Ended,
}

impl HashJoin {
    /// Joins two streams; the smaller one should be the build side.
    ///
    /// # Errors
    /// [`Error::Arrow`] if a type cannot be compared.
    pub fn new(
        job: &Job,
        left: Box<dyn Batches>,
        right: Box<dyn Batches>,
        condition: &Condition,
        kind: JoinKind,
        build: JoinSide,
    ) -> Result<HashJoin, Error> {
        let context = Context::new(job, [&left.schema(), &right.schema()], condition, kind, build)?;
        let (build, probe) = if build == JoinSide::Left { (left, right) } else { (right, left) };
        let mut join = HashJoin::of(context);
        join.tasks.push(Task { build: Source::Input(build), probe: Source::Input(probe), level: 0 });
        Ok(join)
    }

    /// Creates a join without tasks.
    fn of(context: Context) -> HashJoin {
        let result = ResultBatches::new(&context.job, context.layout.schema.clone(), RESULT_BATCH_ROWS);
        let pairs = Pairs::with_capacity(RESULT_BATCH_ROWS);
        HashJoin { context, tasks: Vec::new(), current: None, pairs, result }
    }

    /// Adds rows to the result; returns true at the end.
    fn step(&mut self) -> Result<bool, Error> {
        let batch = match &mut self.current {
            Some(Current::Probe(probe)) => probe.next(&self.context, &mut self.pairs, &self.result)?,
            Some(Current::Parts(parts)) => parts.next(&self.context, &mut self.pairs, &self.result)?,
            None => {
                let Some(task) = self.tasks.pop() else { return Ok(true) };
                self.current = self.begin(task)?;
                return Ok(false);
            }
        };
        match batch {
            Some((batch, row_bytes)) => self.result.push(batch, row_bytes)?,
            None => self.current = None,
        }
        Ok(false)
    }

    /// Loads the build side of a task, or partitions the task if the build side exceeds the memory.
    fn begin(&mut self, task: Task) -> Result<Option<Current>, Error> {
        let context = &self.context;
        let Task { build, probe, level } = task;
        let mut build = build.open()?;
        let schema = build.schema();
        let loaded = load(context, &mut *build, None)?;
        if loaded.pending.is_none() {
            if loaded.batches.is_empty() && context.rule.is_empty_without_build() {
                return Ok(None);
            }
            let table = Build::new(context, schema, loaded.batches, loaded.memory, 1)?;
            let probe = Probe::new(context, Arc::new(table), probe.open()?, None);
            return Ok(Some(Current::Probe(Box::new(probe))));
        }
        match probe {
            Source::Partition(probe) if level == PARTITION_LEVELS_MAX => {
                Ok(Some(Current::Parts(Box::new(Parts::new(context, build, loaded, probe)?))))
            }
            probe => {
                self.partition(loaded, build, probe, level)?;
                Ok(None)
            }
        }
    }

    /// Spills both sides of a task into partitions, each of which becomes a task.
    fn partition(
        &mut self,
        loaded: Loaded,
        mut build: Box<dyn Batches>,
        probe: Source,
        level: u32,
    ) -> Result<(), Error> {
        let context = &self.context;
        let spill = SpillFiles::new(&context.job);
        let schema = build.schema();
        let mut partitioner =
            Partitioner::new(&spill, &schema, &context.encoder, &context.build_places, level)?;
        for batch in loaded.batches.into_iter().chain(loaded.pending) {
            partitioner.write(&batch)?;
        }
        drop(loaded.memory);
        while let Some(batch) = build.next()? {
            context.job.check()?;
            partitioner.write(&batch)?;
        }
        drop(build);
        let builds = partitioner.finish(&schema)?;
        let mut probe = probe.open()?;
        let schema = probe.schema();
        let mut partitioner =
            Partitioner::new(&spill, &schema, &context.encoder, &context.probe_places, level)?;
        while let Some(batch) = probe.next()? {
            context.job.check()?;
            partitioner.write(&batch)?;
        }
        let probes = partitioner.finish(&schema)?;
        let all: u64 = builds.iter().map(|build| build.rows).sum();
        let tasks = builds.into_iter().zip(probes).map(|(build, probe)| {
            // If all rows have one partition, they probably have one key: further levels would not help.
            let level = if build.rows == all { PARTITION_LEVELS_MAX } else { level + 1 };
            Task { build: Source::Partition(build), probe: Source::Partition(probe), level }
        });
        self.tasks.extend(tasks);
        Ok(())
    }
}

impl Source {
    fn open(self) -> Result<Box<dyn Batches>, Error> {
        match self {
            Source::Input(input) => Ok(input),
            Source::Partition(partition) => Ok(Box::new(partition.drain()?)),
        }
    }
}

/// Build rows loaded into memory.
struct Loaded {
    batches: Vec<RecordBatch>,
    /// First batch that does not fit; `None` at the end of the input.
    pending: Option<RecordBatch>,
    memory: Reservation,
}

/// Loads as many build batches as fit into memory, `first` before the others.
fn load(context: &Context, build: &mut dyn Batches, first: Option<RecordBatch>) -> Result<Loaded, Error> {
    let mut memory = context.job.reserve(0, TABLE_MEMORY)?;
    let (mut batches, mut rows, mut all_bytes) = (Vec::new(), 0, 0);
    let mut next = first;
    loop {
        context.job.check()?;
        let batch = match next.take() {
            Some(batch) => batch,
            None => match build.next()? {
                Some(batch) => compact(&batch)?,
                None => return Ok(Loaded { batches, pending: None, memory }),
            },
        };
        let batch_bytes = batch_bytes(&batch);
        (rows, all_bytes) = (rows + batch.num_rows(), all_bytes + batch_bytes);
        let key_bytes = context.encoder.bytes(&batch, &context.build_places)?;
        let long_keys = key_bytes.saturating_sub(KEY_BYTES * batch.num_rows());
        let entries = ENTRY_BYTES * batch.num_rows() + long_keys;
        let bytes = memory.bytes() + BUILD_COPIES * batch_bytes + entries;
        // Row numbers have 32 bits with one value reserved for the chain end; string offsets have 31 bits.
        let is_too_long = rows >= u32::MAX as usize || all_bytes > i32::MAX as usize;
        if is_too_long || memory.resize(bytes, TABLE_MEMORY).is_err() {
            return Ok(Loaded { batches, pending: Some(batch), memory });
        }
        batches.push(batch);
    }
}

impl Parts {
    fn new(
        context: &Context,
        mut build: Box<dyn Batches>,
        loaded: Loaded,
        probe: Partition,
    ) -> Result<Parts, Error> {
        let (part, pending) = Parts::part(context, &mut *build, loaded)?;
        let rows = Box::new(probe.read()?);
        let stage = Stage::Probe(Box::new(Probe::new(context, Arc::new(part), rows, Some(Found::default()))));
        Ok(Parts { build, pending, probe, stage })
    }

    /// Builds a part of at least one batch, which is in memory already.
    fn part(
        context: &Context,
        build: &mut dyn Batches,
        mut loaded: Loaded,
    ) -> Result<(Build, Option<RecordBatch>), Error> {
        if loaded.batches.is_empty() {
            loaded.batches.extend(loaded.pending.take());
        }
        let part = Build::new(context, build.schema(), loaded.batches, loaded.memory, 1)?;
        Ok((part, loaded.pending))
    }

    /// Returns the next result batch and the maximum bytes of its rows; `None` at the end.
    fn next(
        &mut self,
        context: &Context,
        pairs: &mut Pairs,
        result: &ResultBatches,
    ) -> Result<Option<(RecordBatch, usize)>, Error> {
        loop {
            match &mut self.stage {
                Stage::Probe(probe) => {
                    if let Some(batch) = probe.next(context, pairs, result)? {
                        return Ok(Some(batch));
                    }
                    let found = probe.found.take().unwrap_or_default();
                    self.stage = self.next_stage(context, found)?;
                }
                Stage::Ended => return Ok(None),
                Stage::Alone { rows, found, before } => {
                    let Some(batch) = rows.next()? else { return Ok(None) };
                    context.job.check()?;
                    for row in 0..batch.num_rows() {
                        if context.rule.probe_alone.gives(found.get(*before + row)) {
                            context.rule.give_probe_row(row, pairs);
                        }
                    }
                    *before += batch.num_rows();
                    if !pairs.is_empty() {
                        let none = RecordBatch::new_empty(self.build.schema());
                        return Ok(Some((context.assemble(&none, &batch, pairs)?, row_bytes_max(&batch))));
                    }
                }
            }
        }
    }

    /// Starts the next part of the build side, or the unpaired probe rows after the last part.
    fn next_stage(&mut self, context: &Context, found: Found) -> Result<Stage, Error> {
        let rows = self.probe.read()?;
        // Frees the memory of the previous part.
        self.stage = Stage::Ended;
        let loaded = load(context, &mut *self.build, self.pending.take())?;
        if loaded.batches.is_empty() && loaded.pending.is_none() {
            return Ok(Stage::Alone { rows: Box::new(rows), found, before: 0 });
        }
        let (part, pending) = Parts::part(context, &mut *self.build, loaded)?;
        self.pending = pending;
        Ok(Stage::Probe(Box::new(Probe::new(context, Arc::new(part), Box::new(rows), Some(found)))))
    }
}

impl Batches for HashJoin {
    fn schema(&self) -> SchemaRef {
        self.context.layout.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            if let Some(batch) = self.result.pop() {
                return Ok(Some(batch));
            }
            self.context.job.check()?;
            if self.step()? {
                self.result.finish()?;
                return Ok(self.result.pop());
            }
        }
    }
}
