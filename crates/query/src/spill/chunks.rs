//! Spilled chunks of rows: written in arrival order by several threads, read by location.
//!
//! All chunks of a writer are in one run of each spill file, so thousands of partitions need one descriptor and a few
//! extents per file. A thread compresses a chunk before it takes the lock of a file. The compressed bytes take the place
//! of the rows in the chunk's buffer, and a chunk is restored when its rows are needed, in the memory granted for them: the
//! memory plan of a sort does not depend on the compression. Rows longer than the memory to restore them are not
//! compressed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sakiyomi_io::read::FileRange;
use sakiyomi_io::{
    Block, Buffer, IoStats, Order, ReadStream, Run, RunWriter, SharedOptions, Spill, WriteOptions,
};

use super::codec::checksum;
use super::files::{SpillFiles, damaged, spill_error, with_room};
use super::level::Level;
use super::regulator::Stored;
use crate::phase::{Meter, Phase, nanos};
use crate::sort::chunk::{Chunk, UNIT_BYTES};
use crate::sort::memory::{SortMemory, read_bytes};
use crate::{Error, Job};

/// Buffer bytes of a spill writer, which uses none: all data arrives in the caller's buffers.
const OWN_BUFFER_BYTES: usize = 4096;

/// Phase of writes to spill files.
const WRITE_PHASE_NAME: &str = "write runs";

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
    /// Memory of the rows.
    memory: Arc<SortMemory>,
    /// Maximum writes in flight to each file, or of all if it does not rotate.
    in_flight: usize,
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
    /// Creates a writer that distributes chunks over all files in turn, with at most `in_flight` writes in flight to each.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub(crate) fn writer(&self, memory: &Arc<SortMemory>, in_flight: usize) -> Result<SpillWriter, Error> {
        SpillWriter::new(self, memory, in_flight, true)
    }

    /// Creates a writer to one file, with at most `in_flight` writes in flight; successive writers use the files in turn.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub(crate) fn next_writer(
        &self,
        memory: &Arc<SortMemory>,
        in_flight: usize,
    ) -> Result<SpillWriter, Error> {
        SpillWriter::new(self, memory, in_flight, false)
    }
}

impl SpillWriter {
    fn new(
        files: &SpillFiles,
        memory: &Arc<SortMemory>,
        in_flight: usize,
        rotates: bool,
    ) -> Result<SpillWriter, Error> {
        let memory = Arc::clone(memory);
        let turn = AtomicUsize::new(files.next_turn());
        let (job, files) = (files.job().clone(), files.files()?);
        let lanes = files.iter().map(|_| Mutex::default()).collect();
        let raw_bytes = AtomicU64::new(0);
        Ok(SpillWriter { job, files, lanes, turn, rotates, memory, in_flight, raw_bytes })
    }

    /// Writes a chunk of `rows` rows; blocks while as many writes as allowed are in flight.
    ///
    /// # Errors
    /// The error of this or an earlier write.
    pub(crate) fn write(&self, mut chunk: Buffer, rows: u64) -> Result<Spilled, Error> {
        let meter = Meter::start();
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
        self.job.phases().add(meter.stop(WRITE_PHASE_NAME, 0, Duration::ZERO));
        Ok(Spilled { lane, start, stored, level, checksum, bytes, rows })
    }

    /// Replaces the rows of a chunk by their compressed bytes if that saves a block; returns the level in use.
    fn compress(&self, chunk: &mut Buffer, level: Level) -> Result<Level, Error> {
        if level == Level::None {
            return Ok(Level::None);
        }
        let blocks = chunk.len().div_ceil(UNIT_BYTES);
        let compressed = self.job.regulator().scratch.try_with(chunk.len(), |scratch| {
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
        let room = chunk.len() as u64 * (self.in_flight as u64 + 1);
        let lane = match with_room(&self.files, turn, room) {
            // The last chunk may fit.
            Err(_) => with_room(&self.files, turn, chunk.len() as u64)?,
            found => found?,
        };
        if !self.rotates && lane != turn % self.files.len() {
            self.leave(turn % self.files.len())?;
            self.turn.store(lane, Ordering::Relaxed);
        }
        let begun = Instant::now();
        let mut state = self.lanes[lane].lock().unwrap_or_else(PoisonError::into_inner);
        let locked = begun.elapsed();
        let writer = match &mut state.writer {
            Some(writer) => writer,
            empty => {
                let options = WriteOptions {
                    block: OWN_BUFFER_BYTES,
                    in_flight: self.in_flight,
                    ..WriteOptions::default()
                };
                empty.insert(self.files[lane].run_within(Some(self.memory.account()), &options)?)
            }
        };
        let (start, waited) = (writer.len(), writer.stats().waiting);
        writer.submit(chunk).map_err(|error| spill_error(&self.files, error))?;
        Ok((lane, start, [writer.stats().waiting - waited, locked]))
    }

    /// Waits for the writes to a file that is full: those to the next one need their memory.
    fn leave(&self, lane: usize) -> Result<(), Error> {
        let mut state = self.lanes[lane].lock().unwrap_or_else(PoisonError::into_inner);
        let settled = state.writer.as_mut().map_or(Ok(()), RunWriter::settle);
        settled.map_err(|error| spill_error(&self.files, error))
    }

    /// Waits for all writes.
    ///
    /// # Errors
    /// The error of a failed write.
    pub(crate) fn finish(self) -> Result<SpilledChunks, Error> {
        let meter = Meter::start();
        let (mut runs, mut written) = (Vec::new(), Phase::default());
        for lane in self.lanes {
            let writer = lane.into_inner().unwrap_or_else(PoisonError::into_inner).writer;
            let run =
                writer.map(RunWriter::finish).transpose().map_err(|error| spill_error(&self.files, error))?;
            if let Some(run) = &run {
                written.stored_bytes += run.write_stats().bytes;
                written.waited_ns += nanos(run.write_stats().waiting);
            }
            runs.push(run);
        }
        let phase = meter.stop(WRITE_PHASE_NAME, self.raw_bytes.into_inner(), Duration::ZERO);
        let Phase { stored_bytes, waited_ns, .. } = written;
        self.job.phases().add(Phase { stored_bytes, waited_ns, ..phase });
        Ok(SpilledChunks { job: self.job, files: self.files, runs })
    }
}

/// The chunks of a writer; dropping it frees their space.
#[derive(Debug)]
pub(crate) struct SpilledChunks {
    job: Job,
    files: Vec<Spill>,
    /// The run in each file, if it has chunks.
    runs: Vec<Option<Run>>,
}

impl SpilledChunks {
    /// Returns a reader of chunks in the given order with read-ahead of `ahead` chunks. The caller has a grant for them.
    ///
    /// # Errors
    /// If the stream cannot be opened.
    pub(crate) fn read(
        self: &Arc<Self>,
        memory: &Arc<SortMemory>,
        chunks: &[Spilled],
        ahead: usize,
    ) -> Result<ChunkReader, Error> {
        let ranges: Vec<FileRange> = chunks.iter().map(|chunk| self.range(chunk)).collect();
        // Chunks are not joined to one read, whose buffer could be larger than those of both.
        let options = SharedOptions { block: 1, ahead, order: Order::File, gap: 0 };
        let stream = ReadStream::ranges_within(self.job.io(), Some(memory.account()), ranges, &options)?;
        let (job, memory) = (self.job.clone(), Arc::clone(memory));
        let places = chunks.iter().copied().collect();
        Ok(ChunkReader { job, stream, memory, places, raw_bytes: 0, _chunks: Arc::clone(self) })
    }

    /// Returns the bytes of the buffers into which a chunk is read and restored.
    pub(crate) fn read_bytes(&self, chunk: &Spilled) -> usize {
        read_bytes(chunk.bytes, self.files[chunk.lane].file().alignment().offset)
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
    memory: Arc<SortMemory>,
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

    /// Restores a chunk in the memory that was granted for its rows, of which its block has a part.
    fn restore(&self, place: &Spilled, block: Block) -> Result<Chunk, Error> {
        let error = damaged(block.file().path(), block.offset());
        let more = self.memory.try_grant(read_bytes(block.len(), block.file().alignment().offset));
        let mut buffer = self.job.regulator().scratch.with(|scratch| {
            if more.is_some() {
                let mut buffer = self.memory.restored(place.bytes)?;
                let is_restored = scratch.restore(place.level, &block, &mut buffer.space()[..place.bytes])?;
                drop(block);
                return if is_restored { Ok(buffer) } else { Err(error) };
            }
            let Some(raw) = scratch.restored(place.level, &block, place.bytes)? else { return Err(error) };
            // The restored rows take its place.
            drop(block);
            let mut buffer = self.memory.restored(place.bytes)?;
            buffer.space()[..place.bytes].copy_from_slice(raw);
            Ok(buffer)
        })?;
        buffer.set_len(place.bytes);
        Ok(Chunk::from(buffer))
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
