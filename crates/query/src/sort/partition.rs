//! Range partitioning of incoming rows: each thread copies rows to its open chunk of their partition; full chunks stay
//! in memory or are spilled.
//!
//! When the resident partitions exceed their memory, the last of them is spilled with all its later chunks. A table
//! that fits into that memory is therefore never written, whatever its expected size.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sakiyomi_io::Buffer;

use super::chunk::{ChunkMemory, append};
use super::context::Context;
use super::in_memory::Coder;
use super::row::stage::Stage;
use super::row::{BLOCK_ROWS, RowView};
use super::splitters::Splitters;
use crate::Error;
use crate::spill::{SpillWriter, Spilled, SpilledChunks};

/// The partitions of a sort, filled by its threads.
#[derive(Debug)]
pub(crate) struct Partitions {
    context: Arc<Context>,
    splitters: Splitters,
    memory: ChunkMemory,
    state: Mutex<State>,
    /// Created by the first spilled chunk.
    writer: Mutex<Option<Arc<SpillWriter>>>,
}

#[derive(Debug)]
struct State {
    pieces: Vec<Piece>,
    /// First spilled partition; all later ones are spilled too.
    spilled_from: usize,
    /// Bytes of chunks of resident partitions.
    resident: usize,
}

/// Unordered rows with keys in one range.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    /// Chunks in memory, with their numbers of rows.
    pub(crate) memory: Vec<(Buffer, u64)>,
    /// Chunks on disk.
    pub(crate) spilled: Vec<Spilled>,
    /// Number of rows.
    pub(crate) rows: u64,
    /// Bytes of rows.
    pub(crate) bytes: u64,
    /// Whether all rows are equal.
    pub(crate) is_single: bool,
}

impl Partitions {
    /// Creates the empty partitions between splitters.
    pub(crate) fn new(context: &Arc<Context>, splitters: Splitters, memory: ChunkMemory) -> Partitions {
        // Row numbers make all rows different.
        let is_single =
            |partition| context.layout.row_number.is_none() && splitters.is_single(&context.keys, partition);
        let singles = (0..splitters.partitions()).map(is_single);
        let pieces: Vec<Piece> = singles.map(|is_single| Piece { is_single, ..Piece::default() }).collect();
        let state = State { spilled_from: pieces.len(), pieces, resident: 0 };
        let (state, writer) = (Mutex::new(state), Mutex::default());
        Partitions { context: Arc::clone(context), splitters, memory, state, writer }
    }

    /// Adds a chunk to a partition; spills partitions that exceed the resident memory.
    ///
    /// Chunks are compressed and written without the lock, which other threads need to add chunks in memory.
    fn put(&self, partition: usize, chunk: Buffer, rows: u64) -> Result<(), Error> {
        let evicted = self.place(partition, chunk, rows);
        if evicted.is_empty() {
            return Ok(());
        }
        let writer = self.writer()?;
        for (partition, chunk, rows) in evicted {
            let spilled = writer.write(chunk, rows)?;
            self.lock().pieces[partition].spilled.push(spilled);
        }
        Ok(())
    }

    /// Adds a chunk to the resident ones; returns those to be spilled, with their partitions and numbers of rows.
    fn place(&self, partition: usize, chunk: Buffer, rows: u64) -> Vec<(usize, Buffer, u64)> {
        let mut state = self.lock();
        let state = &mut *state;
        let piece = &mut state.pieces[partition];
        piece.rows += rows;
        piece.bytes += chunk.len() as u64;
        if partition >= state.spilled_from {
            return vec![(partition, chunk, rows)];
        }
        state.resident += chunk.capacity();
        piece.memory.push((chunk, rows));
        let mut evicted = Vec::new();
        while state.resident > self.context.memory.resident_bytes && state.spilled_from > 0 {
            state.spilled_from -= 1;
            let partition = state.spilled_from;
            let chunks = std::mem::take(&mut state.pieces[partition].memory);
            state.resident -= chunks.iter().map(|(chunk, _)| chunk.capacity()).sum::<usize>();
            evicted.extend(chunks.into_iter().map(|(chunk, rows)| (partition, chunk, rows)));
        }
        evicted
    }

    /// Returns the writer of spilled chunks, which is created now if it does not exist.
    fn writer(&self) -> Result<Arc<SpillWriter>, Error> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(match &mut *writer {
            Some(writer) => writer,
            empty => empty.insert(Arc::new(self.context.spills.writer()?)),
        }))
    }

    /// Waits for all writes. Returns the partitions in order, and their spilled chunks.
    ///
    /// # Errors
    /// The error of a failed write.
    pub(crate) fn finish(&self) -> Result<(Vec<Piece>, Option<Arc<SpilledChunks>>), Error> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The workers, which have finished, do not hold it.
        let chunks = writer.and_then(Arc::into_inner).map(SpillWriter::finish).transpose()?;
        Ok((std::mem::take(&mut self.lock().pieces), chunks.map(Arc::new)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The worker of a panicked thread never finishes, so `Sorter::finish` fails.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Scatters the rows of one thread to partitions.
#[derive(Debug)]
pub(crate) struct Scatter {
    partitions: Arc<Partitions>,
    coder: Coder,
    codes: Vec<u64>,
    /// The open chunk of each partition, and its number of rows.
    open: Vec<(Option<Buffer>, u64)>,
}

impl Scatter {
    /// Creates a scatter into partitions that other threads may fill at the same time.
    pub(crate) fn new(partitions: &Arc<Partitions>) -> Scatter {
        let open = (0..partitions.splitters.partitions()).map(|_| (None, 0)).collect();
        Scatter { partitions: Arc::clone(partitions), coder: Coder::default(), codes: Vec::new(), open }
    }

    /// Scatters a block of rows.
    ///
    /// # Errors
    /// If a chunk cannot be written or a row does not fit into memory.
    pub(crate) fn take(&mut self, stage: &Stage) -> Result<(), Error> {
        let mut views = [RowView::default(); BLOCK_ROWS];
        stage.rows().zip(&mut views).for_each(|(row, view)| *view = row);
        let views = &views[..stage.len()];
        let partitions = &*self.partitions;
        self.codes.clear();
        let context = &partitions.context;
        let packing = partitions.splitters.packing();
        self.coder.codes(&context.layout, &context.keys, packing, views, &mut self.codes);
        let chunk_bytes = context.memory.chunk_bytes;
        for (&row, &code) in views.iter().zip(&self.codes) {
            let partition = partitions.splitters.partition(code);
            let (open, rows) = &mut self.open[partition];
            if open.as_mut().is_none_or(|chunk| !append(chunk, chunk_bytes, row)) {
                if let Some(full) = open.take() {
                    partitions.put(partition, full, std::mem::take(rows))?;
                }
                let chunk = open.insert(partitions.memory.chunk(row.fixed.len() + row.variable.len())?);
                append(chunk, chunk_bytes, row);
            }
            *rows += 1;
        }
        Ok(())
    }

    /// Adds the open chunks to their partitions.
    ///
    /// # Errors
    /// If a chunk cannot be written.
    pub(crate) fn finish(self) -> Result<(), Error> {
        for (partition, (chunk, rows)) in self.open.into_iter().enumerate() {
            if let Some(chunk) = chunk {
                self.partitions.put(partition, chunk, rows)?;
            }
        }
        Ok(())
    }
}
