//! The rows of a result, from any number of threads, in the order of their parts.
//!
//! Each thread works on one part at a time: it cuts the part's rows into groups, encodes them, and hands them over.
//! Groups of the first unfinished part are appended at once. Groups of later parts are parked, up to a limit per
//! thread, so that a thread that finishes early continues with the next part.

mod scarce;

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::batch_bytes::batch_memory_bytes;
use crate::order::SortKey;
use crate::output::{Encoded, Encoder, Output, OutputOptions, Target};
use crate::phase::Meter;
use crate::preview::Preview;
use crate::{Error, Job};

use super::stream::{BatchSender, result_batch};

/// Destination of the rows of a result.
#[derive(Clone, Debug)]
pub enum Destination {
    /// A file or the standard output.
    File {
        /// The file, or the standard output.
        target: Target,
        /// Format and encoding.
        options: OutputOptions,
    },
    /// A stream that another thread reads.
    Stream(BatchSender),
    /// The first rows in memory; the others are only counted.
    Preview {
        /// Maximum number of rows kept.
        rows_max: usize,
    },
}

impl Destination {
    /// Records the sort order of the rows in the file.
    pub(super) fn sorted_by(self, keys: &[SortKey]) -> Destination {
        match self {
            Destination::File { target, options } => {
                Destination::File { target, options: OutputOptions { sorted_by: keys.to_vec(), ..options } }
            }
            other => other,
        }
    }
}

/// Collects the rows of a result in order.
#[derive(Debug)]
pub(super) struct Sink {
    job: Job,
    encoder: Option<Encoder>,
    /// Schema of the batches of a stream.
    streamed: Option<SchemaRef>,
    /// Whether batches may point into the job's buffers.
    is_shared: bool,
    group_rows: usize,
    group_bytes: usize,
    parked_max: usize,
    state: Mutex<State>,
    /// Notified when a part is finished or the job fails.
    changed: Condvar,
}

/// The totals of a finished sink.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) preview: Option<Preview>,
}

#[derive(Debug)]
struct State {
    end: End,
    /// The part whose groups are appended on arrival.
    current: usize,
    /// Parked later parts, by index.
    parked: BTreeMap<usize, Parked>,
    /// Number of groups in `parked`.
    parked_groups: usize,
    rows: u64,
    /// Number of groups that were appended.
    appended: u64,
    /// Number of threads that encode a group or wait to hand it over.
    encoding: usize,
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
    Stream(BatchSender),
    Preview { preview: Preview, rows_max: usize },
}

/// Rows that are appended together.
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

/// Names of the phases of a result: encoding groups of rows, and writing them.
const ENCODE_PHASE_NAME: &str = "encode";
const WRITE_PHASE_NAME: &str = "write";

/// Maximum parked groups per thread: those of a part that is finished early.
const PARKED_GROUPS_PER_THREAD: usize = 2;

/// Divisor of a thread's memory for the size of a group: decoded rows, the group being built and parked groups exist at
/// the same time.
const GROUP_MEMORY_PARTS: usize = 6;

/// Bounds of a group's rows in memory: smaller groups are slow to read, larger ones have no benefit.
const GROUP_MIN_BYTES: usize = 256 << 10;
const GROUP_MAX_BYTES: usize = 64 << 20;

impl Sink {
    /// Opens a destination for rows of a schema.
    pub(super) fn open(job: &Job, schema: &SchemaRef, destination: &Destination) -> Result<Sink, Error> {
        let threads = job.options().threads.max(1);
        let mut streamed = None;
        let (end, encoder, group_rows) = match destination {
            Destination::File { target, options } => {
                let output = Output::create(job, target, schema, options)?;
                let encoder = output.encoder();
                (End::File(output), Some(encoder), options.group_rows)
            }
            Destination::Stream(sender) => {
                streamed = Some(sender.begin(schema)?);
                (End::Stream(sender.clone()), None, usize::MAX)
            }
            Destination::Preview { rows_max } => {
                (End::Preview { preview: Preview::new(schema), rows_max: *rows_max }, None, usize::MAX)
            }
        };
        let group_bytes = job.available() / threads / GROUP_MEMORY_PARTS;
        Ok(Sink {
            job: job.clone(),
            encoder,
            streamed,
            is_shared: false,
            group_rows: group_rows.max(1),
            group_bytes: group_bytes.clamp(GROUP_MIN_BYTES, GROUP_MAX_BYTES),
            parked_max: threads * PARKED_GROUPS_PER_THREAD,
            state: Mutex::new(State {
                end,
                current: 0,
                parked: BTreeMap::new(),
                parked_groups: 0,
                rows: 0,
                appended: 0,
                encoding: 0,
                failed: false,
            }),
            changed: Condvar::new(),
        })
    }

    /// For batches that may point into the job's buffers.
    pub(super) fn shared(self) -> Sink {
        Sink { is_shared: true, ..self }
    }

    /// Begins a part. Indices start at 0 and each is used once; a part that is dropped unfinished fails the sink.
    pub(super) fn part(&self, index: usize) -> Part<'_> {
        Part { sink: self, index: Some(index), batches: Vec::new(), rows: 0, bytes: 0, finished: false }
    }

    /// Begins a part of unordered rows; its groups are appended on arrival.
    pub(super) fn unordered(&self) -> Part<'_> {
        Part { sink: self, index: None, batches: Vec::new(), rows: 0, bytes: 0, finished: false }
    }

    /// Finishes the result and makes its file visible.
    pub(super) fn finish(self) -> Result<Received, Error> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        assert!(state.parked.is_empty() && !state.failed, "a part is missing");
        let rows = state.rows;
        self.job.progress().finish();
        Ok(match state.end {
            End::File(output) => {
                let (meter, waiting) = (Meter::start(), output.stats().waiting);
                let bytes = output.finish()?;
                self.job.phases().add(meter.stop(WRITE_PHASE_NAME, bytes, waiting));
                Received { rows, bytes, preview: None }
            }
            End::Stream(_) => Received { rows, bytes: 0, preview: None },
            End::Preview { preview, .. } => Received { rows, bytes: 0, preview: Some(preview) },
        })
    }

    /// Creates a cutter of a stream into groups.
    pub(super) fn grouping(&self) -> Grouping<'_> {
        Grouping { sink: self, batches: Vec::new(), rows: 0, bytes: 0 }
    }

    fn group(&self, batches: Vec<RecordBatch>) -> Result<Group, Error> {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        if let Some(schema) = &self.streamed {
            let batches = batches.into_iter().map(|batch| result_batch(&batch, schema, self.is_shared));
            return Ok(Group { rows, content: Content::Batches(batches.collect::<Result<_, _>>()?) });
        }
        let Some(encoder) = &self.encoder else {
            return Ok(Group { rows, content: Content::Batches(batches) });
        };
        let meter = Meter::start();
        let content = Content::Encoded(encoder.encode(&batches)?);
        self.job.phases().add(meter.stop(ENCODE_PHASE_NAME, 0, Duration::ZERO));
        Ok(Group { rows, content })
    }

    /// Appends a group, or parks it if an earlier part is unfinished; blocks while too many groups are parked.
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

    /// Runs `work` under the lock. An error fails the sink and wakes the waiting threads.
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
        self.appended += 1;
        job.progress().add_rows(group.rows);
        match (&mut self.end, group.content) {
            (End::File(output), Content::Encoded(encoded)) => {
                let meter = Meter::start();
                output.append(encoded)?;
                job.phases().add(meter.stop(WRITE_PHASE_NAME, 0, Duration::ZERO));
                Ok(())
            }
            // Other threads wait for this one, as for the output of a slow device.
            (End::Stream(sender), Content::Batches(batches)) => {
                batches.into_iter().try_for_each(|batch| sender.batch(batch))
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

/// A part of the rows, filled by one thread.
pub(super) struct Part<'s> {
    sink: &'s Sink,
    /// Index of the part; none if its rows are unordered.
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
        // A batch that does not fit is split, so that groups have the requested number of rows.
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

    /// Finishes the part.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        self.flush()?;
        self.finished = true;
        self.index.map_or(Ok(()), |index| self.sink.close(index))
    }

    fn add(&mut self, batch: RecordBatch) {
        self.rows += batch.num_rows();
        self.bytes += batch_memory_bytes(&batch);
        self.batches.push(batch);
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.rows == 0 {
            return Ok(());
        }
        (self.rows, self.bytes) = (0, 0);
        self.sink.deliver(self.index, mem::take(&mut self.batches))
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.sink.fail();
        }
    }
}

/// The rows of the next group of a stream; group sizes are approximate.
pub(super) struct Grouping<'s> {
    sink: &'s Sink,
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl Grouping<'_> {
    /// Adds rows; returns a group when it is full.
    pub(super) fn add(&mut self, batch: RecordBatch) -> Option<Vec<RecordBatch>> {
        self.rows += batch.num_rows();
        self.bytes += batch_memory_bytes(&batch);
        self.batches.push(batch);
        let is_full = self.rows >= self.sink.group_rows || self.bytes >= self.sink.group_bytes;
        is_full.then(|| self.rest())
    }

    /// Returns the remaining rows, possibly none.
    pub(super) fn rest(&mut self) -> Vec<RecordBatch> {
        (self.rows, self.bytes) = (0, 0);
        mem::take(&mut self.batches)
    }
}

#[cfg(test)]
mod tests;
