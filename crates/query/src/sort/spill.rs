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
use crate::phase::{Meter, Phase, nanos};
use crate::{Error, Job};

/// The spill files of a sort, one in each directory, created on first use.
#[derive(Debug, Default)]
pub(crate) struct Spills {
    files: Mutex<Vec<Spill>>,
    /// Number of writers so far.
    writers: AtomicUsize,
}

/// Maximum writes in flight: enough to keep a fast device busy with chunks of 256 KiB.
pub(crate) const WRITES_IN_FLIGHT: usize = 8;

/// Phase of writes to spill files.
const WRITE_PHASE_NAME: &str = "write runs";

/// Buffer bytes of a spill writer: minimal, because all data arrives in the caller's buffers.
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
            *files =
                directories.map(|directory| Spill::create(job.io(), directory)).collect::<Result<_, _>>()?;
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
    pub(crate) fn writer(&self, job: &Job) -> Result<SpillWriter, Error> {
        SpillWriter::new(job, &self.files(job)?)
    }

    /// Creates a writer to one directory; successive writers use the directories in turn.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub(crate) fn next_writer(&self, job: &Job) -> Result<SpillWriter, Error> {
        let files = self.files(job)?;
        let next = self.writers.fetch_add(1, Ordering::Relaxed) % files.len();
        SpillWriter::new(job, &files[next..=next])
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
    fn new(job: &Job, files: &[Spill]) -> Result<SpillWriter, Error> {
        let options =
            WriteOptions { block: OWN_BUFFER_BYTES, in_flight: WRITES_IN_FLIGHT, ..WriteOptions::default() };
        let lanes = files.iter().map(|spill| Ok((Arc::clone(spill.file()), spill.run(&options)?)));
        Ok(SpillWriter { job: job.clone(), lanes: lanes.collect::<Result<_, Error>>()?, next: 0 })
    }

    /// Writes a chunk of `rows` rows; blocks while [`WRITES_IN_FLIGHT`] writes are in flight.
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
    /// Returns a stream of chunks in the given order, one block for each chunk, with read-ahead of `ahead` chunks.
    ///
    /// # Errors
    /// If the buffer budget has no room for the stream.
    pub(crate) fn read(&self, job: &Job, chunks: &[Spilled], ahead: usize) -> Result<ReadStream, Error> {
        let ranges: Vec<FileRange> = chunks.iter().map(|chunk| self.range(chunk)).collect();
        let block = chunks.iter().map(|chunk| chunk.bytes).max().unwrap_or(1).next_multiple_of(UNIT_BYTES);
        let options = SharedOptions { block, ahead, order: Order::File, gap: 0 };
        Ok(ReadStream::ranges(job.io(), ranges, &options)?)
    }

    /// Returns the file range of a chunk, which is contiguous because one write created it.
    fn range(&self, chunk: &Spilled) -> FileRange {
        let (file, run) = &self.lanes[chunk.lane];
        let range = run.locate(chunk.start..chunk.start + chunk.bytes as u64).next();
        (Arc::clone(file), range.expect("the place of a chunk in its run"))
    }
}
