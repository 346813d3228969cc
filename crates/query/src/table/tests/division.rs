//! Large row groups that workers decode in parts.

use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::Compression;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

const ROWS: u64 = 120_000;

/// Rows with their numbers, and columns of several encodings and sizes of pages, of more than 4 MiB.
fn table_of(seed: u64) -> RecordBatch {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut draw = move || random.next_u64();
    let numbers = Int64Array::from_iter_values(0..ROWS as i64);
    let mut text = || format!("{:016x}{:016x}{:016x}", draw(), draw(), draw());
    let wide = StringArray::from_iter((0..ROWS).map(|row| (row % 7 > 0).then(&mut text)));
    let few =
        StringArray::from_iter_values((0..ROWS).map(|row| ["A", "N", "R"][(row / 40_000 % 3) as usize]));
    let floats = Float64Array::from_iter((0..ROWS).map(|row| (row % 3 > 0).then_some(row as f64 / 8.0)));
    let columns: [(&str, ArrayRef, bool); 4] = [
        ("row", Arc::new(numbers), false),
        ("wide", Arc::new(wide), true),
        ("few", Arc::new(few), false),
        ("float", Arc::new(floats), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// A file of a single row group.
fn file(batch: &RecordBatch, page_rows: usize, has_index: bool, version: WriterVersion) -> Vec<u8> {
    let statistics = if has_index { EnabledStatistics::Page } else { EnabledStatistics::None };
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(None)
        .set_data_page_row_count_limit(page_rows)
        .set_write_batch_size(1024)
        .set_statistics_enabled(statistics)
        .set_offset_index_disabled(!has_index)
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_column_dictionary_enabled("few".into(), true)
        .set_writer_version(version);
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

/// The rows of each stream of a scan by two workers.
fn streams(table: &Table, job: &Job, memory: usize) -> Result<Vec<Vec<RecordBatch>>, Error> {
    let options = ScanOptions { streams: 2, ordered: false, memory, ..ScanOptions::new(all(table)) };
    let mut streams = table.scan(job, &options)?;
    let mut batches = vec![Vec::new(); streams.len()];
    let mut has_more = true;
    while std::mem::take(&mut has_more) {
        // In turn, so that no stream takes the parts of the others.
        for (stream, batches) in streams.iter_mut().zip(&mut batches) {
            let next = stream.next()?;
            has_more |= next.is_some();
            batches.extend(next);
        }
    }
    Ok(batches)
}

/// The rows of all streams, by their numbers.
fn in_order(streams: &[Vec<RecordBatch>]) -> RecordBatch {
    let mut batches: Vec<&RecordBatch> = streams.iter().flatten().collect();
    batches.sort_by_key(|batch| batch.column(0).as_primitive::<Int64Type>().value(0));
    concat_batches(&batches[0].schema(), batches).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn each_worker_decodes_a_part_of_a_large_row_group(
        seed: u64,
        page_rows in 3000usize..30_000,
        has_index: bool,
        second: bool,
        memory in prop::sample::select(vec![MIB, 4 * MIB, 64 * MIB]),
    ) {
        let expected = table_of(seed);
        let version = if second { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
        let scratch = Scratch::new("division");
        let path = scratch.file("t", file(&expected, page_rows, has_index, version));
        let (table, job) = (open(path).unwrap(), job(128 * MIB));
        let available = job.available();
        let streams = streams(&table, &job, memory).unwrap();
        // With less memory than for the pages of both, one worker decodes all rows.
        prop_assert!(memory < 64 * MIB || streams.iter().all(|batches| !batches.is_empty()), "a worker is idle");
        prop_assert_eq!(in_order(&streams), expected);
        prop_assert_eq!(job.available(), available);
    }
}

#[test]
fn a_page_index_that_lies_is_an_error_or_has_no_effect() {
    let expected = table_of(1);
    let bytes = file(&expected, 20_000, true, WriterVersion::PARQUET_1_0);
    let metadata = SerializedFileReader::new(bytes::Bytes::from(bytes.clone())).unwrap().metadata().clone();
    let chunk = metadata.row_group(0).column(1);
    let start = chunk.offset_index_offset().unwrap() as usize;
    let end = start + chunk.offset_index_length().unwrap() as usize;
    let (scratch, job) = (Scratch::new("division-index"), job(128 * MIB));
    let mut refused = 0;
    for at in (start..end).step_by(3) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 2;
        let table = open(scratch.file("t", bytes)).unwrap();
        match streams(&table, &job, 64 * MIB) {
            Ok(streams) => assert!(in_order(&streams) == expected, "byte {at} gives other rows"),
            Err(error) => {
                assert!(error.to_string().contains("column wide"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}
