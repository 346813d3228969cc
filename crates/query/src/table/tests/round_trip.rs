//! Tables return the rows that the libraries wrote.

use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::file::properties::WriterVersion;
use arrow_ipc::CompressionType;
use proptest::prelude::*;

use super::arrays::{Random, arrow_only, common};
use super::*;

fn batches(
    seed: u64,
    sizes: &[usize],
    make: fn(&mut Random, usize) -> RecordBatch,
) -> (Vec<RecordBatch>, RecordBatch) {
    let mut random = Random::new(seed);
    let batches: Vec<RecordBatch> = sizes.iter().map(|&rows| make(&mut random, rows)).collect();
    let all = concat_batches(&batches[0].schema(), &batches).unwrap();
    (batches, all)
}

fn compression(number: usize) -> Compression {
    let zstd = Compression::ZSTD(ZstdLevel::default());
    [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::LZ4_RAW, zstd][number]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn parquet_of_all_types(
        seed: u64,
        sizes in prop::collection::vec(0usize..120, 1..4),
        group in 1usize..100,
        page in 1usize..50,
        codec in 0usize..4,
        dictionary: bool,
        second: bool,
        batch_rows in 1usize..70,
        memory in prop::sample::select(vec![256 << 10, 32 << 20]),
    ) {
        let (written, expected) = batches(seed, &sizes, common);
        let scratch = Scratch::new("parquet");
        let version = if second { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(group))
            .set_data_page_row_count_limit(page)
            .set_write_batch_size(page)
            .set_dictionary_enabled(dictionary)
            .set_writer_version(version)
            .set_compression(compression(codec));
        write_parquet(&scratch.path("table"), &written, properties.build());
        let (table, job) = (open(scratch.path("table")).unwrap(), job(64 * MIB));
        prop_assert_eq!(table.rows(), Some(expected.num_rows() as u64));
        let options = ScanOptions { batch_rows, memory, ..ScanOptions::new(all(&table)) };
        prop_assert_eq!(rows(&table, &job, &options).unwrap(), expected);
    }

    #[test]
    fn arrow_files_and_streams_of_all_types(
        seed: u64,
        sizes in prop::collection::vec(0usize..120, 1..4),
        codec in 0usize..3,
        is_stream: bool,
        is_odd: bool,
        batch_rows in 1usize..70,
    ) {
        // Run-end encoded arrays cannot be empty.
        let sizes: Vec<usize> = sizes.iter().map(|&rows| rows.max(usize::from(is_odd))).collect();
        let (written, expected) = batches(seed, &sizes, if is_odd { arrow_only } else { common });
        let scratch = Scratch::new("arrow");
        let codec = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)][codec];
        let options = IpcWriteOptions::default().try_with_compression(codec).unwrap();
        let write = if is_stream { write_stream } else { write_file };
        write(&scratch.path("table"), &written, options);
        let (table, job) = (open(scratch.path("table")).unwrap(), job(64 * MIB));
        prop_assert_eq!(table.rows(), Some(expected.num_rows() as u64));
        let options = ScanOptions { batch_rows, ..ScanOptions::new(all(&table)) };
        prop_assert_eq!(rows(&table, &job, &options).unwrap(), expected);
    }

    #[test]
    fn projections_have_their_columns_in_their_order(
        seed: u64,
        columns in prop::collection::vec(0usize..28, 0..6),
        format in 0usize..3,
    ) {
        let (written, expected) = batches(seed, &[50, 30], common);
        let scratch = Scratch::new("projection");
        let path = scratch.path("table");
        match format {
            0 => write_parquet(&path, &written, WriterProperties::builder().set_max_row_group_row_count(Some(33)).build()),
            1 => write_file(&path, &written, IpcWriteOptions::default()),
            _ => write_stream(&path, &written, IpcWriteOptions::default()),
        }
        let (table, job) = (open(&path).unwrap(), job(64 * MIB));
        let found = rows(&table, &job, &ScanOptions::new(columns.clone())).unwrap();
        prop_assert_eq!(found, expected.project(&columns).unwrap());
        prop_assert!(table.bytes(&columns) <= std::fs::metadata(&path).unwrap().len());
        let sample = table.sample(&job, &columns, 20).unwrap();
        prop_assert_eq!(sample.schema(), table.scan_schema(&columns, Representation::STORED));
        prop_assert!((18..=22).contains(&sample.num_rows()), "{} rows", sample.num_rows());
    }

    #[test]
    fn workers_share_the_rows(seed: u64, group in 1usize..60, streams in 1usize..5, format in 0usize..2) {
        let (written, expected) = batches(seed, &[50, 90, 1], |random, rows| {
            common(random, rows).project(&[0, 17]).unwrap()
        });
        let scratch = Scratch::new("workers");
        let path = scratch.path("table");
        match format {
            0 => write_parquet(&path, &written, WriterProperties::builder().set_max_row_group_row_count(Some(group)).build()),
            _ => write_file(&path, &written, IpcWriteOptions::default()),
        }
        let (table, job) = (open(&path).unwrap(), job(64 * MIB));
        let options = ScanOptions { streams, ordered: false, ..ScanOptions::new(all(&table)) };
        let workers: Vec<_> = table.scan(&job, &options).unwrap().into_iter().map(|mut stream| {
            thread::spawn(move || {
                let mut batches = Vec::new();
                while let Some(batch) = stream.next().unwrap() {
                    batches.push(batch);
                }
                batches
            })
        }).collect();
        prop_assert_eq!(workers.len(), streams);
        let found = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>();
        let found = concat_batches(&table.schema(), &found).unwrap();
        let lines = |batch: &RecordBatch| {
            let converter = arrow_row::RowConverter::new(
                batch.columns().iter().map(|column| arrow_row::SortField::new(column.data_type().clone())).collect(),
            );
            let all = converter.unwrap().convert_columns(batch.columns()).unwrap();
            let mut lines: Vec<Vec<u8>> = all.iter().map(|row| row.as_ref().to_vec()).collect();
            lines.sort();
            lines
        };
        prop_assert_eq!(lines(&found), lines(&expected));
    }
}

#[test]
fn tables_without_rows() {
    let scratch = Scratch::new("empty");
    let (written, expected) = batches(1, &[0], common);
    write_parquet(&scratch.path("p"), &written, WriterProperties::default());
    write_file(&scratch.path("f"), &written, IpcWriteOptions::default());
    write_stream(&scratch.path("s"), &written, IpcWriteOptions::default());
    for name in ["p", "f", "s"] {
        let (table, job) = (open(scratch.path(name)).unwrap(), job(64 * MIB));
        assert_eq!(table.rows(), Some(0), "{name}");
        assert_eq!(read(scratch.path(name)).unwrap(), expected, "{name}");
        assert_eq!(table.sample(&job, &[0], 10).unwrap().num_rows(), 0, "{name}");
        let stats = table.statistics(0);
        assert!(stats.min.is_none() && stats.max.is_none(), "{name}");
    }
}
