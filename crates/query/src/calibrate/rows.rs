//! Costs of packed rows: scattering, sorting, gathering and merging by [`crate::sort`], in memory; comparing, copying.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, SortOptions as KeyOptions};
use rand_core::Rng;
use rand_pcg::Pcg64;
use sakiyomi_os::cpu::of_this_thread;

use super::data::{generator, job, text};
use super::measure::{Effort, cpu_ns, fitted, median, split};
use crate::cost::curve::{Curve, CurvePoint};
use crate::cost::operators::RowCost;
use crate::order::SortKey;
use crate::sort::{SortOptions, Sorted, Sorter};
use crate::{Batches, Error};

/// Measured costs of packed rows.
pub(super) struct RowCosts {
    pub(super) scatter: RowCost,
    pub(super) radix_sort: Curve,
    pub(super) text_key_ns: f64,
    pub(super) comparison_ns: f64,
    pub(super) gather: RowCost,
    pub(super) merge: Curve,
    pub(super) copy_ns_per_byte: f64,
}

/// Columns of narrow rows of numbers, of which all sort cases are measured: what a row costs whatever its width is lost
/// in the difference of two wide rows.
const NARROW_COLUMN_COUNTS: [usize; 2] = [1, 4];
/// Columns of wide rows of numbers, to separate the cost per value from the cost per row.
const WIDE_COLUMN_COUNT: usize = 16;
/// Bytes of a number.
const NUMBER_BYTES: usize = 8;
/// Columns of text besides a number, and their mean bytes, to separate the cost per byte from the cost per text.
pub(super) const TEXT_COLUMNS: usize = 3;
pub(super) const TEXT_MEAN_BYTES: [usize; 2] = [12, 60];
/// Distinct values of the first column of a key whose codes are often equal.
const TIED_VALUES: u64 = 97;
/// Bytes of all rows, and number of partitions, of sorts by text.
const TEXT_SORT_CASE: (usize, usize) = (16 << 20, 4);
/// Bytes of all rows and number of partitions: partitions within private caches, and beyond.
const SORT_CASES: [(usize, usize); 5] =
    [(16 << 20, 4), (16 << 20, 16), (16 << 20, 64), (16 << 20, 256), (64 << 20, 2)];
/// Index of the sort case that is also measured with wide rows and with texts.
const TYPICAL_SORT_CASE: usize = 1;
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
/// Ratio of sizes that differ only because of whole rows.
const SAME_SIZE_RATIO: f64 = 1.01;
/// Bytes that are copied.
const COPIED_BYTES: usize = 32 << 20;

/// A sort of rows of numbers, and its costs of a row: scattering, sorting, gathering, in nanoseconds.
struct Measured {
    sizes: Sizes,
    partitions: usize,
    costs: [f64; 3],
}

pub(super) fn measure(effort: Effort) -> Result<RowCosts, Error> {
    let cases = NARROW_COLUMN_COUNTS.into_iter().flat_map(|count| SORT_CASES.map(|case| (count, case)));
    let narrow: Vec<Measured> = cases
        .map(|(count, (bytes, partitions))| {
            let sizes = Sizes::numbers(effort, bytes, count);
            Ok(Measured { sizes, partitions, costs: sort(effort, sizes, partitions)? })
        })
        .collect::<Result<_, Error>>()?;
    let (bytes, partitions) = SORT_CASES[TYPICAL_SORT_CASE];
    let wide = sort(effort, Sizes::numbers(effort, bytes, WIDE_COLUMN_COUNT), partitions)?;
    let [short, long] =
        TEXT_MEAN_BYTES.map(|text| sort(effort, Sizes::texts(effort, bytes, text), partitions));
    let (short, long) = (short?, long?);
    // Scattering depends on the number of partitions, gathering on bytes and sorting on rows per partition.
    let cost = |which: usize, size: fn(&Measured) -> f64| {
        let typical = narrow.iter().skip(TYPICAL_SORT_CASE).step_by(SORT_CASES.len());
        let typical = typical.map(|case| (case.sizes.numbers as f64, case.costs[which]));
        let of_counts: Vec<(f64, f64)> = typical.chain([(WIDE_COLUMN_COUNT as f64, wide[which])]).collect();
        let (row_ns, ns_per_value) = fitted(&of_counts);
        let texts = TEXT_COLUMNS as f64;
        let [short_bytes, long_bytes] = TEXT_MEAN_BYTES.map(|bytes| bytes as f64 * texts);
        let (texts_ns, ns_per_byte) = split((short_bytes, short[which]), (long_bytes, long[which]));
        let ns_per_text = ((texts_ns - row_ns - ns_per_value) / texts).max(0.0);
        let points = narrow.iter().map(|case| CurvePoint {
            size: size(case),
            ns: (case.costs[which] - ns_per_value * case.sizes.numbers as f64).max(0.0),
        });
        RowCost { ns_per_row: mean_curve(points.collect()), ns_per_value, ns_per_text, ns_per_byte }
    };
    let sort_points = narrow
        .iter()
        .map(|case| CurvePoint { size: case.sizes.rows as f64 / case.partitions as f64, ns: case.costs[1] });
    let radix_sort = mean_curve(sort_points.collect());
    let (text_key_ns, comparison_ns) = text_keys(effort, &radix_sort)?;
    Ok(RowCosts {
        scatter: cost(0, |case| case.partitions as f64),
        radix_sort,
        text_key_ns,
        comparison_ns,
        gather: cost(2, |case| (case.sizes.rows * case.sizes.width()) as f64 / case.partitions as f64),
        merge: merges(effort)?,
        copy_ns_per_byte: copy(effort),
    })
}

/// CPU times of the code of a text, and of a comparison of whole keys, in nanoseconds.
fn text_keys(effort: Effort, radix_sort: &Curve) -> Result<(f64, f64), Error> {
    let (bytes, partitions) = TEXT_SORT_CASE;
    let [plain, tied] = [Key::Text, Key::TiedTexts].map(|key| {
        let sizes = Sizes { key, ..Sizes::texts(effort, bytes, TEXT_MEAN_BYTES[0]) };
        Ok::<_, Error>((sizes.rows as f64, sort(effort, sizes, partitions)?[1]))
    });
    let ((rows, plain_ns), (_, tied_ns)) = (plain?, tied?);
    let text_key_ns = (plain_ns - radix_sort.at(rows / partitions as f64)).max(0.0);
    let rows_per_code = (rows / TIED_VALUES as f64).max(2.0);
    Ok((text_key_ns, (tied_ns - plain_ns).max(0.0) / rows_per_code.log2()))
}

/// Returns a curve through points; points of nearly the same size are averaged.
fn mean_curve(mut points: Vec<CurvePoint>) -> Curve {
    points.sort_by(|a, b| a.size.total_cmp(&b.size));
    let is_same = |a: &CurvePoint, b: &CurvePoint| b.size <= a.size * SAME_SIZE_RATIO;
    let same = points.chunk_by(is_same).map(|same| CurvePoint {
        size: same[0].size,
        ns: same.iter().map(|point| point.ns).sum::<f64>() / same.len() as f64,
    });
    Curve::new(same.collect())
}

/// Columns by which rows are sorted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    /// The number in the first column.
    Number,
    /// The text in the second column, whose first bytes are random.
    Text,
    /// A text with few values, then another one.
    TiedTexts,
}

/// Number, width and key of generated rows.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) rows: usize,
    /// Columns of numbers.
    numbers: usize,
    /// Columns of text after them, and their mean bytes.
    texts: usize,
    text_bytes: usize,
    key: Key,
}

impl Sizes {
    pub(super) fn numbers(effort: Effort, bytes: usize, numbers: usize) -> Sizes {
        let rows = effort.amount(bytes) / (numbers * NUMBER_BYTES) + 1;
        Sizes { rows, numbers, texts: 0, text_bytes: 0, key: Key::Number }
    }

    pub(super) fn texts(effort: Effort, bytes: usize, text_bytes: usize) -> Sizes {
        let of_row = Sizes { rows: 0, numbers: 1, texts: TEXT_COLUMNS, text_bytes, key: Key::Number };
        Sizes { rows: effort.amount(bytes) / of_row.width() + 1, ..of_row }
    }

    fn width(self) -> usize {
        self.numbers * NUMBER_BYTES + self.texts * (self.text_bytes + TEXT_LENGTH_BYTES)
    }

    pub(super) fn schema(self) -> SchemaRef {
        let field = |column: usize| {
            let data_type = if column < self.numbers { DataType::Int64 } else { DataType::Utf8 };
            Field::new(format!("c{column}"), data_type, false)
        };
        Arc::new(Schema::new((0..self.numbers + self.texts).map(field).collect::<Vec<_>>()))
    }

    /// Batches of random values.
    pub(super) fn batches(self) -> Result<Vec<RecordBatch>, Error> {
        let mut random = generator(1);
        let schema = self.schema();
        let batch = |from: usize| {
            let rows = BATCH_ROWS.min(self.rows - from);
            let columns = (0..schema.fields().len()).map(|column| self.column(column, rows, &mut random));
            Ok(RecordBatch::try_new(schema.clone(), columns.collect())?)
        };
        (0..self.rows).step_by(BATCH_ROWS).map(batch).collect()
    }

    fn column(self, column: usize, rows: usize, random: &mut Pcg64) -> ArrayRef {
        if column < self.numbers {
            // Keys of 40 bits, as of two columns with typical ranges.
            return Arc::new(Int64Array::from_iter_values(
                (0..rows).map(|_| (random.next_u64() >> 24) as i64),
            ));
        }
        let is_tied = self.key == Key::TiedTexts && column == self.numbers;
        let mut text = || {
            let number = random.next_u64();
            // Two digits, and more than the bytes that a code has.
            if is_tied {
                format!("{:02} of many", number % TIED_VALUES)
            } else {
                text(number, self.text_bytes as u64)
            }
        };
        Arc::new(StringArray::from_iter_values((0..rows).map(|_| text())))
    }

    fn key(self) -> Vec<SortKey> {
        let of = |column| SortKey { column, options: KeyOptions { descending: false, nulls_first: false } };
        match self.key {
            Key::Number => vec![of(0)],
            Key::Text => vec![of(self.numbers)],
            Key::TiedTexts => vec![of(self.numbers), of(self.numbers + 1)],
        }
    }

    /// Returns a sample of the key columns.
    fn sample(self) -> Result<RecordBatch, Error> {
        let batches = Sizes { rows: SAMPLE_ROWS.min(self.rows), ..self }.batches()?;
        let columns: Vec<usize> = self.key().iter().map(|key| key.column).collect();
        Ok(arrow_select::concat::concat_batches(&self.schema(), &batches)?.project(&columns)?)
    }
}

/// Bytes of the length of a text in a packed row.
const TEXT_LENGTH_BYTES: usize = 4;

/// CPU times to scatter, sort and gather a row, in nanoseconds.
fn sort(effort: Effort, sizes: Sizes, partitions: usize) -> Result<[f64; 3], Error> {
    let batches = sizes.batches()?;
    let job = job(SORT_MEMORY_BYTES, 1)?;
    let options = SortOptions {
        sample: Some(sizes.sample()?),
        expected_bytes: Some(EXPECTED_BYTES),
        resident: SORT_MEMORY_BYTES,
        partitions,
        ..SortOptions::default()
    };
    let mut times: [Vec<f64>; 3] = Default::default();
    for run in 0..if effort == Effort::Full { SORT_RUNS } else { 2 } {
        let known = ["sort", "gather"].map(|phase| cpu_ns(&job, phase));
        let begun = of_this_thread();
        let mut sorter = Sorter::new(&job, &batches[0].schema(), &sizes.key(), &options)?;
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

/// CPU time per row of a merge, by the number of runs.
fn merges(effort: Effort) -> Result<Curve, Error> {
    let sizes = Sizes::numbers(effort, MERGED_BYTES, NARROW_COLUMN_COUNTS[1]);
    let batches = sizes.batches()?;
    let point = |runs: usize| {
        let job = job(SORT_MEMORY_BYTES, runs)?;
        let mut times = Vec::new();
        for run in 0..if effort == Effort::Full { SORT_RUNS } else { 2 } {
            let known = cpu_ns(&job, "merge");
            // Each worker produces one in-memory run.
            let mut sorter = Sorter::new(&job, &batches[0].schema(), &sizes.key(), &SortOptions::default())?;
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

fn copy(effort: Effort) -> f64 {
    let source = vec![5u8; effort.amount(COPIED_BYTES)];
    let mut target = vec![0u8; source.len()];
    effort.measure(source.len(), || {
        target.copy_from_slice(std::hint::black_box(&source));
        std::hint::black_box(&target);
    })
}
