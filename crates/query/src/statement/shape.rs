//! A statement's tables as the cost model sees them: sizes by column, and widths of texts and frequencies of keys from
//! a sample.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_row::{RowConverter, SortField};

use crate::cost::{ColumnShape, TableShape};
use crate::describe::{self, describe};
use crate::output::OutputOptions;
use crate::{Error, Job};

use super::rows::Rows;
use super::sink::Destination;

/// Rows of a sample: enough for the mean width of a text to a few per cent.
const SHAPE_SAMPLE_ROWS: usize = 2000;

/// A table with its sample.
pub(super) struct SampledTable {
    pub(super) table: TableShape,
    pub(super) sample: RecordBatch,
    /// Estimated fraction of the scanned rows that pass the condition, 0 to 1.
    pub(super) selected_ratio: f64,
    /// Fraction of the table's rows that are scanned, 0 to 1.
    scanned_ratio: f64,
}

/// Returns the shape of the columns that a statement reads, before filtering.
pub(super) fn table(job: &Job, rows: &Rows, cached_ratio: f64) -> Result<SampledTable, Error> {
    let (sample, taken) = rows.scan_sample(job, SHAPE_SAMPLE_ROWS)?;
    let selected_ratio = if sample.num_rows() == 0 { 1.0 } else { taken as f64 / sample.num_rows() as f64 };
    let mut table = describe(rows.table(), rows.columns(), cached_ratio);
    if sample.num_rows() > 0 {
        for (column, values) in table.columns.iter_mut().zip(sample.columns()) {
            (column.kind, column.value_bytes) = describe::sampled(values);
        }
    }
    // Row groups that the scan skips: all rows that pass the condition are in the others.
    let scanned = rows.scanned_rows().unwrap_or(table.rows).min(table.rows);
    let scanned_ratio = scanned as f64 / table.rows.max(1) as f64;
    if scanned < table.rows {
        table.rows = scanned;
        table.columns = scaled(&table.columns, scanned_ratio);
    }
    table.splits = rows.splits();
    let shaped = SampledTable { table, sample, selected_ratio: 1.0, scanned_ratio };
    Ok(SampledTable { selected_ratio: shaped.of_scanned(selected_ratio), ..shaped })
}

/// Returns the columns of a multiple or of a part of the rows.
pub(super) fn scaled(columns: &[ColumnShape], ratio: f64) -> Vec<ColumnShape> {
    let of = |bytes: u64| (bytes as f64 * ratio) as u64;
    let scaled = |column: &ColumnShape| ColumnShape {
        file_bytes: of(column.file_bytes),
        encoded_bytes: of(column.encoded_bytes),
        ..*column
    };
    columns.iter().map(scaled).collect()
}

impl SampledTable {
    /// Fraction of the scanned rows that pass the condition, from that of all rows.
    pub(super) fn of_scanned(&self, passing_ratio: f64) -> f64 {
        (passing_ratio / self.scanned_ratio.max(f64::MIN_POSITIVE)).min(1.0)
    }
}

/// Returns the shape of a result in the destination's format; `None` for a preview.
pub(super) fn result(rows: u64, columns: &[ColumnShape], destination: &Destination) -> Option<TableShape> {
    let Destination::File { options: OutputOptions { format, compression, .. }, .. } = destination else {
        return None;
    };
    Some(describe::result(columns.to_vec(), rows, *format, *compression))
}

/// Estimates the groups of a table of `rows` rows, of which `sample` has the keys in sampled order, with at most
/// `groups_max` groups, such as a bound from column statistics.
pub(super) fn groups(sample: &[ArrayRef], rows: u64, groups_max: u64) -> Result<u64, Error> {
    let mut keys = encoded(sample)?;
    if keys.is_empty() {
        return Ok(1);
    }
    // A sample has runs of neighbors: rows with equal keys that follow each other in the table count once.
    let sampled = keys.len() as f64;
    keys.dedup();
    let units = rows as f64 * keys.len() as f64 / sampled;
    Ok((distinct(keys, units) as u64).min(groups_max).clamp(1, rows.max(1)))
}

/// Estimates the distinct values of a population from a sample (Chao 1984, bias-corrected).
///
/// The estimate is `d + f1 (f1 - 1) / (2 (f2 + 1))` for `d` distinct values, of which `f1` occur once and `f2` twice. The
/// second term is scaled by the unsampled fraction of the population (finite-population correction). If all sampled
/// values are distinct, and there are several, the estimate is the population.
pub(super) fn distinct<T: Ord>(mut sample: Vec<T>, population: f64) -> f64 {
    sample.sort_unstable();
    let (mut all, mut once, mut twice) = (0.0, 0.0, 0.0);
    for same in sample.chunk_by(|a, b| a == b) {
        all += 1.0;
        once += if same.len() == 1 { 1.0 } else { 0.0 };
        twice += if same.len() == 2 { 1.0 } else { 0.0 };
    }
    if all > 1.0 && once == all {
        // All sampled values are distinct, so all values may be; an underestimate would reserve too little memory.
        return population.max(all);
    }
    let unseen_ratio = (1.0 - sample.len() as f64 / population.max(1.0)).max(0.0);
    let unseen = once * (once - 1.0_f64).max(0.0) / (2.0 * (twice + 1.0)) * unseen_ratio;
    (all + unseen).min(population.max(all))
}

/// Encodes rows as byte strings with the same order.
pub(super) fn encoded(columns: &[ArrayRef]) -> Result<Vec<Vec<u8>>, Error> {
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let rows = RowConverter::new(fields)?.convert_columns(columns)?;
    Ok(rows.iter().map(|row| row.as_ref().to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    fn numbers(values: impl Iterator<Item = i64>) -> [ArrayRef; 1] {
        [Arc::new(Int64Array::from_iter_values(values))]
    }

    #[test]
    fn groups_are_those_of_the_sample_where_it_has_each_often_and_many_more_where_it_has_each_once() {
        assert_eq!(groups(&numbers((0..1000).map(|n| n % 4)), 6_000_000, u64::MAX).unwrap(), 4);
        assert_eq!(groups(&numbers(0..1000), 1_000_000, u64::MAX).unwrap(), 1_000_000);
        assert_eq!(groups(&numbers(0..1000), 1_000_000, 30_000).unwrap(), 30_000, "the bounds of the column");
        assert_eq!(groups(&[], 10, u64::MAX).unwrap(), 1);
    }

    #[test]
    fn groups_of_a_few_rows_each_are_estimated_within_a_third() {
        let mut random = Pcg64::seed_from_u64(21);
        let sample = numbers((0..16_000).map(|_| (random.next_u64() % 400_000).cast_signed()));
        let found = groups(&sample, 1_600_000, u64::MAX).unwrap() as f64;
        assert!((found / 400_000.0 - 1.0).abs() < 1.0 / 3.0, "{found}");
    }

    #[test]
    fn groups_of_neighbors_are_as_many_as_their_runs() {
        // Runs of 64 neighbors of a table that is in the order of its groups, which have 4 rows each.
        let row = |n: i64| n / 64 * 6400 + n % 64;
        let found = groups(&numbers((0..16_000).map(|n| row(n) / 4)), 1_600_000, u64::MAX).unwrap() as f64;
        assert!((found / 400_000.0 - 1.0).abs() < 0.1, "{found}");
    }
}
