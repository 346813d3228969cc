mod faults;
mod ipc;
mod parquet;
mod random;
mod stand_ins;

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use sakiyomi_testing::Scratch;

use super::*;
use crate::JobOptions;

/// A job of 64 MiB.
fn job() -> Job {
    Job::new(JobOptions { memory: 64 << 20, threads: 2, ..JobOptions::default() }).unwrap()
}

/// Writes groups of batches to a file.
fn write(
    path: &Path,
    schema: &SchemaRef,
    groups: &[Vec<RecordBatch>],
    options: &OutputOptions,
) -> Result<u64, Error> {
    let mut output = Output::create(&job(), &Target::File(path.to_owned()), schema, options)?;
    let encoder = output.encoder();
    for group in groups {
        output.append(encoder.encode(group)?)?;
        assert!(!path.exists(), "nothing appears before the end");
    }
    let bytes = output.finish()?;
    assert_eq!(bytes, std::fs::metadata(path).unwrap().len());
    Ok(bytes)
}

/// Makes a batch of nullable columns.
fn table(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.iter().map(|(_, array)| Arc::clone(array)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// All rows of some groups, in the types of the file.
fn joined(schema: &SchemaRef, groups: &[Vec<RecordBatch>]) -> RecordBatch {
    let batches: Vec<RecordBatch> = groups.iter().flatten().map(|batch| cast_to(batch, schema)).collect();
    concat_batches(schema, &batches).unwrap()
}

fn cast_to(batch: &RecordBatch, schema: &SchemaRef) -> RecordBatch {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| arrow_cast::cast(array, field.data_type()).unwrap()).collect();
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_is_made() {
    let scratch = Scratch::new("refused");
    let union = arrow_schema::UnionFields::empty();
    let kinds = [
        (Format::Parquet, DataType::Union(union, arrow_schema::UnionMode::Sparse)),
        (Format::Parquet, DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano)),
        (Format::Parquet, DataType::Time32(arrow_schema::TimeUnit::Nanosecond)),
        (Format::Csv, DataType::new_list(DataType::Int32, true)),
    ];
    for (format, data_type) in kinds {
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("odd", data_type, true)]));
        let path = scratch.path("out");
        let created = Output::create(&job(), &Target::File(path), &schema, &OutputOptions::new(format));
        assert!(created.unwrap_err().to_string().contains("column odd"));
    }
    for (format, compression) in [(Format::ArrowFile, Compression::Snappy), (Format::Csv, Compression::Zstd)]
    {
        let schema: SchemaRef = Arc::new(Schema::empty());
        let options = OutputOptions { compression, ..OutputOptions::new(format) };
        let target = Target::File(scratch.path("out"));
        assert!(matches!(Output::create(&job(), &target, &schema, &options), Err(Error::Query(_))));
    }
    assert_eq!(scratch.entries(), 0);
}

#[test]
fn groups_have_the_rows_that_readers_expect_as_far_as_memory_allows() {
    assert_eq!(group_rows(100, usize::MAX), 671_088 / 1024 * 1024);
    assert_eq!(group_rows(1000, usize::MAX), 122_880);
    assert_eq!(group_rows(8, usize::MAX), 1 << 20);
    assert_eq!(group_rows(100, 1 << 20), 10_240);
    assert_eq!(group_rows(usize::MAX, 1 << 20), 1024);
    assert_eq!(group_rows(0, 0), 1024);
}
