//! Loading of partitions: whole, in parts that are sorted into runs, or split if all of their rows are equal.

use std::sync::Arc;
use std::time::Duration;

use super::batches::Partition;
use crate::Error;
use crate::phase::{Meter, Phase};
use crate::sort::chunk::Chunk;
use crate::sort::context::Context;
use crate::sort::in_memory::Orderer;
use crate::sort::memory::{Grant, PieceGrants};
use crate::sort::partition::Piece;
use crate::sort::row::gather::Rows;
use crate::sort::runs::{Run, RunData, RunWriter};
use crate::spill::{ChunkReader, Spilled, SpilledChunks, add_place};

/// A piece that is being read.
pub(super) struct Loading {
    memory: Vec<Chunk>,
    stream: Option<ChunkReader>,
    /// Number of rows.
    pub(super) rows: u64,
    is_single: bool,
    grants: PieceGrants,
}

impl Loading {
    /// Starts reading a piece into granted memory.
    ///
    /// # Errors
    /// If the engine cannot be driven.
    pub(super) fn new(
        context: &Context,
        piece: Piece,
        spilled: Option<&Arc<SpilledChunks>>,
        grant: Grant,
    ) -> Result<Loading, Error> {
        let memory = piece.memory.into_iter().map(|(chunk, _)| Chunk::from(chunk)).collect();
        let chunks: Vec<Spilled> = piece.spilled;
        let stream = match spilled.filter(|_| !chunks.is_empty()) {
            Some(spilled) => {
                // All blocks are requested, because the stream is not polled before the piece is needed.
                let ahead = chunks.len();
                let mut stream = spilled.read(&context.buffers, chunks, ahead)?;
                stream.start()?;
                Some(stream)
            }
            None => None,
        };
        let grants = (piece.grant, grant);
        Ok(Loading { memory, stream, rows: piece.rows, is_single: piece.is_single, grants })
    }

    /// Waits for all chunks.
    fn chunks(self, context: &Context) -> Result<(Vec<Chunk>, PieceGrants), Error> {
        let mut chunks = self.memory;
        let grants = self.grants;
        if let Some(mut stream) = self.stream {
            let meter = Meter::start();
            while let Some(chunk) = stream.next()? {
                context.job.check()?;
                chunks.push(chunk);
            }
            let stats = stream.stats();
            let phase = meter.stop("read runs", stream.raw_bytes(), stats.waiting);
            context.job.phases().add(Phase { stored_bytes: stats.bytes, ..phase });
        }
        Ok((chunks, grants))
    }

    /// Waits for all chunks and sorts their rows.
    ///
    /// # Errors
    /// If a chunk cannot be read.
    pub(super) fn finish(self, context: &Arc<Context>) -> Result<Partition, Error> {
        let is_single = self.is_single;
        let (chunks, grants) = self.chunks(context)?;
        let meter = Meter::start();
        let rows = Rows { blocks: &chunks, shift: context.memory.shift() };
        let mut orderer = Orderer::default();
        let places = match is_single {
            true => orderer.places(context, rows)?,
            false => orderer.order(context, rows)?.places,
        };
        context.job.phases().add(meter.stop("sort", 0, Duration::ZERO));
        Ok(Partition::new(context, chunks, places, grants))
    }
}

impl Piece {
    /// Returns whether the piece can be loaded at once.
    pub(crate) fn is_small(&self, context: &Context) -> bool {
        let plan = &context.memory;
        let is_alone = self.memory.len() + self.spilled.len() == 1;
        let is_few = self.is_single || self.rows <= plan.load_rows as u64;
        (self.bytes <= plan.load_bytes as u64 && is_few) || is_alone
    }

    /// Returns the bytes that reading its chunks takes.
    pub(crate) fn read_bytes(&self, spilled: Option<&Arc<SpilledChunks>>) -> usize {
        spilled.map_or(0, |spilled| self.spilled.iter().map(|chunk| spilled.read_bytes(chunk)).sum())
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
    let spilled: Vec<usize> = piece.spilled.iter().map(|chunk| place(chunk.bytes(), chunk.rows())).collect();
    piece.memory.into_iter().zip(memory).for_each(|(chunk, at)| pieces[at].memory.push(chunk));
    piece.spilled.into_iter().zip(spilled).for_each(|(chunk, at)| add_place(&mut pieces[at].spilled, chunk));
    pieces
}

/// Purpose that errors about the memory of a partition name.
pub(super) const LOAD_MEMORY: &str = "reading sorted rows back";

/// Returns the bytes of the longest chunk of a piece.
fn longest(piece: &Piece, spilled: Option<&Arc<SpilledChunks>>) -> usize {
    let memory = piece.memory.iter().map(|(chunk, _)| chunk.capacity());
    let read = piece.spilled.iter().filter_map(|chunk| Some(spilled?.read_bytes(chunk)));
    memory.chain(read).max().unwrap_or(0)
}

/// Sorts a piece that exceeds its share of memory into runs, part by part.
///
/// # Errors
/// If the piece cannot be read or a run cannot be written.
pub(super) fn runs_of(
    context: &Arc<Context>,
    mut piece: Piece,
    spilled: Option<&Arc<SpilledChunks>>,
) -> Result<Vec<Run>, Error> {
    let plan = &context.memory;
    let row_bytes = (piece.bytes / piece.rows.max(1)).max(1);
    let bytes =
        plan.load_bytes.min(usize::try_from(plan.load_rows as u64 * row_bytes).unwrap_or(usize::MAX)) / 2;
    let (in_flight, written_bytes) = context.write_memory(longest(&piece, spilled));
    let _resident = piece.grant.take();
    let mut orderer = Orderer::default();
    let mut runs = Vec::new();
    for part in split(piece, bytes) {
        context.job.check()?;
        let bytes = part.read_bytes(spilled) + written_bytes;
        let grant = context.buffers.grant(&context.job, bytes, LOAD_MEMORY)?;
        let loading = Loading::new(context, part, spilled, grant)?;
        let (chunks, _grants) = loading.chunks(context)?;
        let meter = Meter::start();
        let rows = Rows { blocks: &chunks, shift: plan.shift() };
        let ordered = orderer.order(context, rows)?;
        let mut writer = RunWriter::new(context, in_flight)?;
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
