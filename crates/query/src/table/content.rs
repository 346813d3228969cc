//! Opening the files of a table and joining their schemas.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_schema::{Schema, SchemaRef};

use super::arrow::ArrowFile;
use super::csv::{INFERRED_BYTES, Inferred, infer};
use super::given::GivenBatches;
use super::options::{Format, OpenOptions};
use super::parquet::{ParquetFile, dictionary_columns};
use super::source::{MAGIC_BYTES, Source, format_of};
use super::stream::Stream;
use super::types;
use crate::Error;

/// The content of a table and its common schema.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) schema: SchemaRef,
    pub(super) content: Content,
}

/// Files of one format, or a stream.
#[derive(Debug)]
pub(super) enum Content {
    /// Parquet files, and for each column whether it can be scanned as a dictionary array.
    Parquet(Arc<Vec<ParquetFile>>, Vec<bool>),
    Arrow(Arc<Vec<ArrowFile>>),
    /// CSV files, each with the offset of its first record.
    Csv(Vec<(Source, u64)>),
    /// A stream, taken by its only scan.
    Stream(Format, Mutex<Option<Once>>),
}

/// Rows that can be read only once.
pub(super) enum Once {
    /// Bytes of a format.
    Bytes(Stream),
    /// Record batches of the caller.
    Batches(GivenBatches),
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Once::Bytes(stream) => stream.fmt(f),
            Once::Batches(_) => f.write_str("Batches"),
        }
    }
}

/// Opens files in their order.
pub(super) fn open_files(paths: &[PathBuf], options: &OpenOptions) -> Result<Data, Error> {
    let sources = paths.iter().map(|path| Source::named(path, options.access));
    open_sources(sources.collect::<Result<_, _>>()?, options)
}

/// Opens sources in order: detects their format, and reads and joins their schemas.
pub(super) fn open_sources(sources: Vec<Source>, options: &OpenOptions) -> Result<Data, Error> {
    let mut format = None;
    let (mut parquet, mut arrow, mut csv) = (Vec::new(), Vec::new(), Vec::new());
    for source in sources {
        let path = source.path.clone();
        let head = source.reader()?.head(MAGIC_BYTES)?;
        let found = format_of(&path, &head, options.format)?;
        match format.replace(found) {
            Some(first) if !are_alike(first, found) => {
                let reason = format!("the file is {}, and the first file is {}", found.name(), first.name());
                return Err(Error::Table { path, reason });
            }
            _ => {}
        }
        match found {
            Format::Parquet => {
                let file = ParquetFile::open(source, parquet.last())?;
                parquet.push(file);
            }
            Format::ArrowFile => arrow.push(ArrowFile::open_file(source)?),
            Format::ArrowStream => arrow.push(ArrowFile::open_stream(source)?),
            Format::Csv => csv.push(csv_file(source)?),
        }
    }
    match format.expect("a file at least") {
        Format::Parquet => {
            let schema = joined(parquet.iter().map(|file| (&file.source.path, &file.schema)))?;
            let dictionaries = dictionary_columns(&parquet, schema.fields().len());
            Ok(Data { schema, content: Content::Parquet(Arc::new(parquet), dictionaries) })
        }
        Format::ArrowFile | Format::ArrowStream => {
            let schema = joined(arrow.iter().map(|file| (&file.source.path, &file.schema)))?;
            Ok(Data { schema, content: Content::Arrow(Arc::new(arrow)) })
        }
        Format::Csv => csv_table(csv),
    }
}

fn are_alike(first: Format, other: Format) -> bool {
    let is_arrow = |format| matches!(format, Format::ArrowFile | Format::ArrowStream);
    first == other || (is_arrow(first) && is_arrow(other))
}

/// Joins the schemas of all files.
fn joined<'a>(files: impl Iterator<Item = (&'a PathBuf, &'a SchemaRef)>) -> Result<SchemaRef, Error> {
    let mut known: Option<SchemaRef> = None;
    for (path, schema) in files {
        known = Some(match known {
            None => Arc::clone(schema),
            Some(known) => Arc::new(joined_with(&known, path, schema)?),
        });
    }
    Ok(known.expect("a file at least"))
}

fn joined_with(known: &Schema, path: &Path, schema: &Schema) -> Result<Schema, Error> {
    types::join(known, schema).map_err(|reason| Error::Table { path: path.to_owned(), reason })
}

fn csv_file(source: Source) -> Result<(Source, Inferred), Error> {
    let head = source.reader()?.head(INFERRED_BYTES)?;
    let inferred = infer(&source.path, &head, head.len() as u64 == source.size)?;
    Ok((source, inferred))
}

fn csv_table(files: Vec<(Source, Inferred)>) -> Result<Data, Error> {
    let mut all: Option<Inferred> = None;
    let mut parts = Vec::with_capacity(files.len());
    for (source, own) in files {
        parts.push((source, own.header_bytes as u64));
        match &mut all {
            None => all = Some(own),
            Some(all) => {
                all.widen(&own);
                // The types now agree: only the names and the number of columns can differ.
                let mut widened = own;
                widened.widen(all);
                let path = &parts.last().expect("a file").0.path;
                joined_with(&all.schema(), path, &widened.schema())?;
            }
        }
    }
    let schema = all.expect("a file at least").schema();
    Ok(Data { schema, content: Content::Csv(parts) })
}

impl Format {
    /// Returns the name of the format in messages.
    fn name(self) -> &'static str {
        match self {
            Format::Parquet => "Parquet",
            Format::ArrowFile => "an Arrow IPC file",
            Format::ArrowStream => "an Arrow IPC stream",
            Format::Csv => "CSV",
        }
    }
}
