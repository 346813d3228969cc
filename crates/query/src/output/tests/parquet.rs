//! Parquet results are read back by the library, and their statistics equal those of the library's writer.

use std::fs::File;
use std::io::Write;

use ::parquet::arrow::ArrowWriter;
use ::parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use ::parquet::basic::Encoding;
use ::parquet::file::metadata::{
    PageIndexPolicy, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetMetaDataWriter,
};
use ::parquet::file::page_index::column_index::ColumnIndexMetaData;
use ::parquet::file::statistics::Statistics;
use ::parquet::file::writer::TrackedWrite;
use arrow_array::types::{Int32Type, UInt8Type};
use arrow_array::{Decimal64Array, Decimal128Array, DictionaryArray, Int64Array, StringArray, UInt8Array};
use arrow_schema::SortOptions;
use proptest::prelude::*;

use super::random::{Random, cut};
use super::*;
use crate::order::SortKey;

fn read(path: &Path) -> (SchemaRef, Vec<RecordBatch>) {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    let builder =
        ParquetRecordBatchReaderBuilder::try_new_with_options(File::open(path).unwrap(), options).unwrap();
    let schema = Arc::clone(builder.schema());
    (schema, builder.with_batch_size(1000).build().unwrap().map(Result::unwrap).collect())
}

fn metadata(path: &Path) -> ParquetMetaData {
    let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
    reader.parse_and_finish(&File::open(path).unwrap()).unwrap()
}

/// Metadata of the same rows, written by the library.
fn oracle(batch: &RecordBatch) -> ParquetMetaData {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap()
}

/// Bounds, nulls, and whether the bounds are exact.
type Plain = (Option<Vec<u8>>, Option<Vec<u8>>, Option<u64>, bool, bool);

/// Statistics in a form that compares NaN and the two zeros.
fn plain(statistics: Option<&Statistics>) -> Plain {
    let statistics = statistics.unwrap();
    let bytes = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    (
        bytes(statistics.min_bytes_opt()),
        bytes(statistics.max_bytes_opt()),
        statistics.null_count_opt(),
        statistics.min_is_exact(),
        statistics.max_is_exact(),
    )
}

/// Bounds of a page, as bytes.
fn page_bounds(index: &ColumnIndexMetaData, page: usize) -> Option<(Vec<u8>, Vec<u8>)> {
    macro_rules! bytes {
        ($index:expr) => {
            Some((
                $index.min_value(page)?.to_le_bytes().to_vec(),
                $index.max_value(page)?.to_le_bytes().to_vec(),
            ))
        };
    }
    match index {
        ColumnIndexMetaData::BOOLEAN(index) => {
            Some((vec![u8::from(*index.min_value(page)?)], vec![u8::from(*index.max_value(page)?)]))
        }
        ColumnIndexMetaData::INT32(index) => bytes!(index),
        ColumnIndexMetaData::INT64(index) => bytes!(index),
        ColumnIndexMetaData::FLOAT(index) => bytes!(index),
        ColumnIndexMetaData::DOUBLE(index) => bytes!(index),
        ColumnIndexMetaData::BYTE_ARRAY(index) | ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(index) => {
            Some((index.min_value(page)?.to_vec(), index.max_value(page)?.to_vec()))
        }
        _ => None,
    }
}

/// Length of truncated bounds.
const BOUND_BYTES: usize = 64;

/// Compares statistics of chunks and pages with those of the library's writer for the same rows.
fn check_statistics(path: &Path, groups: &[RecordBatch]) {
    let metadata = metadata(path);
    assert_eq!(metadata.num_row_groups(), groups.len());
    for (number, rows) in groups.iter().enumerate() {
        let expected = oracle(rows);
        for (column, chunk) in metadata.row_group(number).columns().iter().enumerate() {
            let known = expected.row_group(0).column(column);
            if known.statistics().unwrap().max_bytes_opt().is_some_and(|max| max.len() > BOUND_BYTES) {
                // Without a short bound, the library keeps the long one, and this encoder omits it.
                continue;
            }
            assert_eq!(plain(chunk.statistics()), plain(known.statistics()), "column {column}");
            let pages = metadata.offset_index().unwrap()[number][column].page_locations();
            let index = &metadata.column_index().unwrap()[number][column];
            for (page, location) in pages.iter().enumerate() {
                let first = location.first_row_index as usize;
                let end = pages.get(page + 1).map_or(rows.num_rows(), |next| next.first_row_index as usize);
                let slice = oracle(&rows.slice(first, end - first));
                let known = slice.row_group(0).column(column).statistics().unwrap();
                let bounds =
                    known.min_bytes_opt().map(<[u8]>::to_vec).zip(known.max_bytes_opt().map(<[u8]>::to_vec));
                if !matches!(index, ColumnIndexMetaData::NONE) {
                    assert_eq!(page_bounds(index, page), bounds, "column {column} page {page}");
                }
            }
        }
    }
}

fn options(compression: usize) -> OutputOptions {
    let compression =
        [Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd][compression];
    OutputOptions { compression, ..OutputOptions::new(Format::Parquet) }
}

/// Writes random columns, reads them back, and compares rows and statistics.
fn check_random(seed: u64, rows: usize, columns: usize, compression: usize) {
    let scratch = Scratch::new("parquet-random");
    let path = scratch.path("random.parquet");
    let mut random = Random::new(seed);
    let (mut fields, mut parts) = (Vec::new(), Vec::new());
    let batch_rows = 1 + random.below(rows.max(1) * 2);
    for column in 0..columns {
        let is_nullable = random.below(3) > 0;
        // A slice of a longer array, with an offset into its buffers.
        let array = random.column(rows + 13, is_nullable).slice(13, rows);
        fields.push(Field::new(format!("c{column}"), array.data_type().clone(), is_nullable));
        parts.push(cut(&array, batch_rows));
    }
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let batches: Vec<RecordBatch> = (0..parts[0].len())
        .map(|part| {
            let arrays = parts.iter().map(|parts| Arc::clone(&parts[part])).collect();
            RecordBatch::try_new(Arc::clone(&schema), arrays).unwrap()
        })
        .collect();
    let groups = [batches];
    write(&path, &schema, &groups, &options(compression)).unwrap();
    let (read_schema, read_batches) = read(&path);
    let plain = plain_schema(&schema, |_| false);
    let expected_schema: SchemaRef = Arc::new(crate::output::parquet::stored_schema(&plain));
    assert_eq!(read_schema, expected_schema);
    let expected = joined(&expected_schema, &groups);
    assert_eq!(concat_batches(&read_schema, &read_batches).unwrap(), expected);
    check_statistics(&path, &if rows > 0 { vec![expected] } else { Vec::new() });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn rows_and_statistics_are_those_of_the_input(
        seed: u64, rows in 0_usize..300, columns in 1_usize..6, compression in 0_usize..4,
    ) {
        check_random(seed, rows, columns, compression);
    }
}

#[test]
fn pages_of_many_rows_and_their_index_are_right() {
    for seed in 0..3 {
        check_random(seed, 25_000, 3, seed as usize);
    }
}

#[test]
fn arrays_as_scans_deliver_them_become_the_types_of_the_table() {
    let scratch = Scratch::new("parquet-types");
    let path = scratch.path("types.parquet");
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("price", DataType::Decimal128(15, 2), true),
        Field::new("wide", DataType::Decimal128(30, 2), true),
        Field::new("flag", DataType::Utf8, true),
    ]));
    let price =
        Decimal64Array::from(vec![Some(150), None, Some(-7)]).with_precision_and_scale(15, 2).unwrap();
    let wide = Decimal64Array::from(vec![Some(-1), Some(2), None]).with_precision_and_scale(15, 2).unwrap();
    let values = StringArray::from(vec![Some("A"), None, Some("unused"), Some("B")]);
    let keys = UInt8Array::from(vec![3, 1, 0]);
    let flag = DictionaryArray::<UInt8Type>::new(keys, Arc::new(values));
    let batch = table(&[("price", Arc::new(price)), ("wide", Arc::new(wide)), ("flag", Arc::new(flag))]);
    let groups = [vec![batch]];
    write(&path, &schema, &groups, &options(0)).unwrap();
    let (read_schema, batches) = read(&path);
    assert_eq!(read_schema, schema);
    assert_eq!(concat_batches(&schema, &batches).unwrap(), joined(&schema, &groups));
}

#[test]
fn a_decimal_that_its_type_does_not_hold_is_refused() {
    let scratch = Scratch::new("parquet-decimal");
    let path = scratch.path("decimal.parquet");
    for precision in [9, 18, 20] {
        let beyond = Decimal128Array::from(vec![10_i128.pow(precision + 4)]);
        let array = beyond.with_precision_and_scale(precision as u8, 2).unwrap();
        let batch = table(&[("sum", Arc::new(array))]);
        let error = write(&path, &batch.schema(), &[vec![batch.clone()]], &options(0)).unwrap_err();
        assert!(error.to_string().contains("column sum has a decimal with more digits"), "{error}");
        assert!(!path.exists());
    }
}

#[test]
fn nulls_in_a_column_that_has_none_are_refused() {
    let scratch = Scratch::new("parquet-nulls");
    let path = scratch.path("nulls.parquet");
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, false)]));
    let batch = table(&[("key", Arc::new(Int64Array::from(vec![Some(1), None])))]);
    let error = write(&path, &schema, &[vec![batch]], &options(0)).unwrap_err();
    assert_eq!(error.to_string(), "column key has nulls, which its schema excludes");
}

#[test]
fn lists_and_other_columns_share_row_groups() {
    let scratch = Scratch::new("parquet-lists");
    let path = scratch.path("lists.parquet");
    let mut random = Random::new(7);
    let groups: Vec<Vec<RecordBatch>> = (0..3)
        .map(|_| {
            let keys = Int64Array::from_iter_values(0..500);
            let times = arrow_array::IntervalDayTimeArray::from_iter_values(
                (0..500).map(|day| arrow_buffer::IntervalDayTime::new(day, 1)),
            );
            vec![table(&[("l", random.lists(500)), ("key", Arc::new(keys)), ("time", Arc::new(times))])]
        })
        .collect();
    let schema = groups[0][0].schema();
    let key = SortKey { column: 1, options: SortOptions { descending: true, nulls_first: false } };
    let options = OutputOptions { sorted_by: vec![key], ..options(3) };
    write(&path, &schema, &groups, &options).unwrap();
    let (read_schema, batches) = read(&path);
    assert_eq!(concat_batches(&read_schema, &batches).unwrap(), joined(&schema, &groups));
    let metadata = metadata(&path);
    assert_eq!(metadata.num_row_groups(), 3);
    let sorting = metadata.row_group(2).sorting_columns().unwrap();
    assert_eq!((sorting[0].column_idx, sorting[0].descending, sorting[0].nulls_first), (1, true, false));
}

#[test]
fn dictionaries_are_written_where_they_are_smaller() {
    let scratch = Scratch::new("parquet-dictionary");
    let path = scratch.path("dictionary.parquet");
    let rows = 30_000_u32;
    let few = StringArray::from_iter_values((0..rows).map(|row| format!("value {}", row % 700)));
    let unique = StringArray::from_iter_values((0..rows).map(|row| format!("value {row}")));
    let close = Int64Array::from_iter_values((0..rows).map(|row| 1_000_000_000_000 + i64::from(row % 5000)));
    let sparse = Int64Array::from_iter_values((0..rows).map(|row| i64::from(row % 100) << 40));
    let wide = Int64Array::from_iter_values((0..rows).map(|row| i64::from(row) << 20));
    let columns: [(&str, ArrayRef); 5] = [
        ("few", Arc::new(few)),
        ("unique", Arc::new(unique)),
        ("close", Arc::new(close)),
        ("sparse", Arc::new(sparse)),
        ("wide", Arc::new(wide)),
    ];
    let batch = table(&columns);
    write(&path, &batch.schema(), &[vec![batch.clone()]], &options(0)).unwrap();
    let metadata = metadata(&path);
    let has_dictionary = |column: usize| {
        metadata.row_group(0).column(column).encodings().any(|encoding| encoding == Encoding::RLE_DICTIONARY)
    };
    assert_eq!([0, 1, 2, 3, 4].map(has_dictionary), [true, false, true, true, false]);
    let (_, batches) = read(&path);
    assert_eq!(concat_batches(&batch.schema(), &batches).unwrap(), batch);
}

/// The value that does not fit into the dictionary is repeated before the dictionary is abandoned.
#[test]
fn a_dictionary_that_becomes_too_large_is_given_up() {
    let scratch = Scratch::new("parquet-large-dictionary");
    let path = scratch.path("large.parquet");
    let texts = StringArray::from_iter_values((0..60_000).map(|row| format!("{:0>100}", row / 4)));
    let batch = table(&[("texts", Arc::new(texts))]);
    write(&path, &batch.schema(), &[vec![batch.clone()]], &options(0)).unwrap();
    let (_, batches) = read(&path);
    assert_eq!(concat_batches(&batch.schema(), &batches).unwrap(), batch);
}

#[test]
fn a_dictionary_without_values_has_nulls_only() {
    let scratch = Scratch::new("parquet-no-values");
    let nulls = DictionaryArray::<Int32Type>::from_iter([None::<&str>; 3]);
    assert!(nulls.values().is_empty());
    let batch = table(&[("nulls", Arc::new(nulls)), ("n", Arc::new(Int64Array::from(vec![1, 2, 3])))]);
    for format in [Format::Parquet, Format::ArrowFile, Format::Csv] {
        let path = scratch.path("nulls");
        let options = OutputOptions::new(format);
        write(&path, &batch.schema(), &[vec![batch.clone()]], &options).unwrap();
        match format {
            Format::Csv => assert_eq!(std::fs::read_to_string(&path).unwrap(), "nulls,n\n,1\n,2\n,3\n"),
            Format::Parquet => assert_eq!(read(&path).1[0].column(0).null_count(), 3),
            _ => {}
        }
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn long_strings_get_pages_of_their_own() {
    let scratch = Scratch::new("parquet-long");
    let path = scratch.path("long.parquet");
    let long = "x".repeat(3 << 20);
    let texts: Vec<Option<&str>> = vec![Some("a"), Some(&long), None, Some("b"), Some(&long), Some("c")];
    let batch = table(&[("text", Arc::new(StringArray::from(texts)))]);
    write(&path, &batch.schema(), &[vec![batch.clone()]], &options(1)).unwrap();
    let (_, batches) = read(&path);
    assert_eq!(concat_batches(&batch.schema(), &batches).unwrap(), batch);
    assert_eq!(metadata(&path).offset_index().unwrap()[0][0].page_locations().len(), 5);
    check_statistics(&path, &[batch]);
}

#[test]
fn a_table_without_rows_or_columns_is_a_file() {
    let scratch = Scratch::new("parquet-empty");
    let path = scratch.path("empty.parquet");
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true)]));
    write(&path, &schema, &[], &options(0)).unwrap();
    assert_eq!(metadata(&path).num_row_groups(), 0);
    assert_eq!(read(&path).1.len(), 0);
}

/// The whole file, with the page indexes and the metadata as the library writes them.
fn rewritten(path: &Path) -> Vec<u8> {
    let reader = ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Required)
        .with_metadata_options(Some(ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false)));
    let metadata = reader.parse_and_finish(&File::open(path).unwrap()).unwrap();
    let bytes = std::fs::read(path).unwrap();
    let columns = || metadata.row_groups().iter().flat_map(|group| group.columns());
    let indexes = columns().flat_map(|column| [column.column_index_offset(), column.offset_index_offset()]);
    let length = u32::from_le_bytes(*bytes.strip_suffix(b"PAR1").unwrap().last_chunk().unwrap());
    let start = indexes.flatten().min().map_or(bytes.len() - 8 - length as usize, |start| start as usize);
    let mut rewritten = Vec::new();
    let mut tracked = TrackedWrite::new(&mut rewritten);
    tracked.write_all(&bytes[..start]).unwrap();
    ParquetMetaDataWriter::new_with_tracked(tracked, &metadata).finish().unwrap();
    rewritten
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_end_of_a_file_is_what_the_library_writes(seed: u64, groups in 0_usize..40, columns in 1_usize..6) {
        let scratch = Scratch::new("parquet-footer");
        let path = scratch.path("footer.parquet");
        let mut random = Random::new(seed);
        let rows: Vec<usize> = (0..groups).map(|_| 1 + random.below(300)).collect();
        let columns: Vec<(String, ArrayRef)> = (0..columns)
            .map(|column| (format!("c{column}"), random.column(rows.iter().sum(), true)))
            .collect();
        let columns: Vec<(&str, ArrayRef)> =
            columns.iter().map(|(name, array)| (name.as_str(), Arc::clone(array))).collect();
        let batch = table(&columns);
        let mut first = 0;
        let groups: Vec<_> = rows
            .iter()
            .map(|&rows| {
                first += rows;
                vec![batch.slice(first - rows, rows)]
            })
            .collect();
        let key = SortKey { column: 0, options: SortOptions::default() };
        let options = OutputOptions { sorted_by: vec![key], ..options(1) };
        write(&path, &batch.schema(), &groups, &options).unwrap();
        prop_assert!(std::fs::read(&path).unwrap() == rewritten(&path));
    }
}

/// 16 columns in 1,500 row groups: some megabytes of metadata.
#[test]
fn metadata_of_many_row_groups_are_spilled() {
    let scratch = Scratch::new("parquet-groups");
    let (path, spill) = (scratch.path("groups.parquet"), scratch.path("spill"));
    std::fs::create_dir(&spill).unwrap();
    let options = JobOptions { memory: 16 << 20, threads: 1, spill: vec![spill], ..JobOptions::default() };
    let job = Job::new(options).unwrap();
    let columns: Vec<(String, ArrayRef)> = (0..16)
        .map(|column| {
            (format!("c{column}"), Arc::new(Int64Array::from_iter_values(column..column + 3)) as ArrayRef)
        })
        .collect();
    let columns: Vec<(&str, ArrayRef)> =
        columns.iter().map(|(name, array)| (name.as_str(), Arc::clone(array))).collect();
    let batch = table(&columns);
    let target = Target::File(path.clone());
    let mut output =
        Output::create(&job, &target, &batch.schema(), &OutputOptions::new(Format::Parquet)).unwrap();
    let encoder = output.encoder();
    let available = job.available();
    for _ in 0..1500 {
        output.append(encoder.encode(std::slice::from_ref(&batch)).unwrap()).unwrap();
    }
    encoder.release();
    assert_eq!(job.available(), available, "the memory was reserved before");
    output.finish().unwrap();
    let phases = job.phases().list();
    let write = phases.iter().find(|phase| phase.name == "write").unwrap();
    assert!(write.stored_bytes > 1 << 20, "{write:?}");
    assert_eq!(metadata(&path).num_row_groups(), 1500);
    assert_eq!(read(&path).1.iter().map(RecordBatch::num_rows).sum::<usize>(), 4500);
    assert!(std::fs::read(&path).unwrap() == rewritten(&path));
}
