//! Tables as the cost model sees them: rows, widths, bytes and encodings from footers, without reading any row.

use std::sync::Arc;

use arrow_arith::aggregate::sum;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema};
use arrow_string::length::length;

use crate::cost::operators::{Codec, FileFormat, ValueKind};
use crate::cost::shape::{ColumnShape, TableShape};
use crate::output::Compression;
use crate::table::{Format, Representation, Table};

/// Bytes assumed for a text or nested value of unknown length: about that of a TPC-H comment.
const TEXT_MEAN_BYTES: f64 = 27.0;
/// Bytes of the offset of a text in a file.
const TEXT_OFFSET_BYTES: f64 = 4.0;
/// Bytes of a code in a packed row.
const CODE_BYTES: f64 = 1.0;
/// Bytes assumed for a row of a table with an unknown number of rows: a typical CSV line.
const CSV_ROW_BYTES: u64 = 100;

/// Returns the shape of columns of a table as a compact scan reads them. If the number of rows is unknown without a
/// scan, it is estimated from the bytes.
///
/// # Panics
/// If an index in `columns` is out of range.
#[must_use]
pub fn describe(table: &Table, columns: &[usize], cached_ratio: f64) -> TableShape {
    let rows = table.rows().unwrap_or_else(|| table.bytes(columns) / CSV_ROW_BYTES);
    let schema = table.scan_schema(columns, Representation::COMPACT);
    let shapes = columns.iter().zip(schema.fields()).map(|(&column, field)| {
        let storage = table.storage(column);
        let mean = storage.encoded_bytes as f64 / rows.max(1) as f64;
        // The encoded bytes of dictionaries and CSV do not give the length of a text.
        let is_plain = !storage.is_dictionary && table.format() != Format::Csv && mean > TEXT_OFFSET_BYTES;
        let text = if is_plain { mean - TEXT_OFFSET_BYTES } else { TEXT_MEAN_BYTES };
        let (kind, value_bytes) = kind(field.data_type(), text);
        ColumnShape {
            kind,
            value_bytes,
            file_bytes: storage.file_bytes,
            encoded_bytes: storage.encoded_bytes,
            codec: storage.codec,
            is_dictionary: storage.is_dictionary,
        }
    });
    let mut columns: Vec<ColumnShape> = shapes.collect();
    if table.format() == Format::Csv {
        // Lines are read whole, so each column was given the bytes of all.
        let count = columns.len().max(1) as u64;
        columns.iter_mut().for_each(|column| {
            column.file_bytes /= count;
            column.encoded_bytes /= count;
        });
    }
    TableShape {
        rows,
        format: file_format(table.format()),
        columns,
        splits: 0,
        cached_ratio,
        is_sorted: false,
    }
}

/// Returns the shape of a written result with the columns and the encodings of a table.
#[must_use]
pub fn result(columns: Vec<ColumnShape>, rows: u64, format: Format, compression: Compression) -> TableShape {
    let codec = codec(compression);
    let columns = columns.into_iter().map(|column| {
        // An uncompressed column takes its encoded bytes.
        let file_bytes = if codec == Codec::None { column.encoded_bytes } else { column.file_bytes };
        ColumnShape { codec, file_bytes, ..column }
    });
    let (splits, cached_ratio, is_sorted) = (0, 0.0, false);
    let columns = columns.collect();
    TableShape { rows, format: file_format(format), columns, splits, cached_ratio, is_sorted }
}

/// Returns the format as a cost class.
#[must_use]
pub fn file_format(format: Format) -> FileFormat {
    match format {
        Format::Parquet => FileFormat::Parquet,
        Format::ArrowFile | Format::ArrowStream => FileFormat::Arrow,
        Format::Csv => FileFormat::Csv,
    }
}

/// Returns the compression as a cost class.
#[must_use]
pub fn codec(compression: Compression) -> Codec {
    match compression {
        Compression::None => Codec::None,
        Compression::Snappy => Codec::Snappy,
        Compression::Lz4 => Codec::Lz4,
        Compression::Zstd => Codec::Zstd,
    }
}

/// Returns the shapes of the columns of a computed result, uncompressed.
#[must_use]
pub fn columns(schema: &Schema, rows: u64) -> Vec<ColumnShape> {
    let shape = |field: &Arc<Field>| computed(kind(field.data_type(), TEXT_MEAN_BYTES), rows);
    schema.fields().iter().map(shape).collect()
}

/// Returns the shapes of computed columns of `rows` rows, uncompressed, with the widths of sampled values.
#[must_use]
pub fn sampled_columns(sample: &[ArrayRef], rows: u64) -> Vec<ColumnShape> {
    sample.iter().map(|column| computed(sampled(column), rows)).collect()
}

fn computed((kind, value_bytes): (ValueKind, f64), rows: u64) -> ColumnShape {
    let offset = if kind == ValueKind::Text { TEXT_OFFSET_BYTES } else { 0.0 };
    let bytes = ((value_bytes + offset) * rows as f64) as u64;
    let (codec, is_dictionary) = (Codec::None, kind == ValueKind::Code);
    ColumnShape { kind, value_bytes, file_bytes: bytes, encoded_bytes: bytes, codec, is_dictionary }
}

/// Returns the kind of sampled values, and their mean bytes in memory.
#[must_use]
pub fn sampled(values: &ArrayRef) -> (ValueKind, f64) {
    kind(values.data_type(), mean_bytes(values).unwrap_or(TEXT_MEAN_BYTES))
}

/// Returns the mean length of texts; `None` without texts.
fn mean_bytes(values: &ArrayRef) -> Option<f64> {
    let is_text = kind(values.data_type(), TEXT_MEAN_BYTES).0 == ValueKind::Text;
    let lengths = length(values).ok().filter(|_| is_text && !values.is_empty())?;
    let lengths = cast(&lengths, &DataType::Int64).ok()?;
    Some(sum(lengths.as_primitive::<Int64Type>()).unwrap_or(0) as f64 / values.len() as f64)
}

/// Returns the kind of a column's values, and their mean bytes in memory.
fn kind(data_type: &DataType, text_bytes: f64) -> (ValueKind, f64) {
    match data_type {
        DataType::Dictionary(..) => (ValueKind::Code, CODE_BYTES),
        DataType::Boolean => (ValueKind::Fixed4, 1.0),
        DataType::Null => (ValueKind::Fixed4, 0.0),
        other => match other.primitive_width() {
            Some(width @ 0..=4) => (ValueKind::Fixed4, width as f64),
            Some(width @ 5..=8) => (ValueKind::Fixed8, width as f64),
            Some(width) => (ValueKind::Fixed16, width as f64),
            None => (ValueKind::Text, text_bytes),
        },
    }
}

#[cfg(test)]
mod tests;
