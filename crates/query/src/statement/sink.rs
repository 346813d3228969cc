//! The rows of a result, from any number of threads, in the order of their parts.
//!
//! Each thread works on a part at a time: it cuts the part's rows into groups, encodes them, and hands them over. The
//! groups of the first part that is not finished are appended at once; those of later parts are parked, up to a number
//! for each thread, so that a thread whose part is done early goes on with the next one.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;

use crate::order::SortKey;
use crate::output::{Encoded, Encoder, Output, OutputOptions, Target};
use crate::phase::Meter;
use crate::preview::Preview;
use crate::{Error, Job};

/// Where the rows of a result go.
#[derive(Clone, Debug)]
pub enum Destination {
    /// Into a file, or to the standard output.
    File {
        /// Which.
        target: Target,
        /// How it is written.
        options: OutputOptions,
    },
    /// The first rows into memory; the others are only counted.
    Preview {
        /// Rows that are kept.
        rows_max: usize,
    },
}

impl Destination {
    /// The same for rows in an order, which files record.
    pub(super) fn sorted_by(self, keys: &[SortKey]) -> Destination {
        match self {
            Destination::File { target, options } => {
                Destination::File { target, options: OutputOptions { sorted_by: keys.to_vec(), ..options } }
            }
            preview @ Destination::Preview { .. } => preview,
        }
    }
}

/// Takes rows.
#[derive(Debug)]
pub(super) struct Sink {
    job: Job,
    encoder: Option<Encoder>,
    group_rows: usize,
    group_bytes: usize,
    parked_max: usize,
    state: Mutex<State>,
    /// Notified when a part was finished, or the job failed.
    changed: Condvar,
}

/// What a sink has got.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) preview: Option<Preview>,
}

#[derive(Debug)]
struct State {
    end: End,
    /// The part whose groups are appended as they come.
    current: usize,
    /// Groups of later parts, and whether the part is finished.
    parked: BTreeMap<usize, Parked>,
    /// Groups among all that are parked.
    parked_groups: usize,
    rows: u64,
    failed: bool,
}

#[derive(Debug, Default)]
struct Parked {
    groups: Vec<Group>,
    finished: bool,
}

#[derive(Debug)]
enum End {
    File(Output),
    Preview { preview: Preview, rows_max: usize },
}

/// Rows that are appended at once.
#[derive(Debug)]
struct Group {
    rows: usize,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Encoded(Encoded),
    Batches(Vec<RecordBatch>),
}

/// Phases of a result: turning rows into groups of its format, and writing them.
const ENCODE_PHASE_NAME: &str = "encode";
const WRITE_PHASE_NAME: &str = "write";

/// Groups that are parked for each thread at most: one part's that is done early.
const PARKED_GROUPS_PER_THREAD: usize = 2;

/// Rows and their encoded group take this part of the memory for each thread: decoded rows, the group in the making,
/// and parked groups lie beside each other.
const GROUP_MEMORY_PARTS: usize = 6;

/// Bounds of a group's rows in memory: smaller groups are slow to read, larger ones gain nothing.
const GROUP_MIN_BYTES: usize = 256 << 10;
const GROUP_MAX_BYTES: usize = 64 << 20;

impl Sink {
    /// Takes rows of a schema to their destination.
    pub(super) fn open(job: &Job, schema: &SchemaRef, destination: &Destination) -> Result<Sink, Error> {
        let threads = job.options().threads.max(1);
        let (end, encoder, group_rows) = match destination {
            Destination::File { target, options } => {
                let output = Output::create(job, target, schema, options)?;
                let encoder = output.encoder();
                (End::File(output), Some(encoder), options.group_rows)
            }
            Destination::Preview { rows_max } => {
                (End::Preview { preview: Preview::new(schema), rows_max: *rows_max }, None, usize::MAX)
            }
        };
        let group_bytes = job.available() / threads / GROUP_MEMORY_PARTS;
        Ok(Sink {
            job: job.clone(),
            encoder,
            group_rows: group_rows.max(1),
            group_bytes: group_bytes.clamp(GROUP_MIN_BYTES, GROUP_MAX_BYTES),
            parked_max: threads * PARKED_GROUPS_PER_THREAD,
            state: Mutex::new(State {
                end,
                current: 0,
                parked: BTreeMap::new(),
                parked_groups: 0,
                rows: 0,
                failed: false,
            }),
            changed: Condvar::new(),
        })
    }

    /// A part of the rows. Each index from 0 on is to be given once; a part that is dropped unfinished fails the sink.
    pub(super) fn part(&self, index: usize) -> Part<'_> {
        Part { sink: self, index: Some(index), batches: Vec::new(), rows: 0, bytes: 0, finished: false }
    }

    /// Rows in no order: their groups are appended as they come.
    pub(super) fn unordered(&self) -> Part<'_> {
        Part { sink: self, index: None, batches: Vec::new(), rows: 0, bytes: 0, finished: false }
    }

    /// Ends the result, which appears.
    pub(super) fn finish(self) -> Result<Received, Error> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        assert!(state.parked.is_empty() && !state.failed, "a part is missing");
        let rows = state.rows;
        Ok(match state.end {
            End::File(output) => {
                let (meter, waiting) = (Meter::start(), output.stats().waiting);
                let bytes = output.finish()?;
                self.job.phases().add(meter.stop(WRITE_PHASE_NAME, bytes, waiting));
                Received { rows, bytes, preview: None }
            }
            End::Preview { preview, .. } => Received { rows, bytes: 0, preview: Some(preview) },
        })
    }

    /// Cuts a stream of rows into groups.
    pub(super) fn grouping(&self) -> Grouping<'_> {
        Grouping { sink: self, batches: Vec::new(), rows: 0, bytes: 0 }
    }

    fn group(&self, batches: Vec<RecordBatch>) -> Result<Group, Error> {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let Some(encoder) = &self.encoder else {
            return Ok(Group { rows, content: Content::Batches(batches) });
        };
        let meter = Meter::start();
        let content = Content::Encoded(encoder.encode(&batches)?);
        self.job.phases().add(meter.stop(ENCODE_PHASE_NAME, 0, Duration::ZERO));
        Ok(Group { rows, content })
    }

    /// Appends a group, or parks it if it is not its turn; waits where too many are parked.
    fn put(&self, index: Option<usize>, group: Group) -> Result<(), Error> {
        let mut state = self.lock();
        loop {
            if state.failed {
                return Err(Error::Cancelled);
            }
            let Some(index) = index.filter(|&index| index != state.current) else {
                return self.failing(|state| state.append(group, &self.job), state);
            };
            if state.parked_groups < self.parked_max {
                state.parked_groups += 1;
                state.parked.entry(index).or_default().groups.push(group);
                return Ok(());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Marks a part as finished, and appends the parked parts that follow.
    fn close(&self, index: usize) -> Result<(), Error> {
        let mut state = self.lock();
        state.parked.entry(index).or_default().finished = true;
        self.failing(|state| state.advance(&self.job), state)
    }

    /// Does something under the lock; an error fails the sink, and other threads do not wait for this one any more.
    fn failing(
        &self,
        work: impl FnOnce(&mut State) -> Result<(), Error>,
        mut state: MutexGuard<'_, State>,
    ) -> Result<(), Error> {
        let outcome = work(&mut state);
        state.failed |= outcome.is_err();
        self.changed.notify_all();
        outcome
    }

    fn fail(&self) {
        self.lock().failed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn append(&mut self, group: Group, job: &Job) -> Result<(), Error> {
        self.rows += group.rows as u64;
        job.progress().add_rows(group.rows);
        match (&mut self.end, group.content) {
            (End::File(output), Content::Encoded(encoded)) => {
                let meter = Meter::start();
                output.append(encoded)?;
                job.phases().add(meter.stop(WRITE_PHASE_NAME, 0, Duration::ZERO));
                Ok(())
            }
            (End::Preview { preview, rows_max }, Content::Batches(batches)) => {
                batches.iter().try_for_each(|batch| preview.add(batch, *rows_max))
            }
            _ => unreachable!("groups are encoded for files only"),
        }
    }

    fn advance(&mut self, job: &Job) -> Result<(), Error> {
        while let Some(parked) = self.parked.get_mut(&self.current) {
            let finished = parked.finished;
            let groups = mem::take(&mut parked.groups);
            self.parked_groups -= groups.len();
            groups.into_iter().try_for_each(|group| self.append(group, job))?;
            if !finished {
                break;
            }
            self.parked.remove(&self.current);
            self.current += 1;
        }
        Ok(())
    }
}

/// A part of the rows, which one thread adds to.
pub(super) struct Part<'s> {
    sink: &'s Sink,
    /// Its place; none if its rows have no order.
    index: Option<usize>,
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    finished: bool,
}

impl Part<'_> {
    /// Adds rows.
    pub(super) fn push(&mut self, batch: RecordBatch) -> Result<(), Error> {
        let sink = self.sink;
        sink.job.check()?;
        let mut rest = batch;
        // A batch that does not fit into the group is cut, so that groups have the rows that were asked for.
        while self.rows + rest.num_rows() >= sink.group_rows {
            let fits = sink.group_rows - self.rows;
            self.add(rest.slice(0, fits));
            rest = rest.slice(fits, rest.num_rows() - fits);
            self.flush()?;
        }
        if rest.num_rows() > 0 {
            self.add(rest);
        }
        if self.bytes >= sink.group_bytes { self.flush() } else { Ok(()) }
    }

    /// Ends the part.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        self.flush()?;
        self.finished = true;
        self.index.map_or(Ok(()), |index| self.sink.close(index))
    }

    fn add(&mut self, batch: RecordBatch) {
        self.rows += batch.num_rows();
        self.bytes += size(&batch);
        self.batches.push(batch);
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.rows == 0 {
            return Ok(());
        }
        (self.rows, self.bytes) = (0, 0);
        let group = self.sink.group(mem::take(&mut self.batches))?;
        self.sink.put(self.index, group)
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.sink.fail();
        }
    }
}

/// Rows of a stream that become a group, about.
pub(super) struct Grouping<'s> {
    sink: &'s Sink,
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl Grouping<'_> {
    /// Adds rows; gives those of a group when there are enough.
    pub(super) fn add(&mut self, batch: RecordBatch) -> Option<Vec<RecordBatch>> {
        self.rows += batch.num_rows();
        self.bytes += size(&batch);
        self.batches.push(batch);
        let is_full = self.rows >= self.sink.group_rows || self.bytes >= self.sink.group_bytes;
        is_full.then(|| self.rest())
    }

    /// Rows that are left; none if there are none.
    pub(super) fn rest(&mut self) -> Vec<RecordBatch> {
        (self.rows, self.bytes) = (0, 0);
        mem::take(&mut self.batches)
    }
}

/// Bytes of a batch's rows, without those of buffers beyond them.
fn size(batch: &RecordBatch) -> usize {
    let of = |column: &ArrayRef| {
        // An array whose size cannot be told, such as one of an exotic view, counts with all of its buffers.
        column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
    };
    batch.columns().iter().map(of).sum()
}

#[cfg(test)]
mod tests;
