//! Costs of packed rows: scattering, sorting, gathering and merging by [`crate::sort`], in memory; comparing, copying.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{Field, Schema, SortOptions as KeyOptions};
use rand_core::Rng;
use sakiyomi_os::cpu::of_this_thread;

use super::data::{generator, job};
use super::measure::{Effort, median, split};
use crate::cost::curve::{Curve, CurvePoint};
use crate::cost::operators::RowCost;
use crate::order::SortKey;
use crate::sort::{SortOptions, Sorted, Sorter};
use crate::{Batches, Error, Job};

/// Measured costs of packed rows.
pub(super) struct RowCosts {
    pub(super) scatter: RowCost,
    pub(super) radix_sort: Curve,
    pub(super) comparison_ns: f64,
    pub(super) gather: RowCost,
    pub(super) merge: Curve,
    pub(super) copy_ns_per_byte: f64,
}

/// Columns of narrow and of wide rows, to separate the cost per byte from the cost per row.
const COLUMN_COUNTS: [usize; 2] = [4, 16];
/// Bytes of a column.
const COLUMN_BYTES: usize = 8;
/// Bytes of all rows and number of partitions: partitions within private caches, and beyond.
const SORT_CASES: [(usize, usize); 5] =
    [(16 << 20, 4), (16 << 20, 16), (16 << 20, 64), (16 << 20, 256), (64 << 20, 2)];
/// Index of the sort case that is also measured with wide rows.
const WIDE_SORT_CASE: usize = 1;
/// Repetitions of a sort, including a warm-up.
const SORT_RUNS: usize = 4;
/// Numbers of merged runs.
const RUN_COUNTS: [usize; 3] = [2, 8, 32];
/// Bytes of all rows that are merged.
const MERGED_BYTES: usize = 8 << 20;
/// Rows of an input batch.
const BATCH_ROWS: usize = 8192;
/// Rows of a sample.
const SAMPLE_ROWS: usize = 1 << 14;
/// Memory limit of a sort that does not spill; allocated on demand.
const SORT_MEMORY_BYTES: usize = 1 << 30;
/// Expected bytes passed to a sort, so that it uses the maximum number of partitions.
const EXPECTED_BYTES: u64 = 1 << 40;
/// Number of compared keys, and bytes of each.
const COMPARED_KEYS: usize = 1 << 14;
const COMPARED_KEY_BYTES: usize = 24;
/// Bytes that are copied.
const COPIED_BYTES: usize = 32 << 20;

pub(super) fn measure(effort: Effort) -> Result<RowCosts, Error> {
    let narrow =
        SORT_CASES.map(|(bytes, partitions)| (Sizes::new(effort, bytes, COLUMN_COUNTS[0]), partitions));
    let wide = Sizes::new(effort, SORT_CASES[WIDE_SORT_CASE].0, COLUMN_COUNTS[1]);
    let narrow_costs: Vec<[f64; 3]> = narrow
        .iter()
        .map(|&(sizes, partitions)| sort(effort, sizes, partitions))
        .collect::<Result<_, _>>()?;
    let wide_costs = sort(effort, wide, SORT_CASES[WIDE_SORT_CASE].1)?;
    // Scattering depends on the number of partitions, gathering on bytes and sorting on rows per partition.
    let cost = |which: usize, size: fn((Sizes, usize)) -> f64| {
        let widths = COLUMN_COUNTS.map(|columns| (columns * COLUMN_BYTES) as f64);
        let typical = narrow_costs[WIDE_SORT_CASE][which];
        let (_, ns_per_byte) = split((widths[0], typical), (widths[1], wide_costs[which]));
        let of_row = |ns: f64| (ns - ns_per_byte * widths[0]).max(0.0);
        let points = narrow
            .iter()
            .zip(&narrow_costs)
            .map(|(&sort, costs)| CurvePoint { size: size(sort), ns: of_row(costs[which]) });
        RowCost { ns_per_row: mean_curve(points.collect()), ns_per_byte }
    };
    let points = narrow.iter().zip(&narrow_costs);
    let sort_points = points.map(|(&(sizes, partitions), costs)| CurvePoint {
        size: sizes.rows as f64 / partitions as f64,
        ns: costs[1],
    });
    Ok(RowCosts {
        scatter: cost(0, |(_, partitions)| partitions as f64),
        radix_sort: mean_curve(sort_points.collect()),
        gather: cost(2, |(sizes, partitions)| (sizes.rows * sizes.width()) as f64 / partitions as f64),
        comparison_ns: comparison(effort),
        merge: merges(effort)?,
        copy_ns_per_byte: copy(effort),
    })
}

/// A curve through points; points of the same size are averaged.
fn mean_curve(mut points: Vec<CurvePoint>) -> Curve {
    points.sort_by(|a, b| a.size.total_cmp(&b.size));
    let same = points.chunk_by(|a, b| a.size == b.size).map(|same| CurvePoint {
        size: same[0].size,
        ns: same.iter().map(|point| point.ns).sum::<f64>() / same.len() as f64,
    });
    Curve::new(same.collect())
}

/// Number and width of sorted rows.
#[derive(Clone, Copy)]
struct Sizes {
    rows: usize,
    columns: usize,
}

impl Sizes {
    fn new(effort: Effort, bytes: usize, columns: usize) -> Sizes {
        Sizes { rows: effort.amount(bytes) / (columns * COLUMN_BYTES) + 1, columns }
    }

    fn width(self) -> usize {
        self.columns * COLUMN_BYTES
    }

    /// Batches of random numbers; the first column is the key.
    fn batches(self) -> Result<Vec<RecordBatch>, Error> {
        let mut random = generator(1);
        let name = |column: usize| Field::new(format!("c{column}"), arrow_schema::DataType::Int64, false);
        let schema = Arc::new(Schema::new((0..self.columns).map(name).collect::<Vec<_>>()));
        let batch = |from: usize| {
            let rows = BATCH_ROWS.min(self.rows - from);
            // Keys of 40 bits, as of two columns with typical ranges.
            let mut column =
                || Int64Array::from_iter_values((0..rows).map(|_| (random.next_u64() >> 24) as i64));
            let columns = (0..self.columns).map(|_| Arc::new(column()) as ArrayRef).collect();
            Ok(RecordBatch::try_new(schema.clone(), columns)?)
        };
        (0..self.rows).step_by(BATCH_ROWS).map(batch).collect()
    }
}

fn key() -> [SortKey; 1] {
    [SortKey { column: 0, options: KeyOptions { descending: false, nulls_first: false } }]
}

/// CPU times to scatter, sort and gather a row, in nanoseconds.
fn sort(effort: Effort, sizes: Sizes, partitions: usize) -> Result<[f64; 3], Error> {
    let batches = sizes.batches()?;
    let job = job(SORT_MEMORY_BYTES, 1)?;
    let sampled = Sizes { rows: SAMPLE_ROWS.min(sizes.rows), columns: 1 }.batches()?;
    let sample = arrow_select::concat::concat_batches(&sampled[0].schema(), &sampled)?;
    let options = SortOptions {
        sample: Some(sample),
        expected_bytes: Some(EXPECTED_BYTES),
        resident: SORT_MEMORY_BYTES,
        partitions,
        ..SortOptions::default()
    };
    let mut times: [Vec<f64>; 3] = Default::default();
    for run in 0..if effort == Effort::Full { SORT_RUNS } else { 2 } {
        let known = ["sort", "gather"].map(|phase| cpu_ns(&job, phase));
        let begun = of_this_thread();
        let mut sorter = Sorter::new(&job, &batches[0].schema(), &key(), &options)?;
        let mut worker = sorter.worker();
        batches.iter().try_for_each(|batch| worker.push(batch))?;
        worker.finish()?;
        let scattered = (of_this_thread() - begun).as_nanos() as f64;
        drain(&sorter.finish()?)?;
        let figures = [scattered, cpu_ns(&job, "sort") - known[0], cpu_ns(&job, "gather") - known[1]];
        if run > 0 {
            times.iter_mut().zip(figures).for_each(|(times, ns)| times.push(ns / sizes.rows as f64));
        }
    }
    Ok(times.map(|mut times| median(&mut times)))
}

/// Consumes all batches of a sort.
fn drain(sorted: &Sorted) -> Result<(), Error> {
    while let Some((_, mut partition)) = sorted.next_partition()? {
        while let Some(batch) = partition.next()? {
            std::hint::black_box(batch);
        }
    }
    Ok(())
}

/// CPU time of a phase of a job so far, in nanoseconds.
fn cpu_ns(job: &Job, name: &str) -> f64 {
    let phases = job.phases().list();
    let same = phases.iter().filter(|phase| phase.name == name);
    same.map(|phase| (phase.user_ns + phase.system_ns) as f64).sum()
}

/// CPU time per row of a merge, by the number of runs.
fn merges(effort: Effort) -> Result<Curve, Error> {
    let sizes = Sizes::new(effort, MERGED_BYTES, COLUMN_COUNTS[0]);
    let batches = sizes.batches()?;
    let point = |runs: usize| {
        let job = job(SORT_MEMORY_BYTES, runs)?;
        let mut times = Vec::new();
        for run in 0..if effort == Effort::Full { SORT_RUNS } else { 2 } {
            let known = cpu_ns(&job, "merge");
            // Each worker produces one in-memory run.
            let mut sorter = Sorter::new(&job, &batches[0].schema(), &key(), &SortOptions::default())?;
            let mut workers: Vec<_> = (0..runs).map(|_| sorter.worker()).collect();
            for (number, batch) in batches.iter().enumerate() {
                workers[number % runs].push(batch)?;
            }
            workers.into_iter().try_for_each(crate::sort::Worker::finish)?;
            drain(&sorter.finish()?)?;
            if run > 0 {
                times.push((cpu_ns(&job, "merge") - known) / sizes.rows as f64);
            }
        }
        Ok(CurvePoint { size: runs as f64, ns: median(&mut times) })
    };
    Ok(Curve::new(RUN_COUNTS.into_iter().map(point).collect::<Result<_, Error>>()?))
}

/// CPU time of a comparison of whole keys, as for ties of prefixes, in nanoseconds.
fn comparison(effort: Effort) -> f64 {
    let count = effort.amount(COMPARED_KEYS);
    let mut random = generator(4);
    let mut bytes = vec![b'k'; count * COMPARED_KEY_BYTES];
    for key in bytes.chunks_exact_mut(COMPARED_KEY_BYTES) {
        key[COMPARED_KEY_BYTES - 8..].copy_from_slice(&random.next_u64().to_be_bytes());
    }
    let key = |at: u32| &bytes[at as usize * COMPARED_KEY_BYTES..][..COMPARED_KEY_BYTES];
    let mut order: Vec<u32> = Vec::with_capacity(count);
    let comparisons = count as f64 * (count as f64).log2();
    let sorted = effort.measure(1, || {
        order.clear();
        order.extend(0..count as u32);
        order.sort_unstable_by(|&a, &b| key(a).cmp(key(b)));
    });
    sorted / comparisons
}

fn copy(effort: Effort) -> f64 {
    let source = vec![5u8; effort.amount(COPIED_BYTES)];
    let mut target = vec![0u8; source.len()];
    effort.measure(source.len(), || {
        target.copy_from_slice(std::hint::black_box(&source));
        std::hint::black_box(&target);
    })
}
