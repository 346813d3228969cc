//! Merges the groups of all workers into one table per hash partition, and tables into batches.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{SchemaRef, SortOptions};

use crate::phase::Meter;
use crate::{Batches, Error, Job};

use super::groups::Groups;
use super::overflow::{Overflow, SpillPlace};
use super::queue::{Queue, Source, Work};
use super::state::result;
use super::worker::Plan;

/// Number of groups that are merged between checks for cancellation.
const CHECK_GROUPS: usize = 1 << 12;
/// Rows of a batch of results.
const BATCH_ROWS: usize = 8192;

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

impl Merger {
    /// Makes a merger with a budget in bytes.
    pub(crate) fn new(queue: &Queue, place: &SpillPlace, budget: usize) -> Merger {
        Merger { queue: queue.clone(), place: place.clone(), budget, empty: None }
    }

    /// Merges the next partition; `None` at the end. `make` makes an empty table.
    pub(crate) fn next(&mut self, make: &dyn Fn() -> Result<Groups, Error>) -> Result<Option<Merged>, Error> {
        while let Some((work, _merging)) = self.queue.pop() {
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
        let Some((work, _merging)) = self.queue.pop() else { return Ok(false) };
        let level = work.level;
        let Some(merged) = self.merge(work, make)? else { return Ok(false) };
        self.queue.push(Work::new(level, vec![Source::All(merged.groups)]));
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
        if let ([source], true) = (&work.sources[..], work.runs.is_empty()) {
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
        self.place.read(work.runs.drain(..), &mut merge)?;
        for source in work.sources.drain(..) {
            match source {
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
        self.queue.divide(work.level + 1, overflow);
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

/// Returns the result rows of groups: keys, then aggregates.
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
