//! Writes random tables in all formats and with the library's writer, for comparison by other readers:
//! `random_tables DIRECTORY COUNT SEED` (see `bench/output_check.py`).

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use random::Random;
use sakiyomi_query::output::{Compression, Output, OutputOptions, Target};
use sakiyomi_query::table::Format;
use sakiyomi_query::{Job, JobOptions};

#[path = "../src/output/tests/random.rs"]
mod random;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Formats and compressions of the files, by file name suffix.
const FILES: [(&str, Format, Compression); 7] = [
    ("none.parquet", Format::Parquet, Compression::None),
    ("snappy.parquet", Format::Parquet, Compression::Snappy),
    ("lz4.parquet", Format::Parquet, Compression::Lz4),
    ("zstd.parquet", Format::Parquet, Compression::Zstd),
    ("none.arrow", Format::ArrowFile, Compression::None),
    ("zstd.arrow", Format::ArrowFile, Compression::Zstd),
    ("lz4.arrows", Format::ArrowStream, Compression::Lz4),
];

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, count, seed] = &arguments[..] else { return Err("DIRECTORY COUNT SEED".into()) };
    let (count, seed): (u64, u64) = (count.parse()?, seed.parse()?);
    for number in seed..seed + count {
        let (schema, groups) = table(number)?;
        let base = Path::new(directory);
        let mut library = ArrowWriter::try_new(
            File::create(base.join(format!("{number}-library.parquet")))?,
            Arc::clone(&schema),
            None,
        )?;
        groups.iter().flatten().try_for_each(|batch| library.write(batch))?;
        library.close()?;
        for (ending, format, compression) in FILES {
            write(&base.join(format!("{number}-{ending}")), &schema, &groups, format, compression)?;
        }
    }
    Ok(())
}

/// A random table, as row groups of batches.
fn table(seed: u64) -> Outcome<(SchemaRef, Vec<Vec<RecordBatch>>)> {
    let mut random = Random::new(seed);
    let rows = [1, 100, 5000, 50_000][random.below(4)];
    let mut columns: Vec<_> = (0..1 + random.below(8))
        .map(|_| {
            let is_nullable = random.below(3) > 0;
            (random.column(rows, is_nullable), is_nullable)
        })
        .collect();
    if random.below(4) == 0 {
        columns.push((random.lists(rows), true));
    }
    let fields = columns.iter().enumerate().map(|(place, (array, is_nullable))| {
        Field::new(format!("c{place}"), array.data_type().clone(), *is_nullable)
    });
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch =
        RecordBatch::try_new(Arc::clone(&schema), columns.into_iter().map(|column| column.0).collect())?;
    let group_rows = rows / 4 + 1 + random.below(rows);
    let groups: Outcome<_> = cut(&batch, group_rows)?.iter().map(|group| cut(group, 3000)).collect();
    Ok((schema, groups?))
}

/// Splits a batch into batches of at most `rows` rows.
fn cut(batch: &RecordBatch, rows: usize) -> Outcome<Vec<RecordBatch>> {
    let columns: Vec<_> = batch.columns().iter().map(|column| random::cut(column, rows)).collect();
    let parts = (0..columns[0].len()).map(|part| {
        let columns = columns.iter().map(|parts| Arc::clone(&parts[part])).collect();
        Ok(RecordBatch::try_new(batch.schema(), columns)?)
    });
    parts.collect()
}

fn write(
    path: &Path,
    schema: &SchemaRef,
    groups: &[Vec<RecordBatch>],
    format: Format,
    compression: Compression,
) -> Outcome<()> {
    let job = Job::new(JobOptions::default())?;
    let options = OutputOptions { compression, alignment: 4096, ..OutputOptions::new(format) };
    let mut output = Output::create(&job, &Target::File(path.to_owned()), schema, &options)?;
    for group in groups {
        output.append(output.encoder().encode(group)?)?;
    }
    output.finish()?;
    Ok(())
}
