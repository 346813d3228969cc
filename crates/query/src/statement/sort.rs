//! `sort`: rows in the order of some columns.

use crate::cost::Plan;
use crate::cost::plan::Algorithm;
use crate::order::{self, SortKey};
use crate::sort::runs::collected_rows;
use crate::sort::{SortOptions, Sorted};
use crate::{Batches, Error, Job};

use super::Outcome;
use super::rows::{Input, Rows};
use super::sink::{Destination, Sink};
use crate::workers;

/// Options of a sort.
#[derive(Clone, Debug)]
pub struct Sort {
    /// Columns with their directions; see [`order::parse`].
    pub by: String,
    /// Maximum number of rows of the result.
    pub limit: Option<u64>,
    /// Whether equal rows keep the table's order.
    pub stable: bool,
}

/// Sorts a table into a file, as a plan says or as sizes suggest.
///
/// # Errors
/// [`Error::Query`] if a column or expression does not fit, [`Error::Memory`] if the limit is too low; errors of
/// reading, spilling and writing.
pub fn sort(
    job: &Job,
    input: Input,
    sort: &Sort,
    destination: &Destination,
    plan: Option<&Plan>,
) -> Result<Outcome, Error> {
    let mut rows = Rows::bind(input, true)?;
    let keys = order::parse(&sort.by, &rows.schema())?;
    let destination = destination.clone().sorted_by(&keys);
    let sink = Sink::open(job, &rows.stored_schema(), &destination)?;
    let progress = job.progress();
    progress.begin("reading");
    // Record batches are sorted as they come: without a copy, and without a sample, as runs.
    if rows.is_stream() && !rows.has_batches() {
        rows.spool(job)?;
    }
    progress.expect(rows.scanned_rows().unwrap_or(0).saturating_mul(2));
    let threads = job.options().threads;
    let options = options(job, &rows, &keys, sort, plan)?;
    let sorted = crate::sort::sort(job, rows.streams(job, threads, sort.stable)?, &keys, &options)?;
    if progress.snapshot().total_rows > 0 {
        progress.expect_more(sorted.rows());
    }
    progress.begin("writing");
    give_out(job, sorted, &sink)?;
    Ok(Outcome::of(job, &[&rows], sink.finish()?))
}

fn options(
    job: &Job,
    rows: &Rows,
    keys: &[SortKey],
    sort: &Sort,
    plan: Option<&Plan>,
) -> Result<SortOptions, Error> {
    let options = plan.map_or_else(SortOptions::default, Plan::sort_options);
    let needs_sample = match plan.map(|plan| plan.algorithm) {
        Some(Algorithm::Sort { sort }) => sort.needs_sample(),
        _ => !rows.has_batches() && !keeps_few(job, rows, sort.limit),
    };
    let columns: Vec<usize> = keys.iter().map(|key| key.column).collect();
    let sample = needs_sample.then(|| rows.splitter_sample(job, &columns)).transpose()?;
    let expected_bytes = rows.expected_bytes().filter(|_| rows.is_all());
    // A file without a number of rows, such as one of text, has about as many bytes as its rows.
    let bytes_max = rows.expected_bytes().unwrap_or_else(|| rows.bytes());
    let bytes_max = Some(bytes_max).filter(|_| !rows.has_batches());
    Ok(SortOptions { sample, expected_bytes, bytes_max, limit: sort.limit, stable: sort.stable, ..options })
}

/// Returns whether a sort with a limit keeps so few rows that each thread has the memory for them (top N).
fn keeps_few(job: &Job, rows: &Rows, limit: Option<u64>) -> bool {
    let bytes = limit.map(|limit| collected_rows(limit).saturating_mul(rows.row_bytes()));
    let share = job.io().pool().budget() / TOP_MEMORY_PARTS / job.options().threads.max(1);
    bytes.is_some_and(|bytes| bytes <= share as u64)
}

/// Fraction of the buffer budget for the rows that a sort with a limit collects: its rows may be longer than estimated.
const TOP_MEMORY_PARTS: usize = 8;

/// Writes sorted rows to a sink, on all threads.
pub(super) fn give_out(job: &Job, sorted: Sorted, sink: &Sink) -> Result<(), Error> {
    let handles = vec![sorted; job.options().threads.max(1)];
    workers::each(job, handles, |_, sorted| {
        while let Some((index, mut partition)) = sorted.next_partition()? {
            let mut part = sink.part(index);
            while let Some(batch) = partition.next()? {
                part.push(batch)?;
            }
            drop(partition);
            part.finish()?;
        }
        Ok(())
    })?;
    Ok(())
}
