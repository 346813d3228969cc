//! Output of traces: a file appears under its name only when it is complete.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

use crate::error::TraceError;
use crate::format::sakiyomi::{Field, row};
use crate::format::{FIO_HEADER, one_of, write_disksim, write_fio, write_mqsim};
use crate::input::is_stdin;
use crate::pack::{Packed, Packing};
use crate::record::Record;
use crate::table::{TableFormat, TableWriter};
use sakiyomi_io::AtomicFile;

/// A format in which traces can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutFormat {
    /// sakiyomi's CSV: represents all fields.
    Sakiyomi,
    /// The columns of sakiyomi's CSV in Parquet: represents all fields.
    Parquet,
    /// DiskSim's ASCII trace: reads and writes in sectors of 512 bytes, without streams, FUA and measured times.
    Disksim,
    /// ASCII trace of MQSim and SSDsim, with the same limits as DiskSim's.
    Mqsim,
    /// fio's I/O log, version 3: times truncated to microseconds; without streams, FUA and measured times.
    Fio,
}

impl OutFormat {
    /// All formats, in the order of lists.
    pub const ALL: [OutFormat; 5] =
        [OutFormat::Sakiyomi, OutFormat::Parquet, OutFormat::Disksim, OutFormat::Mqsim, OutFormat::Fio];

    /// Returns the name on the command line: that of the [`Format`](crate::Format) in which it is read back.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OutFormat::Sakiyomi => "sakiyomi",
            OutFormat::Parquet => "parquet",
            OutFormat::Disksim => "disksim",
            OutFormat::Mqsim => "mqsim",
            OutFormat::Fio => "fio",
        }
    }

    /// Returns the format for a file name: Parquet for `.parquet`, else sakiyomi's CSV.
    #[must_use]
    pub fn of_path(path: &Path) -> OutFormat {
        match TableFormat::of_path(path) {
            TableFormat::Parquet => OutFormat::Parquet,
            TableFormat::Csv => OutFormat::Sakiyomi,
        }
    }
}

impl fmt::Display for OutFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for OutFormat {
    type Err = TraceError;

    /// Finds a format by its [`name`](OutFormat::name).
    fn from_str(text: &str) -> Result<OutFormat, TraceError> {
        OutFormat::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| TraceError::Parameter {
            name: "the output format",
            value: format!("`{text}`"),
            wanted: one_of(text, &OutFormat::ALL.map(OutFormat::name)),
        })
    }
}

/// Writes a trace record by record.
///
/// For a file, [`finish`](Writer::finish) makes it durable and renames it to its name; if dropped before, no file is
/// left.
#[derive(Debug)]
pub struct Writer<W: Write + Send = AtomicFile> {
    path: String,
    format: OutFormat,
    sink: Sink<W>,
    records: u64,
}

#[derive(Debug)]
enum Sink<W: Write + Send> {
    Table(TableWriter<Packed<W>>),
    Lines { packed: Packed<W>, line: Vec<u8> },
}

impl Writer<AtomicFile> {
    /// Creates a trace at `path`, compressed according to its name (`.gz`, `.zst`); Parquet has compression of its own.
    ///
    /// # Errors
    /// [`TraceError::Write`]; [`TraceError::Parameter`] if the name contradicts the format.
    pub fn create(path: impl AsRef<Path>, format: OutFormat) -> Result<Writer, TraceError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let refuse = |wanted: &str| {
            Err(TraceError::Parameter {
                name: "the output",
                value: format!("`{name}`"),
                wanted: wanted.to_owned(),
            })
        };
        if is_stdin(path) {
            return refuse("a file, which appears only when it is whole");
        }
        let inner = path.file_stem().map(Path::new);
        let packing = Packing::of_path(path);
        if packing != Packing::Plain
            && inner.is_some_and(|inner| OutFormat::of_path(inner) == OutFormat::Parquet)
        {
            return refuse("a name without .gz or .zst: Parquet packs by itself");
        }
        let file =
            AtomicFile::create(path).map_err(|source| TraceError::Write { path: name.clone(), source })?;
        Writer::new(file, &name, format, packing)
    }

    /// Completes the trace and renames it to its name. Returns the number of records.
    ///
    /// # Errors
    /// [`TraceError::Write`]; a file that existed before is then unchanged.
    pub fn finish(self) -> Result<u64, TraceError> {
        let (path, records) = (self.path.clone(), self.records);
        let file = self.into_inner()?;
        file.commit().map_err(|source| TraceError::Write { path, source })?;
        Ok(records)
    }
}

impl<W: Write + Send> Writer<W> {
    /// Creates a trace on `writer`, which needs no buffer of its own; `name` identifies it in messages.
    ///
    /// # Errors
    /// [`TraceError::Write`].
    pub fn new(writer: W, name: &str, format: OutFormat, packing: Packing) -> Result<Writer<W>, TraceError> {
        let sink = Sink::new(writer, format, packing)
            .map_err(|source| TraceError::Write { path: name.to_owned(), source })?;
        Ok(Writer { path: name.to_owned(), format, sink, records: 0 })
    }

    /// Returns the number of records written so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Appends a record.
    ///
    /// # Errors
    /// [`TraceError::Unsupported`] if the format cannot represent the record, [`TraceError::Write`].
    pub fn write(&mut self, record: &Record) -> Result<(), TraceError> {
        self.records += 1;
        let written = match &mut self.sink {
            Sink::Table(table) => table.row(&row(record)),
            Sink::Lines { packed, line } => {
                line.clear();
                let laid_out = match self.format {
                    OutFormat::Disksim => write_disksim(record, line),
                    OutFormat::Mqsim => write_mqsim(record, line),
                    _ => write_fio(record, line),
                };
                laid_out.map_err(|problem| TraceError::Unsupported {
                    path: self.path.clone(),
                    format: self.format.name(),
                    record: self.records,
                    problem,
                })?;
                packed.write_all(line)
            }
        };
        written.map_err(|source| TraceError::Write { path: self.path.clone(), source })
    }

    /// Writes buffered records, and returns the writer.
    ///
    /// # Errors
    /// [`TraceError::Write`].
    pub fn into_inner(self) -> Result<W, TraceError> {
        let packed = match self.sink {
            Sink::Table(table) => table.finish(),
            Sink::Lines { packed, .. } => Ok(packed),
        };
        packed.and_then(Packed::finish).map_err(|source| TraceError::Write { path: self.path, source })
    }
}

impl<W: Write + Send> Sink<W> {
    fn new(writer: W, format: OutFormat, packing: Packing) -> io::Result<Sink<W>> {
        let table_format = match format {
            OutFormat::Sakiyomi => TableFormat::Csv,
            OutFormat::Parquet => TableFormat::Parquet,
            OutFormat::Disksim | OutFormat::Mqsim | OutFormat::Fio => {
                let mut packed = Packed::new(writer, packing)?;
                if format == OutFormat::Fio {
                    writeln!(packed, "{FIO_HEADER}")?;
                }
                return Ok(Sink::Lines { packed, line: Vec::new() });
            }
        };
        let packing = if format == OutFormat::Parquet { Packing::Plain } else { packing };
        let columns = Field::ALL.map(Field::column).to_vec();
        Ok(Sink::Table(TableWriter::new(Packed::new(writer, packing)?, table_format, columns)?))
    }
}
