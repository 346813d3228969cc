//! The result of a sort: partitions of rows in order, which threads take in turn and make batches of.
//!
//! Rows that were divided by ranges come partition by partition: the thread that takes one reads it, sorts it and makes
//! its batches, while the next partition is read ahead. Runs are merged by the thread that takes the next group of rows,
//! one at a time; it makes its batches while others merge. A partition that is larger than its share of memory becomes
//! runs, unless all of its rows are equal: then its chunks are given out as they are.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use sakiyomi_io::ReadStream;

use super::chunk::{Chunk, ChunkMemory};
use super::context::Context;
use super::in_memory::Orderer;
use super::merge::Merger;
use super::partition::Piece;
use super::row::gather::{Gatherer, Rows};
use super::runs::{Run, RunData, RunWriter};
use super::spill::{Spilled, SpilledChunks, WRITES_IN_FLIGHT};
use crate::phase::Meter;
use crate::{Batches, Error};

/// Rows in order. Clones are handles of the same: each partition goes to one of them.
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
    /// What has not been given out.
    pieces: VecDeque<Piece>,
    /// Where their chunks are.
    spilled: Option<Arc<SpilledChunks>>,
    /// The next piece, which is being read.
    ahead: Option<Loading>,
    /// Runs of which the next rows come, before the pieces.
    merger: Option<Merger>,
    /// Partitions given out.
    partitions: usize,
    /// Rows that may still be given out.
    left: u64,
    /// Whether an error ended the sort.
    has_failed: bool,
}

/// A piece whose chunks are read.
struct Loading {
    memory: Vec<Chunk>,
    stream: Option<(ReadStream, Arc<SpilledChunks>)>,
    rows: u64,
    is_single: bool,
}

/// Rows in order that follow those of the partition before. It gives batches.
///
/// A thread drops a partition before it takes the next one: its memory is needed for that.
pub struct Partition {
    context: Arc<Context>,
    chunks: Vec<Chunk>,
    places: Vec<u32>,
    at: usize,
    gatherer: Gatherer,
}

impl Sorted {
    /// Of pieces in order.
    pub(crate) fn of_pieces(
        context: &Arc<Context>,
        pieces: Vec<Piece>,
        spilled: Option<Arc<SpilledChunks>>,
    ) -> Sorted {
        let rows = pieces.iter().map(|piece| piece.rows).sum();
        let load_bytes = context.memory.load_bytes / 2;
        let pieces = pieces.into_iter().filter(|piece| piece.rows > 0);
        let pieces = pieces.flat_map(|piece| match piece.is_single {
            true => split(piece, load_bytes),
            false => vec![piece],
        });
        Sorted::new(context, rows, pieces.collect(), spilled, None)
    }

    /// Of runs.
    ///
    /// # Errors
    /// If they cannot be read, or merged to fewer.
    pub(crate) fn of_runs(context: &Arc<Context>, runs: Vec<Run>) -> Result<Sorted, Error> {
        let rows = runs.iter().map(|run| run.rows).sum();
        let merger = Merger::new(context, runs)?;
        Ok(Sorted::new(context, rows, VecDeque::new(), None, Some(merger)))
    }

    fn new(
        context: &Arc<Context>,
        rows: u64,
        pieces: VecDeque<Piece>,
        spilled: Option<Arc<SpilledChunks>>,
        merger: Option<Merger>,
    ) -> Sorted {
        let left = context.limit.unwrap_or(u64::MAX);
        let state = State { pieces, spilled, ahead: None, merger, partitions: 0, left, has_failed: false };
        let rows = rows.min(left);
        Sorted { shared: Arc::new(Shared { context: Arc::clone(context), rows, state: Mutex::new(state) }) }
    }

    /// The schema of the batches.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.shared.context.layout.schema.clone()
    }

    /// Number of rows of all partitions.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.shared.rows
    }

    /// The next partition, with its number, counted from 0; none at the end. Any number of threads may ask. Waits while
    /// another thread merges, or reads a large partition.
    ///
    /// # Errors
    /// If it cannot be read or sorted; [`Error::Cancelled`] on the other threads then.
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

    /// Takes what is next, its number, and the number of rows that are wanted of it.
    fn take(&self) -> Result<Option<(usize, u64, Taken)>, Error> {
        let context = &self.shared.context;
        let mut state = self.shared.lock();
        loop {
            if state.has_failed {
                return Err(Error::Cancelled);
            }
            if state.left == 0 {
                state.pieces.clear();
                (state.merger, state.ahead) = (None, None);
                return Ok(None);
            }
            if let Some(merger) = &mut state.merger {
                match merger.next_group(context.memory.load_rows.min(GROUP_ROWS))? {
                    Some(group) => {
                        let taken =
                            Taken::Ready(Box::new(Partition::new(context, group.chunks, group.places)));
                        return Ok(Some(state.number(taken)));
                    }
                    None => state.merger = None,
                }
                continue;
            }
            let loading = match state.ahead.take() {
                Some(loading) => loading,
                None => match state.next_piece(context)? {
                    Some(loading) => loading,
                    None if state.merger.is_some() => continue,
                    None => return Ok(None),
                },
            };
            if state.pieces.front().is_some_and(|next| next.is_small(context)) {
                state.ahead = state.next_piece(context)?;
            }
            return Ok(Some(state.number(Taken::Loading(Box::new(loading)))));
        }
    }

    /// All rows as one stream of batches.
    #[must_use]
    pub fn into_batches(self) -> SortedBatches {
        SortedBatches { sorted: self, partition: None }
    }
}

/// Rows of a group of merged runs, at most: those of a row group that readers like.
const GROUP_ROWS: usize = 122_880;

enum Taken {
    Ready(Box<Partition>),
    Loading(Box<Loading>),
}

impl Taken {
    fn rows(&self) -> u64 {
        match self {
            Taken::Ready(partition) => partition.places.len() as u64,
            Taken::Loading(loading) => loading.rows,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Rows that a thread took before it panicked are missing: it ends with its caller.
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

    /// Begins to read the next piece; a large one becomes runs instead, and none is returned.
    fn next_piece(&mut self, context: &Arc<Context>) -> Result<Option<Loading>, Error> {
        let Some(piece) = self.pieces.pop_front() else { return Ok(None) };
        if piece.is_small(context) {
            return Loading::new(context, piece, self.spilled.as_ref()).map(Some);
        }
        self.merger = Some(Merger::new(context, runs_of(context, piece, self.spilled.as_ref())?)?);
        Ok(None)
    }
}

impl Piece {
    /// Whether it can be loaded at once.
    fn is_small(&self, context: &Context) -> bool {
        let plan = &context.memory;
        let is_alone = self.memory.len() + self.spilled.len() == 1;
        let is_few = self.is_single || self.rows <= plan.load_rows as u64;
        (self.bytes <= plan.load_bytes as u64 && is_few) || is_alone
    }
}

/// Pieces of the same rows, of some bytes each at most or of one chunk.
fn split(piece: Piece, bytes: usize) -> Vec<Piece> {
    let is_single = piece.is_single;
    let mut pieces: Vec<Piece> = Vec::new();
    let mut place = |length: usize, rows: u64| {
        if pieces.last().is_none_or(|last| last.bytes > 0 && last.bytes as usize + length > bytes) {
            pieces.push(Piece { is_single, ..Piece::default() });
        }
        let at = pieces.len() - 1;
        pieces[at].bytes += length as u64;
        pieces[at].rows += rows;
        at
    };
    let memory: Vec<usize> = piece.memory.iter().map(|(chunk, rows)| place(chunk.len(), *rows)).collect();
    let spilled: Vec<usize> = piece.spilled.iter().map(|chunk| place(chunk.bytes, chunk.rows)).collect();
    piece.memory.into_iter().zip(memory).for_each(|(chunk, at)| pieces[at].memory.push(chunk));
    piece.spilled.into_iter().zip(spilled).for_each(|(chunk, at)| pieces[at].spilled.push(chunk));
    pieces
}

/// Sorts a piece that is too large for memory, part by part.
fn runs_of(
    context: &Arc<Context>,
    piece: Piece,
    spilled: Option<&Arc<SpilledChunks>>,
) -> Result<Vec<Run>, Error> {
    let plan = &context.memory;
    let row_bytes = (piece.bytes / piece.rows.max(1)).max(1);
    let bytes =
        plan.load_bytes.min(usize::try_from(plan.load_rows as u64 * row_bytes).unwrap_or(usize::MAX)) / 2;
    let memory = ChunkMemory::new(&context.job, (WRITES_IN_FLIGHT + 2) * plan.chunk_bytes, plan.chunk_bytes)?;
    let mut orderer = Orderer::default();
    let mut runs = Vec::new();
    for part in split(piece, bytes) {
        context.job.check()?;
        let loading = Loading::new(context, part, spilled)?;
        let chunks = loading.chunks(context)?;
        let meter = Meter::start();
        let rows = Rows { blocks: &chunks, shift: plan.shift() };
        let ordered = orderer.order(context, rows)?;
        let mut writer = RunWriter::new(context, &memory)?;
        let limit = usize::try_from(context.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        for &place in ordered.places.iter().take(limit) {
            writer.write(rows.at(place))?;
        }
        runs.push(writer.finish(ordered.ranges)?);
        context.job.phases().add(meter.stop("sort", 0, Duration::ZERO));
    }
    debug_assert!(runs.iter().all(|run| matches!(run.data, RunData::Spilled(..))));
    Ok(runs)
}

impl Loading {
    fn new(context: &Context, piece: Piece, spilled: Option<&Arc<SpilledChunks>>) -> Result<Loading, Error> {
        let memory = piece.memory.into_iter().map(|(chunk, _)| Chunk::from(chunk)).collect();
        let chunks: &[Spilled] = &piece.spilled;
        let stream = match spilled.filter(|_| !chunks.is_empty()) {
            Some(spilled) => {
                let mut stream = spilled.read(&context.job, chunks, chunks.len().min(READS_IN_FLIGHT))?;
                stream.start()?;
                Some((stream, Arc::clone(spilled)))
            }
            None => None,
        };
        Ok(Loading { memory, stream, rows: piece.rows, is_single: piece.is_single })
    }

    /// Waits for all chunks.
    fn chunks(self, context: &Context) -> Result<Vec<Chunk>, Error> {
        let mut chunks = self.memory;
        if let Some((mut stream, _spilled)) = self.stream {
            let meter = Meter::start();
            for block in &mut stream {
                context.job.check()?;
                chunks.push(Chunk::from(block?));
            }
            let stats = stream.stats();
            context.job.phases().add(meter.stop("load", stats.bytes, stats.waiting));
        }
        Ok(chunks)
    }

    /// Waits for all chunks, and sorts their rows.
    fn finish(self, context: &Arc<Context>) -> Result<Partition, Error> {
        let is_single = self.is_single;
        let chunks = self.chunks(context)?;
        let meter = Meter::start();
        let rows = Rows { blocks: &chunks, shift: context.memory.shift() };
        let mut orderer = Orderer::default();
        let places = match is_single {
            true => orderer.places(context, rows)?,
            false => orderer.order(context, rows)?.places,
        };
        context.job.phases().add(meter.stop("sort", 0, Duration::ZERO));
        Ok(Partition::new(context, chunks, places))
    }
}

/// Chunks of a partition that are read at the same time, at most: those of a whole one.
const READS_IN_FLIGHT: usize = 64;

impl Partition {
    fn new(context: &Arc<Context>, chunks: Vec<Chunk>, places: Vec<u32>) -> Partition {
        let gatherer = Gatherer::new(&context.layout, &context.dictionaries);
        Partition { context: Arc::clone(context), chunks, places, at: 0, gatherer }
    }

    fn first(mut self, rows: u64) -> Partition {
        self.places.truncate(usize::try_from(rows).unwrap_or(usize::MAX));
        self
    }

    /// Number of rows that have not been given out.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.places.len() - self.at
    }
}

impl Batches for Partition {
    fn schema(&self) -> SchemaRef {
        self.context.layout.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.context.job.check()?;
        let places = &self.places[self.at..];
        if places.is_empty() {
            return Ok(None);
        }
        let meter = Meter::start();
        let rows = Rows { blocks: &self.chunks, shift: self.context.memory.shift() };
        let (batch, taken) = self.gatherer.batch(rows, places, self.context.batch_rows)?;
        self.at += taken;
        self.context.job.phases().add(meter.stop("gather", 0, Duration::ZERO));
        Ok(Some(batch))
    }
}

/// All rows of a sort as one stream.
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
