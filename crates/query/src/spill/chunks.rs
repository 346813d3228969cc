//! Spilled chunks of rows: written in arrival order by several threads, read by location.
//!
//! All chunks of a writer are in one run of each spill file, so thousands of partitions need one descriptor and a few
//! extents per file. A thread compresses a chunk before it takes the lock of a file. The compressed bytes take the place
//! of the rows in the chunk's buffer, and a chunk is restored when its rows are needed, in the memory granted for them: the
//! memory plan of a sort does not depend on the compression. Rows longer than the memory to restore them are not
//! compressed.

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
use super::level_chooser::Stored;
use super::places::{LANES_MAX, Place, PlaceMemory, Spilled};
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
    places: Mutex<PlaceMemory>,
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
        let (job, mut files) = (files.job().clone(), files.files()?);
        files.truncate(LANES_MAX);
        let lanes = files.iter().map(|_| Mutex::default()).collect();
        let raw_bytes = AtomicU64::new(0);
        let places = Mutex::new(PlaceMemory::new(&job)?);
        Ok(SpillWriter { job, files, lanes, turn, rotates, memory, in_flight, raw_bytes, places })
    }

    /// Writes a chunk of `rows` rows; blocks while as many writes as allowed are in flight.
    ///
    /// # Errors
    /// The error of this or an earlier write; [`Error::Query`] if a row has more than 4 GiB.
    pub(crate) fn write(&self, mut chunk: Buffer, rows: u64) -> Result<Spilled, Error> {
        let bytes = u32::try_from(chunk.len());
        let (Ok(bytes), Ok(rows)) = (bytes, u32::try_from(rows)) else {
            return Err(Error::Query(format!(
                "a row of {} bytes cannot be spilled: it has at most 4 GiB",
                chunk.len()
            )));
        };
        self.places.lock().unwrap_or_else(PoisonError::into_inner).add()?;
        let meter = Meter::start();
        let levels = self.job.levels();
        let handover = levels.begin();
        let level = self.compress(&mut chunk, handover.level)?;
        let (stored, compress) = (chunk.len(), handover.elapsed());
        let checksum = checksum(&chunk);
        // The last block is padded with old bytes of the buffer.
        chunk.set_len(stored.next_multiple_of(UNIT_BYTES));
        chunk.send();
        let padded = chunk.len() as u64;
        let (lane, start, [waited, locked]) = self.submit(chunk)?;
        let raw_bytes = u64::from(bytes);
        self.raw_bytes.fetch_add(raw_bytes, Ordering::Relaxed);
        levels.end(&handover, Stored { level, raw_bytes, stored_bytes: padded, compress, waited, locked });
        self.job.phases().add(meter.stop(WRITE_PHASE_NAME, 0, Duration::ZERO));
        // No longer than the rows.
        let stored = stored as u32;
        Ok(Spilled::of(&Place { lane, start, stored, level, checksum, bytes, rows }))
    }

    /// Replaces the rows of a chunk by their compressed bytes if that saves a block; returns the level in use.
    fn compress(&self, chunk: &mut Buffer, level: Level) -> Result<Level, Error> {
        if level == Level::None {
            return Ok(Level::None);
        }
        let blocks = chunk.len().div_ceil(UNIT_BYTES);
        let compressed = self.job.levels().scratch.try_with(chunk.len(), |scratch| {
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
        let lane = with_room(&self.files, turn, room, chunk.len() as u64)?;
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
        let settled = state.writer.as_mut().map_or(Ok(()), RunWriter::wait_for_writes);
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
        let mut places = self.places.into_inner().unwrap_or_else(PoisonError::into_inner);
        places.finish();
        Ok(SpilledChunks { job: self.job, files: self.files, runs, _places: places })
    }
}

/// The chunks of a writer; dropping it frees their space.
#[derive(Debug)]
pub(crate) struct SpilledChunks {
    job: Job,
    files: Vec<Spill>,
    /// The run in each file, if it has chunks.
    runs: Vec<Option<Run>>,
    _places: PlaceMemory,
}

impl SpilledChunks {
    /// Returns a reader of chunks in the given order with read-ahead of `ahead` chunks. The caller has a grant for them.
    ///
    /// # Errors
    /// If the stream cannot be opened.
    pub(crate) fn read(
        self: &Arc<Self>,
        memory: &Arc<SortMemory>,
        chunks: Vec<Spilled>,
        ahead: usize,
    ) -> Result<ChunkReader, Error> {
        // Not collected: there are many.
        let places = Arc::new(chunks);
        let (spilled, listed) = (Arc::clone(self), Arc::clone(&places));
        let ranges = (0..places.len()).map(move |index| spilled.range(&listed[index]));
        // Chunks are not joined to one read, whose buffer could be larger than those of both.
        let options = SharedOptions { block: 1, ahead, order: Order::File, gap: 0 };
        let stream = ReadStream::ranges_within(self.job.io(), Some(memory.account()), ranges, &options)?;
        let (job, memory) = (self.job.clone(), Arc::clone(memory));
        Ok(ChunkReader { job, stream, memory, places, next: 0, raw_bytes: 0, _chunks: Arc::clone(self) })
    }

    /// Returns the bytes of the buffers into which a chunk is read and restored.
    pub(crate) fn read_bytes(&self, chunk: &Spilled) -> usize {
        read_bytes(chunk.bytes(), self.files[chunk.place().lane].file().alignment().offset)
    }

    /// Returns the file range of a chunk, which is contiguous because one write created it.
    fn range(&self, chunk: &Spilled) -> FileRange {
        let Place { lane, start, stored, .. } = chunk.place();
        let run = self.runs[lane].as_ref().expect("the run of a chunk");
        let range = run.locate(start..start + u64::from(stored)).next();
        (Arc::clone(self.files[lane].file()), range.expect("the place of a chunk in its run"))
    }
}

/// Reader of spilled chunks.
pub(crate) struct ChunkReader {
    job: Job,
    stream: ReadStream,
    memory: Arc<SortMemory>,
    places: Arc<Vec<Spilled>>,
    /// The first chunk that was not returned.
    next: usize,
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
        let place = self.places[self.next].place();
        self.next += 1;
        if block.len() != place.stored as usize || checksum(&block) != place.checksum {
            return Err(damaged(block.file().path(), block.offset()));
        }
        self.raw_bytes += u64::from(place.bytes);
        if place.level == Level::None {
            return Ok(Some(Chunk::from(block)));
        }
        self.restore(&place, block).map(Some)
    }

    /// Restores a chunk in the memory that was granted for its rows, of which its block has a part.
    fn restore(&self, place: &Place, block: Block) -> Result<Chunk, Error> {
        let bytes = place.bytes as usize;
        let error = damaged(block.file().path(), block.offset());
        let more = self.memory.try_grant(read_bytes(block.len(), block.file().alignment().offset));
        let mut buffer = self.job.levels().scratch.with(|scratch| {
            if more.is_some() {
                let mut buffer = self.memory.restored(bytes)?;
                let is_restored = scratch.restore(place.level, &block, &mut buffer.space()[..bytes])?;
                drop(block);
                return if is_restored { Ok(buffer) } else { Err(error) };
            }
            let Some(raw) = scratch.restored(place.level, &block, bytes)? else { return Err(error) };
            // The restored rows take its place.
            drop(block);
            let mut buffer = self.memory.restored(bytes)?;
            buffer.space()[..bytes].copy_from_slice(raw);
            Ok(buffer)
        })?;
        buffer.set_len(bytes);
        Ok(Chunk::from(buffer))
    }

    /// Counters of its reads so far.
    pub(crate) fn stats(&self) -> IoStats {
        self.stream.stats()
    }

    /// Returns the bytes of the chunks returned so far.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }
}
