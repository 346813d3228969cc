//! Column statistics from the footers of Parquet files.

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_ord::sort::sort_to_indices;
use arrow_schema::{DataType, SortOptions};
use arrow_select::concat::concat;
use arrow_select::take::take;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::{SortOrder, Type};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;

use super::ParquetFile;
use crate::Error;
use crate::table::guard::catch_panics;
use crate::table::options::ColumnStatistics;
use crate::table::types::converted;
use sakiyomi_expression::prune::Nulls;

/// Maximum length of fixed-length values that have bounds. Also the absent bounds of row groups take that memory, and
/// the length is only a claim of the footer.
const BOUND_MAX_BYTES: i32 = 1 << 10;

/// Bounds and null count of a column; unknown if a file does not record them.
pub(in crate::table) fn statistics(files: &[ParquetFile], column: usize) -> ColumnStatistics {
    let Some(file) = files.first() else { return ColumnStatistics::default() };
    catch_panics(&file.source.path, || Ok(gather(files, column))).unwrap_or_default()
}

fn gather(files: &[ParquetFile], column: usize) -> ColumnStatistics {
    let mut known = Known { min: Some(Vec::new()), max: Some(Vec::new()), exact: true, nulls: Some(0) };
    for file in files {
        if known.add(file, column).is_err() {
            return ColumnStatistics::default();
        }
    }
    let stored = files[0].schema.field(column).data_type();
    let bound = |arrays: Vec<ArrayRef>, greatest| converted(&extreme(&arrays, greatest)?, stored).ok();
    let min = known.min.and_then(|arrays| bound(arrays, false));
    let max = known.max.and_then(|arrays| bound(arrays, true));
    let exact = known.exact && min.is_some() && max.is_some();
    ColumnStatistics { min, max, exact, nulls: known.nulls }
}

/// Bounds and nulls of a column in each row group of a file: lower bounds, upper bounds, nulls. `None` if the file does not
/// record them.
pub(in crate::table) fn group_bounds(
    file: &ParquetFile,
    column: usize,
    data_type: &DataType,
) -> Option<(ArrayRef, ArrayRef, Vec<Nulls>)> {
    catch_panics(&file.source.path, || of_groups(file, column, data_type)).ok().flatten()
}

fn of_groups(
    file: &ParquetFile,
    column: usize,
    data_type: &DataType,
) -> Result<Option<(ArrayRef, ArrayRef, Vec<Nulls>)>, Error> {
    let Some(leaf) = flat_leaf(file, column) else { return Ok(None) };
    let schema = file.descriptor();
    // Bounds of old writers are in the order of signed bytes, whatever the type.
    let is_deprecated = |statistics: &Statistics| statistics.is_min_max_deprecated();
    let is_bytes = matches!(
        schema.column(leaf).physical_type(),
        Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY | Type::INT96
    );
    let is_signed = !is_bytes && schema.column(leaf).sort_order() == SortOrder::SIGNED;
    let converter = StatisticsConverter::from_column_index(leaf, file.schema.field(column), schema)?;
    let converter = converter.with_missing_null_counts_as_zero(false);
    let (mut min, mut max, mut nulls, mut has_old_bounds) = (Vec::new(), Vec::new(), Vec::new(), false);
    file.groups.with_statistics(leaf, |groups| {
        has_old_bounds |=
            groups.iter().any(|group| group.column(leaf).statistics().is_some_and(is_deprecated));
        min.push(converted(&converter.row_group_mins(groups)?, data_type)?);
        max.push(converted(&converter.row_group_maxes(groups)?, data_type)?);
        let counts = converter.row_group_null_counts(groups)?;
        nulls.extend(counts.iter().zip(groups).map(|(count, group)| match count {
            Some(0) => Nulls::None,
            Some(count) if count == group.num_rows() as u64 => Nulls::All,
            _ => Nulls::Unknown,
        }));
        Ok(())
    })?;
    if has_old_bounds && !is_signed {
        return Ok(None);
    }
    let joined = |arrays: &[ArrayRef]| concat(&arrays.iter().map(AsRef::as_ref).collect::<Vec<_>>());
    Ok(Some((joined(&min)?, joined(&max)?, nulls)))
}

/// Statistics of the files so far; `None` if a file does not record them.
struct Known {
    min: Option<Vec<ArrayRef>>,
    max: Option<Vec<ArrayRef>>,
    exact: bool,
    nulls: Option<u64>,
}

impl Known {
    fn add(&mut self, file: &ParquetFile, column: usize) -> Result<(), Error> {
        let Some(leaf) = flat_leaf(file, column) else {
            (self.min, self.max, self.nulls) = (None, None, None);
            return Ok(());
        };
        let field = file.schema.field(column);
        let converter = StatisticsConverter::from_column_index(leaf, field, file.descriptor())?;
        let converter = converter.with_missing_null_counts_as_zero(false);
        file.groups.with_statistics(leaf, |groups| self.add_groups(&converter, groups))
    }

    fn add_groups(
        &mut self,
        converter: &StatisticsConverter<'_>,
        groups: &[RowGroupMetaData],
    ) -> Result<(), Error> {
        let groups = || groups.iter().filter(|group| group.num_rows() > 0);
        let nulls = converter.row_group_null_counts(groups())?;
        let sum = nulls.iter().try_fold(0u64, |sum, nulls| sum.checked_add(nulls?));
        self.nulls = self.nulls.zip(sum).map(|(known, more)| known.saturating_add(more));
        // A row group of only nulls has no bounds and needs none.
        let of_values = || {
            let with_nulls = groups().zip(nulls.iter());
            with_nulls
                .filter(|(group, nulls)| *nulls != Some(group.num_rows() as u64))
                .map(|(group, _)| group)
        };
        push_known(&mut self.min, converter.row_group_mins(of_values())?);
        push_known(&mut self.max, converter.row_group_maxes(of_values())?);
        let of_min = converter.row_group_is_min_value_exact(of_values())?;
        let of_max = converter.row_group_is_max_value_exact(of_values())?;
        self.exact &= [of_min, of_max].iter().all(is_true_throughout);
        Ok(())
    }
}

fn is_true_throughout(flags: &BooleanArray) -> bool {
    flags.null_count() == 0 && flags.true_count() == flags.len()
}

fn push_known(known: &mut Option<Vec<ArrayRef>>, more: ArrayRef) {
    if more.null_count() > 0 {
        *known = None;
    }
    if let Some(known) = known {
        known.push(more);
    }
}

/// Returns the least or the greatest value of some arrays, as an array of one row.
fn extreme(arrays: &[ArrayRef], greatest: bool) -> Option<ArrayRef> {
    let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    let all = concat(&arrays).ok()?;
    let options = SortOptions { descending: greatest, nulls_first: false };
    let first = sort_to_indices(&all, Some(options), Some(1)).ok()?;
    (first.len() == 1).then(|| take(&all, &first, None).ok()).flatten()
}

/// Returns the leaf of a column that is not a list, structure or map, and whose bounds are not longer than
/// [`BOUND_MAX_BYTES`].
pub(super) fn flat_leaf(file: &ParquetFile, column: usize) -> Option<usize> {
    let schema = file.descriptor();
    let leaf = (0..schema.num_columns()).find(|&leaf| schema.get_column_root_idx(leaf) == column)?;
    let descriptor = schema.column(leaf);
    let is_flat = descriptor.path().parts().len() == 1 && descriptor.max_rep_level() == 0;
    (is_flat && descriptor.type_length() <= BOUND_MAX_BYTES).then_some(leaf)
}

/// For each column, whether its strings are dictionary-encoded throughout, with small dictionaries.
pub(in crate::table) fn dictionary_columns(files: &[ParquetFile], columns: usize) -> Vec<bool> {
    let is_dictionary = |column| {
        files.iter().all(|file| {
            let Some(leaf) = flat_leaf(file, column) else { return false };
            file.groups.places(leaf).all(|(place, rows)| rows == 0 || place.is_coded)
        })
    };
    (0..columns).map(|column| !files.is_empty() && is_dictionary(column)).collect()
}
