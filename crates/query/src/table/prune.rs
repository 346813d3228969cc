//! Row groups of a table that a condition excludes.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat;

use super::content::{Content, Data};
use super::fetch::Split;
use super::parquet::{ParquetFile, group_bounds};
use super::splits::{bytes_of, scan_schema, splits};
use super::{Extent, ScanOptions};
use crate::Error;
use sakiyomi_expression::Expression;
use sakiyomi_expression::prune::{GroupBounds, Nulls};

/// Returns the row groups or record batches that a scan reads, in order.
pub(super) fn selected(table: &Data, options: &ScanOptions) -> Vec<Split> {
    let all = splits(table);
    let (Content::Parquet(files, _), Some(condition)) = (&table.content, &options.condition) else {
        return all;
    };
    // A condition that cannot be evaluated on bounds excludes nothing.
    let Ok(bounds) = bounds(table, files, condition, options) else { return all };
    let selected = condition.may_select(&bounds);
    all.into_iter().zip(selected).filter_map(|(split, may_select)| may_select.then_some(split)).collect()
}

/// Returns the part of a table that a scan reads.
pub(super) fn extent(table: &Data, options: &ScanOptions) -> Extent {
    let selected = selected(table, options);
    let rows = |split: &Split| match &table.content {
        Content::Parquet(files, _) => files[split.file].groups.rows(split.index),
        Content::Arrow(files) => files[split.file].batches[split.index].rows,
        Content::Csv(_) | Content::Stream(..) => 0,
    };
    let is_known = matches!(table.content, Content::Parquet(..) | Content::Arrow(_));
    Extent {
        groups: selected.len(),
        skipped_groups: splits(table).len() - selected.len(),
        rows: is_known.then(|| selected.iter().map(rows).fold(0, u64::saturating_add)),
        bytes: bytes_of(table, &selected, &options.columns),
    }
}

/// Returns the bounds of the row groups of all files. Columns without a part in the condition have the null type:
/// nulls of another type take memory.
fn bounds(
    table: &Data,
    files: &[ParquetFile],
    condition: &Expression,
    options: &ScanOptions,
) -> Result<GroupBounds, Error> {
    let used = condition.columns();
    let schema = scan_schema(table, &options.columns, options.representation);
    let fields = schema.fields().iter().enumerate().map(|(place, field)| {
        let data_type = if used.contains(&place) { field.data_type().clone() } else { DataType::Null };
        Field::new(field.name(), data_type, true)
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let (mut min, mut max, mut nulls) = (Vec::new(), Vec::new(), Vec::new());
    for (place, (field, &column)) in schema.fields().iter().zip(&options.columns).enumerate() {
        let of_file = |file: &ParquetFile| -> Result<(ArrayRef, ArrayRef, Vec<Nulls>), Error> {
            let known =
                used.contains(&place).then(|| group_bounds(file, column, field.data_type())).flatten();
            if let Some(known) = known {
                return Ok(known);
            }
            if is_long(field.data_type()) {
                return Err(Error::Query(format!("column {} has no bounds", field.name())));
            }
            let groups = file.groups.len();
            let unknown = new_null_array(field.data_type(), groups);
            Ok((Arc::clone(&unknown), unknown, vec![Nulls::Unknown; groups]))
        };
        let of_files: Vec<_> = files.iter().map(of_file).collect::<Result<_, _>>()?;
        min.push(concat(&of_files.iter().map(|(min, ..)| min.as_ref()).collect::<Vec<_>>())?);
        max.push(concat(&of_files.iter().map(|(_, max, _)| max.as_ref()).collect::<Vec<_>>())?);
        nulls.push(of_files.into_iter().flat_map(|(.., nulls)| nulls).collect());
    }
    let batch = |columns| RecordBatch::try_new(Arc::clone(&schema), columns);
    Ok(GroupBounds { min: batch(min)?, max: batch(max)?, nulls })
}

/// Largest null that is made for each row group without bounds.
const NULL_MAX_BYTES: i32 = 1024;

/// Returns whether a null of the type may take many bytes: the file gives its length.
fn is_long(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeBinary(width) => *width > NULL_MAX_BYTES,
        DataType::FixedSizeList(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| is_long(field.data_type())),
        _ => false,
    }
}
