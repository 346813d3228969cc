//! Arrow IPC streams and files as rows.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, SchemaRef};
use sakiyomi_expression::row::Value;

use super::{Named, Records, Sender};
use crate::Error;
use crate::row::{Row, RowBuilder};

/// Rows of a message: about as much text as a block of lines.
const BATCH_ROWS: usize = 512;

/// The first bytes of a file of Arrow IPC.
const FILE_MAGIC: &[u8; 6] = b"ARROW1";

/// Returns the schema of a file of Arrow IPC, in either form.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn schema_of_file(path: &Path, name: &str) -> Result<SchemaRef, Error> {
    let open = || {
        let mut file = File::open(path)?;
        let mut magic = [0; FILE_MAGIC.len()];
        let is_file = file.read(&mut magic)? == magic.len() && magic == *FILE_MAGIC;
        file.seek(SeekFrom::Start(0))?;
        let file = BufReader::new(file);
        Ok(if is_file {
            FileReader::try_new(file, None)?.schema()
        } else {
            StreamReader::try_new(FileAsStream::new(file), None)?.schema()
        })
    };
    open().map_err(|error: ArrowError| table_error(name, path, &error.to_string()))
}

fn table_error(name: &str, path: &Path, reason: &str) -> Error {
    Error::Table { name: name.to_owned(), target: path.to_owned(), reason: reason.to_owned() }
}

/// Sends the rows of an input but for the first `skipped` ones. It has to have the columns of `schema`; `columns` are the ones of the row.
///
/// # Errors
/// If it is damaged, or its columns are others.
pub(super) fn read(
    input: impl Read,
    schema: &SchemaRef,
    columns: &[usize],
    mut skipped: u64,
    sender: &Sender,
    named: &Named,
) -> Result<(), Error> {
    let failed = |reason: String| table_error(&named.name, named.target.as_ref().as_ref(), &reason);
    let mut input = BufReader::new(input);
    let stream = StreamReader::try_new(FileAsStream::new(&mut input), None);
    let stream = stream.map_err(|error| failed(error.to_string()))?;
    let found = stream.schema();
    let wanted = |&column: &usize| {
        let field = schema.field(column);
        let at = found.fields().iter().position(|other| other.name() == field.name());
        let at = at.ok_or_else(|| failed(format!("it has no column {}", field.name())))?;
        let (own, other) = (field.data_type(), found.field(at).data_type());
        let reason = || failed(format!("column {} is {other}, and {own} was expected", field.name()));
        (own == other).then_some(at).ok_or_else(reason)
    };
    let places = columns.iter().map(wanted).collect::<Result<Vec<usize>, Error>>()?;
    for batch in stream {
        let batch = batch.map_err(|error| failed(error.to_string()))?;
        let skip = usize::try_from(skipped).unwrap_or(usize::MAX).min(batch.num_rows());
        skipped -= skip as u64;
        let batch = batch.slice(skip, batch.num_rows() - skip);
        if !send(&batch, &places, sender).map_err(failed)? {
            return Ok(());
        }
    }
    Ok(())
}

fn send(batch: &RecordBatch, places: &[usize], sender: &Sender) -> Result<bool, String> {
    let mut builder = RowBuilder::default();
    for from in (0..batch.num_rows()).step_by(BATCH_ROWS) {
        let to = (from + BATCH_ROWS).min(batch.num_rows());
        let mut rows: Vec<Row> = Vec::with_capacity(to - from);
        for row in from..to {
            for &place in places {
                let value = Value::of(batch.column(place), row);
                if !builder.push(value, None) {
                    return Err(format!("row {row} has a decimal of more than 35 digits"));
                }
            }
            rows.push(builder.finish(None));
        }
        if !sender.send(Records::Rows(rows)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A file of Arrow IPC begins with its magic, and then has the messages of a stream.
struct FileAsStream<R> {
    input: R,
    /// Bytes that were looked at and are not the magic.
    begin: Vec<u8>,
    is_begun: bool,
}

/// Bytes of the magic with its padding.
const MAGIC_BYTES: usize = 8;

impl<R: Read> FileAsStream<R> {
    fn new(input: R) -> FileAsStream<R> {
        FileAsStream { input, begin: Vec::new(), is_begun: false }
    }
}

impl<R: Read> FileAsStream<R> {
    /// Reads the next bytes to look at.
    fn peek(&mut self) -> std::io::Result<()> {
        (&mut self.input).take(MAGIC_BYTES as u64).read_to_end(&mut self.begin).map(drop)
    }

    /// Refuses what does not begin with the message of a schema: the library would take any bytes for its length.
    fn check(&self) -> std::io::Result<()> {
        let length = match *self.begin {
            [0xff, 0xff, 0xff, 0xff, a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
            _ => u32::MAX,
        };
        if length <= SCHEMA_MAX_BYTES {
            return Ok(());
        }
        Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "it is not a stream of Arrow IPC"))
    }
}

/// Bytes of the message of a schema at most: a thousand columns take 100 KiB.
const SCHEMA_MAX_BYTES: u32 = 64 << 20;

impl<R: Read> Read for FileAsStream<R> {
    fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
        if !self.is_begun {
            self.is_begun = true;
            self.peek()?;
            if self.begin.starts_with(FILE_MAGIC) {
                self.begin.clear();
                self.peek()?;
            }
            self.check()?;
        }
        if !self.begin.is_empty() {
            let length = self.begin.len().min(space.len());
            space[..length].copy_from_slice(&self.begin[..length]);
            self.begin.drain(..length);
            return Ok(length);
        }
        self.input.read(space)
    }
}
