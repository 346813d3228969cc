//! Run generation: rows are collected until the memory of a thread is full, sorted, and written as a run.
//!
//! A sort with a limit keeps at most that many rows of each run. If they fit into memory, it writes nothing and skips
//! rows that sort after the last kept row (top-N).

use std::sync::Arc;

use sakiyomi_io::Buffer;
use sakiyomi_io::buffer::class_size;

use super::chunk::{Chunk, append};
use super::context::Context;
use super::in_memory::{Coder, Ordered, Orderer};
use super::key::packing::Packing;
use super::key::range::Range;
use super::plan::{LONG_MERGE_AHEAD, MERGE_AHEAD};
use super::row::gather::Rows;
use super::row::stage::Stage;
use super::row::{BLOCK_ROWS, RowView};
use crate::Error;
use crate::phase::Meter;
use crate::spill::{SpillWriter, Spilled, SpilledChunks, add_place};

/// A sorted run.
#[derive(Debug)]
pub(crate) struct Run {
    /// Ranges of the keys.
    pub(crate) ranges: Vec<Range>,
    /// Number of rows.
    pub(crate) rows: u64,
    pub(crate) data: RunData,
}

/// Location of the rows of a run.
#[derive(Debug)]
pub(crate) enum RunData {
    /// Chunks in memory, and the places of the rows in sort order.
    Memory(Vec<Chunk>, Vec<u32>),
    /// Spilled chunks, which contain the rows in sort order.
    Spilled(Arc<SpilledChunks>, Vec<Spilled>),
}

/// Run generator of one thread.
#[derive(Debug)]
pub(crate) struct Collector {
    context: Arc<Context>,
    chunks: Vec<Buffer>,
    /// Capacity of the chunks.
    bytes: usize,
    rows: usize,
    orderer: Orderer,
    coder: Coder,
    codes: Vec<u64>,
    /// Rows with a greater code sort after the limit.
    bound: Option<(Packing, u64)>,
    runs: Vec<Run>,
}

/// Rows collected per row of the limit, so that few sorts establish a bound that skips most rows.
const COLLECTED_PER_KEPT: u64 = 4;

/// Minimum rows collected before a sort with a limit.
const COLLECTED_MIN_ROWS: u64 = 1 << 14;

/// Returns the rows that a thread collects before it sorts them, in a sort with a limit.
pub(crate) fn collected_rows(limit: u64) -> u64 {
    limit.saturating_mul(COLLECTED_PER_KEPT).max(COLLECTED_MIN_ROWS)
}

impl Collector {
    /// Creates an empty collector.
    pub(crate) fn new(context: &Arc<Context>) -> Collector {
        Collector {
            context: Arc::clone(context),
            chunks: Vec::new(),
            bytes: 0,
            rows: 0,
            orderer: Orderer::default(),
            coder: Coder::default(),
            codes: Vec::new(),
            bound: None,
            runs: Vec::new(),
        }
    }

    /// Returns the number of rows collected for the next run.
    #[cfg(test)]
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Collects a block of rows.
    ///
    /// # Errors
    /// If a run cannot be written, or a row does not fit into memory.
    pub(crate) fn take(&mut self, stage: &Stage) -> Result<(), Error> {
        let mut views = [RowView::default(); BLOCK_ROWS];
        stage.rows().zip(&mut views).for_each(|(row, view)| *view = row);
        let views = &views[..stage.len()];
        self.codes.clear();
        if let Some((packing, _)) = &self.bound {
            let (layout, keys) = (&self.context.layout, &self.context.keys);
            self.coder.codes(layout, keys, packing, views, &mut self.codes);
        }
        for (index, &row) in views.iter().enumerate() {
            // A new bound clears the codes; the rest of the block is collected unfiltered.
            let bound = self.bound.as_ref().map(|(_, bound)| *bound);
            if let (Some(&code), Some(bound)) = (self.codes.get(index), bound)
                && code > bound
            {
                continue;
            }
            self.append(row)?;
        }
        Ok(())
    }

    fn append(&mut self, row: RowView<'_>) -> Result<(), Error> {
        let chunk_bytes = self.context.memory.chunk_bytes;
        if self.chunks.last_mut().is_none_or(|chunk| !append(chunk, chunk_bytes, row)) {
            let plan = self.context.memory;
            let length = row.fixed.len() + row.variable.len();
            let next = plan.chunk_bytes.max(length);
            let collected = self.context.limit.map_or(u64::MAX, collected_rows);
            let is_full = self.bytes + next > plan.run_bytes || self.rows >= plan.load_rows;
            if self.rows > 0 && (is_full || self.rows as u64 >= collected) {
                self.end_run()?;
            }
            let mut chunk = self.context.buffers.run_chunk(length)?;
            append(&mut chunk, chunk_bytes, row);
            self.bytes += chunk.capacity();
            self.chunks.push(chunk);
        }
        self.rows += 1;
        Ok(())
    }

    /// Sorts the collected rows, and writes them as a run unless the limit lets them stay in memory.
    fn end_run(&mut self) -> Result<(), Error> {
        let run = self.sorted()?;
        let RunData::Memory(chunks, places) = run.data else { unreachable!("a run in memory") };
        let context = Arc::clone(&self.context);
        let rows = Rows { blocks: &chunks, shift: context.memory.shift() };
        if context.limit.is_some() && self.keep(rows, &places, &run.ranges)? {
            return Ok(());
        }
        let mut writer = RunWriter::new(&context, context.memory.writes_in_flight)?;
        for &place in &places {
            writer.write(rows.at(place))?;
        }
        self.runs.push(writer.finish(run.ranges)?);
        Ok(())
    }

    /// Collects copies of the rows at `places`. Returns false if they have more than a quarter of `run_bytes`, or leave
    /// room for less than a quarter of `load_rows`: they would be sorted again for few more rows.
    fn keep(&mut self, rows: Rows<'_, Chunk>, places: &[u32], ranges: &[Range]) -> Result<bool, Error> {
        let context = Arc::clone(&self.context);
        let layout = &context.layout;
        let lengths = places.iter().map(|&place| layout.row_len(rows.at(place)).unwrap_or(0));
        let is_long = lengths.sum::<usize>() > context.memory.run_bytes / 4;
        if is_long || places.len() > context.memory.load_rows / 4 * 3 {
            return Ok(false);
        }
        if let Some(&last) =
            places.last().filter(|_| places.len() as u64 == context.limit.unwrap_or(u64::MAX))
        {
            let packing = Packing::new(&context.keys, ranges, false);
            let mut bound = Vec::with_capacity(1);
            self.coder.codes(layout, &context.keys, &packing, &[layout.view(rows.at(last), 0)], &mut bound);
            self.bound = Some((packing, bound[0]));
            self.codes.clear();
        }
        let chunk_bytes = context.memory.chunk_bytes;
        for &place in places {
            let row = rows.at(place);
            let length = layout.row_len(row).unwrap_or(0);
            let view = layout.view(&row[..length], 0);
            if self.chunks.last_mut().is_none_or(|chunk| !append(chunk, chunk_bytes, view)) {
                let mut chunk = self.context.buffers.run_chunk(length)?;
                append(&mut chunk, chunk_bytes, view);
                self.bytes += chunk.capacity();
                self.chunks.push(chunk);
            }
            self.rows += 1;
        }
        Ok(true)
    }

    /// Sorts the collected rows into a run in memory.
    fn sorted(&mut self) -> Result<Run, Error> {
        let meter = Meter::start();
        let chunks: Vec<Chunk> = self.chunks.drain(..).map(Chunk::from).collect();
        (self.bytes, self.rows) = (0, 0);
        let rows = Rows { blocks: &chunks, shift: self.context.memory.shift() };
        let Ordered { mut places, ranges } = self.orderer.order(&self.context, rows)?;
        places.truncate(usize::try_from(self.context.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX));
        self.context.job.phases().add(meter.stop("sort", 0, std::time::Duration::ZERO));
        Ok(Run { ranges, rows: places.len() as u64, data: RunData::Memory(chunks, places) })
    }

    /// Returns all runs; the last one is in memory.
    ///
    /// # Errors
    /// If the remaining rows cannot be sorted.
    pub(crate) fn finish(mut self) -> Result<Vec<Run>, Error> {
        if self.rows > 0 {
            let run = self.sorted()?;
            self.runs.push(run);
        }
        Ok(self.runs)
    }
}

/// Writer of sorted rows as a spilled run.
pub(crate) struct RunWriter<'a> {
    context: &'a Context,
    writer: SpillWriter,
    open: Option<Buffer>,
    chunks: Vec<Spilled>,
    /// Number of rows in the open chunk.
    open_rows: u64,
    rows: u64,
}

impl<'a> RunWriter<'a> {
    /// Creates an empty run in the next spill file, with at most `in_flight` writes in flight.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub(crate) fn new(context: &'a Context, in_flight: usize) -> Result<RunWriter<'a>, Error> {
        let writer = context.spills.next_writer(&context.buffers, in_flight)?;
        Ok(RunWriter { context, writer, open: None, chunks: Vec::new(), open_rows: 0, rows: 0 })
    }

    /// Appends the row at the start of `bytes`.
    ///
    /// # Errors
    /// If a chunk cannot be written.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let chunk_bytes = self.context.memory.chunk_bytes;
        let layout = &self.context.layout;
        let length = layout.row_len(bytes).unwrap_or(layout.stride);
        let row = layout.view(&bytes[..length], 0);
        self.rows += 1;
        if self.open.as_mut().is_some_and(|chunk| append(chunk, chunk_bytes, row)) {
            self.open_rows += 1;
            return Ok(());
        }
        self.flush()?;
        self.context.job.check()?;
        let buffers = &self.context.buffers;
        let turn = buffers.long_turn(length);
        append(self.open.insert(buffers.chunk(length, || Ok(()))?), chunk_bytes, row);
        self.open_rows = 1;
        if turn.is_some() { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        if let Some(chunk) = self.open.take() {
            let spilled = self.writer.write(chunk, std::mem::take(&mut self.open_rows))?;
            add_place(&mut self.chunks, spilled);
        }
        Ok(())
    }

    /// Waits until the run is written.
    ///
    /// # Errors
    /// The error of a failed write.
    pub(crate) fn finish(mut self, ranges: Vec<Range>) -> Result<Run, Error> {
        self.flush()?;
        let data = RunData::Spilled(Arc::new(self.writer.finish()?), self.chunks);
        Ok(Run { ranges, rows: self.rows, data })
    }
}

impl Run {
    /// Returns whether the run is on disk.
    pub(crate) fn is_spilled(&self) -> bool {
        matches!(self.data, RunData::Spilled(..))
    }

    /// Returns the bytes of the longest chunk that is read back; 0 for a run in memory.
    pub(crate) fn longest_read(&self) -> usize {
        match &self.data {
            RunData::Memory(..) => 0,
            RunData::Spilled(spilled, chunks) => {
                chunks.iter().map(|chunk| spilled.read_bytes(chunk)).max().unwrap_or(0)
            }
        }
    }

    /// Chunks that are read ahead in a merge.
    pub(crate) fn read_ahead(&self, chunk_bytes: usize) -> usize {
        if self.longest_read() > class_size(chunk_bytes) { LONG_MERGE_AHEAD } else { MERGE_AHEAD }
    }

    /// Returns the bytes of its chunks in memory while it is merged, besides those of a run in memory.
    pub(crate) fn merge_bytes(&self, chunk_bytes: usize) -> usize {
        let RunData::Spilled(spilled, chunks) = &self.data else { return 0 };
        let mut bytes: Vec<usize> = chunks.iter().map(|chunk| spilled.read_bytes(chunk)).collect();
        bytes.sort_unstable();
        // The chunks read ahead, and the one in use.
        bytes.iter().rev().take(self.read_ahead(chunk_bytes) + 1).sum()
    }

    /// Returns the bytes of the memory of a run that is not spilled.
    pub(crate) fn resident_bytes(&self) -> usize {
        match &self.data {
            RunData::Memory(chunks, _) => chunks.iter().map(Chunk::resident_bytes).sum(),
            RunData::Spilled(..) => 0,
        }
    }

    /// Writes the run to disk unless it is there already.
    ///
    /// # Errors
    /// If the run cannot be written.
    pub(crate) fn spilled(self, context: &Context) -> Result<Run, Error> {
        let RunData::Memory(chunks, places) = self.data else { return Ok(self) };
        let rows = Rows { blocks: &chunks, shift: context.memory.shift() };
        let mut writer = RunWriter::new(context, context.memory.writes_in_flight)?;
        for &place in &places {
            writer.write(rows.at(place))?;
        }
        writer.finish(self.ranges)
    }
}
