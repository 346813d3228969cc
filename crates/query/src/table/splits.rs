//! The splits of a table, their bytes, and the types of a scan.

use std::sync::Arc;

use arrow_schema::{Field, Fields, Schema, SchemaRef};

use super::content::{Content, Data};
use super::fetch::Split;
use super::options::Representation;
use super::types::{represented, retyped};

/// Returns the type of each column of a table in a scan.
pub(super) fn scan_fields(table: &Data, representation: Representation) -> Fields {
    let dictionaries: &[bool] = match &table.content {
        Content::Parquet(_, dictionaries) => dictionaries,
        _ => &[],
    };
    let fields = table.schema.fields().iter().enumerate().map(|(at, field)| -> Field {
        let is_dictionary = dictionaries.get(at).is_some_and(|&is_dictionary| is_dictionary);
        retyped(field, represented(field.data_type(), representation, is_dictionary))
    });
    fields.collect()
}

/// Returns the schema of a scan's batches.
pub(super) fn scan_schema(table: &Data, columns: &[usize], representation: Representation) -> SchemaRef {
    let fields = scan_fields(table, representation);
    let fields: Vec<_> = columns.iter().map(|&column| Arc::clone(&fields[column])).collect();
    Arc::new(Schema::new_with_metadata(fields, table.schema.metadata().clone()))
}

/// Returns the row groups or record batches of a table, in order; empty for CSV and streams.
pub(super) fn splits(table: &Data) -> Vec<Split> {
    let counts: Vec<usize> = match &table.content {
        Content::Parquet(files, _) => files.iter().map(|file| file.groups.len()).collect(),
        Content::Arrow(files) => files.iter().map(|file| file.batches.len()).collect(),
        Content::Csv(_) | Content::Stream(..) => Vec::new(),
    };
    let of_file = |(file, count)| (0..count).map(move |index| Split { file, index, part: 0 });
    counts.into_iter().enumerate().flat_map(of_file).collect()
}

/// Returns the bytes of `columns` in all splits.
pub(super) fn bytes(table: &Data, columns: &[usize]) -> u64 {
    bytes_of(table, &splits(table), columns)
}

/// Returns the bytes of `columns` in some splits.
pub(super) fn bytes_of(table: &Data, splits: &[Split], columns: &[usize]) -> u64 {
    let of_split = |split: &Split| match &table.content {
        Content::Parquet(files, _) => {
            let file = &files[split.file];
            let leaves = file.leaves(columns).into_iter();
            leaves.map(|(leaf, _)| file.groups.place(split.index, leaf).bytes()).sum()
        }
        Content::Arrow(files) => {
            let ranges = files[split.file].ranges(split.index, columns).unwrap_or_default();
            ranges.into_iter().map(|range| range.end - range.start).sum()
        }
        Content::Csv(_) | Content::Stream(..) => 0u64,
    };
    splits.iter().map(of_split).fold(0, u64::saturating_add)
}
