//! Spilled chunks of rows: written in arrival order by several threads, read by location.
//!
//! All chunks of a writer are in one run of each spill file, so thousands of partitions need one descriptor and a few
//! extents per file. A thread compresses a chunk before it takes the lock of a file. The compressed bytes take the place
//! of the rows in the chunk's buffer, and a chunk is restored when its rows are needed, so that a chunk never has more
//! than its own buffer: the memory plan of a sort does not depend on the compression.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sakiyomi_io::buffer::Account;
use sakiyomi_io::read::FileRange;
use sakiyomi_io::{
    Block, Buffer, IoStats, Order, ReadStream, Run, RunWriter, SharedOptions, Spill, WriteOptions,
};

use super::codec::checksum;
use super::files::{SpillFiles, damaged, spill_error, with_room};
use super::level::Level;
use super::regulator::Stored;
use crate::phase::{Phase, nanos};
use crate::sort::chunk::{Chunk, UNIT_BYTES};
use crate::{Error, Job};

/// Maximum writes in flight: enough to keep a fast device busy with chunks of 256 KiB.
pub(crate) const WRITES_IN_FLIGHT: usize = 8;

/// Buffer bytes of a spill writer: minimal, because all data arrives in the caller's buffers.
const OWN_BUFFER_BYTES: usize = 4096;

/// Writer of spilled chunks; threads may share it.
#[derive(Debug)]
pub(crate) struct SpillWriter {
    job: Job,
    files: Vec<Spill>,
    /// One for each file, opened on first use.
    lanes: Vec<Mutex<Lane>>,
    /// The file of the next chunk, unless it is full.
    turn: AtomicUsize,
    /// Whether successive chunks use the files in turn.
    rotates: bool,
    raw_bytes: AtomicU64,
}

#[derive(Default)]
struct Lane {
    writer: Option<RunWriter>,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("is_open", &self.writer.is_some()).finish()
    }
}

/// Location of a spilled chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spilled {
    lane: usize,
    /// Offset in the run.
    start: u64,
    /// Bytes on disk, without padding.
    stored: usize,
    level: Level,
    /// Checksum of the stored bytes.
    checksum: u32,
    /// Bytes of its rows.
    pub(crate) bytes: usize,
    /// Number of its rows.
    pub(crate) rows: u64,
}

impl SpillFiles {
    /// Creates a writer that distributes chunks over all files in turn.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub(crate) fn writer(&self) -> Result<SpillWriter, Error> {
        SpillWriter::new(self, true)
    }

    /// Creates a writer to one file; successive writers use the files in turn.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub(crate) fn next_writer(&self) -> Result<SpillWriter, Error> {
        SpillWriter::new(self, false)
    }
}

impl SpillWriter {
    fn new(files: &SpillFiles, rotates: bool) -> Result<SpillWriter, Error> {
        let turn = AtomicUsize::new(files.next_turn());
        let (job, files) = (files.job().clone(), files.files()?);
        let lanes = files.iter().map(|_| Mutex::default()).collect();
        Ok(SpillWriter { job, files, lanes, turn, rotates, raw_bytes: AtomicU64::new(0) })
    }

    /// Writes a chunk of `rows` rows; blocks while [`WRITES_IN_FLIGHT`] writes of its file are in flight.
    ///
    /// # Errors
    /// The error of this or an earlier write.
    pub(crate) fn write(&self, mut chunk: Buffer, rows: u64) -> Result<Spilled, Error> {
        let regulator = self.job.regulator();
        let handover = regulator.begin();
        let bytes = chunk.len();
        let level = self.compress(&mut chunk, handover.level)?;
        let (stored, compress) = (chunk.len(), handover.elapsed());
        let checksum = checksum(&chunk);
        // The last block is padded with old bytes of the buffer.
        chunk.set_len(stored.next_multiple_of(UNIT_BYTES));
        chunk.send();
        let padded = chunk.len() as u64;
        let (lane, start, [waited, locked]) = self.submit(chunk)?;
        self.raw_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let raw_bytes = bytes as u64;
        regulator.end(&handover, Stored { level, raw_bytes, stored_bytes: padded, compress, waited, locked });
        Ok(Spilled { lane, start, stored, level, checksum, bytes, rows })
    }

    /// Replaces the rows of a chunk by their compressed bytes if that saves a block; returns the level in use.
    fn compress(&self, chunk: &mut Buffer, level: Level) -> Result<Level, Error> {
        if level == Level::None {
            return Ok(Level::None);
        }
        let blocks = chunk.len().div_ceil(UNIT_BYTES);
        let compressed = self.job.regulator().scratch.try_with(&self.job, chunk.len(), |scratch| {
            let stored =
                scratch.compress(level, chunk)?.filter(|stored| stored.len().div_ceil(UNIT_BYTES) < blocks);
            let Some(stored) = stored else { return Ok(Level::None) };
            chunk.set_len(0);
            chunk.append(stored);
            Ok(level)
        });
        compressed.unwrap_or(Ok(Level::None))
    }

    /// Submits a write to the next file with room; returns the file, the offset in its run, and the time waited for the
    /// device and for other threads.
    fn submit(&self, chunk: Buffer) -> Result<(usize, u64, [Duration; 2]), Error> {
        let turn = if self.rotates {
            self.turn.fetch_add(1, Ordering::Relaxed)
        } else {
            self.turn.load(Ordering::Relaxed)
        };
        // Writes in flight have not taken their space yet.
        let room = chunk.len() as u64 * (WRITES_IN_FLIGHT as u64 + 1);
        let lane = match with_room(&self.files, turn, room) {
            // The last chunk may fit.
            Err(_) => with_room(&self.files, turn, chunk.len() as u64)?,
            found => found?,
        };
        let begun = Instant::now();
        let mut state = self.lanes[lane].lock().unwrap_or_else(PoisonError::into_inner);
        let locked = begun.elapsed();
        let writer = match &mut state.writer {
            Some(writer) => writer,
            empty => {
                let options = WriteOptions {
                    block: OWN_BUFFER_BYTES,
                    in_flight: WRITES_IN_FLIGHT,
                    ..WriteOptions::default()
                };
                empty.insert(self.files[lane].run(&options)?)
            }
        };
        let (start, waited) = (writer.len(), writer.stats().waiting);
        writer.submit(chunk).map_err(|error| spill_error(&self.files, error))?;
        Ok((lane, start, [writer.stats().waiting - waited, locked]))
    }

    /// Waits for all writes.
    ///
    /// # Errors
    /// The error of a failed write.
    pub(crate) fn finish(self) -> Result<SpilledChunks, Error> {
        let mut runs = Vec::new();
        let mut phase =
            Phase { name: "write runs".into(), bytes: self.raw_bytes.into_inner(), ..Phase::default() };
        for lane in self.lanes {
            let writer = lane.into_inner().unwrap_or_else(PoisonError::into_inner).writer;
            let run =
                writer.map(RunWriter::finish).transpose().map_err(|error| spill_error(&self.files, error))?;
            if let Some(run) = &run {
                phase.stored_bytes += run.write_stats().bytes;
                phase.waited_ns += nanos(run.write_stats().waiting);
            }
            runs.push(run);
        }
        self.job.phases().add(phase);
        Ok(SpilledChunks { files: self.files, runs })
    }
}

/// The chunks of a writer; dropping it frees their space.
#[derive(Debug)]
pub(crate) struct SpilledChunks {
    files: Vec<Spill>,
    /// The run in each file, if it has chunks.
    runs: Vec<Option<Run>>,
}

impl SpilledChunks {
    /// Returns a reader of chunks in the given order with read-ahead of `ahead` chunks.
    ///
    /// # Errors
    /// If the buffer budget has no room for the stream.
    pub(crate) fn read(
        self: &Arc<Self>,
        job: &Job,
        chunks: &[Spilled],
        ahead: usize,
    ) -> Result<ChunkReader, Error> {
        let ranges: Vec<FileRange> = chunks.iter().map(|chunk| self.range(chunk)).collect();
        let block = chunks.iter().map(|chunk| chunk.stored).max().unwrap_or(1).next_multiple_of(UNIT_BYTES);
        let options = SharedOptions { block, ahead, order: Order::File, gap: 0 };
        let stream = ReadStream::ranges(job.io(), ranges, &options)?;
        let places = chunks.iter().copied().collect();
        let account = job.io().pool().account(0)?;
        Ok(ChunkReader { job: job.clone(), stream, account, places, raw_bytes: 0, _chunks: Arc::clone(self) })
    }

    /// Returns the file range of a chunk, which is contiguous because one write created it.
    fn range(&self, chunk: &Spilled) -> FileRange {
        let run = self.runs[chunk.lane].as_ref().expect("the run of a chunk");
        let range = run.locate(chunk.start..chunk.start + chunk.stored as u64).next();
        (Arc::clone(self.files[chunk.lane].file()), range.expect("the place of a chunk in its run"))
    }
}

/// Reader of spilled chunks.
pub(crate) struct ChunkReader {
    job: Job,
    stream: ReadStream,
    /// Takes buffers for restored chunks.
    account: Account,
    /// Chunks that have not been returned.
    places: VecDeque<Spilled>,
    raw_bytes: u64,
    _chunks: Arc<SpilledChunks>,
}

impl ChunkReader {
    /// Submits the first reads without waiting for any of them.
    ///
    /// # Errors
    /// If the engine cannot be driven.
    pub(crate) fn start(&mut self) -> Result<(), Error> {
        Ok(self.stream.start()?)
    }

    /// Returns the next chunk, restored; `None` at the end.
    ///
    /// # Errors
    /// If it cannot be read, or is not what was written.
    pub(crate) fn next(&mut self) -> Result<Option<Chunk>, Error> {
        let Some(block) = self.stream.next().transpose()? else { return Ok(None) };
        let place = self.places.pop_front().expect("a block for each chunk");
        if block.len() != place.stored || checksum(&block) != place.checksum {
            return Err(damaged(block.file().path(), block.offset()));
        }
        self.raw_bytes += place.bytes as u64;
        if place.level == Level::None {
            return Ok(Some(Chunk::from(block)));
        }
        self.restore(&place, block).map(Some)
    }

    fn restore(&self, place: &Spilled, block: Block) -> Result<Chunk, Error> {
        let error = damaged(block.file().path(), block.offset());
        self.job.regulator().scratch.with(|scratch| {
            let mut buffer = match self.account.take(place.bytes) {
                Ok(taken) => {
                    let system =
                        |source| sakiyomi_io::Error::System { what: "get memory for rows".into(), source };
                    let mut buffer = taken.map_err(system)?;
                    if !scratch.restore(place.level, &block, &mut buffer.space()[..place.bytes])? {
                        return Err(error);
                    }
                    buffer
                }
                // The restored rows take the place of the block.
                Err(_) => {
                    let Some(raw) = scratch.restored(place.level, &block, place.bytes)? else {
                        return Err(error);
                    };
                    drop(block);
                    let mut buffer = self.account.take_when_released(place.bytes)?;
                    buffer.space()[..place.bytes].copy_from_slice(raw);
                    buffer
                }
            };
            buffer.set_len(place.bytes);
            buffer.send();
            Ok(Chunk::from(buffer))
        })
    }

    /// Counters of its reads so far.
    pub(crate) fn stats(&self) -> IoStats {
        self.stream.stats()
    }

    /// Bytes of the chunks returned so far.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }
}
