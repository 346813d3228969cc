//! Hash aggregation on several threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::phase::Meter;
use crate::{Batches, Error, Job};

use super::groups::Groups;
use super::index::FIRST_GROUP;
use super::keys::Keys;
use super::merge::{Merger, Results};
use super::overflow::{Overflow, Partial, SpillPlace};
use super::plan::Aggregation;
use super::queue::Queue;
use super::worker::{Plan, Worker, key_of};

/// Fraction of the free memory for groups; input and output batches need the rest.
const MEMORY_NUMERATOR: usize = 3;
/// See [`MEMORY_NUMERATOR`].
const MEMORY_DENOMINATOR: usize = 4;
/// Fraction of the free memory for groups.
pub(crate) const GROUP_MEMORY_RATIO: f64 = MEMORY_NUMERATOR as f64 / MEMORY_DENOMINATOR as f64;

/// Returns the bytes of free heap that an aggregation uses for groups.
pub(crate) fn group_memory(available: usize) -> usize {
    (available / MEMORY_DENOMINATOR * MEMORY_NUMERATOR).max(MEMORY_MIN_BYTES)
}

/// Number of shares of the memory if workers' groups are kept during merging, or if distinct values are counted.
const SHARED_PARTS: usize = 2;
/// Minimum memory of groups, because less would be spilled every few rows.
const MEMORY_MIN_BYTES: usize = 256 << 10;

/// The groups of all rows, ready for output.
#[derive(Debug)]
pub struct Aggregated {
    job: Job,
    plan: Arc<Plan>,
    queue: Queue,
    place: SpillPlace,
    is_sorted: bool,
    memory: Arc<crate::job::Reservation>,
}

/// Groups the rows of streams with one thread per stream. Groups that do not fit into the job's memory are spilled.
///
/// # Errors
/// If a stream fails, an expression cannot be computed, a sum overflows, or spilling fails.
pub fn aggregate(
    job: &Job,
    aggregation: Aggregation,
    inputs: Vec<Box<dyn Batches + '_>>,
) -> Result<Aggregated, Error> {
    let bytes = group_memory(job.available());
    aggregate_within(job, &SpillPlace::of(job)?, bytes, aggregation, inputs)
}

/// Like [`aggregate`], with a given memory and spill destination.
pub(crate) fn aggregate_within(
    job: &Job,
    place: &SpillPlace,
    bytes: usize,
    aggregation: Aggregation,
    inputs: Vec<Box<dyn Batches + '_>>,
) -> Result<Aggregated, Error> {
    let plan = Arc::new(Plan::new(aggregation));
    let memory = Arc::new(job.reserve(bytes, "grouping rows")?);
    let budget = if plan.layout.distinct.is_empty() { bytes } else { bytes / SHARED_PARTS };
    let (mut partials, distinct) = group_all(job, place, &plan, budget, inputs)?;
    for (argument, values) in distinct.into_iter().enumerate() {
        let counted = count_distinct(job, place, &plan, budget / SHARED_PARTS, argument, values)?;
        partials.push(counted);
    }
    if plan.aggregation.keys().is_empty() {
        add_only_group(place, &plan, &mut partials)?;
    }
    let queue = Queue::new(partials, bytes)?;
    let mut merger = Merger::new(&queue, place, budget_of(&queue, bytes, 1));
    let is_sorted = merger.merge_only(&|| plan.groups())?;
    Ok(Aggregated { job: job.clone(), plan, queue, place: place.clone(), is_sorted, memory })
}

/// Returns the bytes for merging in each of `streams` streams.
fn budget_of(queue: &Queue, bytes: usize, streams: usize) -> usize {
    // Workers' groups that are still in memory take one share.
    let part = if queue.is_spilled { 1 } else { SHARED_PARTS };
    bytes / part / streams
}

impl Aggregated {
    /// Returns whether the result is sorted by its keys, nulls last. Results of up to 65,536 groups are, unless
    /// groups were spilled or are spilled while workers' groups are merged.
    #[must_use]
    pub fn is_sorted(&self) -> bool {
        self.is_sorted
    }

    /// Returns the result as one stream.
    #[must_use]
    pub fn into_stream(self) -> Box<dyn Batches> {
        Box::new(self.stream(1))
    }

    /// Returns the result as at most `streams` streams, for one thread each.
    #[must_use]
    pub fn into_streams(self, streams: usize) -> Vec<Box<dyn Batches>> {
        let streams = streams.clamp(1, self.queue.len().max(1));
        (0..streams).map(|_| Box::new(self.stream(streams)) as Box<dyn Batches>).collect()
    }

    fn stream(&self, streams: usize) -> Results {
        let budget = budget_of(&self.queue, self.memory.bytes(), streams);
        Results {
            job: self.job.clone(),
            plan: Arc::clone(&self.plan),
            merger: Merger::new(&self.queue, &self.place, budget),
            is_sorted: self.is_sorted,
            current: None,
            _memory: Arc::clone(&self.memory),
        }
    }
}

/// Stops the other workers when it is dropped, after an error or a panic.
struct StopOthers<'a>(&'a AtomicBool);

impl Drop for StopOthers<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The groups of each worker, and the distinct values of each counted argument.
type Grouped = (Vec<Partial>, Vec<Vec<Partial>>);

fn group_all(
    job: &Job,
    place: &SpillPlace,
    plan: &Arc<Plan>,
    budget: usize,
    inputs: Vec<Box<dyn Batches + '_>>,
) -> Result<Grouped, Error> {
    let budget = budget / inputs.len().max(1);
    let failed = AtomicBool::new(false);
    let work = |input: Box<dyn Batches + '_>| {
        let stop = StopOthers(&failed);
        let result = group(job, place, plan, budget, input, &failed);
        if result.is_ok() {
            std::mem::forget(stop);
        }
        result
    };
    let results: Vec<Result<(Partial, Vec<Partial>), Error>> = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = inputs.into_iter().map(|input| scope.spawn(move || work(input))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let mut partials = Vec::new();
    let mut distinct: Vec<Vec<Partial>> = plan.layout.distinct.iter().map(|_| Vec::new()).collect();
    // The error that stopped the other workers takes precedence over their `Cancelled`.
    let mut stopped = None;
    for result in results {
        match result {
            Ok((groups, values)) => {
                partials.push(groups);
                distinct.iter_mut().zip(values).for_each(|(all, own)| all.push(own));
            }
            Err(Error::Cancelled) => stopped = Some(Error::Cancelled),
            Err(error) => return Err(error),
        }
    }
    stopped.map_or(Ok((partials, distinct)), Err)
}

fn group(
    job: &Job,
    place: &SpillPlace,
    plan: &Arc<Plan>,
    budget: usize,
    mut input: Box<dyn Batches + '_>,
    failed: &AtomicBool,
) -> Result<(Partial, Vec<Partial>), Error> {
    let mut worker = Worker::new(plan, budget, || Overflow::new(place, 0))?;
    loop {
        job.check()?;
        if failed.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let reading = Meter::start();
        let batch = input.next()?;
        job.phases().add(reading.stop("read", 0, Duration::ZERO));
        let Some(batch) = batch else { return worker.finish() };
        let grouping = Meter::start();
        worker.add(&batch)?;
        job.phases().add(grouping.stop("group", 0, Duration::ZERO));
    }
}

/// Counts the distinct values in each group, into a separate table of groups.
fn count_distinct(
    job: &Job,
    place: &SpillPlace,
    plan: &Arc<Plan>,
    budget: usize,
    argument: usize,
    values: Vec<Partial>,
) -> Result<Partial, Error> {
    let mut counts = Worker::new(plan, budget, || Overflow::new(place, 0))?;
    let queue = Queue::new(values, budget)?;
    let mut merger = Merger::new(&queue, place, budget);
    let mut record = Vec::new();
    while let Some(merged) = merger.next(&|| Ok(Groups::new(Keys::of_bytes()?, &[])))? {
        job.check()?;
        for &group in &merged.order {
            record.clear();
            merged.groups.keys.write(group, &mut record);
            let key = key_of(&record).ok_or_else(|| Error::Query("a distinct value has no key".into()))?;
            counts.add_distinct(key, argument)?;
        }
        merger.recycle(merged);
    }
    Ok(counts.finish()?.0)
}

/// Adds the single group of a query without keys, which exists even for an empty input.
fn add_only_group(place: &SpillPlace, plan: &Arc<Plan>, partials: &mut Vec<Partial>) -> Result<(), Error> {
    if partials.is_empty() {
        partials.push(Partial { groups: plan.groups()?, overflow: Overflow::new(place, 0) });
    }
    for partial in partials {
        let group = partial.groups.keys.insert(&[]);
        debug_assert_eq!(group, FIRST_GROUP);
        partial.groups.grow_states();
    }
    Ok(())
}
