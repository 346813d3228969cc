//! Merges sorted runs into groups of ordered rows, with a loser tree.
//!
//! Each run is read ahead. If there are more runs than the fan-in, the shortest are merged into longer runs first. The
//! merge moves no rows: a group lists the places of its rows in the blocks read, so any thread can gather its batches.

use std::sync::Arc;
use std::time::Duration;

use super::chunk::Chunk;
use super::context::Context;
use super::in_memory::{Coder, walk};
use super::key::packing::Packing;
use super::key::range::Range;
use super::loser_tree::LoserTree;
use super::memory::Grant;
use super::plan::{MERGE_BLOCKS, MemoryPlan};
use super::row::gather::Rows;
use super::row::{BLOCK_ROWS, RowView};
use super::runs::{Run, RunData, RunWriter};
use super::sorted::Partition;
use crate::Error;
use crate::phase::Meter;
use crate::spill::ChunkReader;

/// Merge of sorted runs.
pub(crate) struct Merger {
    context: Arc<Context>,
    packing: Packing,
    cursors: Vec<Cursor>,
    tree: LoserTree,
    coder: Coder,
    /// Ranges of the keys of all runs.
    ranges: Vec<Range>,
    /// Bytes that a group may keep, besides those read for it: the first chunk of each run, and one chunk more.
    group_bytes: usize,
    /// About the bytes that are read for a group.
    read_bytes: usize,
    /// Memory of the chunks read ahead and of runs in memory, which are dropped before it.
    _grants: (Option<Grant>, Grant),
}

/// Ordered rows, and the chunks that contain them.
pub(crate) struct Group {
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) places: Vec<u32>,
}

/// The position in a run, and its next rows.
struct Cursor {
    source: Source,
    /// The chunks of the next rows.
    chunks: Vec<Chunk>,
    /// Places of the next rows in these chunks, and their codes.
    places: Vec<u32>,
    codes: Vec<u64>,
    at: usize,
    /// Index of the first of these chunks in the current group.
    base: Option<usize>,
}

enum Source {
    Disk { stream: Box<ChunkReader>, waited: Duration },
    Memory { places: Vec<u32>, next: usize },
}

/// Rows of an in-memory run that are encoded at a time.
const MEMORY_ROWS: usize = 8 * BLOCK_ROWS;

impl Merger {
    /// Starts a merge of runs; first merges the shortest ones if there are more than the fan-in, or if some have long
    /// rows. `resident` is the memory of runs that are not spilled.
    ///
    /// # Errors
    /// If a run cannot be read or written, or [`Error::Memory`] if long rows do not fit.
    pub(crate) fn new(
        context: &Arc<Context>,
        mut runs: Vec<Run>,
        resident: Option<Grant>,
    ) -> Result<Merger, Error> {
        let plan = &context.memory;
        let is_spilled = runs.iter().any(Run::is_spilled);
        while is_spilled && runs.len() > prefix(&runs, plan) {
            runs.sort_by_key(|run| run.rows);
            let most = prefix(&runs, plan);
            let count = most.min(runs.len() + 1 - most).max(2);
            let rest = runs.split_off(count);
            let merged = Merger::into_run(context, runs)?;
            runs = rest;
            runs.push(merged);
        }
        Merger::over(context, runs, resident, 0)
    }

    fn over(
        context: &Arc<Context>,
        runs: Vec<Run>,
        resident: Option<Grant>,
        more_bytes: usize,
    ) -> Result<Merger, Error> {
        let bytes =
            runs.iter().map(|run| run.merge_bytes(context.memory.chunk_bytes)).sum::<usize>() + more_bytes;
        let longest = runs.iter().map(Run::longest_read).max().unwrap_or(0);
        let group_bytes = runs.iter().map(Run::longest_read).sum::<usize>() + longest;
        let left = context.buffers.total().saturating_sub(bytes + group_bytes);
        let read_bytes = context.memory.group_bytes.min(left).max(1);
        let grant = context.buffers.grant(&context.job, bytes, MERGE_MEMORY)?;
        let mut ranges = vec![Range::none(); context.keys.columns.len()];
        for run in &runs {
            ranges.iter_mut().zip(&run.ranges).for_each(|(range, other)| range.join(other));
        }
        let packing = Packing::new(&context.keys, &ranges, false);
        let cursors = runs.into_iter().map(|run| Cursor::new(context, run)).collect::<Result<_, _>>()?;
        let tree = LoserTree::new(1, |_, _| false);
        let context = Arc::clone(context);
        let (coder, _grants) = (Coder::default(), (resident, grant));
        let mut merger =
            Merger { context, packing, cursors, tree, coder, ranges, group_bytes, read_bytes, _grants };
        for cursor in &mut merger.cursors {
            cursor.refill(&merger.context, &merger.packing, &mut merger.coder)?;
        }
        merger.cursors.retain(|cursor| !cursor.is_empty());
        if !merger.cursors.is_empty() {
            let Merger { context, packing, cursors, .. } = &merger;
            let tree = LoserTree::new(cursors.len(), |a, b| is_before(context, packing, cursors, a, b));
            merger.tree = tree;
        }
        Ok(merger)
    }

    /// Returns the next rows, at most `rows_max`; `None` at the end. Waits for the memory of earlier groups, whose holders
    /// need no memory to finish.
    ///
    /// # Errors
    /// If a run cannot be read, or [`Error::Memory`] if long rows do not fit.
    pub(crate) fn next_partition(&mut self, rows_max: usize) -> Result<Option<Partition>, Error> {
        if self.cursors.is_empty() {
            return Ok(None);
        }
        let context = Arc::clone(&self.context);
        // Runs in memory have their own.
        let bytes = if self.group_bytes == 0 { 0 } else { self.group_bytes + self.read_bytes };
        let grant = context.buffers.grant(&context.job, bytes, MERGE_MEMORY)?;
        let group = self.next_group(rows_max, self.read_bytes)?;
        Ok(group.map(|group| Partition::new(&context, group.chunks, group.places, (None, grant))))
    }

    /// Returns the next rows, at most `rows_max`, for which about `read_max` bytes are read; `None` at the end.
    fn next_group(&mut self, rows_max: usize, read_max: usize) -> Result<Option<Group>, Error> {
        if self.cursors.is_empty() {
            return Ok(None);
        }
        let meter = Meter::start();
        let shift = self.context.memory.shift();
        let mut group = Group { chunks: Vec::new(), places: Vec::with_capacity(rows_max) };
        self.cursors.iter_mut().for_each(|cursor| cursor.base = None);
        let mut read_bytes = 0;
        let waited = self.waited();
        while group.places.len() < rows_max && read_bytes < read_max {
            let Merger { context, packing, cursors, tree, coder, .. } = self;
            let winner = tree.winner();
            let cursor = &mut cursors[winner];
            if cursor.is_empty() {
                break;
            }
            let base = *cursor.base.get_or_insert_with(|| {
                group.chunks.extend_from_slice(&cursor.chunks);
                group.chunks.len() - cursor.chunks.len()
            });
            if base + cursor.chunks.len() > 1 << (u32::BITS - shift) {
                cursor.base = None;
                break;
            }
            group.places.push(cursor.places[cursor.at] + ((base as u32) << shift));
            cursor.at += 1;
            if cursor.at == cursor.places.len() {
                read_bytes += cursor.refill(context, packing, coder)?;
            }
            let cursors = &*cursors;
            tree.replay(|a, b| is_before(context, packing, cursors, a, b));
        }
        let waited = self.waited().saturating_sub(waited);
        self.context.job.phases().add(meter.stop("merge", read_bytes as u64, waited));
        Ok(Some(group).filter(|group| !group.places.is_empty()))
    }

    fn waited(&self) -> Duration {
        self.cursors.iter().map(Cursor::waited).sum()
    }

    /// Merges runs into one spilled run.
    fn into_run(context: &Arc<Context>, runs: Vec<Run>) -> Result<Run, Error> {
        let plan = &context.memory;
        let longest = runs.iter().map(Run::longest_read).max().unwrap_or(0);
        let (in_flight, written_bytes) = context.write_memory(longest);
        // A group ends with the first read, so that it keeps one chunk that its run no longer needs.
        let mut merger = Merger::over(context, runs, None, written_bytes + longest)?;
        let mut writer = RunWriter::new(context, in_flight)?;
        let mut left = context.limit.unwrap_or(u64::MAX);
        while left > 0
            && let Some(group) = merger.next_group(GROUP_ROWS, 1)?
        {
            let rows = Rows { blocks: &group.chunks, shift: plan.shift() };
            for &place in group.places.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
                writer.write(rows.at(place))?;
            }
            left = left.saturating_sub(group.places.len() as u64);
        }
        writer.finish(merger.ranges)
    }
}

/// Purpose that errors about the memory of a merge name.
const MERGE_MEMORY: &str = "merging sorted rows";

/// Returns the number of the first runs that can be merged at once, at least 2.
fn prefix(runs: &[Run], plan: &MemoryPlan) -> usize {
    let (fan_in, chunk_bytes) = (plan.fan_in, plan.chunk_bytes);
    let bytes = fan_in * MERGE_BLOCKS * chunk_bytes;
    let mut sum = 0;
    let fits = |run: &&Run| {
        sum += run.merge_bytes(chunk_bytes);
        sum <= bytes
    };
    runs.iter().take(fan_in).take_while(fits).count().max(2)
}

/// Rows of a group in an intermediate merge pass.
const GROUP_ROWS: usize = 1 << 14;

impl Cursor {
    fn new(context: &Context, run: Run) -> Result<Cursor, Error> {
        let ahead = run.read_ahead(context.memory.chunk_bytes);
        let (source, chunks) = match run.data {
            RunData::Memory(chunks, places) => (Source::Memory { places, next: 0 }, chunks),
            RunData::Spilled(chunks, places) => {
                let stream = Box::new(chunks.read(&context.buffers, places, ahead)?);
                (Source::Disk { stream, waited: Duration::ZERO }, Vec::new())
            }
        };
        Ok(Cursor { source, chunks, places: Vec::new(), codes: Vec::new(), at: 0, base: None })
    }

    /// Returns the next row.
    fn head(&self, context: &Context) -> RowView<'_> {
        let rows = Rows { blocks: &self.chunks, shift: context.memory.shift() };
        context.layout.view(rows.at(self.places[self.at]), 0)
    }

    /// Returns whether all rows have been consumed.
    fn is_empty(&self) -> bool {
        self.at == self.places.len()
    }

    fn waited(&self) -> Duration {
        if let Source::Disk { waited, .. } = self.source { waited } else { Duration::ZERO }
    }

    /// Loads and encodes the next rows, if any. Returns the bytes read.
    fn refill(&mut self, context: &Context, packing: &Packing, coder: &mut Coder) -> Result<usize, Error> {
        self.at = 0;
        self.places.clear();
        self.codes.clear();
        let mut read_bytes = 0;
        match &mut self.source {
            Source::Disk { stream, waited } => {
                context.job.check()?;
                // Released before the stream reads ahead again.
                self.chunks.clear();
                self.base = None;
                let chunk = stream.next()?;
                *waited = stream.stats().waiting;
                if let Some(chunk) = chunk {
                    read_bytes = chunk.as_ref().len();
                    walk(&context.layout, chunk.as_ref(), 0, context.memory.shift(), &mut self.places)?;
                    self.chunks.push(chunk);
                }
            }
            Source::Memory { places, next } => {
                let end = places.len().min(*next + MEMORY_ROWS);
                self.places.extend_from_slice(&places[*next..end]);
                *next = end;
            }
        }
        let rows = Rows { blocks: &self.chunks, shift: context.memory.shift() };
        let mut views = [RowView::default(); BLOCK_ROWS];
        for places in self.places.chunks(BLOCK_ROWS) {
            for (view, &place) in views.iter_mut().zip(places) {
                *view = context.layout.view(rows.at(place), 0);
            }
            let views = &views[..places.len()];
            coder.codes(&context.layout, &context.keys, packing, views, &mut self.codes);
        }
        Ok(read_bytes)
    }
}

/// Returns whether the next row of run `left` precedes that of run `right`; a finished run comes last.
fn is_before(context: &Context, packing: &Packing, cursors: &[Cursor], left: usize, right: usize) -> bool {
    let (a, b) = (&cursors[left], &cursors[right]);
    let (Some(code), Some(other)) = (a.codes.get(a.at), b.codes.get(b.at)) else {
        return b.is_empty() && (!a.is_empty() || left < right);
    };
    if code != other {
        return code < other;
    }
    if packing.is_lossless() {
        return left < right;
    }
    let order = context.keys.compare(&context.layout, a.head(context), b.head(context));
    order.is_lt() || (order.is_eq() && left < right)
}
