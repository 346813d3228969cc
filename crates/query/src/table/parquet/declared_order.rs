//! Row order declared by Parquet files.

use arrow_array::{Array, BooleanArray};
use arrow_ord::cmp;
use arrow_schema::{DataType, SortOptions};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::{RowGroupMetaData, SortingColumn};

use super::footer::ParquetFile;
use super::statistics::flat_leaf;
use crate::Error;
use crate::order::SortKey;
use crate::table::guard::decode;

/// The declared order of all rows of a file. Files declare it per row group; across row groups it is derived from their
/// bounds. It then covers all keys if no two row groups share a value of the first key, else only that key.
pub(in crate::table) fn declared_order(file: &ParquetFile) -> Vec<SortKey> {
    let groups: Vec<&RowGroupMetaData> =
        file.metadata.row_groups().iter().filter(|group| group.num_rows() > 0).collect();
    let Some(declared) = groups.first().and_then(|group| group.sorting_columns()) else { return Vec::new() };
    if groups.iter().any(|group| group.sorting_columns() != Some(declared)) {
        return Vec::new();
    }
    let mut keys = keys(file, declared);
    let Some(first) = keys.first() else { return keys };
    let held = if groups.len() == 1 {
        keys.len()
    } else {
        decode(&file.source.path, || held_keys(file, first, &groups)).unwrap_or(0)
    };
    keys.truncate(held);
    keys
}

/// The keys of an order, up to the first nested column.
fn keys(file: &ParquetFile, declared: &[SortingColumn]) -> Vec<SortKey> {
    let key = |declared: &SortingColumn| {
        let leaf = usize::try_from(declared.column_idx).ok()?;
        let column = (0..file.schema.fields().len()).find(|&column| flat_leaf(file, column) == Some(leaf))?;
        let options = SortOptions { descending: declared.descending, nulls_first: declared.nulls_first };
        Some(SortKey { column, options })
    };
    declared.iter().map_while(key).collect()
}

/// Number of keys whose order holds across row groups, by the bounds of the first key.
fn held_keys(file: &ParquetFile, first: &SortKey, groups: &[&RowGroupMetaData]) -> Result<usize, Error> {
    let field = file.schema.field(first.column);
    // The bounds of floating-point columns ignore NaN.
    let is_float = matches!(field.data_type(), DataType::Float16 | DataType::Float32 | DataType::Float64);
    let Some(leaf) = flat_leaf(file, first.column).filter(|_| !is_float) else { return Ok(0) };
    let schema = file.metadata.file_metadata().schema_descr();
    let converter = StatisticsConverter::from_column_index(leaf, field, schema)?;
    let converter = converter.with_missing_null_counts_as_zero(false);
    let nulls = converter.row_group_null_counts(groups.iter().copied())?;
    if nulls.iter().any(|nulls| nulls != Some(0)) {
        return Ok(0);
    }
    let mins = converter.row_group_mins(groups.iter().copied())?;
    let maxes = converter.row_group_maxes(groups.iter().copied())?;
    let pairs = groups.len() - 1;
    let (before, after) = if first.options.descending {
        (maxes.slice(1, pairs), mins.slice(0, pairs))
    } else {
        (maxes.slice(0, pairs), mins.slice(1, pairs))
    };
    let all = |found: BooleanArray| found.null_count() == 0 && found.true_count() == pairs;
    if all(cmp::lt(&before, &after)?) {
        return Ok(usize::MAX);
    }
    Ok(usize::from(all(cmp::lt_eq(&before, &after)?)))
}
