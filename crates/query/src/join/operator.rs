//! The whole join: divides, sorts or hashes its sides, and records the metrics of its phases by side.
//!
//! | phase | work | phase in Ueda (2013), table 1 |
//! |---|---|---|
//! | `read left`, `read right` | read and decode a side; partition its rows | 1, read |
//! | `write runs …` | spill rows that do not fit into memory | 2, write runs |
//! | `read runs …`; `sort …`, `gather …`, `merge …` | read back partitions or runs; order their rows | 3, read runs |
//! | `build …`, `partition …` | build the table of a hash join; divide its sides by key hash | – |
//! | `join` | compare the sorted sides, or probe the table, and return rows | 5, read during the join |
//!
//! Phase 4, writing and reading the sorted tables, is not needed: the join consumes the sorted rows directly. The CPU
//! time of each phase excludes that of the others.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};

use super::ahead::{Ahead, Waited};
use super::condition::{Condition, KeyPair};
use super::hash::{self, HashInput, JoinSide};
use super::input::{JoinInput, KEY_DIRECTION, SIDE_NAMES, sort_keys};
use super::joined::{Joined, NextPart, Parts};
use super::kind::JoinKind;
use super::layout::{Layout, Origin};
use super::merge::MergeJoin;
use super::partitioned::Pairs;
use crate::phase::Meter;
use crate::sort::{SortOptions, sort};
use crate::{Batches, Error, Job};

/// Fraction of the buffer budget for each of two sorts by runs; the rest is for scans and groups of equal keys.
const SORT_MEMORY_NUMERATOR: usize = 3;
/// See [`SORT_MEMORY_NUMERATOR`].
const SORT_MEMORY_DENOMINATOR: usize = 8;

/// Returns the bytes of a buffer budget that the sort of each side may use.
pub(crate) fn sort_memory(budget: usize) -> usize {
    budget / SORT_MEMORY_DENOMINATOR * SORT_MEMORY_NUMERATOR
}

/// A build side takes at most one in this many parts of the free heap, if no plan chose the join method.
const HASH_MEMORY_PARTS: u64 = 4;

/// Bytes of a build row besides its values: its key, its entry in the hash table, and its place.
const HASH_ROW_BYTES: u64 = 36;

/// Join algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinMethod {
    /// Both sides are sorted and merged; the result is in the order of the keys.
    Merge,
    /// Hash join with the given build side, which should be the smaller one; the order of the result is undefined.
    Hash(JoinSide),
}

impl JoinMethod {
    /// Chooses a method by the estimated bytes and rows of both sides: a hash join if the smaller side takes little of
    /// the job's memory, else a merge join.
    #[must_use]
    pub fn choose(job: &Job, left: Option<(u64, u64)>, right: Option<(u64, u64)>) -> JoinMethod {
        let table = |(bytes, rows): (u64, u64)| bytes.saturating_add(rows.saturating_mul(HASH_ROW_BYTES));
        let (left, right) = (left.map_or(u64::MAX, table), right.map_or(u64::MAX, table));
        let (build, bytes) = if left < right { (JoinSide::Left, left) } else { (JoinSide::Right, right) };
        let fits = bytes <= job.available() as u64 / HASH_MEMORY_PARTS;
        if fits { JoinMethod::Hash(build) } else { JoinMethod::Merge }
    }
}

/// Joins two sides. A side that must be sorted, and a build side, are read completely by this call; other sides are read
/// with the result.
///
/// A merge join with samples of both sides divides them into pairs of partitions, which threads join one by one.
/// Without a sample, or if a side is sorted already, one thread merges two sorted streams.
///
/// # Errors
/// If a side cannot be read, compared or spilled.
pub fn join(
    job: &Job,
    left: JoinInput<'_>,
    right: JoinInput<'_>,
    condition: &Condition,
    kind: JoinKind,
    method: JoinMethod,
) -> Result<Joined, Error> {
    let joined = match method {
        JoinMethod::Merge => merge(job, [left, right], condition, kind)?,
        JoinMethod::Hash(build) => hash_join(job, [left, right], condition, kind, build)?,
    };
    job.progress().begin("joining");
    Ok(joined)
}

/// Returns the schema of the result of a join.
#[must_use]
pub fn schema(left: &Schema, right: &Schema, condition: &Condition, kind: JoinKind) -> SchemaRef {
    Layout::new(left, right, condition, kind).schema
}

/// Returns the schema of a join of `sides`, with the types that the same columns have in other schemas of the sides.
pub(crate) fn schema_with_types(
    sides: [&Schema; 2],
    condition: &Condition,
    kind: JoinKind,
    typed: [&Schema; 2],
) -> SchemaRef {
    let layout = Layout::new(sides[0], sides[1], condition, kind);
    let fields = layout.schema.fields().iter().zip(&layout.origins).map(|(field, origin)| {
        let source = match *origin {
            Origin::Left(column) | Origin::Merged(column, _) => typed[0].field(column),
            Origin::Right(column) => typed[1].field(column),
        };
        field.as_ref().clone().with_data_type(source.data_type().clone())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// For each column of the result the columns of the left and of the right side that it is made of.
pub(crate) fn sources(sides: [&Schema; 2], condition: &Condition, kind: JoinKind) -> Vec<[Option<usize>; 2]> {
    let layout = Layout::new(sides[0], sides[1], condition, kind);
    let sources = layout.origins.into_iter().map(|origin| match origin {
        Origin::Left(left) => [Some(left), None],
        Origin::Right(right) => [None, Some(right)],
        Origin::Merged(left, right) => [Some(left), Some(right)],
    });
    sources.collect()
}

/// Returns whether rows that another program sorted by the pairs are in the order of a join. It may have sorted -0
/// before 0, so that a later key is out of order.
fn is_order_unique(pairs: &[KeyPair]) -> bool {
    let others = &pairs[..pairs.len().saturating_sub(1)];
    others.iter().all(|pair| !pair.data_type.is_floating())
}

/// Joins sorted sides, after sorting those that are not.
fn merge(
    job: &Job,
    mut inputs: [JoinInput<'_>; 2],
    condition: &Condition,
    kind: JoinKind,
) -> Result<Joined, Error> {
    let is_trusted = is_order_unique(&condition.pairs);
    inputs.iter_mut().for_each(|input| input.is_sorted &= is_trusted);
    let can_divide = inputs.iter().all(|input| !input.is_sorted && input.sort.sample.is_some());
    if can_divide && inputs.iter().any(|input| input.sort.usable_sample().is_some()) {
        let pairs = Pairs::new(job, inputs, condition, kind)?;
        let schema = pairs.schema();
        return Ok(Joined { schema, is_ordered: true, is_parallel: true, parts: Arc::new(pairs) });
    }
    let waited = Waited::default();
    let [left, right] = inputs;
    let ours = sorted(&job.side(SIDE_NAMES[0]), left, &condition.left(), &waited)?;
    let theirs = sorted(&job.side(SIDE_NAMES[1]), right, &condition.right(), &waited)?;
    let directions = vec![KEY_DIRECTION; condition.pairs.len()];
    let inner = MergeJoin::new(job, ours, theirs, condition, &directions, kind)?;
    let stream = Metered { job: job.clone(), name: "join", inner: Box::new(inner), waited };
    Ok(Joined::of_stream(Box::new(stream), true))
}

/// Builds the hash table of a side, and probes it with each stream of the other one.
fn hash_join(
    job: &Job,
    [left, right]: [JoinInput<'_>; 2],
    condition: &Condition,
    kind: JoinKind,
    build: JoinSide,
) -> Result<Joined, Error> {
    let inputs = [(0, left), (1, right)].map(|(side, input): (usize, JoinInput<'_>)| {
        let (job, schema) = (job.side(SIDE_NAMES[side]), input.schema.clone());
        let expected = input.sort.expected_bytes.zip(input.sort.expected_rows);
        HashInput { job, schema, expected, open: Box::new(|job| opened(job, input)) }
    });
    let (schema, parts) = hash::start(job, inputs, (condition, kind, build))?;
    let parts = Arc::new(MeteredParts { job: job.clone(), parts });
    Ok(Joined { schema, is_ordered: false, is_parallel: true, parts })
}

/// Parts of a hash join, which are charged for the phase `join`.
struct MeteredParts {
    job: Job,
    parts: Arc<dyn Parts>,
}

impl Parts for MeteredParts {
    fn next_part(&self) -> Result<NextPart, Error> {
        let meter = Meter::start();
        let part = self.parts.next_part();
        self.job.phases().add(meter.stop("join", 0, Duration::ZERO));
        Ok(part?.map(|(number, inner)| {
            let (job, waited) = (self.job.clone(), Waited::default());
            let part: Box<dyn Batches> = Box::new(Metered { job, name: "join", inner, waited });
            (number, part)
        }))
    }
}

/// Returns the rows of a side in key order.
fn sorted(
    job: &Job,
    input: JoinInput<'_>,
    places: &[usize],
    waited: &Waited,
) -> Result<Box<dyn Batches>, Error> {
    let schema = input.schema.clone();
    if input.is_sorted {
        return Ok(Box::new(Ahead::start(opened(job, input)?, schema, waited)));
    }
    let budget = sort_memory(job.io().pool().budget());
    let options = SortOptions { memory: Some(input.sort.memory.unwrap_or(budget)), ..input.sort };
    let sorted = sort(job, (input.open)(job)?, &sort_keys(places), &options)?;
    Ok(Box::new(Ahead::start(vec![Box::new(sorted.into_batches())], schema, waited)))
}

/// Starts the streams of a side, which record the phase `read`.
fn opened(job: &Job, input: JoinInput<'_>) -> Result<Vec<Box<dyn Batches>>, Error> {
    let metered = |inner| -> Box<dyn Batches> {
        Box::new(Metered { job: job.clone(), name: "read", inner, waited: Waited::default() })
    };
    let streams = (input.open)(job)?;
    if streams.is_empty() {
        return Err(Error::Query("a side of the join has no stream".to_owned()));
    }
    Ok(streams.into_iter().map(metered).collect())
}

/// Stream whose reader is charged for a phase.
struct Metered {
    job: Job,
    name: &'static str,
    inner: Box<dyn Batches>,
    waited: Waited,
}

impl Batches for Metered {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        let (meter, before) = (Meter::start(), self.waited.total());
        let next = self.inner.next();
        let waited: Duration = self.waited.total() - before;
        self.job.phases().add(meter.stop(self.name, 0, waited));
        next
    }
}
