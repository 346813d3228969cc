//! Hash aggregation on several threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::phase::Meter;
use crate::{Batches, Error, Job};

use super::groups::Groups;
use super::index::FIRST_GROUP;
use super::keys::Keys;
use super::merge::{Merger, Queue, Results};
use super::overflow::{Overflow, SpillPlace};
use super::plan::Aggregation;
use super::worker::{Partial, Plan, Worker, key_of};

/// Part of the memory that is free that groups take: batches that come in and go out need the rest.
const MEMORY_NUMERATOR: usize = 3;
/// See [`MEMORY_NUMERATOR`].
const MEMORY_DENOMINATOR: usize = 4;
/// Where groups are merged beside those of workers, or different values are counted, each takes one part in this many.
const SHARED_PARTS: usize = 2;
/// Memory of groups, at least: less would be spilled after every few rows.
const MEMORY_MIN_BYTES: usize = 256 << 10;

/// The groups of all rows, ready to be read.
#[derive(Debug)]
pub struct Aggregated {
    job: Job,
    plan: Arc<Plan>,
    queue: Queue,
    place: SpillPlace,
    is_sorted: bool,
    memory: Arc<crate::job::Reservation>,
}

/// Groups the rows of streams, one thread for each. Groups that do not fit into the job's memory are spilled.
///
/// # Errors
/// If a stream fails, an expression cannot be computed, a sum does not fit its type, or spilling fails.
pub fn aggregate(
    job: &Job,
    aggregation: Aggregation,
    inputs: Vec<Box<dyn Batches + '_>>,
) -> Result<Aggregated, Error> {
    let bytes = (job.available() / MEMORY_DENOMINATOR * MEMORY_NUMERATOR).max(MEMORY_MIN_BYTES);
    aggregate_within(job, &SpillPlace::of(job), bytes, aggregation, inputs)
}

/// The same with groups of a number of bytes, spilled to a place.
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
        // One more table, beside those of the workers.
        let counted = count_distinct(job, place, &plan, budget / SHARED_PARTS, argument, values)?;
        partials.push(counted);
    }
    if plan.aggregation.keys().is_empty() {
        add_only_group(place, &plan, &mut partials)?;
    }
    let queue = Queue::new(partials, bytes)?;
    let is_sorted = queue.len() == 1;
    Ok(Aggregated { job: job.clone(), plan, queue, place: place.clone(), is_sorted, memory })
}

impl Aggregated {
    /// Whether the result is in the order of its keys (nulls last): it is if there are at most 65,536 groups. Others come
    /// in no order.
    #[must_use]
    pub fn is_sorted(&self) -> bool {
        self.is_sorted
    }

    /// The result as one stream.
    #[must_use]
    pub fn into_stream(self) -> Box<dyn Batches> {
        Box::new(self.stream(1))
    }

    /// The result as streams that share the groups, for as many threads.
    #[must_use]
    pub fn into_streams(self, streams: usize) -> Vec<Box<dyn Batches>> {
        let streams = streams.clamp(1, self.queue.len().max(1));
        (0..streams).map(|_| Box::new(self.stream(streams)) as Box<dyn Batches>).collect()
    }

    fn stream(&self, streams: usize) -> Results {
        // Groups of workers that are still in memory take their part.
        let part = if self.queue.is_spilled { 1 } else { SHARED_PARTS };
        let budget = self.memory.bytes() / part / streams;
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

/// The groups of each worker, and the different values of each argument that are counted.
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
        let result = group(job, place, plan, budget, input, &failed);
        if result.is_err() {
            failed.store(true, Ordering::Relaxed);
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
    // A worker that was stopped says so; the error that stopped it comes first.
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
        let Some(batch) = batch else { return Ok(worker.finish()) };
        let grouping = Meter::start();
        worker.add(&batch)?;
        job.phases().add(grouping.stop("group", 0, Duration::ZERO));
    }
}

/// The number of different values in each group, as one more table of groups.
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
            let key = key_of(&record).ok_or_else(|| Error::Query("a different value has no key".into()))?;
            counts.add_distinct(key, argument)?;
        }
        merger.recycle(merged);
    }
    Ok(counts.finish().0)
}

/// Without keys there is one group, even of no rows.
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
