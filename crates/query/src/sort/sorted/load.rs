//! Loading of partitions: whole, in parts that are sorted into runs, or split if all of their rows are equal.

use std::sync::Arc;
use std::time::Duration;

use super::batches::Partition;
use crate::Error;
use crate::phase::{Meter, Phase};
use crate::sort::chunk::{Chunk, ChunkMemory};
use crate::sort::context::Context;
use crate::sort::in_memory::Orderer;
use crate::sort::partition::Piece;
use crate::sort::row::gather::Rows;
use crate::sort::runs::{Run, RunData, RunWriter};
use crate::spill::{ChunkReader, Spilled, SpilledChunks, WRITES_IN_FLIGHT};

/// A piece that is being read.
pub(super) struct Loading {
    memory: Vec<Chunk>,
    stream: Option<ChunkReader>,
    /// Number of rows.
    pub(super) rows: u64,
    is_single: bool,
}

/// Maximum reads in flight for a partition.
const READS_IN_FLIGHT: usize = 64;

impl Loading {
    /// Starts reading a piece.
    ///
    /// # Errors
    /// If the job has no memory for the read stream.
    pub(super) fn new(
        context: &Context,
        piece: Piece,
        spilled: Option<&Arc<SpilledChunks>>,
    ) -> Result<Loading, Error> {
        let memory = piece.memory.into_iter().map(|(chunk, _)| Chunk::from(chunk)).collect();
        let chunks: &[Spilled] = &piece.spilled;
        let stream = match spilled.filter(|_| !chunks.is_empty()) {
            Some(spilled) => {
                let mut stream = spilled.read(&context.job, chunks, chunks.len().min(READS_IN_FLIGHT))?;
                stream.start()?;
                Some(stream)
            }
            None => None,
        };
        Ok(Loading { memory, stream, rows: piece.rows, is_single: piece.is_single })
    }

    /// Waits for all chunks.
    fn chunks(self, context: &Context) -> Result<Vec<Chunk>, Error> {
        let mut chunks = self.memory;
        if let Some(mut stream) = self.stream {
            let meter = Meter::start();
            while let Some(chunk) = stream.next()? {
                context.job.check()?;
                chunks.push(chunk);
            }
            let stats = stream.stats();
            let phase = meter.stop("load", stream.raw_bytes(), stats.waiting);
            context.job.phases().add(Phase { stored_bytes: stats.bytes, ..phase });
        }
        Ok(chunks)
    }

    /// Waits for all chunks and sorts their rows.
    ///
    /// # Errors
    /// If a chunk cannot be read.
    pub(super) fn finish(self, context: &Arc<Context>) -> Result<Partition, Error> {
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

impl Piece {
    /// Whether the piece can be loaded at once.
    pub(super) fn is_small(&self, context: &Context) -> bool {
        let plan = &context.memory;
        let is_alone = self.memory.len() + self.spilled.len() == 1;
        let is_few = self.is_single || self.rows <= plan.load_rows as u64;
        (self.bytes <= plan.load_bytes as u64 && is_few) || is_alone
    }
}

/// Splits a piece into pieces of at most `bytes` bytes or one chunk each.
pub(super) fn split(piece: Piece, bytes: usize) -> Vec<Piece> {
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

/// Sorts a piece that exceeds its share of memory into runs, part by part.
///
/// # Errors
/// If the piece cannot be read or a run cannot be written.
pub(super) fn runs_of(
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
