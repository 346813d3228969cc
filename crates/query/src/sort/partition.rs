//! Range partitioning of incoming rows: each thread appends every row to its own open chunk for that row's partition;
//! full chunks stay in memory or are spilled.
//!
//! When the resident partitions exceed their memory, the last of them is spilled with all its later chunks. A table
//! that fits into that memory is therefore never written, whatever its expected size.
//!
//! Partitions of evenly distributed keys would fill their chunks at about the same time, and threads would wait for a
//! burst of writes while the device is idle between bursts. Each spilled partition therefore hands over one chunk early,
//! at a fill level that differs between partitions, to spread the writes.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use sakiyomi_io::Buffer;

use super::chunk::append;
use super::context::Context;
use super::in_memory::Coder;
use super::memory::Grant;
use super::route::{DROPPED_ROW_ROUTE, Router};
use super::row::stage::Stage;
use super::row::{BLOCK_ROWS, RowView};
use super::splitters::Splitters;
use crate::Error;
use crate::spill::{SpillWriter, Spilled, SpilledChunks, add_place};

/// The partitions of a sort, filled by its threads.
#[derive(Debug)]
pub(crate) struct Partitions {
    context: Arc<Context>,
    division: Division,
    state: Mutex<State>,
    /// Notified when a thread has handed over a chunk that it spills.
    written: Condvar,
    /// Created by the first spilled chunk.
    writer: Mutex<Option<Arc<SpillWriter>>>,
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

    /// Returns whether the rows of a partition need no order.
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

#[derive(Debug)]
struct State {
    pieces: Vec<Piece>,
    /// First spilled partition; all later ones are spilled too.
    spilled_from: usize,
    /// Bytes of chunks of resident partitions, and of those that wait to be spilled.
    resident: usize,
    /// Chunks that wait to be spilled, with their partitions and numbers of rows.
    evicted: VecDeque<(usize, Buffer, u64)>,
    /// Chunks of the resident bytes before that threads are spilling.
    in_hand: usize,
}

impl State {
    /// Returns the next chunk to be spilled for the chunks in memory to have at most `resident_bytes`.
    fn evict(&mut self, resident_bytes: usize) -> Option<(usize, Buffer, u64)> {
        while self.evicted.is_empty() && self.resident > resident_bytes && self.spilled_from > 0 {
            self.spilled_from -= 1;
            let partition = self.spilled_from;
            let chunks = self.pieces[partition].memory.drain(..);
            self.evicted.extend(chunks.map(|(chunk, rows)| (partition, chunk, rows)));
        }
        let next = self.evicted.pop_front()?;
        self.resident -= next.1.capacity();
        self.in_hand += 1;
        Some(next)
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
        let state =
            State { spilled_from: pieces.len(), pieces, resident: 0, evicted: VecDeque::new(), in_hand: 0 };
        let (state, written, writer) = (Mutex::new(state), Condvar::new(), Mutex::default());
        Partitions { context: Arc::clone(context), division, state, written, writer }
    }

    /// Adds a chunk to a partition; spills partitions that exceed the resident memory. Returns whether the partition is
    /// spilled.
    fn put(&self, partition: usize, chunk: Buffer, rows: u64) -> Result<bool, Error> {
        let mut state = self.lock();
        let piece = &mut state.pieces[partition];
        piece.rows += rows;
        piece.bytes += chunk.len() as u64;
        if partition >= state.spilled_from {
            drop(state);
            self.write(partition, chunk, rows)?;
            return Ok(true);
        }
        state.resident += chunk.capacity();
        state.pieces[partition].memory.push((chunk, rows));
        drop(state);
        self.spill(self.context.memory.resident_bytes)?;
        Ok(false)
    }

    /// Spills partitions from the last on, until the chunks in memory have at most `resident_bytes`.
    ///
    /// Chunks are compressed and written without the lock, which other threads need to add chunks in memory. A thread
    /// has one of them in hand, in place of the chunk that it has added: all others count as resident until then.
    fn spill(&self, resident_bytes: usize) -> Result<(), Error> {
        loop {
            let evicted = self.lock().evict(resident_bytes);
            let Some((partition, chunk, rows)) = evicted else { return Ok(()) };
            let _in_hand = InHand { partitions: self };
            self.write(partition, chunk, rows)?;
        }
    }

    fn write(&self, partition: usize, chunk: Buffer, rows: u64) -> Result<(), Error> {
        let spilled = self.writer()?.write(chunk, rows)?;
        add_place(&mut self.lock().pieces[partition].spilled, spilled);
        Ok(())
    }

    /// Returns the writer of spilled chunks, which is created now if it does not exist.
    fn writer(&self) -> Result<Arc<SpillWriter>, Error> {
        let (buffers, in_flight) = (&self.context.buffers, self.context.memory.writes_in_flight);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(match &mut *writer {
            Some(writer) => writer,
            empty => empty.insert(Arc::new(self.context.spills.writer(buffers, in_flight)?)),
        }))
    }

    /// Spills all partitions, and waits until other threads have handed over what they are spilling, which needs no
    /// more memory.
    fn spill_all(&self) -> Result<(), Error> {
        self.spill(0)?;
        let is_busy = |state: &mut State| state.in_hand > 0;
        drop(self.written.wait_while(self.lock(), is_busy).unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    /// Waits for all writes. Returns the partitions in order, and their spilled chunks.
    ///
    /// # Errors
    /// The error of a failed write.
    pub(crate) fn finish(&self) -> Result<(Vec<Piece>, Option<Arc<SpilledChunks>>), Error> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The workers, which have finished, do not hold it. If one did, its chunks would be missing from the result.
        let writer = writer.map(|writer| Arc::into_inner(writer).expect("no worker spills any more"));
        let chunks = writer.map(SpillWriter::finish).transpose()?;
        Ok((std::mem::take(&mut self.lock().pieces), chunks.map(Arc::new)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The worker of a panicked thread never finishes, so `Sorter::finish` fails.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A chunk that a thread spills, until it has handed it over or panicked.
struct InHand<'a> {
    partitions: &'a Partitions,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.partitions.lock().in_hand -= 1;
        self.partitions.written.notify_all();
    }
}

/// Scatters the rows of one thread to partitions.
#[derive(Debug)]
pub(crate) struct Scatter {
    partitions: Arc<Partitions>,
    coder: Coder,
    codes: Vec<u64>,
    open: Vec<Open>,
}

/// The open chunk of a partition.
#[derive(Debug, Default)]
struct Open {
    chunk: Option<Buffer>,
    rows: u64,
    /// Whether its chunks are filled at other times than those of the other spilled partitions.
    is_staggered: bool,
    /// Bytes at which a staggered partition hands over its next chunk, once.
    early_bytes: Option<usize>,
}

impl Scatter {
    /// Creates a scatter into partitions that other threads may fill at the same time.
    pub(crate) fn new(partitions: &Arc<Partitions>) -> Scatter {
        let open = (0..partitions.division.partitions()).map(|_| Open::default()).collect();
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
        let count = self.open.len();
        for (&row, partition) in
            rows.iter().zip(routes).filter(|(_, partition)| *partition != DROPPED_ROW_ROUTE)
        {
            let partition = partition as usize;
            let open = &mut self.open[partition];
            let full_bytes = open.early_bytes.unwrap_or(chunk_bytes);
            if open.chunk.as_mut().is_none_or(|chunk| !append(chunk, full_bytes, row)) {
                if let Some(full) = open.chunk.take() {
                    let is_spilled = partitions.put(partition, full, std::mem::take(&mut open.rows))?;
                    open.early_bytes = None;
                    if is_spilled && !open.is_staggered {
                        open.is_staggered = true;
                        open.early_bytes = Some(chunk_bytes * (partition + 1) / count);
                    }
                }
                let length = row.fixed.len() + row.variable.len();
                let turn = context.buffers.long_turn(length);
                let mut chunk = context.buffers.chunk(length, || partitions.spill_all())?;
                append(&mut chunk, chunk_bytes, row);
                if turn.is_some() {
                    partitions.put(partition, chunk, 1)?;
                    continue;
                }
                open.chunk = Some(chunk);
            }
            open.rows += 1;
        }
        Ok(())
    }

    /// Adds the open chunks to their partitions.
    ///
    /// # Errors
    /// If a chunk cannot be written.
    pub(crate) fn finish(self) -> Result<(), Error> {
        for (partition, Open { chunk, rows, .. }) in self.open.into_iter().enumerate() {
            if let Some(chunk) = chunk {
                self.partitions.put(partition, chunk, rows)?;
            }
        }
        Ok(())
    }
}
