//! Memory of scans: row groups, columns and rows that are larger than their share.

use ::parquet::basic::Compression;
use arrow_array::{ArrayRef, Int64Array, StringArray, StringViewArray};
use arrow_ipc::CompressionType;
use arrow_schema::DataType;

use super::arrays::{Random, common};
use super::*;
use crate::batch_bytes::batch_bytes;

fn wide(columns: usize, rows: usize) -> RecordBatch {
    let column =
        |at: usize| -> (String, ArrayRef) {
            (
                format!("c{at}"),
                Arc::new(Int64Array::from_iter_values((0..rows).map(|row| {
                    (row as i64).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed()) ^ at as i64
                }))),
            )
        };
    RecordBatch::try_from_iter((0..columns).map(column)).unwrap()
}

#[test]
fn a_row_group_larger_than_the_memory_is_read_in_windows() {
    let scratch = Scratch::new("large_group");
    let batch = wide(4, 400_000);
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(1 << 20))
        .set_dictionary_enabled(false)
        .set_compression(Compression::SNAPPY);
    write_parquet(&scratch.path("p"), std::slice::from_ref(&batch), properties.build());
    let (table, job) = (open(scratch.path("p")).unwrap(), job(8 * MIB));
    assert!(table.bytes(&all(&table)) > 5 * MIB as u64);
    let options = ScanOptions { memory: 2 * MIB, ..ScanOptions::new(all(&table)) };
    assert_eq!(rows(&table, &job, &options).unwrap(), batch);
    // Guaranteed buffers, blocks and kept bytes.
    assert!(job.io().pool().resident() <= 3 * MIB, "{}", job.io().pool().resident());
}

#[test]
fn a_thousand_columns() {
    let scratch = Scratch::new("thousand");
    let batch = wide(1000, 300);
    write_parquet(&scratch.path("p"), std::slice::from_ref(&batch), WriterProperties::default());
    write_file(&scratch.path("f"), std::slice::from_ref(&batch), IpcWriteOptions::default());
    let job = job(24 * MIB);
    for name in ["p", "f"] {
        let table = open(scratch.path(name)).unwrap();
        let options = ScanOptions { memory: 8 * MIB, ..ScanOptions::new(all(&table)) };
        assert_eq!(rows(&table, &job, &options).unwrap(), batch, "{name}");
    }
}

#[test]
fn a_thousand_columns_whose_pages_do_not_fit_are_decoded_in_sets() {
    let scratch = Scratch::new("sets");
    let (batch, other) = (wide(1000, 2000), common(&mut Random::new(2), 5000));
    write_parquet(&scratch.path("p"), std::slice::from_ref(&batch), WriterProperties::default());
    write_parquet(&scratch.path("q"), std::slice::from_ref(&other), WriterProperties::default());
    let options =
        JobOptions { memory: 24 * MIB, spill: vec![scratch.root().to_owned()], ..JobOptions::default() };
    let job = Job::new(options.clone()).unwrap();
    let table = open(scratch.path("p")).unwrap();
    let options = ScanOptions { memory: 8 * MIB, ..ScanOptions::new(all(&table)) };
    assert_eq!(rows(&table, &job, &options).unwrap(), batch);
    let job = Job::new(JobOptions { memory: 2 * MIB, ..job.options().clone() }).unwrap();
    let table = open(scratch.path("q")).unwrap();
    let options = ScanOptions { columns: all(&table), ..options };
    assert_eq!(rows(&table, &job, &options).unwrap(), other);
}

#[test]
fn a_record_batch_larger_than_the_memory_is_read_row_by_row() {
    let scratch = Scratch::new("large_batch");
    let batch = common(&mut Random::new(9), 60_000);
    let is_nested = |at: &usize| batch.column(*at).data_type().is_nested();
    let is_view =
        |at: &usize| matches!(batch.column(*at).data_type(), DataType::Utf8View | DataType::BinaryView);
    let flat: Vec<usize> = (0..batch.num_columns())
        .filter(|at| !is_nested(at) && !is_view(at) && *batch.column(*at).data_type() != DataType::Null)
        .collect();
    write_file(&scratch.path("f"), std::slice::from_ref(&batch), IpcWriteOptions::default());
    let (table, job) = (open(scratch.path("f")).unwrap(), job(16 * MIB));
    let options = ScanOptions { memory: 2 * MIB, ..ScanOptions::new(flat.clone()) };
    assert_eq!(rows(&table, &job, &options).unwrap(), batch.project(&flat).unwrap());
    let error = rows(&table, &job, &ScanOptions { columns: all(&table), ..options }).unwrap_err();
    assert!(matches!(error, Error::Memory { .. }), "{error}");
}

#[test]
fn long_strings_come_in_batches_of_few_rows() {
    let scratch = Scratch::new("long");
    let texts = (0..40).map(|row| if row % 4 == 0 { "x".repeat(1 << 20) } else { format!("{row}") });
    let column: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let batch = RecordBatch::try_from_iter([("s", column)]).unwrap();
    for dictionary in [false, true] {
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(dictionary)
            .set_dictionary_page_size_limit(64 << 20)
            .set_compression(Compression::SNAPPY);
        write_parquet(&scratch.path("p"), std::slice::from_ref(&batch), properties.build());
        let (table, job) = (open(scratch.path("p")).unwrap(), job(256 * MIB));
        let options = ScanOptions { memory: 32 * MIB, ..ScanOptions::new(vec![0]) };
        let mut stream = table.scan(&job, &options).unwrap().remove(0);
        let mut rows = 0;
        while let Some(found) = stream.next().unwrap() {
            assert!(found.get_array_memory_size() < 24 * MIB, "{} bytes", found.get_array_memory_size());
            rows += found.num_rows();
        }
        assert_eq!(rows, 40);
    }
}

#[test]
fn a_page_that_does_not_fit_is_refused_with_its_size() {
    let scratch = Scratch::new("page");
    let column: ArrayRef = Arc::new(StringArray::from_iter_values(["x".repeat(24 << 20)]));
    let batch = RecordBatch::try_from_iter([("s", column)]).unwrap();
    let properties =
        WriterProperties::builder().set_dictionary_enabled(false).set_compression(Compression::SNAPPY);
    write_parquet(&scratch.path("p"), std::slice::from_ref(&batch), properties.build());
    let table = open(scratch.path("p")).unwrap();
    let options = ScanOptions { memory: 4 * MIB, ..ScanOptions::new(vec![0]) };
    let error = rows(&table, &job(16 * MIB), &options).unwrap_err().to_string();
    assert!(error.contains("a page of 25165") && error.contains("raise --memory"), "{error}");
    assert_eq!(rows(&table, &job(256 * MIB), &options).unwrap(), batch);
}

#[test]
fn memory_is_returned_when_a_scan_is_dropped() {
    let scratch = Scratch::new("returned");
    write_parquet(&scratch.path("p"), &[wide(4, 20_000)], WriterProperties::default());
    let (table, job) = (open(scratch.path("p")).unwrap(), job(64 * MIB));
    let available = job.available();
    let mut streams = table.scan(&job, &ScanOptions::new(all(&table))).unwrap();
    assert!(job.available() < available);
    streams[0].next().unwrap().unwrap();
    drop(streams);
    assert_eq!(job.available(), available);
    assert!(job.io().pool().account(job.io().pool().budget() / 2).is_ok());
}

/// One row group of one page for each of two columns.
fn one_page(path: &Path, rows: usize, compression: Compression) -> RecordBatch {
    pages(path, rows, rows, compression)
}

/// One row group of pages of `page_rows` rows for each of two columns.
fn pages(path: &Path, rows: usize, page_rows: usize, compression: Compression) -> RecordBatch {
    let batch = wide(2, rows);
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(rows))
        .set_data_page_row_count_limit(page_rows)
        .set_data_page_size_limit(1 << 30)
        .set_write_batch_size(page_rows)
        .set_dictionary_enabled(false)
        .set_compression(compression);
    write_parquet(path, std::slice::from_ref(&batch), properties.build());
    batch
}

#[test]
fn fewer_workers_decode_pages_that_all_have_no_memory_for() {
    let scratch = Scratch::new("many_workers");
    for file in 0..8 {
        // A page has 4 MB.
        one_page(&scratch.path(&format!("{file}")), 500_000, Compression::UNCOMPRESSED);
    }
    let (table, job) = (open(scratch.root()).unwrap(), job(32 * MIB));
    let options = ScanOptions { memory: 8 * MIB, streams: 8, ordered: false, ..ScanOptions::new(vec![0]) };
    let mut streams = table.scan(&job, &options).unwrap();
    let mut rows_read = 0;
    // All workers have a page in memory at the same time.
    while rows_read < 8 * 500_000 {
        let batches = streams.iter_mut().map(|stream| stream.next().unwrap());
        let rows: usize = batches.flatten().map(|batch| batch.num_rows()).sum();
        assert!(rows > 0, "rows are missing");
        rows_read += rows;
    }
}

#[test]
fn a_page_larger_than_the_heap_borrows_from_the_buffers() {
    let scratch = Scratch::new("large_page");
    // A page has 8 MB, the heap 6 MiB.
    let batch = one_page(&scratch.path("p"), 1_000_000, Compression::UNCOMPRESSED);
    let (table, job) = (open(scratch.path("p")).unwrap(), job(16 * MIB));
    let options = ScanOptions { memory: 4 * MIB, ..ScanOptions::new(vec![0]) };
    let (available, unclaimed) = (job.available(), job.io().pool().unclaimed());
    let mut streams =
        table.scan(&job, &ScanOptions { streams: 2, ordered: false, ..options.clone() }).unwrap();
    // Borrowed before the operator takes the rest; the second worker has no row group and takes nothing.
    assert!(job.io().pool().unclaimed() < 4 * MIB, "{}", job.io().pool().unclaimed());
    let rest = job.io().pool().account_of(job.io().pool().unclaimed()).unwrap();
    assert!(streams.remove(1).next().unwrap().is_none());
    let mut rows_read = 0;
    while let Some(batch) = streams[0].next().unwrap() {
        rows_read += batch.num_rows();
    }
    assert_eq!(rows_read, 1_000_000);
    drop((streams, rest));
    assert_eq!((job.available(), job.io().pool().unclaimed()), (available, unclaimed));
    // Two such pages do not fit at once: the columns are decoded in turn.
    let both = rows(&table, &job, &ScanOptions { columns: vec![0, 1], ..options }).unwrap();
    assert_eq!(both, batch);
}

#[test]
fn the_copy_of_a_compressed_page_is_counted() {
    let scratch = Scratch::new("compressed_page");
    one_page(&scratch.path("p"), 1_000_000, Compression::SNAPPY);
    let table = open(scratch.path("p")).unwrap();
    let options = ScanOptions { memory: 4 * MIB, ..ScanOptions::new(vec![0]) };
    let error = rows(&table, &job(16 * MIB), &options).unwrap_err().to_string();
    assert!(error.contains("a page of 8000") && error.contains("raise --memory"), "{error}");
    assert_eq!(rows(&table, &job(32 * MIB), &options).unwrap().num_rows(), 1_000_000);
}

#[test]
fn a_large_page_counts_until_the_next_one_is_decompressed() {
    let scratch = Scratch::new("two_pages");
    pages(&scratch.path("p"), 2_000_000, 1_000_000, Compression::UNCOMPRESSED);
    let table = open(scratch.path("p")).unwrap();
    let options = ScanOptions { memory: 4 * MIB, ..ScanOptions::new(vec![0]) };
    let error = rows(&table, &job(16 * MIB), &options).unwrap_err().to_string();
    assert!(error.contains("a page of 8000") && error.contains("raise --memory"), "{error}");
    let mut stream = table.scan(&job(32 * MIB), &options).unwrap().remove(0);
    let mut found = 0;
    while let Some(batch) = stream.next().unwrap() {
        found += batch.num_rows();
    }
    assert_eq!(found, 2_000_000);
}

#[test]
fn a_sample_does_not_keep_the_pages_of_its_texts() {
    let scratch = Scratch::new("sampled_pages");
    let texts = (0..200_000).map(|row| format!("a text that is too long for its view, {row}"));
    let column: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
    let batch = RecordBatch::try_from_iter([("c", column)]).unwrap();
    let properties = WriterProperties::builder().set_dictionary_enabled(false);
    write_parquet(&scratch.path("p"), std::slice::from_ref(&batch), properties.build());
    let sample = open(scratch.path("p")).unwrap().sample(&job(32 * MIB), &[0], 1000).unwrap();
    assert_eq!(sample.column(0).data_type(), &DataType::Utf8View);
    let (held, rows) = (sample.get_array_memory_size(), batch_bytes(&sample));
    assert!(sample.num_rows() >= 1000 && held < 2 * rows, "{held} bytes are held for {rows}");
}

#[test]
fn dictionaries_of_an_arrow_file_count_while_it_is_scanned() {
    let scratch = Scratch::new("dictionaries");
    let values = StringArray::from_iter_values((0..8).map(|value| format!("{value}").repeat(MIB)));
    let keys = arrow_array::Int32Array::from_iter_values((0..100).map(|row| row % 8));
    let column: ArrayRef = Arc::new(arrow_array::DictionaryArray::new(keys, Arc::new(values)));
    let batch = RecordBatch::try_from_iter([("d", column)]).unwrap();
    let options = IpcWriteOptions::default().try_with_compression(Some(arrow_ipc::CompressionType::ZSTD));
    write_file(&scratch.path("t"), &[batch.clone(), batch], options.unwrap());
    let table = open(scratch.path("t")).unwrap();
    let options = ScanOptions { memory: 2 * MIB, ..ScanOptions::new(vec![0]) };
    // The heap has 6 MiB.
    let refused = table.scan(&job(16 * MIB), &options).map(drop);
    assert!(matches!(refused, Err(Error::Memory { .. })), "{refused:?}");
    let job = job(64 * MIB);
    let available = job.available();
    let mut streams = table.scan(&job, &options).unwrap();
    let reserved = available - job.available();
    assert!((8 * MIB..12 * MIB).contains(&reserved), "{reserved} bytes");
    assert_eq!(streams[0].next().unwrap().unwrap().num_rows(), 100);
    drop(streams);
    assert_eq!(job.available(), available);
}

#[test]
fn the_metadata_of_a_parquet_file_count_while_it_is_scanned() {
    let scratch = Scratch::new("metadata");
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(4));
    write_parquet(&scratch.path("p"), &[wide(16, 2000)], properties.build());
    let (table, job) = (open(scratch.path("p")).unwrap(), job(64 * MIB));
    let available = job.available();
    let options = ScanOptions { memory: 2 * MIB, ..ScanOptions::new(vec![0]) };
    let mut streams = table.scan(&job, &options).unwrap();
    // Half of the memory is for decoding; 8,000 column chunks have 150 to 300 bytes each.
    let reserved = available - job.available();
    assert!((2 * MIB..4 * MIB).contains(&reserved), "{reserved} bytes");
    assert_eq!(streams[0].next().unwrap().unwrap().num_rows(), 4);
    drop(streams);
    assert_eq!(job.available(), available);
}

#[test]
fn only_the_dictionaries_of_scanned_columns_are_loaded() {
    let scratch = Scratch::new("projected_dictionaries");
    let coded = |letter: &str| -> ArrayRef {
        let values =
            StringArray::from_iter_values((0..2).map(|value| format!("{letter}{value}").repeat(MIB)));
        let keys = arrow_array::Int32Array::from_iter_values((0..100).map(|row| row % 2));
        Arc::new(arrow_array::DictionaryArray::new(keys, Arc::new(values)))
    };
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let batch = RecordBatch::try_from_iter([("a", coded("a")), ("n", numbers), ("b", coded("b"))]).unwrap();
    write_file(&scratch.path("t"), std::slice::from_ref(&batch), IpcWriteOptions::default());
    let (table, job) = (open(scratch.path("t")).unwrap(), job(64 * MIB));
    let available = job.available();
    for (columns, dictionaries) in [(vec![1], 0), (vec![0, 1], 1), (vec![2], 1), (vec![0, 1, 2], 2)] {
        let options = ScanOptions { memory: 2 * MIB, ..ScanOptions::new(columns.clone()) };
        let mut streams = table.scan(&job, &options).unwrap();
        let reserved = available - job.available();
        assert!((4 * dictionaries..4 * dictionaries + 2).contains(&(reserved / MIB)), "{reserved} bytes");
        assert_eq!(streams[0].next().unwrap().unwrap(), batch.project(&columns).unwrap());
        drop(streams);
        assert_eq!(job.available(), available);
    }
}

#[test]
fn a_compressed_record_batch_that_exceeds_a_share_is_decoded_as_a_whole() {
    let scratch = Scratch::new("whole_batch");
    let batch = wide(4, 300_000);
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
    write_file(&scratch.path("f"), std::slice::from_ref(&batch), options);
    let table = open(scratch.path("f")).unwrap();
    assert!(table.bytes(&all(&table)) > 9 * MIB as u64);
    let job = job(32 * MIB);
    let available = job.available();
    for streams in [1, 2] {
        let options = ScanOptions { memory: 8 * MIB, streams, ..ScanOptions::new(all(&table)) };
        assert_eq!(rows(&table, &job, &options).unwrap(), batch);
        assert_eq!(job.available(), available);
    }
    let small = self::job(8 * MIB);
    let options = ScanOptions { memory: 2 * MIB, ..ScanOptions::new(all(&table)) };
    let refused = rows(&table, &small, &options).unwrap_err().to_string();
    assert!(refused.contains("record batch 0") && refused.contains("--memory"), "{refused}");
}
