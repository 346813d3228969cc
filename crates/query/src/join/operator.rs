//! The whole join: sides that are sorted or hashed, on threads of their own, with the figures of its phases.
//!
//! | phase | what | of Ueda (2013), table 1 |
//! |---|---|---|
//! | `read` | both sides are read and divided or sorted | 1, read |
//! | `write` | rows that do not fit into memory | 2, write runs |
//! | `load`, `sort`, `gather`, `merge` | they are read back, a partition or a run after the other | 3, read runs |
//! | `join` | the sorted sides are compared, and rows handed over | 5, read during the join |
//!
//! Phase 4, to write and read the sorted tables, does not exist: the join takes rows as the sorts give them. Each side is
//! sorted on a thread of its own while the caller's thread joins.

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef, SortOptions as Direction};

use super::ahead::{Ahead, Waited};
use super::condition::{Condition, KeyPair};
use super::hash::{HashJoin, JoinSide};
use super::kind::JoinKind;
use super::merge::MergeJoin;
use crate::order::SortKey;
use crate::phase::Meter;
use crate::sort::{SortOptions, sort};
use crate::{Batches, Error, Job};

/// The direction in which sides are sorted.
const KEY_DIRECTION: Direction = Direction { descending: false, nulls_first: false };

/// The part of the buffers that each of two sorts takes: the rest is for scans, and for groups of equal keys.
const SORT_MEMORY_NUMERATOR: usize = 3;
/// See [`SORT_MEMORY_NUMERATOR`].
const SORT_MEMORY_DENOMINATOR: usize = 8;

/// A side of a join.
pub struct JoinInput {
    /// Its rows, in streams that are read at the same time; at least one.
    pub streams: Vec<Box<dyn Batches>>,
    /// Whether it has one stream, whose rows ascend by the key columns in the order of the condition.
    pub is_sorted: bool,
    /// How it is sorted, if it is.
    pub sort: SortOptions,
}

/// How a join is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinMethod {
    /// Both sides are sorted and merged; the result is in the order of the keys.
    Merge,
    /// A side is hashed, and the other one passes by. It is better the smaller one.
    Hash(JoinSide),
}

/// Joins two sides. Sides that are not sorted are read when it is called, and the rest as the result is.
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
    let (pairs, is_same_order) = sortable(&condition.pairs);
    let inner: Box<dyn Batches> = match (method, pairs) {
        (JoinMethod::Merge, Some(pairs)) => {
            let condition = Condition { pairs };
            let ours = sorted(job, left, &condition.left(), is_same_order, &waited)?;
            let theirs = sorted(job, right, &condition.right(), is_same_order, &waited)?;
            let order = vec![KEY_DIRECTION; condition.pairs.len()];
            Box::new(MergeJoin::new(job, ours, theirs, &condition, &order, kind)?)
        }
        (method, _) => {
            let build = if let JoinMethod::Hash(build) = method { build } else { JoinSide::Right };
            let (ours, theirs) = (ahead(left, &waited)?, ahead(right, &waited)?);
            Box::new(HashJoin::new(job, ours, theirs, condition, kind, build)?)
        }
    };
    job.progress().begin("joining");
    Ok(Box::new(Joined { job: job.clone(), inner, waited }))
}

/// The pairs in an order in which sorted sides can be merged, if there is one, and whether that is their own.
///
/// A sort takes -0 to be before 0, and a join takes them to be equal: rows that a later column tells apart would be out
/// of order. So a float is the last key, and two of them are not merged.
fn sortable(pairs: &[KeyPair]) -> (Option<Vec<KeyPair>>, bool) {
    let is_float = |pair: &&KeyPair| pair.data_type.is_floating() || has_floats(&pair.data_type);
    let (floats, others): (Vec<&KeyPair>, Vec<&KeyPair>) = pairs.iter().partition(is_float);
    if floats.len() > 1 {
        return (None, false);
    }
    let ordered: Vec<KeyPair> = others.into_iter().chain(floats).cloned().collect();
    let is_same_order = ordered == pairs;
    (Some(ordered), is_same_order)
}

/// Whether a nested type has floats inside.
fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            has_floats(field.data_type())
        }
        other => other.is_floating(),
    }
}

/// The rows of a side in the order of its keys.
fn sorted(
    job: &Job,
    input: JoinInput,
    places: &[usize],
    is_same_order: bool,
    waited: &Waited,
) -> Result<Box<dyn Batches>, Error> {
    if input.is_sorted && is_same_order && input.streams.len() == 1 {
        return ahead(input, waited);
    }
    let keys: Vec<SortKey> =
        places.iter().map(|&column| SortKey { column, options: KEY_DIRECTION }).collect();
    let budget = job.io().pool().budget() / SORT_MEMORY_DENOMINATOR * SORT_MEMORY_NUMERATOR;
    let options = SortOptions { memory: Some(input.sort.memory.unwrap_or(budget)), ..input.sort };
    let sorted = sort(job, input.streams, &keys, &options)?;
    let schema = sorted.schema();
    Ok(Box::new(Ahead::start(vec![Box::new(sorted.into_batches())], schema, waited)))
}

/// The rows of a side, read on threads of their own.
fn ahead(input: JoinInput, waited: &Waited) -> Result<Box<dyn Batches>, Error> {
    let Some(schema) = input.streams.first().map(|stream| stream.schema()) else {
        return Err(Error::Query("a side of the join has no stream".to_owned()));
    };
    Ok(Box::new(Ahead::start(input.streams, schema, waited)))
}

/// The result of a join, which measures the phase `join`.
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
