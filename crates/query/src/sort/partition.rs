//! Range partitioning of incoming rows: each thread copies rows to its open chunk of their partition; full chunks stay
//! in memory or are spilled.
//!
//! When the resident partitions exceed their memory, the last of them is spilled with all its later chunks. A table
//! that fits into that memory is therefore never written, whatever its expected size.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sakiyomi_io::Buffer;

use super::chunk::append;
use super::context::Context;
use super::in_memory::Coder;
use super::memory::Grant;
use super::router::{DROPPED, Router};
use super::row::stage::Stage;
use super::row::{BLOCK_ROWS, RowView};
use super::spill::{SpillWriter, Spilled, SpilledChunks};
use super::splitters::Splitters;
use crate::Error;

/// The partitions of a sort, filled by its threads.
#[derive(Debug)]
pub(crate) struct Partitions {
    context: Arc<Context>,
    division: Division,
    state: Mutex<State>,
}

/// How rows are assigned to partitions.
#[derive(Debug)]
pub(crate) enum Division {
    /// By their codes.
    Splitters(Splitters),
    /// By the caller.
    Router(Arc<dyn Router>),
}

impl Division {
    fn partitions(&self) -> usize {
        match self {
            Division::Splitters(splitters) => splitters.partitions(),
            Division::Router(router) => router.partitions(),
        }
    }

    /// Whether the rows of a partition need no order.
    fn is_single(&self, context: &Context, partition: usize) -> bool {
        match self {
            // Row numbers make all rows different.
            Division::Splitters(splitters) => {
                context.layout.row_number.is_none() && splitters.is_single(&context.keys, partition)
            }
            Division::Router(router) => router.is_single(partition),
        }
    }
}

struct State {
    pieces: Vec<Piece>,
    /// First spilled partition; all later ones are spilled too.
    spilled_from: usize,
    /// Bytes of chunks of resident partitions.
    resident: usize,
    writer: Option<SpillWriter>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("resident", &self.resident).finish_non_exhaustive()
    }
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
    /// Memory of the chunks in memory, once all rows have come in.
    pub(crate) grant: Option<Grant>,
}

impl Partitions {
    /// Creates empty partitions.
    pub(crate) fn new(context: &Arc<Context>, division: Division) -> Partitions {
        let singles = (0..division.partitions()).map(|partition| division.is_single(context, partition));
        let pieces: Vec<Piece> = singles.map(|is_single| Piece { is_single, ..Piece::default() }).collect();
        let state = State { spilled_from: pieces.len(), pieces, resident: 0, writer: None };
        Partitions { context: Arc::clone(context), division, state: Mutex::new(state) }
    }

    /// Adds a chunk to a partition; spills partitions that exceed the resident memory.
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
        self.spill(state, self.context.memory.resident_bytes)
    }

    /// Spills partitions from the last on, until the chunks in memory have at most `resident_bytes`.
    fn spill(&self, state: &mut State, resident_bytes: usize) -> Result<(), Error> {
        while state.resident > resident_bytes && state.spilled_from > 0 {
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

    /// Spills all partitions.
    fn spill_all(&self) -> Result<(), Error> {
        self.spill(&mut self.lock(), 0)
    }

    /// Waits for all writes. Returns the partitions in order, and their spilled chunks.
    ///
    /// # Errors
    /// The error of a failed write.
    pub(crate) fn finish(&self) -> Result<(Vec<Piece>, Option<Arc<SpilledChunks>>), Error> {
        let mut state = self.lock();
        let chunks = state.writer.take().map(SpillWriter::finish).transpose()?;
        Ok((std::mem::take(&mut state.pieces), chunks.map(Arc::new)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The worker of a panicked thread never finishes, so `Sorter::finish` fails.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn writer<'a>(writer: &'a mut Option<SpillWriter>, context: &Context) -> Result<&'a mut SpillWriter, Error> {
    match writer {
        Some(writer) => Ok(writer),
        None => Ok(writer.insert(context.spills.writer(context)?)),
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
        let open = (0..partitions.division.partitions()).map(|_| (None, 0)).collect();
        Scatter { partitions: Arc::clone(partitions), coder: Coder::default(), codes: Vec::new(), open }
    }

    /// Scatters a block of rows. `routes` has their partitions if a router assigns them.
    ///
    /// # Errors
    /// If a chunk cannot be written or a row does not fit into memory.
    pub(crate) fn take(&mut self, stage: &Stage, routes: &[u32]) -> Result<(), Error> {
        let mut views = [RowView::default(); BLOCK_ROWS];
        stage.rows().zip(&mut views).for_each(|(row, view)| *view = row);
        let views = &views[..stage.len()];
        let partitions = Arc::clone(&self.partitions);
        match &partitions.division {
            Division::Router(_) => self.scatter(views, routes.iter().copied()),
            Division::Splitters(splitters) => {
                let mut codes = std::mem::take(&mut self.codes);
                codes.clear();
                let Context { layout, keys, .. } = &*partitions.context;
                self.coder.codes(layout, keys, splitters.packing(), views, &mut codes);
                let scattered =
                    self.scatter(views, codes.iter().map(|&code| splitters.partition(code) as u32));
                self.codes = codes;
                scattered
            }
        }
    }

    /// Copies rows to their partitions.
    fn scatter(&mut self, rows: &[RowView<'_>], routes: impl Iterator<Item = u32>) -> Result<(), Error> {
        let partitions = &*self.partitions;
        let context = &partitions.context;
        let chunk_bytes = context.memory.chunk_bytes;
        for (&row, partition) in rows.iter().zip(routes).filter(|(_, partition)| *partition != DROPPED) {
            let partition = partition as usize;
            let (open, rows) = &mut self.open[partition];
            if open.as_mut().is_none_or(|chunk| !append(chunk, chunk_bytes, row)) {
                if let Some(full) = open.take() {
                    partitions.put(partition, full, std::mem::take(rows))?;
                }
                let length = row.fixed.len() + row.variable.len();
                let turn = context.buffers.long_turn(length);
                let mut chunk = context.buffers.chunk(length, || partitions.spill_all())?;
                append(&mut chunk, chunk_bytes, row);
                if turn.is_some() {
                    partitions.put(partition, chunk, 1)?;
                    continue;
                }
                *open = Some(chunk);
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
