//! A snapshot as a file: a stream of Arrow IPC with a row for each operator, then a checksum.
//!
//! ```text
//! columns   operator: Utf8, kind: Utf8, worker: UInt64 (null if unknown), state: LargeBinary
//! metadata  sakiyomi.version, .epoch, .pipeline, .clock_ns, .definition
//! end       CRC-32 of all before it, 4 bytes, little-endian; "SAKISNAP"
//! ```
//!
//! Readers of Arrow stop at the end of the stream. The checksum is looked at before anything else, so that damaged bytes
//! do not reach the library.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, LargeBinaryArray, RecordBatch, StringArray, UInt64Array};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use crc32fast::Hasher;
use sakiyomi_io::AtomicFile;
use sakiyomi_stream::{OperatorKind, OperatorSnapshot, Snapshot};

use crate::Error;

/// Names of the columns.
const COLUMNS: [&str; 4] = ["operator", "kind", "worker", "state"];

/// Keys of the metadata.
const VERSION_KEY: &str = "sakiyomi.version";
const EPOCH_KEY: &str = "sakiyomi.epoch";
const PIPELINE_KEY: &str = "sakiyomi.pipeline";
const CLOCK_KEY: &str = "sakiyomi.clock_ns";
const DEFINITION_KEY: &str = "sakiyomi.definition";

/// The last bytes of a file.
const MAGIC: &[u8; 8] = b"SAKISNAP";

/// Bytes of the checksum and the magic.
const END_BYTES: usize = 4 + MAGIC.len();

/// Bytes of a read for the checksum.
const CHECKED_BYTES: usize = 64 << 10;

/// Writes a snapshot of the pipeline with this definition to a file, which replaces the previous one when it is whole and on
/// the disk. Returns its size in bytes.
///
/// # Errors
/// [`Error::Io`] if it cannot be written.
pub(crate) fn write(path: &Path, snapshot: &Snapshot, definition: &[String]) -> Result<u64, Error> {
    let write = || {
        let to = BufWriter::new(AtomicFile::create(path)?);
        let mut summing = Summing { to, sum: Hasher::new(), bytes: 0 };
        encode(snapshot, definition, &mut summing).map_err(io::Error::other)?;
        let Summing { mut to, sum, bytes } = summing;
        to.write_all(&sum.finalize().to_le_bytes())?;
        to.write_all(MAGIC)?;
        to.into_inner().map_err(io::IntoInnerError::into_error)?.commit()?;
        Ok(bytes + END_BYTES as u64)
    };
    write().map_err(|source| failed("write", path, source))
}

/// Reads the snapshot of a pipeline with this definition from a file. Whether it fits the stream is checked by
/// [`Stream::start_from`](sakiyomi_stream::Stream::start_from).
///
/// # Errors
/// [`Error::Io`] if it cannot be read, [`Error::Table`] if it is not a snapshot, damaged, or of another pipeline.
pub(crate) fn read(path: &Path, definition: &[String]) -> Result<Snapshot, Error> {
    let refused =
        |reason: String| Error::Table { name: "snapshot".to_owned(), target: path.to_owned(), reason };
    let mut file = File::open(path).map_err(|source| failed("read", path, source))?;
    let length = checked_length(&mut file).map_err(|source| failed("read", path, source))?;
    let damaged = |reason| refused(format!("it is not a snapshot, or damaged: {reason}"));
    let length = length.ok_or_else(|| damaged("its checksum does not match".to_owned()))?;
    let (snapshot, saved) = decode(file.take(length)).map_err(damaged)?;
    match difference(&saved, definition) {
        Some(difference) => Err(refused(difference)),
        None => Ok(snapshot),
    }
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io { name: "snapshot".to_owned(), action, target: path.display().to_string(), source }
}

/// Returns the length of what is before the checksum, if that matches; the file is then at its start.
fn checked_length(file: &mut File) -> io::Result<Option<u64>> {
    let Some(length) = file.metadata()?.len().checked_sub(END_BYTES as u64) else { return Ok(None) };
    let mut content = BufReader::with_capacity(CHECKED_BYTES, file.take(length));
    let (mut sum, mut bytes) = (Hasher::new(), vec![0; CHECKED_BYTES]);
    loop {
        match content.read(&mut bytes)? {
            0 => break,
            read => sum.update(&bytes[..read]),
        }
    }
    let mut end = [0; END_BYTES];
    file.seek(SeekFrom::Start(length))?;
    file.read_exact(&mut end)?;
    file.seek(SeekFrom::Start(0))?;
    let is_whole = end[..4] == sum.finalize().to_le_bytes() && end[4..] == *MAGIC;
    Ok(is_whole.then_some(length))
}

/// Passes bytes on, and adds them up.
struct Summing<W> {
    to: W,
    sum: Hasher,
    bytes: u64,
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.sum.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn encode(snapshot: &Snapshot, definition: &[String], to: &mut impl Write) -> Result<(), ArrowError> {
    let types = [DataType::Utf8, DataType::Utf8, DataType::UInt64, DataType::LargeBinary];
    let field = |(name, data_type): (&&str, DataType)| Field::new(*name, data_type, *name == COLUMNS[2]);
    let fields: Vec<Field> = COLUMNS.iter().zip(types).map(field).collect();
    let metadata = HashMap::from([
        (VERSION_KEY.to_owned(), snapshot.version.to_string()),
        (EPOCH_KEY.to_owned(), snapshot.epoch.to_string()),
        (PIPELINE_KEY.to_owned(), snapshot.pipeline.to_string()),
        (CLOCK_KEY.to_owned(), snapshot.clock_ns.to_string()),
        (DEFINITION_KEY.to_owned(), definition.join("\n")),
    ]);
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    let operators = || snapshot.operators.iter();
    let names = StringArray::from_iter_values(operators().map(|operator| &operator.name));
    let kinds = StringArray::from_iter_values(operators().map(|operator| operator.kind.name()));
    let worker = |operator: usize| snapshot.workers.get(operator).map(|&worker| worker as u64);
    let workers: UInt64Array = (0..snapshot.operators.len()).map(worker).collect();
    // The windows and keys of an operator may have more than 2 GiB.
    let states = LargeBinaryArray::from_iter_values(operators().map(OperatorSnapshot::to_bytes));
    let columns: Vec<Arc<dyn Array>> =
        vec![Arc::new(names), Arc::new(kinds), Arc::new(workers), Arc::new(states)];
    let mut writer = StreamWriter::try_new(to, &schema)?;
    writer.write(&RecordBatch::try_new(schema, columns)?)?;
    writer.finish()
}

/// Returns a snapshot and the definition of its pipeline.
fn decode(from: impl Read) -> Result<(Snapshot, Vec<String>), String> {
    let reader = StreamReader::try_new_buffered(from, None).map_err(|error| error.to_string())?;
    let schema = reader.schema();
    let metadata = |key: &str| {
        let text = schema.metadata().get(key);
        text.ok_or_else(|| format!("its metadata lacks {key}"))
    };
    let number = |key: &str| {
        metadata(key)?.parse::<u64>().map_err(|_| format!("{key} of its metadata is not a number"))
    };
    let mut snapshot = Snapshot {
        version: u32::try_from(number(VERSION_KEY)?).unwrap_or(u32::MAX),
        epoch: number(EPOCH_KEY)?,
        pipeline: number(PIPELINE_KEY)?,
        clock_ns: number(CLOCK_KEY)?,
        ..Snapshot::default()
    };
    let definition = metadata(DEFINITION_KEY)?.lines().map(str::to_owned).collect();
    for batch in reader {
        let batch = batch.map_err(|error| error.to_string())?;
        add_operators(&batch, &mut snapshot)?;
    }
    Ok((snapshot, definition))
}

fn add_operators(batch: &RecordBatch, snapshot: &mut Snapshot) -> Result<(), String> {
    let column = |index: usize| {
        let column = batch.column_by_name(COLUMNS[index]);
        column.ok_or_else(|| format!("it has no column {}", COLUMNS[index]))
    };
    let other = || "its columns have other types".to_owned();
    let texts = |index| column(index)?.as_string_opt::<i32>().ok_or_else(other);
    let (names, kinds) = (texts(0)?, texts(1)?);
    let workers = column(2)?.as_primitive_opt::<UInt64Type>().ok_or_else(other)?;
    let states = column(3)?.as_binary_opt::<i64>().ok_or_else(other)?;
    for row in 0..batch.num_rows() {
        let kind = OperatorKind::from_name(kinds.value(row));
        let kind = kind.ok_or_else(|| format!("{} is not a kind of operator", kinds.value(row)))?;
        let operator = OperatorSnapshot::from_bytes(names.value(row), kind, states.value(row));
        snapshot.operators.push(operator.map_err(|error| error.to_string())?);
        if workers.is_valid(row) {
            snapshot.workers.push(usize::try_from(workers.value(row)).unwrap_or(usize::MAX));
        }
    }
    Ok(())
}

/// Returns the first difference between the definition of a snapshot's pipeline and another one.
fn difference(saved: &[String], own: &[String]) -> Option<String> {
    let rest = "resume with the unchanged pipeline, or start from the beginning";
    let missing = |of: &'_ [String], from: &'_ [String]| of.iter().find(|line| !from.contains(line)).cloned();
    match (missing(saved, own), missing(own, saved)) {
        (Some(was), Some(is)) => {
            Some(format!("it was written by a pipeline with {was}, and this one has {is}; {rest}"))
        }
        (Some(was), None) => {
            Some(format!("it was written by a pipeline with {was}, which this one lacks; {rest}"))
        }
        (None, Some(is)) => Some(format!("it was written by a pipeline without {is}; {rest}")),
        (None, None) => None,
    }
}
