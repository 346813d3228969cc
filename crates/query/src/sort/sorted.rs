//! Result of a sort: ordered partitions, which threads take in turn and turn into batches.
//!
//! With range partitioning, the thread that takes a partition reads and sorts it while those that threads will take next
//! are read ahead. With runs, one thread at a time merges the next group of rows and gathers its batches while other threads merge. A
//! partition that exceeds its share of memory is sorted into runs. If all of its rows are equal, it is split instead.

mod batches;
mod load;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use sakiyomi_io::buffer::class_size;

use super::context::Context;
use super::memory::Grant;
use super::merge::Merger;
use super::partition::Piece;
use super::runs::Run;
use crate::spill::SpilledChunks;
use crate::{Batches, Error};

pub use batches::Partition;
use load::{LOAD_MEMORY, Loading, runs_of, split};

/// Sorted rows. Clones share one state: each partition is returned once.
#[derive(Clone)]
pub struct Sorted {
    shared: Arc<Shared>,
}

struct Shared {
    context: Arc<Context>,
    rows: u64,
    state: Mutex<State>,
}

struct State {
    /// Pieces that have not been returned.
    pieces: VecDeque<Piece>,
    /// Spilled chunks of the pieces.
    spilled: Option<Arc<SpilledChunks>>,
    /// The next pieces, which are being read ahead.
    ahead: VecDeque<Loading>,
    /// Merge that supplies the rows before the remaining pieces.
    merger: Option<Merger>,
    /// Whether the pieces are all that the operator spilled.
    is_whole: bool,
    /// Number of partitions returned.
    partitions: usize,
    /// Rows left of the limit.
    left: u64,
    /// Whether an error ended the sort.
    has_failed: bool,
}

impl Sorted {
    /// Creates the result of range partitioning from pieces in order. Pieces of equal rows are split into parts of
    /// `part_bytes`.
    pub(crate) fn of_pieces(
        context: &Arc<Context>,
        pieces: Vec<Piece>,
        spilled: Option<Arc<SpilledChunks>>,
        part_bytes: usize,
    ) -> Sorted {
        let rows = pieces.iter().map(|piece| piece.rows).sum();
        let pieces = pieces.into_iter().filter(|piece| piece.rows > 0);
        let pieces = pieces.flat_map(|piece| match piece.is_single {
            true => split(piece, part_bytes),
            false => vec![piece],
        });
        let mut pieces: VecDeque<Piece> = pieces.collect();
        let chunk_bytes = context.memory.chunk_bytes;
        begin_output(context, pieces.iter_mut());
        if spilled.is_none() && pieces.iter().all(|piece| piece.is_small(context)) {
            // Nothing is read back.
            context.buffers.shrink(pieces.iter().map(|piece| piece.resident_bytes(chunk_bytes)).sum());
        }
        Sorted::new(context, rows, pieces, (spilled, true), None)
    }

    /// Creates the result of one piece of a sort whose output has begun ([`begin_output`]). A piece of equal rows is split
    /// into parts of `part_bytes`.
    pub(crate) fn of_piece(
        context: &Arc<Context>,
        mut piece: Piece,
        spilled: Option<Arc<SpilledChunks>>,
        part_bytes: usize,
    ) -> Sorted {
        let rows = piece.rows;
        let mut pieces = VecDeque::new();
        if piece.is_single && rows > 0 {
            let grant = piece.grant.take();
            pieces.extend(split(piece, part_bytes));
            if let Some(grant) = grant {
                divide(grant, pieces.iter_mut(), context.memory.chunk_bytes);
            }
        } else if rows > 0 {
            pieces.push_back(piece);
        }
        Sorted::new(context, rows, pieces, (spilled, false), None)
    }

    /// Creates the result of a merge of runs.
    ///
    /// # Errors
    /// If a run cannot be read, or an intermediate merge pass fails.
    pub(crate) fn of_runs(context: &Arc<Context>, runs: Vec<Run>) -> Result<Sorted, Error> {
        let rows = runs.iter().map(|run| run.rows).sum();
        let resident = runs.iter().map(Run::resident_bytes).sum();
        let grant = context.buffers.begin_output(resident);
        if runs.iter().all(|run| !run.is_spilled()) {
            context.buffers.shrink(resident);
        }
        let merger = Merger::new(context, runs, Some(grant))?;
        Ok(Sorted::new(context, rows, VecDeque::new(), (None, true), Some(merger)))
    }

    fn new(
        context: &Arc<Context>,
        rows: u64,
        pieces: VecDeque<Piece>,
        (spilled, is_whole): (Option<Arc<SpilledChunks>>, bool),
        merger: Option<Merger>,
    ) -> Sorted {
        let left = context.limit.unwrap_or(u64::MAX);
        let ahead = VecDeque::new();
        let state =
            State { pieces, spilled, ahead, merger, is_whole, partitions: 0, left, has_failed: false };
        let rows = rows.min(left);
        Sorted { shared: Arc::new(Shared { context: Arc::clone(context), rows, state: Mutex::new(state) }) }
    }

    /// Returns the schema of the batches.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.shared.context.layout.schema.clone()
    }

    /// Returns the number of rows of all partitions.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.shared.rows
    }

    /// Returns the next partition with its number, counted from 0; `None` at the end. Any number of threads may call
    /// it. Blocks while another thread merges or reads a large partition.
    ///
    /// # Errors
    /// If the partition cannot be read or sorted; other threads then get [`Error::Cancelled`].
    pub fn next_partition(&self) -> Result<Option<(usize, Partition)>, Error> {
        let context = &self.shared.context;
        context.job.check()?;
        let taken = self.take();
        let taken = taken.and_then(|taken| match taken {
            None => Ok(None),
            Some((number, rows, Taken::Ready(partition))) => Ok(Some((number, partition.first(rows)))),
            Some((number, rows, Taken::Loading(loading))) => {
                Ok(Some((number, loading.finish(context)?.first(rows))))
            }
        });
        if taken.is_err() {
            self.shared.lock().has_failed = true;
        }
        taken
    }

    /// Takes the next item; returns it with its number and the number of its rows within the limit.
    fn take(&self) -> Result<Option<(usize, u64, Taken)>, Error> {
        let context = &self.shared.context;
        let mut state = self.shared.lock();
        loop {
            if state.has_failed {
                return Err(Error::Cancelled);
            }
            if state.left == 0 {
                state.pieces.clear();
                state.ahead.clear();
                state.merger = None;
                return Ok(None);
            }
            if let Some(merger) = &mut state.merger {
                match merger.next_partition(context.memory.load_rows.min(GROUP_ROWS))? {
                    Some(partition) => {
                        return Ok(Some(state.number(Taken::Ready(Box::new(partition)))));
                    }
                    None => state.merger = None,
                }
                continue;
            }
            let loading = match state.ahead.pop_front() {
                Some(loading) => loading,
                None => match state.next_piece(context)? {
                    Some(loading) => loading,
                    None if state.merger.is_some() => continue,
                    None => {
                        state.leave_spill(context);
                        return Ok(None);
                    }
                },
            };
            state.read_ahead(context)?;
            state.leave_spill(context);
            return Ok(Some(state.number(Taken::Loading(Box::new(loading)))));
        }
    }

    /// Starts reading the first partition.
    ///
    /// # Errors
    /// If the job has no memory for the read stream.
    pub(crate) fn start(&self) -> Result<(), Error> {
        let context = &self.shared.context;
        let mut state = self.shared.lock();
        if state.ahead.is_empty() && state.pieces.front().is_some_and(|piece| piece.is_small(context)) {
            let first = state.next_piece(context)?;
            state.ahead.extend(first);
        }
        Ok(())
    }

    /// Returns all rows as one stream of batches.
    #[must_use]
    pub fn into_batches(self) -> SortedBatches {
        SortedBatches { sorted: self, partition: None }
    }
}

/// Maximum rows of a group of merged runs: a common Parquet row group size.
const GROUP_ROWS: usize = 122_880;

enum Taken {
    Ready(Box<Partition>),
    Loading(Box<Loading>),
}

impl Taken {
    fn rows(&self) -> u64 {
        match self {
            Taken::Ready(partition) => partition.rows() as u64,
            Taken::Loading(loading) => loading.rows,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state stays consistent; the panic itself reaches the thread's caller.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn number(&mut self, taken: Taken) -> (usize, u64, Taken) {
        let rows = taken.rows().min(self.left);
        self.left -= rows;
        self.partitions += 1;
        (self.partitions - 1, rows, taken)
    }

    /// Starts reading the next piece, after a wait for memory that others have. They hold earlier partitions and need no
    /// memory to finish. Returns `None` if the piece is large, after starting a merge of its runs, or at the end.
    fn next_piece(&mut self, context: &Arc<Context>) -> Result<Option<Loading>, Error> {
        let Some(piece) = self.pieces.pop_front() else { return Ok(None) };
        let spilled = self.spilled.as_ref();
        if piece.is_small(context) {
            let grant = context.buffers.grant(&context.job, piece.read_bytes(spilled), LOAD_MEMORY)?;
            return Loading::new(context, piece, spilled, grant).map(Some);
        }
        self.merger = Some(Merger::new(context, runs_of(context, piece, spilled)?, None)?);
        Ok(None)
    }

    /// Leaves the spill to its readers once all pieces are being read: a file system may take long to free its space, and
    /// does so while the last pieces are sorted.
    fn leave_spill(&mut self, context: &Context) {
        if self.pieces.is_empty() && self.merger.is_none() && self.spilled.take().is_some() && self.is_whole {
            context.spills.leave();
        }
    }

    /// Starts reading the next pieces, one for each thread, as long as they are small and there is memory for them now.
    fn read_ahead(&mut self, context: &Arc<Context>) -> Result<(), Error> {
        while self.ahead.len() < context.job.options().threads.max(1) {
            let Some(next) = self.pieces.front().filter(|next| next.is_small(context)) else { return Ok(()) };
            let bytes = next.read_bytes(self.spilled.as_ref());
            let grant = match self.ahead.is_empty() {
                true => context.buffers.try_grant(bytes),
                false => context.buffers.try_grant_early(bytes),
            };
            let Some(grant) = grant else { return Ok(()) };
            let piece = self.pieces.pop_front().expect("the next piece");
            self.ahead.push_back(Loading::new(context, piece, self.spilled.as_ref(), grant)?);
        }
        Ok(())
    }
}

/// Begins the output: the chunks in memory keep their memory until their pieces have been returned. Returns its bytes.
pub(crate) fn begin_output<'a>(context: &Context, pieces: impl Iterator<Item = &'a mut Piece>) -> usize {
    let pieces: Vec<&mut Piece> = pieces.collect();
    let chunk_bytes = context.memory.chunk_bytes;
    let resident = pieces.iter().map(|piece| piece.resident_bytes(chunk_bytes)).sum();
    divide(context.buffers.begin_output(resident), pieces.into_iter(), chunk_bytes);
    resident
}

/// Gives each piece its part of the memory of chunks.
fn divide<'a>(mut grant: Grant, pieces: impl Iterator<Item = &'a mut Piece>, chunk_bytes: usize) {
    for piece in pieces.filter(|piece| !piece.memory.is_empty()) {
        piece.grant = Some(grant.split(piece.resident_bytes(chunk_bytes)));
    }
}

impl Piece {
    /// Returns the bytes of its chunks in memory; long rows have memory of their own.
    fn resident_bytes(&self, chunk_bytes: usize) -> usize {
        let usual = self.memory.iter().filter(|(chunk, _)| chunk.capacity() <= chunk_bytes);
        usual.map(|(chunk, _)| class_size(chunk.capacity())).sum()
    }
}

/// Stream of all rows of a sort.
pub struct SortedBatches {
    sorted: Sorted,
    partition: Option<Partition>,
}

impl Batches for SortedBatches {
    fn schema(&self) -> SchemaRef {
        self.sorted.schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            if let Some(partition) = &mut self.partition
                && let Some(batch) = partition.next()?
            {
                return Ok(Some(batch));
            }
            self.partition = None;
            match self.sorted.next_partition()? {
                Some((_, partition)) => self.partition = Some(partition),
                None => return Ok(None),
            }
        }
    }
}
