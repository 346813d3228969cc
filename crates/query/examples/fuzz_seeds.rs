//! Writes the seeds of the fuzz targets over tables: `fuzz_seeds fuzz/tables/seeds`. The same bytes at every run.

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression as Codec, Encoding, GzipLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use random::{Random, cut};
use sakiyomi_query::output::{Compression, Output, OutputOptions, Target};
use sakiyomi_query::table::Format;
use sakiyomi_query::{Job, JobOptions};

#[path = "../src/table/tests/arrays.rs"]
mod arrays;
#[path = "../src/output/tests/random.rs"]
mod random;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Rows of a seed, and of its row groups: small, so that most mutations hit metadata.
const ROWS: usize = 40;
const GROUP_ROWS: usize = 15;

/// Formats of our writer, with the name of the target, and their compressions.
const FORMATS: [(&str, Format, &[Compression]); 4] = [
    (
        "parquet",
        Format::Parquet,
        &[Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd],
    ),
    ("arrow_file", Format::ArrowFile, &[Compression::None, Compression::Lz4, Compression::Zstd]),
    ("arrow_stream", Format::ArrowStream, &[Compression::None, Compression::Lz4, Compression::Zstd]),
    ("csv", Format::Csv, &[Compression::None]),
];

fn main() -> Outcome<()> {
    let directory = std::env::args().nth(1).ok_or("a directory is missing")?;
    let base = Path::new(&directory);
    for (target, format, compressions) in FORMATS {
        fs::create_dir_all(base.join(target))?;
        for (at, &compression) in compressions.iter().enumerate() {
            for number in 0..3 {
                let batch = random_table(10 * at as u64 + number, format == Format::Csv)?;
                let path = base.join(target).join(format!("ours-{compression:?}-{number}").to_lowercase());
                write_ours(&path, &batch, format, compression)?;
            }
        }
        let empty = random_table(1, format == Format::Csv)?.slice(0, 0);
        write_ours(&base.join(target).join("ours-empty"), &empty, format, Compression::None)?;
    }
    write_parquet(base)?;
    write_arrow(base)
}

/// A table of random columns; CSV has no lists.
fn random_table(seed: u64, is_flat: bool) -> Outcome<RecordBatch> {
    let mut random = Random::new(seed);
    let mut columns: Vec<_> = (0..5).map(|at| random.column(ROWS, at > 0)).collect();
    if !is_flat {
        columns.push(random.lists(ROWS));
    }
    let fields = columns.iter().enumerate().map(|(at, array)| {
        let is_nullable = at > 0;
        Field::new(format!("c{at}"), array.data_type().clone(), is_nullable)
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok(RecordBatch::try_new(schema, columns)?)
}

fn write_ours(path: &Path, batch: &RecordBatch, format: Format, compression: Compression) -> Outcome<()> {
    let job = Job::new(JobOptions::default())?;
    let options = OutputOptions { compression, ..OutputOptions::new(format) };
    let mut output = Output::create(&job, &Target::File(path.to_owned()), &batch.schema(), &options)?;
    for from in (0..batch.num_rows()).step_by(GROUP_ROWS) {
        let group = batch.slice(from, GROUP_ROWS.min(batch.num_rows() - from));
        // The encoder takes arrays that begin at their first value.
        let columns: Vec<_> =
            group.columns().iter().map(|column| cut(column, GROUP_ROWS).remove(0)).collect();
        output.append(output.encoder().encode(&[RecordBatch::try_new(batch.schema(), columns)?])?)?;
    }
    output.finish()?;
    Ok(())
}

/// Columns of all types, some to each file.
fn all_types(files: usize, seed: u64) -> Outcome<Vec<RecordBatch>> {
    let batch = arrays::common(&mut arrays::Random::new(seed), ROWS);
    let of_file = |file: usize| (0..batch.num_columns()).filter(move |at| at % files == file);
    Ok((0..files).map(|file| batch.project(&of_file(file).collect::<Vec<_>>())).collect::<Result<_, _>>()?)
}

/// Files with what our writer does not write: all types, encodings and page versions.
fn write_parquet(base: &Path) -> Outcome<()> {
    let properties =
        || WriterProperties::builder().set_data_page_row_count_limit(20).set_write_batch_size(10);
    let new = || properties().set_writer_version(WriterVersion::PARQUET_2_0);
    let kinds: [(&str, WriterPropertiesBuilder); 5] = [
        ("plain", properties().set_dictionary_enabled(false)),
        ("dictionaries", properties().set_max_row_group_row_count(Some(GROUP_ROWS))),
        ("delta", new().set_dictionary_enabled(false)),
        ("gzip", new().set_compression(Codec::GZIP(GzipLevel::default()))),
        ("lengths", properties().set_dictionary_enabled(false).set_compression(Codec::SNAPPY)),
    ];
    for (kind, properties) in kinds {
        for (number, batch) in all_types(4, 11)?.into_iter().enumerate() {
            let mut properties = properties.clone();
            if kind == "lengths" {
                for field in batch.schema().fields().iter().filter(|field| field.data_type().is_string()) {
                    let column = field.name().as_str().into();
                    properties = properties.set_column_encoding(column, Encoding::DELTA_LENGTH_BYTE_ARRAY);
                }
            }
            let path = base.join("parquet").join(format!("library-{kind}-{number}"));
            let mut writer =
                ArrowWriter::try_new(File::create(path)?, batch.schema(), Some(properties.build()))?;
            writer.write(&batch)?;
            writer.close()?;
        }
    }
    Ok(())
}

fn write_arrow(base: &Path) -> Outcome<()> {
    for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        let mut batches = all_types(3, 12)?;
        batches.push(arrays::arrow_only(&mut arrays::Random::new(13), ROWS));
        for (number, batch) in batches.into_iter().enumerate() {
            let options = IpcWriteOptions::default().try_with_compression(compression)?;
            let codec = compression.map_or("NONE", |codec| codec.variant_name().unwrap_or_default());
            let name = format!("library-{codec}-{number}").to_lowercase();
            let (first, second) = (batch.slice(0, GROUP_ROWS), batch.slice(GROUP_ROWS, ROWS - GROUP_ROWS));
            let file = File::create(base.join("arrow_file").join(&name))?;
            let mut writer = FileWriter::try_new_with_options(file, &batch.schema(), options.clone())?;
            [&first, &second].into_iter().try_for_each(|batch| writer.write(batch))?;
            writer.finish()?;
            let file = File::create(base.join("arrow_stream").join(&name))?;
            let mut writer = StreamWriter::try_new_with_options(file, &batch.schema(), options)?;
            [&first, &second].into_iter().try_for_each(|batch| writer.write(batch))?;
            writer.finish()?;
        }
    }
    Ok(())
}
