//! Measures encoding LINEITEM as Parquet, with our encoder and the library's: `encode SCALE_FACTOR DIRECTORY [NAME]`.
//!
//! The rows are sorted by (l_partkey, l_suppkey), in batches of 8192. Each variant whose name begins with NAME writes
//! one file on one thread and prints CPU seconds and megabytes. DIRECTORY may be `/dev/null` to exclude the disk.

use std::error::Error;
use std::fs::File;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{ArrayRef, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic;
use parquet::file::properties::WriterProperties;
use sakiyomi_os::cpu::user_and_system_of_this_process;
use sakiyomi_query::output::{Compression, Output, OutputOptions, Target};
use sakiyomi_query::table::Format;
use sakiyomi_query::{Job, JobOptions};
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::LineItemArrow;

/// Rows per row group and per batch.
const GROUP_ROWS: usize = 122_880;
const BATCH_ROWS: usize = 8192;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let scale: f64 = arguments.next().ok_or("a scale factor is missing")?.parse()?;
    let directory = PathBuf::from(arguments.next().ok_or("a directory is missing")?);
    let only = arguments.next();
    let is_wanted = |name: &str| only.as_ref().is_none_or(|only| name.starts_with(only.as_str()));
    let plain = lineitem(scale, plain_type)?;
    let compact = lineitem(scale, compact_type)?;
    for (rows, batches) in [("plain", &plain), ("compact", &compact)] {
        for (name, compression, library) in [
            ("none", Compression::None, basic::Compression::UNCOMPRESSED),
            ("snappy", Compression::Snappy, basic::Compression::SNAPPY),
            ("zstd", Compression::Zstd, basic::Compression::ZSTD(basic::ZstdLevel::try_new(1)?)),
        ] {
            let ours = format!("ours-{rows}-{name}");
            if is_wanted(&ours) {
                measure(&ours, || write_ours(batches, &path(&directory, &ours), compression))?;
            }
            let library_s = format!("library-{rows}-{name}");
            if is_wanted(&library_s) {
                measure(&library_s, || write_library(batches, &path(&directory, &library_s), library))?;
            }
        }
    }
    Ok(())
}

fn path(directory: &Path, name: &str) -> PathBuf {
    if directory.is_dir() { directory.join(format!("{name}.parquet")) } else { directory.to_owned() }
}

/// Runs a variant three times and prints the run with the least CPU time.
fn measure(name: &str, run: impl Fn() -> Outcome<u64>) -> Outcome<()> {
    let mut best: Option<(Duration, Duration, u64)> = None;
    for _ in 0..3 {
        let before = user_and_system_of_this_process();
        let bytes = run()?;
        let after = user_and_system_of_this_process();
        let (user, system) = (after.0 - before.0, after.1 - before.1);
        if best.is_none_or(|(known, other, _)| user + system < known + other) {
            best = Some((user, system, bytes));
        }
    }
    let (user, system, bytes) = best.ok_or("no run")?;
    let (user, system, megabytes) = (user.as_secs_f64(), system.as_secs_f64(), bytes as f64 / 1e6);
    writeln!(stdout(), "{name:24} user {user:6.3} s  system {system:6.3} s  {megabytes:7.1} MB")?;
    Ok(())
}

/// The schema of the file, for plain and compact batches.
fn schema_of(batches: &[RecordBatch]) -> SchemaRef {
    let fields = batches[0].schema();
    let fields = fields.fields().iter().map(|field| match field.data_type() {
        DataType::Decimal64(precision, scale) => {
            field.as_ref().clone().with_data_type(DataType::Decimal128(*precision, *scale))
        }
        DataType::Dictionary(..) => field.as_ref().clone().with_data_type(DataType::Utf8),
        _ => field.as_ref().clone(),
    });
    Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
}

fn write_ours(batches: &[RecordBatch], path: &Path, compression: Compression) -> Outcome<u64> {
    let job = Job::new(JobOptions { threads: 1, ..JobOptions::default() })?;
    let options = OutputOptions { compression, ..OutputOptions::new(Format::Parquet) };
    let mut output = Output::create(&job, &Target::File(path.to_owned()), &schema_of(batches), &options)?;
    let encoder = output.encoder();
    for group in batches.chunks(GROUP_ROWS / BATCH_ROWS) {
        output.append(encoder.encode(group)?)?;
    }
    Ok(output.finish()?)
}

fn write_library(batches: &[RecordBatch], path: &Path, compression: basic::Compression) -> Outcome<u64> {
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, batches[0].schema(), Some(properties))?;
    for batch in batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    Ok(writer.bytes_written() as u64)
}

/// The types of the generator or of a plain scan.
fn plain_type(data_type: &DataType) -> DataType {
    data_type.clone()
}

/// The types of our scans.
fn compact_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Decimal128(precision, scale) => DataType::Decimal64(*precision, *scale),
        other => other.clone(),
    }
}

/// Columns of few distinct strings.
const FLAGS: [&str; 4] = ["l_returnflag", "l_linestatus", "l_shipinstruct", "l_shipmode"];

/// LINEITEM in order, with types mapped by `of`; with compact types, strings are dictionaries or plain strings.
fn lineitem(scale: f64, of: fn(&DataType) -> DataType) -> Outcome<Vec<RecordBatch>> {
    let is_compact = of(&DataType::Decimal128(15, 2)) != DataType::Decimal128(15, 2);
    let (mut batches, mut keys) = (Vec::new(), Vec::new());
    for batch in LineItemArrow::new(LineItemGenerator::new(scale, 1, 1)).with_batch_size(1 << 20) {
        let batch = batch?;
        let columns = batch.schema();
        let columns = columns.fields().iter().zip(batch.columns()).map(|(field, array)| {
            let data_type = match of(field.data_type()) {
                DataType::Utf8View if is_compact && FLAGS.contains(&field.name().as_str()) => {
                    DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8))
                }
                DataType::Utf8View if is_compact => DataType::Utf8,
                other => other,
            };
            Ok((field.name().clone(), arrow_cast::cast(array, &data_type)?))
        });
        let batch = RecordBatch::try_from_iter(columns.collect::<Outcome<Vec<(String, ArrayRef)>>>()?)?;
        let number = |column: usize| batch.column(column).as_primitive::<Int64Type>().values().clone();
        keys.extend(
            number(1).iter().zip(number(2).iter()).map(|(part, supplier)| (part << 32 | supplier) as u64),
        );
        batches.push(batch);
    }
    let keys: PrimitiveArray<UInt64Type> = keys.into();
    let order = arrow_ord::sort::sort_to_indices(&keys, None, None)?;
    let table = arrow_select::concat::concat_batches(&batches[0].schema(), &batches)?;
    drop(batches);
    let starts = (0..order.len()).step_by(BATCH_ROWS);
    let sorted = starts.map(|start| {
        let rows = order.slice(start, BATCH_ROWS.min(order.len() - start));
        Ok(arrow_select::take::take_record_batch(&table, &rows)?)
    });
    sorted.collect()
}
