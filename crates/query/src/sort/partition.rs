//! Rows divided by ranges of their keys, while they come: each thread copies rows to its open chunk of their partition;
//! full chunks stay in memory, or are written.
//!
//! The first partitions stay in memory as long as there is room for them; when it ends, the last of those is written,
//! and all that follows of it. So a table that fits into memory is never written, whatever was expected.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sakiyomi_io::Buffer;

use super::chunk::{ChunkMemory, append};
use super::context::Context;
use super::in_memory::Coder;
use super::row::stage::Stage;
use super::row::{BLOCK_ROWS, RowView};
use super::spill::{SpillWriter, Spilled, SpilledChunks};
use super::splitters::Splitters;
use crate::Error;

/// The partitions of a sort, which its threads fill.
#[derive(Debug)]
pub(crate) struct Partitions {
    context: Arc<Context>,
    splitters: Splitters,
    memory: ChunkMemory,
    state: Mutex<State>,
}

struct State {
    pieces: Vec<Piece>,
    /// Partitions from this one on are on disk.
    spilled_from: usize,
    /// Bytes of the others.
    resident: usize,
    writer: Option<SpillWriter>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("resident", &self.resident).finish_non_exhaustive()
    }
}

/// Rows whose keys lie in a range, in no order.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    /// Chunks in memory, with their rows.
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
    /// Partitions between splitters, in some memory.
    pub(crate) fn new(context: &Arc<Context>, splitters: Splitters, memory: ChunkMemory) -> Partitions {
        // Row numbers make equal rows different ones.
        let is_single =
            |partition| context.layout.row_number.is_none() && splitters.is_single(&context.keys, partition);
        let singles = (0..splitters.partitions()).map(is_single);
        let pieces: Vec<Piece> = singles.map(|is_single| Piece { is_single, ..Piece::default() }).collect();
        let state = State { spilled_from: pieces.len(), pieces, resident: 0, writer: None };
        Partitions { context: Arc::clone(context), splitters, memory, state: Mutex::new(state) }
    }

    /// Takes over a full chunk of a partition.
    fn put(&self, partition: usize, chunk: Buffer, rows: u64) -> Result<(), Error> {
        let mut state = self.lock();
        let state = &mut *state;
        let piece = &mut state.pieces[partition];
        piece.rows += rows;
        piece.bytes += chunk.len() as u64;
        if partition >= state.spilled_from {
            let spilled = writer(&mut state.writer, &self.context)?.write(chunk, rows)?;
            piece.spilled.push(spilled);
            return Ok(());
        }
        state.resident += chunk.capacity();
        piece.memory.push((chunk, rows));
        while state.resident > self.context.memory.resident_bytes && state.spilled_from > 0 {
            state.spilled_from -= 1;
            let piece = &mut state.pieces[state.spilled_from];
            for (chunk, rows) in piece.memory.drain(..) {
                state.resident -= chunk.capacity();
                let spilled = writer(&mut state.writer, &self.context)?.write(chunk, rows)?;
                piece.spilled.push(spilled);
            }
        }
        Ok(())
    }

    /// All partitions in order, and where those of their chunks are that were written.
    ///
    /// # Errors
    /// That of any write that has failed.
    pub(crate) fn finish(&self) -> Result<(Vec<Piece>, Option<Arc<SpilledChunks>>), Error> {
        let mut state = self.lock();
        let chunks = state.writer.take().map(SpillWriter::finish).transpose()?;
        Ok((std::mem::take(&mut state.pieces), chunks.map(Arc::new)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panics ends the sort: its worker is never finished.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn writer<'a>(writer: &'a mut Option<SpillWriter>, context: &Context) -> Result<&'a mut SpillWriter, Error> {
    match writer {
        Some(writer) => Ok(writer),
        None => Ok(writer.insert(context.spills.writer(&context.job)?)),
    }
}

/// Divides rows, on one thread.
#[derive(Debug)]
pub(crate) struct Scatter {
    partitions: Arc<Partitions>,
    coder: Coder,
    codes: Vec<u64>,
    /// The open chunk of each partition, and its rows.
    open: Vec<(Option<Buffer>, u64)>,
}

impl Scatter {
    /// For partitions that others may fill at the same time.
    pub(crate) fn new(partitions: &Arc<Partitions>) -> Scatter {
        let open = (0..partitions.splitters.partitions()).map(|_| (None, 0)).collect();
        Scatter { partitions: Arc::clone(partitions), coder: Coder::default(), codes: Vec::new(), open }
    }

    /// Divides a block of rows.
    ///
    /// # Errors
    /// If a chunk cannot be written, or a row does not fit into memory.
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

    /// Hands over the open chunks.
    ///
    /// # Errors
    /// If one cannot be written.
    pub(crate) fn finish(self) -> Result<(), Error> {
        for (partition, (chunk, rows)) in self.open.into_iter().enumerate() {
            if let Some(chunk) = chunk {
                self.partitions.put(partition, chunk, rows)?;
            }
        }
        Ok(())
    }
}
