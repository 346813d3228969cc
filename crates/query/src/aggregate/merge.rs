//! Merges the groups of all workers into one table per hash partition, and tables into batches.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{SchemaRef, SortOptions};

use crate::phase::Meter;
use crate::spill::FrameRun;
use crate::{Batches, Error, Job};

use super::groups::{Groups, PARTITION_COUNT, Partitioned};
use super::overflow::{Overflow, SpillPlace};
use super::state::result;
use super::worker::{Partial, Plan};

/// Maximum number of groups of a sorted result: small enough for a person to read, and cheap to sort.
pub(crate) const SORTED_GROUPS_MAX: usize = 1 << 16;
/// Number of groups that are merged between checks for cancellation.
const CHECK_GROUPS: usize = 1 << 12;
/// Rows of a batch of results.
const BATCH_ROWS: usize = 8192;

/// Unmerged groups of one partition.
#[derive(Debug)]
enum Source {
    Memory { groups: Arc<Groups>, partitioned: Arc<Partitioned>, partition: usize },
    All(Arc<Groups>),
    Run(FrameRun),
}

/// All groups of a partition; partitions have disjoint keys.
#[derive(Debug, Default)]
struct Work {
    level: u32,
    sources: Vec<Source>,
}

/// Partitions to be merged, shared by all threads.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    works: Arc<Mutex<VecDeque<Work>>>,
    /// Whether all groups are in spill files.
    pub(crate) is_spilled: bool,
}

/// The table of a partition, and the order of its groups in the result.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) groups: Arc<Groups>,
    pub(crate) order: Vec<u32>,
}

/// Merges the partitions of a queue.
#[derive(Debug)]
pub(crate) struct Merger {
    queue: Queue,
    place: SpillPlace,
    budget: usize,
    /// An empty table whose memory is reused.
    empty: Option<Groups>,
}

impl Queue {
    /// Makes a queue of the workers' groups. Merging several tables may double their memory, so that a total
    /// of more than half of `bytes` is spilled.
    pub(crate) fn new(partials: Vec<Partial>, bytes: usize) -> Result<Queue, Error> {
        let groups: usize = partials.iter().map(|partial| partial.groups.len()).sum();
        let held: usize = partials.iter().map(|partial| partial.groups.held_bytes()).sum();
        let is_merged = partials.iter().filter(|partial| partial.groups.len() > 0).count() > 1;
        let is_spilled = partials.iter().any(|partial| !partial.overflow.is_empty())
            || is_merged && groups > SORTED_GROUPS_MAX && held > bytes / 2;
        let works = match (is_spilled, groups > SORTED_GROUPS_MAX) {
            (false, false) => {
                let partials = partials.into_iter().filter(|partial| partial.groups.len() > 0);
                let sources = partials.map(|partial| Source::All(Arc::new(partial.groups))).collect();
                vec![Work { level: 0, sources }]
            }
            (false, true) => in_memory(partials),
            (true, _) => spilled(partials)?,
        };
        let works = works.into_iter().filter(|work| !work.sources.is_empty()).collect();
        Ok(Queue { works: Arc::new(Mutex::new(works)), is_spilled })
    }

    /// The number of partitions in the queue.
    pub(crate) fn len(&self) -> usize {
        self.works.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn pop(&self) -> Option<Work> {
        self.works.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn push(&self, work: Work) {
        self.works.lock().unwrap_or_else(PoisonError::into_inner).push_back(work);
    }
}

fn empty_works(level: u32) -> Vec<Work> {
    (0..PARTITION_COUNT).map(|_| Work { level, sources: Vec::new() }).collect()
}

fn in_memory(partials: Vec<Partial>) -> Vec<Work> {
    let mut works = empty_works(1);
    for partial in partials {
        let partitioned = Arc::new(partial.groups.partitioned(0));
        let groups = Arc::new(partial.groups);
        for (partition, work) in works.iter_mut().enumerate() {
            let (groups, partitioned) = (Arc::clone(&groups), Arc::clone(&partitioned));
            if !partitioned.part(partition).is_empty() {
                work.sources.push(Source::Memory { groups, partitioned, partition });
            }
        }
    }
    works
}

/// Spills the groups in memory as well, to free the memory for merging.
fn spilled(partials: Vec<Partial>) -> Result<Vec<Work>, Error> {
    let mut works = empty_works(1);
    for mut partial in partials {
        if partial.groups.len() > 0 {
            partial.overflow.take(&mut partial.groups)?;
        }
        add_runs(&mut works, partial.overflow);
    }
    Ok(works)
}

fn add_runs(works: &mut [Work], overflow: Overflow) {
    for (work, runs) in works.iter_mut().zip(overflow.into_runs()) {
        work.sources.extend(runs.into_iter().map(Source::Run));
    }
}

impl Merger {
    /// Makes a merger with a budget in bytes.
    pub(crate) fn new(queue: &Queue, place: &SpillPlace, budget: usize) -> Merger {
        Merger { queue: queue.clone(), place: place.clone(), budget, empty: None }
    }

    /// Merges the next partition; `None` at the end. `make` makes an empty table.
    pub(crate) fn next(&mut self, make: &dyn Fn() -> Result<Groups, Error>) -> Result<Option<Merged>, Error> {
        while let Some(work) = self.queue.pop() {
            if let Some(merged) = self.merge(work, make)? {
                return Ok(Some(merged));
            }
        }
        Ok(None)
    }

    /// Merges the partition of a queue that has only one, and puts the table back. Returns false for other queues, and
    /// if the table exceeds the budget, so that the queue has several partitions from then on.
    pub(crate) fn merge_only(&mut self, make: &dyn Fn() -> Result<Groups, Error>) -> Result<bool, Error> {
        if self.queue.len() != 1 {
            return Ok(false);
        }
        let Some(work) = self.queue.pop() else { return Ok(false) };
        let level = work.level;
        let Some(merged) = self.merge(work, make)? else { return Ok(false) };
        self.queue.push(Work { level, sources: vec![Source::All(merged.groups)] });
        Ok(true)
    }

    /// Reuses the memory of a table that has been read.
    pub(crate) fn recycle(&mut self, merged: Merged) {
        if let Ok(mut groups) = Arc::try_unwrap(merged.groups) {
            groups.clear();
            self.empty = Some(groups);
        }
    }

    /// Merges a partition into a table. Returns `None` if the table exceeds the budget; its partitions are then queued.
    fn merge(
        &mut self,
        mut work: Work,
        make: &dyn Fn() -> Result<Groups, Error>,
    ) -> Result<Option<Merged>, Error> {
        if let [source] = &work.sources[..] {
            match source {
                Source::All(groups) => {
                    return Ok(Some(Merged {
                        groups: Arc::clone(groups),
                        order: groups.numbers().collect(),
                    }));
                }
                Source::Memory { groups, partitioned, partition } => {
                    let order = partitioned.part(*partition).to_vec();
                    return Ok(Some(Merged { groups: Arc::clone(groups), order }));
                }
                Source::Run(_) => {}
            }
        }
        let mut target = self.empty.take().map_or_else(make, Ok)?;
        let mut overflow = Overflow::new(&self.place, work.level);
        let budget = self.budget;
        let mut merged: usize = 0;
        let mut merge = |record: &[u8]| {
            merged += 1;
            if merged.is_multiple_of(CHECK_GROUPS) {
                self.place.check()?;
            }
            if !target.make_room(1, budget) {
                overflow.take(&mut target)?;
                target.make_room(1, budget);
            }
            target.merge(record)
        };
        for source in work.sources.drain(..) {
            match source {
                Source::Run(run) => self.place.read(run, &mut merge)?,
                Source::All(groups) => merge_groups(&groups, groups.numbers(), &mut merge)?,
                Source::Memory { groups, partitioned, partition } => {
                    let numbers = partitioned.part(partition).iter().copied();
                    merge_groups(&groups, numbers, &mut merge)?;
                }
            }
        }
        if overflow.is_empty() {
            let order = target.numbers().collect();
            return Ok(Some(Merged { groups: Arc::new(target), order }));
        }
        overflow.take(&mut target)?;
        self.empty = Some(target);
        let mut works = empty_works(work.level + 1);
        add_runs(&mut works, overflow);
        works.into_iter().filter(|work| !work.sources.is_empty()).for_each(|work| self.queue.push(work));
        Ok(None)
    }
}

fn merge_groups(
    groups: &Groups,
    numbers: impl Iterator<Item = u32>,
    mut merge: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut record = Vec::new();
    for group in numbers {
        record.clear();
        groups.write(group, &mut record);
        merge(&record)?;
    }
    Ok(())
}

/// The result rows of groups: keys, then aggregates.
pub(crate) fn rows(plan: &Plan, groups: &Groups, numbers: &[u32]) -> Result<RecordBatch, Error> {
    let mut columns = groups.keys.columns(numbers)?;
    let aggregates = plan.aggregation.aggregates().iter().zip(&plan.layout.outputs);
    for (aggregate, output) in aggregates {
        columns.push(result::column(aggregate, *output, &groups.states, numbers)?);
    }
    Ok(RecordBatch::try_new(plan.aggregation.schema(), columns)?)
}

/// Sorts groups by key: nulls last, NaN after all numbers.
pub(crate) fn sorted(groups: &Groups, numbers: &[u32]) -> Result<Vec<u32>, Error> {
    let columns: Vec<ArrayRef> = groups.keys.columns(numbers)?;
    if columns.is_empty() {
        return Ok(numbers.to_vec());
    }
    let options = SortOptions { descending: false, nulls_first: false };
    let field = |column: &ArrayRef| SortField::new_with_options(column.data_type().clone(), options);
    let converter = RowConverter::new(columns.iter().map(field).collect())?;
    let keys = converter.convert_columns(&columns)?;
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_unstable_by(|&a, &b| keys.row(a).cmp(&keys.row(b)));
    Ok(order.into_iter().map(|place| numbers[place]).collect())
}

/// The stream of a thread: the result or a part of it.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) job: Job,
    pub(crate) plan: Arc<Plan>,
    pub(crate) merger: Merger,
    /// Whether to sort the groups of each partition, which is set if the queue had one partition.
    pub(crate) is_sorted: bool,
    pub(crate) current: Option<(Merged, usize)>,
    /// The memory reservation of all streams.
    pub(crate) _memory: Arc<crate::job::Reservation>,
}

impl Batches for Results {
    fn schema(&self) -> SchemaRef {
        self.plan.aggregation.schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            self.job.check()?;
            if let Some((merged, start)) = self.current.take() {
                let end = (start + BATCH_ROWS).min(merged.order.len());
                if start < end {
                    let batch = rows(&self.plan, &merged.groups, &merged.order[start..end])?;
                    self.current = Some((merged, end));
                    return Ok(Some(batch));
                }
                self.merger.recycle(merged);
            }
            let merging = Meter::start();
            let plan = Arc::clone(&self.plan);
            let merged = self.merger.next(&|| plan.groups())?;
            self.job.phases().add(merging.stop("merge", 0, Duration::ZERO));
            let Some(mut merged) = merged else { return Ok(None) };
            if self.is_sorted {
                merged.order = sorted(&merged.groups, &merged.order)?;
            }
            self.current = Some((merged, 0));
        }
    }
}
