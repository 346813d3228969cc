use std::fs::File;
use std::sync::Arc;

use arrow_array::{Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression as ParquetCompression;
use parquet::file::properties::WriterProperties;
use sakiyomi_testing::Scratch;

use super::*;
use crate::table::OpenOptions;

/// Rows of the table.
const ROWS: usize = 1000;

fn written(compression: ParquetCompression, dictionary: bool) -> (Scratch, Table) {
    let decimal = DataType::Decimal128(15, 2);
    let fields = [("a", DataType::Int64), ("b", DataType::Int32), ("c", decimal), ("d", DataType::Utf8)];
    let fields = fields.map(|(name, data_type)| Field::new(name, data_type, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let decimals = Decimal128Array::from_iter_values((0..ROWS).map(|row| row as i128));
    let texts = (0..ROWS).map(|row| format!("text {row:015}"));
    let batch = RecordBatch::try_new(
        schema.clone(),
        vec![
            Arc::new(Int64Array::from_iter_values(0..ROWS as i64)),
            Arc::new(Int32Array::from_iter_values((0..ROWS as i32).map(|row| row % 3))),
            Arc::new(decimals.with_precision_and_scale(15, 2).unwrap()),
            Arc::new(StringArray::from_iter_values(texts)),
        ],
    );
    let scratch = Scratch::new("describe");
    let path = scratch.path("table.parquet");
    let properties =
        WriterProperties::builder().set_compression(compression).set_dictionary_enabled(dictionary);
    let mut writer =
        ArrowWriter::try_new(File::create(&path).unwrap(), schema, Some(properties.build())).unwrap();
    writer.write(&batch.unwrap()).unwrap();
    writer.close().unwrap();
    let table = Table::open(&[path], &OpenOptions::default()).unwrap();
    (scratch, table)
}

#[test]
fn a_parquet_table_tells_rows_widths_bytes_and_encodings() {
    let (_scratch, table) = written(ParquetCompression::UNCOMPRESSED, false);
    let shape = describe(&table, &[0, 1, 2, 3], 0.5);
    assert_eq!((shape.rows, shape.format, shape.cached_ratio), (ROWS as u64, FileFormat::Parquet, 0.5));
    let kinds: Vec<ValueKind> = shape.columns.iter().map(|column| column.kind).collect();
    let expected = [ValueKind::Fixed8, ValueKind::Fixed4, ValueKind::Fixed8, ValueKind::Text];
    assert_eq!(kinds, expected, "decimals are narrow in a compact scan");
    assert!((shape.columns[3].value_bytes - 20.0).abs() < 1.0, "{:?}", shape.columns[3]);
    assert!(shape.columns.iter().all(|column| !column.is_dictionary && column.codec == Codec::None));
    assert_eq!(shape.file_bytes() as u64, table.bytes(&[0, 1, 2, 3]));
}

#[test]
fn the_columns_of_csv_have_the_bytes_of_the_file_together() {
    let scratch = Scratch::new("describe-csv");
    let path = scratch.path("table.csv");
    std::fs::write(&path, "a,b,c,d\n".to_owned() + &"1,2,3,4\n".repeat(ROWS)).unwrap();
    let table = Table::open(&[path], &OpenOptions::default()).unwrap();
    let shape = describe(&table, &[0, 1, 2, 3], 0.0);
    let encoded: u64 = shape.columns.iter().map(|column| column.encoded_bytes).sum();
    assert!(encoded <= table.bytes(&[0]), "{encoded}");
}

#[test]
fn compression_and_dictionaries_are_seen_and_a_result_without_them_is_larger() {
    let (_scratch, table) = written(ParquetCompression::SNAPPY, true);
    let shape = describe(&table, &[1, 3], 0.0);
    assert!(shape.columns.iter().all(|column| column.is_dictionary && column.codec == Codec::Snappy));
    assert!(shape.columns[1].encoded_bytes > shape.columns[1].file_bytes);
    let result = result(shape.columns.clone(), 10, Format::Parquet, Compression::None);
    assert_eq!(result.columns[1].file_bytes, shape.columns[1].encoded_bytes);
    assert_eq!((result.rows, result.columns[0].codec), (10, Codec::None));
}
