//! Row order declared by Parquet files.

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_ord::cmp;
use arrow_schema::{DataType, SortOptions};
use arrow_select::concat::concat;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::SortingColumn;

use super::footer::ParquetFile;
use super::statistics::flat_leaf;
use crate::Error;
use crate::order::SortKey;
use crate::table::guard::catch_panics;

/// Returns the declared order of all rows of a file. Files declare it per row group; across row groups it is derived
/// from their bounds. It then covers all keys if no two row groups share a value of the first key, else only that
/// key.
pub(in crate::table) fn declared_order(file: &ParquetFile) -> Vec<SortKey> {
    let Some(declared) = file.groups.sorting() else { return Vec::new() };
    let mut keys = keys(file, declared);
    let Some(first) = keys.first() else { return keys };
    let groups = (0..file.groups.len()).filter(|&index| file.groups.rows(index) > 0).count();
    let held = if groups == 1 {
        keys.len()
    } else {
        catch_panics(&file.source.path, || held_keys(file, first, groups)).unwrap_or(0)
    };
    keys.truncate(held);
    keys
}

/// Returns the keys of an order, up to the first nested column.
fn keys(file: &ParquetFile, declared: &[SortingColumn]) -> Vec<SortKey> {
    let key = |declared: &SortingColumn| {
        let leaf = usize::try_from(declared.column_idx).ok()?;
        let column = (0..file.schema.fields().len()).find(|&column| flat_leaf(file, column) == Some(leaf))?;
        let options = SortOptions { descending: declared.descending, nulls_first: declared.nulls_first };
        Some(SortKey { column, options })
    };
    declared.iter().map_while(key).collect()
}

/// Returns the number of keys whose order holds across `groups` row groups with rows, by the bounds of the first key.
fn held_keys(file: &ParquetFile, first: &SortKey, groups: usize) -> Result<usize, Error> {
    let field = file.schema.field(first.column);
    // The bounds of floating-point columns ignore NaN.
    let is_float = matches!(field.data_type(), DataType::Float16 | DataType::Float32 | DataType::Float64);
    let Some(leaf) = flat_leaf(file, first.column).filter(|_| !is_float) else { return Ok(0) };
    let converter = StatisticsConverter::from_column_index(leaf, field, file.descriptor())?;
    let converter = converter.with_missing_null_counts_as_zero(false);
    let (mut mins, mut maxes, mut has_nulls) = (Vec::new(), Vec::new(), false);
    file.groups.with_statistics(leaf, |groups| {
        let with_rows = || groups.iter().filter(|group| group.num_rows() > 0);
        has_nulls |= converter.row_group_null_counts(with_rows())?.iter().any(|nulls| nulls != Some(0));
        mins.push(converter.row_group_mins(with_rows())?);
        maxes.push(converter.row_group_maxes(with_rows())?);
        Ok(())
    })?;
    if has_nulls {
        return Ok(0);
    }
    let joined = |arrays: &[ArrayRef]| concat(&arrays.iter().map(AsRef::as_ref).collect::<Vec<_>>());
    let (mins, maxes, pairs) = (joined(&mins)?, joined(&maxes)?, groups - 1);
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
