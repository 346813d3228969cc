//! The cases of DataFusion's own tests of spilling, on our files: whole batches of every type, files that rotate, readers
//! beside writers.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StringViewArray,
    StructArray,
};
use datafusion::arrow::datatypes::{Field, Int32Type, Schema, SchemaRef};
use datafusion::common::config::SpillCompression;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::spill_pool::mpsc_channel;
use futures::{StreamExt, TryStreamExt};
use sakiyomi_datafusion::spill::{SpillFactory, SpillOptions};
use sakiyomi_testing::Scratch;

use crate::spill::{factory, with_watchdog};

fn manager(factory: &Arc<SpillFactory>, schema: SchemaRef) -> (SpillManager, SpillMetrics) {
    let disk = DiskManagerBuilder::default().with_temp_file_factory(Arc::clone(factory) as _);
    let runtime = RuntimeEnvBuilder::new().with_disk_manager_builder(disk).build_arc().unwrap();
    let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
    (SpillManager::new(runtime, metrics.clone(), schema), metrics)
}

/// A batch with a column of each kind of layout.
fn batch(from: i32, rows: i32) -> RecordBatch {
    let numbers = || from..from + rows;
    let text = |number: i32| format!("a text that is longer than a view holds: {number}");
    let integers: Int32Array = numbers().map(|number| Some(number).filter(|number| number % 3 > 0)).collect();
    let texts: StringArray = numbers().map(|number| Some(text(number))).collect();
    let views: StringViewArray =
        numbers().map(|number| Some(text(number)).filter(|_| number % 5 > 0)).collect();
    let few: Vec<String> = numbers().map(|number| format!("{}", number % 4)).collect();
    let dictionary: DictionaryArray<Int32Type> = few.iter().map(String::as_str).collect();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(
        numbers().map(|number| Some((0..number % 4).map(Some).collect::<Vec<_>>())),
    );
    let inner: ArrayRef = Arc::new(Int64Array::from_iter(numbers().map(i64::from)));
    let structs = StructArray::from(vec![(
        Arc::new(Field::new("inner", inner.data_type().clone(), true)),
        Arc::clone(&inner),
    )]);
    let columns: [(&str, ArrayRef); 6] = [
        ("integer", Arc::new(integers)),
        ("text", Arc::new(texts)),
        ("view", Arc::new(views)),
        ("dictionary", Arc::new(dictionary)),
        ("list", Arc::new(lists)),
        ("struct", Arc::new(structs)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[test]
fn batches_of_all_layouts_are_read_as_written_with_each_compression() {
    let scratch = Scratch::new("manager_layouts");
    let factory = factory(&scratch, SpillOptions { chunk: 64 << 10, ..SpillOptions::default() });
    let batches: Vec<RecordBatch> =
        [(0, 1), (1, 5000), (5001, 100), (6000, 9000)].map(|(from, rows)| batch(from, rows)).into();
    for compression in [SpillCompression::Uncompressed, SpillCompression::Lz4Frame, SpillCompression::Zstd] {
        let (manager, metrics) = manager(&factory, batches[0].schema());
        let manager = manager.with_compression_type(compression);
        let before = factory.stats().written_bytes;
        let file = manager.spill_record_batch_and_finish(&batches, "test").unwrap().unwrap();
        let found: Vec<RecordBatch> = runtime().block_on(async {
            manager.read_spill_as_stream(Arc::clone(&file), None).unwrap().try_collect().await.unwrap()
        });
        assert_eq!(found, batches);
        let written = (factory.stats().written_bytes - before) as usize;
        assert_eq!(metrics.spilled_bytes.value(), written);
        assert_eq!((metrics.spilled_rows.value(), metrics.spill_file_count.value()), (14_101, 1));
        assert_eq!(file.size(), Some(written as u64));
    }
}

#[test]
fn nothing_is_spilled_for_no_batch_and_a_file_without_rows_is_empty() {
    let scratch = Scratch::new("manager_empty");
    let factory = factory(&scratch, SpillOptions::default());
    let (manager, metrics) = manager(&factory, batch(0, 1).schema());
    assert!(manager.spill_record_batch_and_finish(&[], "test").unwrap().is_none());
    assert_eq!((metrics.spill_file_count.value(), factory.stats().written_bytes), (0, 0));
    let empty = RecordBatch::new_empty(Arc::clone(manager.schema()));
    let file = manager.spill_record_batch_and_finish(&[empty], "test").unwrap().unwrap();
    let found: Vec<RecordBatch> = runtime()
        .block_on(async { manager.read_spill_as_stream(file, None).unwrap().try_collect().await.unwrap() });
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
}

#[test]
fn a_file_of_another_schema_is_an_error() {
    let scratch = Scratch::new("manager_schema");
    let factory = factory(&scratch, SpillOptions::default());
    let batch = batch(0, 10);
    let (writer, _) = manager(&factory, batch.schema());
    let (reader, _) = manager(&factory, Arc::new(Schema::empty()));
    let file = writer.spill_record_batch_and_finish(&[batch], "test").unwrap().unwrap();
    let mut found = reader.read_spill_as_stream_unbuffered(file, None).unwrap();
    let error = runtime().block_on(found.next()).unwrap().unwrap_err().to_string();
    assert!(error.contains("Spill file schema mismatch"), "{error}");
}

#[test]
fn a_pool_is_read_while_it_is_written_and_its_files_rotate() {
    with_watchdog("a pool that is read while it is written", || {
        let scratch = Scratch::new("manager_pool");
        let factory = factory(&scratch, SpillOptions { memory: 1 << 20, ..SpillOptions::default() });
        for (file_bytes, rows) in [(1, 200), (100_000, 300), (100_000_000, 3000)] {
            let (manager, metrics) = manager(&factory, batch(0, 1).schema());
            let (writer, mut reader) = mpsc_channel(file_bytes, Arc::new(manager));
            let batches: Vec<RecordBatch> = (0..60).map(|number| batch(number * rows, rows)).collect();
            let written = batches.clone();
            let found = runtime().block_on(async {
                let other = writer.clone();
                let writing = tokio::spawn(async move {
                    for (number, batch) in written.iter().enumerate() {
                        let writer = if number % 2 == 0 { &writer } else { &other };
                        writer.push_batch(batch).unwrap();
                        if number % 7 != 0 {
                            tokio::task::yield_now().await;
                        }
                    }
                });
                let mut found = Vec::new();
                while let Some(batch) = reader.next().await {
                    found.push(batch.unwrap());
                }
                writing.await.unwrap();
                found
            });
            assert!(found == batches, "files of {file_bytes} bytes");
            let files = metrics.spill_file_count.value();
            assert!(if file_bytes == 1 { files == 60 } else { files < 60 }, "{files} files");
        }
        assert_eq!(factory.stats().current_bytes, 0);
    });
}

#[test]
fn a_pool_that_is_read_after_it_was_written_has_all_batches() {
    let scratch = Scratch::new("manager_pool_later");
    let factory = factory(&scratch, SpillOptions { chunk: 64 << 10, ..SpillOptions::default() });
    let (manager, _) = manager(&factory, batch(0, 1).schema());
    let (writer, reader) = mpsc_channel(1 << 20, Arc::new(manager));
    let batches: Vec<RecordBatch> = (0..40).map(|number| batch(number * 900, 900)).collect();
    batches.iter().for_each(|batch| writer.push_batch(batch).unwrap());
    drop(writer);
    let found: Vec<RecordBatch> = runtime().block_on(reader.try_collect()).unwrap();
    assert!(found == batches);
}
