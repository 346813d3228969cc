//! The whole join: sorts or hashes its sides, and records the metrics of its phases.
//!
//! | phase | work | phase in Ueda (2013), table 1 |
//! |---|---|---|
//! | `read` | read both sides; partition or sort their rows | 1, read |
//! | `write runs` | spill rows that do not fit into memory | 2, write runs |
//! | `load`, `sort`, `gather`, `merge` | read back partitions or runs, and order their rows | 3, read runs |
//! | `join` | compare the sorted sides and return rows | 5, read during the join |
//!
//! Phase 4, writing and reading the sorted tables, is not needed: the join consumes the sorts' output directly. A
//! separate thread for each side produces this output while the caller's thread joins.

use arrow_array::RecordBatch;
use arrow_schema::{SchemaRef, SortOptions as Direction};

use super::ahead::{Ahead, Waited};
use super::condition::{Condition, KeyPair};
use super::hash::{HashJoin, JoinSide};
use super::kind::JoinKind;
use super::merge::MergeJoin;
use crate::order::SortKey;
use crate::phase::Meter;
use crate::sort::{SortOptions, sort};
use crate::{Batches, Error, Job};

/// Sort direction of both sides.
const KEY_DIRECTION: Direction = Direction { descending: false, nulls_first: false };

/// Fraction of the buffer budget for each of the two sorts; the rest is for scans and groups of equal keys.
const SORT_MEMORY_NUMERATOR: usize = 3;
/// See [`SORT_MEMORY_NUMERATOR`].
const SORT_MEMORY_DENOMINATOR: usize = 8;

/// Returns the bytes of a buffer budget that the sort of each side may use.
pub(crate) fn sort_memory(budget: usize) -> usize {
    budget / SORT_MEMORY_DENOMINATOR * SORT_MEMORY_NUMERATOR
}

/// A side of a join.
pub struct JoinInput {
    /// Streams of its rows, read concurrently; at least one.
    pub streams: Vec<Box<dyn Batches>>,
    /// Whether the rows of a single stream ascend by the key columns in the order of the condition.
    pub is_sorted: bool,
    /// Options of its sort, if it needs one.
    pub sort: SortOptions,
}

/// Join algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinMethod {
    /// Both sides are sorted and merged; the result is in the order of the keys.
    Merge,
    /// Hash join with the given build side, which should be the smaller one.
    Hash(JoinSide),
}

/// Joins two sides. A side that must be sorted is read completely by this call; other sides are read with the result.
///
/// # Errors
/// If a side cannot be read, compared or spilled.
pub fn join(
    job: &Job,
    left: JoinInput,
    right: JoinInput,
    condition: &Condition,
    kind: JoinKind,
    method: JoinMethod,
) -> Result<Box<dyn Batches>, Error> {
    let waited = Waited::default();
    let is_trusted = is_order_unique(&condition.pairs);
    let inner: Box<dyn Batches> = match method {
        JoinMethod::Merge => {
            let ours = sorted(job, left, &condition.left(), is_trusted, &waited)?;
            let theirs = sorted(job, right, &condition.right(), is_trusted, &waited)?;
            let order = vec![KEY_DIRECTION; condition.pairs.len()];
            Box::new(MergeJoin::new(job, ours, theirs, condition, &order, kind)?)
        }
        JoinMethod::Hash(build) => {
            let (ours, theirs) = (ahead(left, &waited)?, ahead(right, &waited)?);
            Box::new(HashJoin::new(job, ours, theirs, condition, kind, build)?)
        }
    };
    job.progress().begin("joining");
    Ok(Box::new(Joined { job: job.clone(), inner, waited }))
}

/// Whether rows that another program sorted by the pairs are in the order of a join. It may have sorted -0 before 0, so
/// that a later key is out of order.
fn is_order_unique(pairs: &[KeyPair]) -> bool {
    let others = &pairs[..pairs.len().saturating_sub(1)];
    others.iter().all(|pair| !pair.data_type.is_floating())
}

/// Returns the rows of a side in key order.
fn sorted(
    job: &Job,
    input: JoinInput,
    places: &[usize],
    is_trusted: bool,
    waited: &Waited,
) -> Result<Box<dyn Batches>, Error> {
    if input.is_sorted && is_trusted && input.streams.len() == 1 {
        return ahead(input, waited);
    }
    let keys: Vec<SortKey> =
        places.iter().map(|&column| SortKey { column, options: KEY_DIRECTION }).collect();
    let budget = sort_memory(job.io().pool().budget());
    let options = SortOptions { memory: Some(input.sort.memory.unwrap_or(budget)), ..input.sort };
    let sorted = sort(job, input.streams, &keys, &options)?;
    let schema = sorted.schema();
    Ok(Box::new(Ahead::start(vec![Box::new(sorted.into_batches())], schema, waited)))
}

/// Returns the rows of a side, read ahead by separate threads.
fn ahead(input: JoinInput, waited: &Waited) -> Result<Box<dyn Batches>, Error> {
    let Some(schema) = input.streams.first().map(|stream| stream.schema()) else {
        return Err(Error::Query("a side of the join has no stream".to_owned()));
    };
    Ok(Box::new(Ahead::start(input.streams, schema, waited)))
}

/// Result stream of a join; measures the phase `join`.
struct Joined {
    job: Job,
    inner: Box<dyn Batches>,
    waited: Waited,
}

impl Batches for Joined {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        let (meter, before) = (Meter::start(), self.waited.total());
        let next = self.inner.next();
        let waited = self.waited.total() - before;
        self.job.phases().add(meter.stop("join", 0, waited));
        next
    }
}
