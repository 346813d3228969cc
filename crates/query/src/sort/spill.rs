//! Spilled chunks of rows: written in arrival order, read by location.
//!
//! All chunks of a writer are in one run of each spill file, so thousands of partitions need one descriptor and a few
//! extents per file. Adaptive compression of spilled chunks would belong here.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sakiyomi_io::read::FileRange;
use sakiyomi_io::{Buffer, IoFile, Order, ReadStream, Run, RunWriter, SharedOptions, Spill, WriteOptions};

use super::chunk::UNIT_BYTES;
use super::context::Context;
use super::memory::read_bytes;
use crate::phase::{Meter, Phase, nanos};
use crate::{Error, Job};

/// The spill files of a sort, one in each directory, created on first use.
#[derive(Debug, Default)]
pub(crate) struct Spills {
    files: Mutex<Vec<Spill>>,
    /// Number of writers so far.
    writers: AtomicUsize,
}

/// Phase of writes to spill files.
const WRITE_PHASE_NAME: &str = "write runs";

/// Buffer bytes of a spill writer, which uses none: all data arrives in the caller's buffers.
const OWN_BUFFER_BYTES: usize = 4096;

impl Spills {
    /// Uses existing spill files.
    #[cfg(test)]
    pub(crate) fn over(files: Vec<Spill>) -> Spills {
        Spills { files: Mutex::new(files), writers: AtomicUsize::new(0) }
    }

    fn files(&self, job: &Job) -> Result<Vec<Spill>, Error> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.is_empty() {
            let directories = job.options().spill.iter();
            *files = directories.map(|directory| job.spill_file(directory)).collect::<Result<_, _>>()?;
        }
        if files.is_empty() {
            return Err(Error::Query(
                "the rows do not fit into memory, and the job has no directory for spill files".into(),
            ));
        }
        Ok(files.clone())
    }

    /// Creates a writer that distributes chunks over all directories in turn.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub(crate) fn writer(&self, context: &Context) -> Result<SpillWriter, Error> {
        SpillWriter::new(context, &self.files(&context.job)?, context.memory.writes_in_flight)
    }

    /// Creates a writer to one directory, with at most `in_flight` writes in flight; successive writers use the
    /// directories in turn.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub(crate) fn next_writer(&self, context: &Context, in_flight: usize) -> Result<SpillWriter, Error> {
        let files = self.files(&context.job)?;
        let next = self.writers.fetch_add(1, Ordering::Relaxed) % files.len();
        SpillWriter::new(context, &files[next..=next], in_flight)
    }
}

/// Writer of spilled chunks.
pub(crate) struct SpillWriter {
    job: Job,
    /// One for each file.
    lanes: Vec<(Arc<IoFile>, RunWriter)>,
    next: usize,
}

/// Location of a spilled chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spilled {
    lane: usize,
    /// Offset in the run.
    start: u64,
    /// Bytes of its rows.
    pub(crate) bytes: usize,
    /// Number of its rows.
    pub(crate) rows: u64,
}

impl SpillWriter {
    fn new(context: &Context, files: &[Spill], in_flight: usize) -> Result<SpillWriter, Error> {
        let options = WriteOptions { block: OWN_BUFFER_BYTES, in_flight, ..WriteOptions::default() };
        let account = context.buffers.account();
        let lane = |spill: &Spill| Ok((Arc::clone(spill.file()), spill.run_within(Some(account), &options)?));
        let lanes = files.iter().map(lane).collect::<Result<_, Error>>()?;
        Ok(SpillWriter { job: context.job.clone(), lanes, next: 0 })
    }

    /// Writes a chunk of `rows` rows; blocks while as many writes as allowed are in flight.
    ///
    /// # Errors
    /// The error of this or an earlier write.
    pub(crate) fn write(&mut self, mut chunk: Buffer, rows: u64) -> Result<Spilled, Error> {
        let meter = Meter::start();
        let lane = self.next;
        self.next = (lane + 1) % self.lanes.len();
        let writer = &mut self.lanes[lane].1;
        let spilled = Spilled { lane, start: writer.len(), bytes: chunk.len(), rows };
        // The last block is padded with old bytes of the buffer.
        chunk.set_len(spilled.bytes.next_multiple_of(UNIT_BYTES));
        chunk.send();
        writer.submit(chunk)?;
        self.job.phases().add(meter.stop(WRITE_PHASE_NAME, 0, Duration::ZERO));
        Ok(spilled)
    }

    /// Waits for all writes.
    ///
    /// # Errors
    /// The error of a failed write.
    pub(crate) fn finish(self) -> Result<SpilledChunks, Error> {
        let meter = Meter::start();
        let lanes = self.lanes.into_iter().map(|(file, writer)| Ok((file, writer.finish()?)));
        let lanes: Vec<(Arc<IoFile>, Run)> = lanes.collect::<Result<_, Error>>()?;
        self.job.phases().add(meter.stop(WRITE_PHASE_NAME, 0, Duration::ZERO));
        for (_, run) in &lanes {
            let stats = run.write_stats();
            let waited_ns = nanos(stats.waiting);
            self.job.phases().add(Phase {
                name: WRITE_PHASE_NAME.into(),
                bytes: stats.bytes,
                waited_ns,
                ..Phase::default()
            });
        }
        Ok(SpilledChunks { lanes })
    }
}

/// The chunks of a writer; dropping it frees their space.
#[derive(Debug)]
pub(crate) struct SpilledChunks {
    lanes: Vec<(Arc<IoFile>, Run)>,
}

impl SpilledChunks {
    /// Returns a stream of chunks in the given order, one block for each chunk, with read-ahead of `ahead` chunks. The
    /// caller has a grant for them.
    ///
    /// # Errors
    /// If the stream cannot be opened.
    pub(crate) fn read(
        &self,
        context: &Context,
        chunks: &[Spilled],
        ahead: usize,
    ) -> Result<ReadStream, Error> {
        let ranges: Vec<FileRange> = chunks.iter().map(|chunk| self.range(chunk)).collect();
        // Chunks are not joined to one read, whose buffer could be larger than those of both.
        let options = SharedOptions { block: 1, ahead, order: Order::File, gap: 0 };
        let (io, account) = (context.job.io(), context.buffers.account());
        Ok(ReadStream::ranges_within(io, Some(account), ranges, &options)?)
    }

    /// Returns the bytes of the buffer into which a chunk is read.
    pub(crate) fn read_bytes(&self, chunk: &Spilled) -> usize {
        read_bytes(chunk.bytes, self.lanes[chunk.lane].0.alignment().offset)
    }

    /// Returns the file range of a chunk, which is contiguous because one write created it.
    fn range(&self, chunk: &Spilled) -> FileRange {
        let (file, run) = &self.lanes[chunk.lane];
        let range = run.locate(chunk.start..chunk.start + chunk.bytes as u64).next();
        (Arc::clone(file), range.expect("the place of a chunk in its run"))
    }
}
