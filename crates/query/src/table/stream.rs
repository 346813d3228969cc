//! The standard input or a pipe as a table: read as it arrives, or copied into an unnamed file.

use std::fmt;
use std::fs::File;
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};

use arrow_schema::SchemaRef;
use sakiyomi_io::file::create_unnamed;
use sakiyomi_io::{Access, IoFile};

use super::arrow::ArrowStream;
use super::csv::{INFERRED_BYTES, infer};
use super::options::{Format, OpenOptions};
use super::source::{MAGIC_BYTES, Source, format_of, open_stream};
use crate::Error;
use crate::job::spill_directory;

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// A stream whose first bytes were read.
pub(super) struct Stream {
    pub(super) path: PathBuf,
    pub(super) format: Format,
    /// Bytes before the first record: the header of CSV.
    pub(super) header_bytes: usize,
    head: Vec<u8>,
    rest: Box<dyn Read + Send>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("path", &self.path)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

/// A stream and its schema, or the file it was copied into because its format needs random access.
pub(super) enum Opened {
    Stream(SchemaRef, Stream),
    File(Source),
}

impl Stream {
    /// Opens a stream and reads its schema.
    pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<Opened, Error> {
        Stream::begin(path, open_stream(path)?, options)
    }

    /// Like [`Stream::open`], for any reader.
    pub(super) fn begin(
        path: &Path,
        mut rest: Box<dyn Read + Send>,
        options: &OpenOptions,
    ) -> Result<Opened, Error> {
        let mut head = Vec::new();
        read_more(path, &mut *rest, &mut head, MAGIC_BYTES)?;
        let format = format_of(path, &head, options.format)?;
        let mut stream = Stream { path: path.to_owned(), format, header_bytes: 0, head, rest };
        match format {
            Format::Parquet | Format::ArrowFile => stream.spool(options, &|| Ok(())).map(Opened::File),
            Format::ArrowStream => {
                let schema = stream.arrow_schema()?;
                Ok(Opened::Stream(schema, stream))
            }
            Format::Csv => {
                read_more(path, &mut *stream.rest, &mut stream.head, INFERRED_BYTES)?;
                let is_whole = stream.head.len() < INFERRED_BYTES;
                let inferred = infer(path, &stream.head, is_whole)?;
                stream.header_bytes = inferred.header_bytes;
                Ok(Opened::Stream(inferred.schema(), stream))
            }
        }
    }

    /// Reads the schema and keeps its bytes in `head`.
    fn arrow_schema(&mut self) -> Result<SchemaRef, Error> {
        let length = ArrowStream::schema_bytes(&self.path, &self.head)?;
        read_more(&self.path, &mut *self.rest, &mut self.head, length)?;
        let opened = ArrowStream::open(&self.path, Box::new(Cursor::new(self.head.clone())))?;
        Ok(SchemaRef::clone(opened.schema()))
    }

    /// Returns all bytes of the stream.
    pub(super) fn into_reader(self) -> Box<dyn Read + Send> {
        Box::new(Cursor::new(self.head).chain(self.rest))
    }

    /// Returns the bytes after the header.
    pub(super) fn into_records(mut self) -> Box<dyn Read + Send> {
        self.head.drain(..self.header_bytes);
        self.into_reader()
    }

    /// Copies the stream into an unnamed file, as long as `check` succeeds.
    pub(super) fn spool(
        self,
        options: &OpenOptions,
        check: &dyn Fn() -> Result<(), Error>,
    ) -> Result<Source, Error> {
        let directory = options.spool.clone().unwrap_or_else(spill_directory);
        let path = self.path.clone();
        let refused = |source: std::io::Error, doing: &str| {
            let reason =
                format!("the stream cannot be {doing} an unnamed file in {}: {source}", directory.display());
            Error::Table { path: path.clone(), reason }
        };
        let file =
            create_unnamed(&directory, Access::Buffered).map_err(|error| refused(error, "copied into"))?;
        let mut reader = self.into_reader();
        let mut bytes = vec![0; COPY_BYTES];
        while copy(&mut *reader, &file, &mut bytes).map_err(|error| refused(error, "copied into"))? {
            check()?;
        }
        let file = IoFile::from_file(file, &path, Access::Buffered)?;
        Ok(Source::unnamed(&path, file.into()))
    }
}

/// Copies what one read gives; returns false at the end.
fn copy(from: &mut dyn Read, mut to: &File, bytes: &mut [u8]) -> std::io::Result<bool> {
    match from.read(bytes) {
        Ok(count) => to.write_all(&bytes[..count]).map(|()| count > 0),
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(error),
    }
}

/// Reads until `bytes` has `wanted` bytes, or the stream ends.
fn read_more(path: &Path, from: &mut dyn Read, bytes: &mut Vec<u8>, wanted: usize) -> Result<(), Error> {
    let missing = wanted.saturating_sub(bytes.len());
    let read = from.take(missing as u64).read_to_end(bytes);
    read.map(drop).map_err(|source| {
        let (path, offset) = (path.to_owned(), bytes.len() as u64);
        sakiyomi_io::Error::Read { path, offset, length: missing, source }.into()
    })
}
