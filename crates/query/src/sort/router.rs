//! Partitions that a caller chooses for rows before they are packed, and the result of such a sort.
//!
//! A join divides both of its sides by the same keys, whose types can differ, and then sorts the two rows' partitions of
//! one key range together.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::SchemaRef;

use super::context::Context;
use super::partition::Piece;
use super::plan::{CHUNK_MIN_BYTES, Demand, ORDER_BYTES, min_bytes};
use super::sorted::{Sorted, begin_output};
use super::{SortOptions, Sorter, feed};
use crate::order::SortKey;
use crate::spill::SpilledChunks;
use crate::{Batches, Error, Job};

pub(crate) use super::memory::Guarantee;
pub(crate) use super::plan::MemoryPlan;
pub(crate) use super::route::{DROPPED_ROW_ROUTE, Router};
pub(crate) use crate::spill::SpillFiles;

/// Memory of partitions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Bytes of chunks.
    pub(crate) bytes: usize,
    /// Rows that are put in order.
    pub(crate) rows: usize,
}

/// Parts of partitions without an order that are in memory for each thread: one of each side, and the next one of each.
const PARTS_PER_THREAD: usize = 4;

/// Partitions of one input, each of which is sorted when it is taken.
pub(crate) struct Parts {
    context: Arc<Context>,
    pieces: Mutex<Vec<Option<Piece>>>,
    /// Spilled chunks of the pieces that were not taken.
    spilled: Mutex<Option<Arc<SpilledChunks>>>,
    /// Bytes of the chunks in memory when the output began.
    resident: usize,
}

impl Parts {
    pub(super) fn new(
        context: Arc<Context>,
        pieces: Vec<Piece>,
        spilled: Option<Arc<SpilledChunks>>,
    ) -> Parts {
        let pieces = Mutex::new(pieces.into_iter().map(Some).collect());
        Parts { context, pieces, spilled: Mutex::new(spilled), resident: 0 }
    }

    /// Passes the memory that is not in use on to the next input.
    ///
    /// # Errors
    /// If the job cannot open another account.
    pub(crate) fn pass_on(&self) -> Result<Guarantee, Error> {
        self.context.buffers.pass_on(&self.context.job)
    }

    /// Begins the output of two inputs, which were divided one after the other.
    pub(crate) fn begin_output(left: &mut Parts, right: &mut Parts) {
        let bytes = left.context.memory.bytes;
        right.context.buffers.complete(&left.context.buffers, bytes);
        for parts in [left, right] {
            let pieces = parts.pieces.get_mut().unwrap_or_else(PoisonError::into_inner);
            parts.resident = begin_output(&parts.context, pieces.iter_mut().flatten());
        }
    }

    /// Returns the schema of the rows.
    pub(crate) fn schema(&self) -> SchemaRef {
        self.context.layout.schema.clone()
    }

    /// Returns whether a partition has no rows, or was taken.
    pub(crate) fn is_empty(&self, partition: usize) -> bool {
        self.piece(partition, |piece| piece.as_ref().is_none_or(|piece| piece.rows == 0))
    }

    /// Returns the memory that a partition takes besides that of its chunks in memory; `None` if it is too large to be
    /// sorted in memory.
    pub(crate) fn load(&self, partition: usize) -> Option<Load> {
        let part_bytes = self.part_bytes();
        let spilled = self.spilled();
        let spilled = spilled.as_ref();
        self.piece(partition, |piece| match piece {
            None => Some(Load::default()),
            // Read part by part: one is returned while the next one is read. Buffers exceed their contents by a quarter
            // at most.
            Some(piece) if piece.is_single => {
                Some(Load { bytes: piece.read_bytes(spilled).min(part_bytes * 5 / 2), rows: 0 })
            }
            Some(piece) => piece
                .is_small(&self.context)
                .then(|| Load { bytes: piece.read_bytes(spilled), rows: piece.rows as usize }),
        })
    }

    /// Returns the memory of all partitions that are taken at the same time.
    pub(crate) fn capacity(&self) -> Load {
        let bytes = self.context.buffers.total().saturating_sub(self.resident);
        Load { bytes, rows: self.context.memory.load_rows }
    }

    /// Maximum bytes of a part of a partition without an order.
    fn part_bytes(&self) -> usize {
        self.capacity().bytes / (PARTS_PER_THREAD * (self.context.job.options().threads.max(1) + 1))
    }

    /// Takes a partition; a taken one is empty.
    pub(crate) fn take(&self, partition: usize) -> Sorted {
        let spilled = self.spilled();
        let piece = self.piece(partition, Option::take).unwrap_or_default();
        if piece.is_single || piece.is_small(&self.context) {
            self.leave_spill();
        }
        Sorted::of_piece(&self.context, piece, spilled, self.part_bytes())
    }

    /// Leaves the spill to the readers of the last pieces, which close its files.
    fn leave_spill(&self) {
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        if pieces.iter().flatten().all(|piece| piece.spilled.is_empty()) {
            self.spilled.lock().unwrap_or_else(PoisonError::into_inner).take();
            self.context.spills.leave();
        }
    }

    fn spilled(&self) -> Option<Arc<SpilledChunks>> {
        self.spilled.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn piece<T>(&self, partition: usize, work: impl FnOnce(&mut Option<Piece>) -> T) -> T {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut pieces[partition])
    }
}

/// Divides the rows of the streams into the partitions of a router, with one thread for each stream.
///
/// # Errors
/// The first error of any thread.
pub(crate) fn partition(
    job: &Job,
    inputs: Vec<Box<dyn Batches>>,
    routed: Routed<'_>,
    routing: Routing,
) -> Result<Parts, Error> {
    let mut sorter = Sorter::routed(job, routed, routing)?;
    let workers = inputs.iter().map(|_| sorter.worker()).collect();
    feed(job, inputs, workers)?;
    sorter.finish_parts()
}

/// How a router divides an input: its partitions, memory and spill files.
#[derive(Debug)]
pub(crate) struct Routing {
    pub(crate) router: Arc<dyn Router>,
    pub(crate) memory: MemoryPlan,
    /// The memory that the plan divides.
    pub(crate) guarantee: Guarantee,
    /// Its spill files.
    pub(crate) spills: SpillFiles,
}

/// An input of several that are divided by one router.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routed<'a> {
    pub(crate) schema: &'a SchemaRef,
    pub(crate) keys: &'a [SortKey],
    pub(crate) options: &'a SortOptions,
}

/// Limits of an input's share of a pair of partitions, so that a partition of a small input may be larger than expected.
const SIDE_SHARE_MIN: f64 = 1.0 / 4.0;

/// Minimum chunks in the memory of both inputs: each share holds what an oversized partition needs to be sorted by runs.
const PAIR_MIN_CHUNKS: usize = 64;

/// Plans the memory of two inputs that are divided one after the other, and whose partitions are loaded in pairs, each
/// by one thread.
///
/// # Errors
/// [`Error::Query`] if a column cannot be sorted.
pub(crate) fn plan_pair(
    job: &Job,
    inputs: [Routed<'_>; 2],
    bytes: usize,
) -> Result<([MemoryPlan; 2], Guarantee), Error> {
    let mut order_bytes = 0;
    for input in inputs {
        let (_, keys, _) = Context::rows(job, input.schema, input.keys, false)?;
        order_bytes = order_bytes.max(ORDER_BYTES + keys.digit_bytes());
    }
    let [left, right] = inputs.map(|input| input.options);
    let (threads, directories) = (job.options().threads, job.options().spill.len());
    let wanted = left.block.min(right.block);
    let min_bytes =
        min_bytes(wanted, threads, directories).max(PAIR_MIN_CHUNKS * CHUNK_MIN_BYTES.min(wanted));
    let guarantee = Guarantee::new(job, bytes.max(min_bytes), min_bytes)?;
    let bytes = guarantee.bytes;
    let block = wanted.min((bytes / PAIR_MIN_CHUNKS + 1).next_power_of_two() / 2);
    let sum = |of: fn(&SortOptions) -> Option<u64>| Some(of(left)?.saturating_add(of(right)?));
    let plan = MemoryPlan::new(&Demand {
        bytes,
        heap_bytes: job.available(),
        threads,
        directories,
        expected_bytes: sum(|options| options.expected_bytes),
        expected_rows: sum(|options| options.expected_rows),
        spilled_bytes: sum(|options| options.expected_bytes.or(options.bytes_max)),
        resident_bytes: left.resident.min(right.resident),
        partitions_max: left.partitions.min(right.partitions),
        planned_partitions: left.planned_partitions.max(right.planned_partitions),
        planned_run: None,
        block,
        order_bytes,
    });
    let share = |of: fn(&SortOptions) -> Option<u64>| {
        let (ours, theirs) = (of(left).unwrap_or(1) as f64, of(right).unwrap_or(1) as f64);
        (ours / (ours + theirs).max(1.0)).clamp(SIDE_SHARE_MIN, 1.0 - SIDE_SHARE_MIN)
    };
    let (bytes, rows) = (share(|options| options.expected_bytes), share(|options| options.expected_rows));
    Ok(([plan.share(threads, bytes, rows), plan.share(threads, 1.0 - bytes, 1.0 - rows)], guarantee))
}
