//! A statement's tables as the cost model sees them: sizes by column, and widths of texts and frequencies of keys from
//! a sample.

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_row::{RowConverter, SortField};

use crate::cost::{ColumnShape, KeyShape, TableShape};
use crate::describe::{self, describe};
use crate::output::OutputOptions;
use crate::{Error, Job};

use super::rows::Rows;
use super::sink::Destination;

/// Rows of a sample: enough for the mean width of a text to a few per cent.
const SHAPE_SAMPLE_ROWS: usize = 2000;

/// A table with its sample.
pub(super) struct Shaped {
    pub(super) table: TableShape,
    pub(super) sample: RecordBatch,
    /// Estimated fraction of the scanned rows that pass the condition, 0 to 1.
    pub(super) selected_ratio: f64,
    /// Fraction of the table's rows that are scanned, 0 to 1.
    scanned_ratio: f64,
}

/// Returns the shape of the columns that a statement reads, before filtering.
pub(super) fn table(job: &Job, rows: &Rows, cached_ratio: f64) -> Result<Shaped, Error> {
    let (sample, taken) = rows.scan_sample(job, SHAPE_SAMPLE_ROWS)?;
    let selected_ratio = if sample.num_rows() == 0 { 1.0 } else { taken as f64 / sample.num_rows() as f64 };
    let mut table = describe(rows.table(), rows.columns(), cached_ratio);
    // Row groups that the scan skips: all rows that pass the condition are in the others.
    let scanned = rows.scanned_rows().unwrap_or(table.rows).min(table.rows);
    let scanned_ratio = scanned as f64 / table.rows.max(1) as f64;
    if scanned < table.rows {
        table.rows = scanned;
        for column in &mut table.columns {
            column.file_bytes = (column.file_bytes as f64 * scanned_ratio) as u64;
            column.encoded_bytes = (column.encoded_bytes as f64 * scanned_ratio) as u64;
        }
    }
    let shaped = Shaped { table, sample, selected_ratio: 1.0, scanned_ratio };
    Ok(Shaped { selected_ratio: shaped.of_scanned(selected_ratio), ..shaped })
}

impl Shaped {
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

/// Returns the mean number of sampled rows that share the first 64 bits of a key: 1 if the prefix distinguishes as many
/// rows as the whole key.
pub(super) fn key(sample: &RecordBatch, places: &[usize]) -> Result<KeyShape, Error> {
    let columns: Vec<ArrayRef> = places.iter().map(|&place| sample.column(place).clone()).collect();
    let keys = encoded(&columns)?;
    let bits: usize =
        columns.iter().map(|column| column.data_type().primitive_width().map_or(64, |width| 8 * width)).sum();
    let is_text = columns.iter().any(|column| column.data_type().primitive_width().is_none());
    if keys.is_empty() || (!is_text && bits <= PREFIX_BITS) {
        return Ok(KeyShape::EXACT);
    }
    // The row format has a null byte before each value.
    let prefix = |key: &Vec<u8>| key.iter().take(PREFIX_BITS / 8 + 1).copied().collect::<Vec<u8>>();
    let prefixes = distinct(keys.iter().map(prefix).collect());
    Ok(KeyShape { rows_per_prefix: (distinct(keys) as f64 / prefixes.max(1) as f64).max(1.0) })
}

/// Bits of the key prefix by which rows are sorted first.
const PREFIX_BITS: usize = 64;

/// Estimates the groups of a table of `rows` rows from a sample (GEE; Charikar et al., PODS 2000): each value that
/// occurs once in the sample counts as `sqrt(rows / sampled)` groups.
pub(super) fn groups(sample: &[ArrayRef], rows: u64) -> Result<u64, Error> {
    let mut keys = encoded(sample)?;
    if keys.is_empty() {
        return Ok(1);
    }
    let sampled = keys.len() as f64;
    keys.sort_unstable();
    let runs = keys.chunk_by(|a, b| a == b).map(<[Vec<u8>]>::len);
    let (once, more) = runs.fold((0.0, 0.0), |(once, more), length| match length {
        1 => (once + 1.0, more),
        _ => (once, more + 1.0),
    });
    let estimate = (rows as f64 / sampled).max(1.0).sqrt() * once + more;
    Ok((estimate as u64).clamp(1, rows.max(1)))
}

/// Encodes rows as byte strings with the same order.
fn encoded(columns: &[ArrayRef]) -> Result<Vec<Vec<u8>>, Error> {
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let rows = RowConverter::new(fields)?.convert_columns(columns)?;
    Ok(rows.iter().map(|row| row.as_ref().to_vec()).collect())
}

fn distinct(mut keys: Vec<Vec<u8>>) -> usize {
    keys.sort_unstable();
    keys.dedup();
    keys.len()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringArray};

    use super::*;

    #[test]
    fn groups_are_those_of_the_sample_where_it_has_each_often_and_many_more_where_it_has_each_once() {
        let few: ArrayRef = Arc::new(Int64Array::from_iter_values((0..1000).map(|n| n % 4)));
        assert_eq!(groups(&[few], 6_000_000).unwrap(), 4);
        let many: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        assert!(groups(&[many], 1_000_000).unwrap() > 20_000);
        assert_eq!(groups(&[], 10).unwrap(), 1);
    }

    #[test]
    fn a_key_with_a_common_prefix_is_not_told_apart_by_64_bits() {
        let texts = |prefix: &str| {
            let texts = StringArray::from_iter_values((0..100).map(|n| format!("{prefix}{n:03}")));
            RecordBatch::try_from_iter([("t", Arc::new(texts) as ArrayRef)]).unwrap()
        };
        assert!(key(&texts(""), &[0]).unwrap().rows_per_prefix < 1.01);
        assert!(key(&texts("common prefix "), &[0]).unwrap().rows_per_prefix > 99.0);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 2]));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        assert_eq!(key(&batch, &[0]).unwrap(), KeyShape::EXACT);
    }
}
