//! Tables with arbitrary columns, in CSV or Parquet, in bounded memory; used for traces and for the simulator's logs.
//!
//! ```
//! use sakiyomi_trace::table::{Column, Kind, TableFormat, TableWriter, Value};
//!
//! let columns = vec![Column::new("lba", Kind::U64), Column::new("class", Kind::Text).nullable()];
//! let mut table = TableWriter::new(Vec::new(), TableFormat::Csv, columns)?;
//! table.row(&[Value::U64(8), Value::Text("full_hit")])?;
//! table.row(&[Value::U64(16), Value::Null])?;
//! assert_eq!(table.finish()?, b"lba,class\n8,full_hit\n16,\n");
//! # Ok::<(), std::io::Error>(())
//! ```

mod csv;
mod parquet;

use std::io::{self, Write};
use std::path::Path;

use crate::pack::{Packed, Packing};
use sakiyomi_io::AtomicFile;

/// Type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Integers from 0 to 2^64 − 1.
    U64,
    /// Integers from −2^63 to 2^63 − 1.
    I64,
    /// Floating-point numbers. CSV: the shortest text that parses back to the same number.
    F64,
    /// Booleans. CSV: 1 or 0.
    Bool,
    /// Text in UTF-8.
    Text,
}

/// A column: its name, which ends in the unit (`_ns`, `_bytes`), and its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    name: String,
    kind: Kind,
    nullable: bool,
}

impl Column {
    /// Creates a column in which every row has a value.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: Kind) -> Column {
        Column { name: name.into(), kind, nullable: false }
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type of its values.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Allows rows without a value in the column.
    #[must_use]
    pub fn nullable(mut self) -> Column {
        self.nullable = true;
        self
    }
}

/// A field of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// For a column of [`Kind::U64`].
    U64(u64),
    /// For a column of [`Kind::I64`].
    I64(i64),
    /// For a column of [`Kind::F64`].
    F64(f64),
    /// For a column of [`Kind::Bool`].
    Bool(bool),
    /// For a column of [`Kind::Text`].
    Text(&'a str),
    /// No value, in a nullable column.
    Null,
}

impl Value<'_> {
    fn fits(&self, column: &Column) -> bool {
        match self {
            Value::U64(_) => column.kind == Kind::U64,
            Value::I64(_) => column.kind == Kind::I64,
            Value::F64(_) => column.kind == Kind::F64,
            Value::Bool(_) => column.kind == Kind::Bool,
            Value::Text(_) => column.kind == Kind::Text,
            Value::Null => column.nullable,
        }
    }
}

/// File format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Comma-separated values (RFC 4180, lines end in `\n`) with a header; a missing value is an empty field.
    Csv,
    /// Parquet with zstd, in row groups of 64 Ki rows.
    Parquet,
}

impl TableFormat {
    /// Returns the format for a file name: Parquet for `.parquet`, else CSV.
    #[must_use]
    pub fn of_path(path: &Path) -> TableFormat {
        if path.extension().is_some_and(|extension| extension == "parquet") {
            TableFormat::Parquet
        } else {
            TableFormat::Csv
        }
    }
}

/// A table file that appears under its name only when it is complete; if dropped before, no file is left.
#[derive(Debug)]
pub struct TableFile(TableWriter<Packed<AtomicFile>>);

impl TableFile {
    /// Creates a table at `path`, in the format of its name: Parquet for `.parquet`, else CSV, compressed for `.gz` and
    /// `.zst`.
    ///
    /// # Errors
    /// Errors of [`AtomicFile::create`], and of writing.
    pub fn create(path: impl AsRef<Path>, columns: Vec<Column>) -> io::Result<TableFile> {
        let path = path.as_ref();
        let packed = Packed::new(AtomicFile::create(path)?, Packing::of_path(path))?;
        TableWriter::new(packed, TableFormat::of_path(path), columns).map(TableFile)
    }

    /// Appends a row like [`TableWriter::row`].
    ///
    /// # Errors
    /// Errors of writing.
    ///
    /// # Panics
    /// If the values do not match the columns.
    pub fn row(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        self.0.row(values)
    }

    /// Writes buffered rows, makes the file durable, and renames it to its name.
    ///
    /// # Errors
    /// Errors of writing and of [`AtomicFile::commit`].
    pub fn finish(self) -> io::Result<()> {
        self.0.finish()?.finish()?.commit()
    }
}

/// Writes a table row by row.
#[derive(Debug)]
pub struct TableWriter<W: Write + Send> {
    columns: Vec<Column>,
    sink: Sink<W>,
}

#[derive(Debug)]
enum Sink<W: Write + Send> {
    Csv(csv::CsvSink<W>),
    Parquet(Box<parquet::ParquetSink<W>>),
}

impl<W: Write + Send> TableWriter<W> {
    /// Creates a table with `columns` on `writer`, which needs no buffer of its own.
    ///
    /// # Errors
    /// Errors of `writer`.
    pub fn new(writer: W, format: TableFormat, columns: Vec<Column>) -> io::Result<TableWriter<W>> {
        let sink = match format {
            TableFormat::Csv => Sink::Csv(csv::CsvSink::new(writer, &columns)?),
            TableFormat::Parquet => Sink::Parquet(Box::new(parquet::ParquetSink::new(writer, &columns)?)),
        };
        Ok(TableWriter { columns, sink })
    }

    /// Appends a row, one value per column, in their order.
    ///
    /// # Errors
    /// Errors of the underlying writer.
    ///
    /// # Panics
    /// If the number or types of the values do not match the columns, which is a bug of the caller, never of the data.
    pub fn row(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        assert_eq!(values.len(), self.columns.len(), "a row has one value per column");
        for (value, column) in values.iter().zip(&self.columns) {
            assert!(value.fits(column), "{value:?} does not fit the column {}", column.name);
        }
        match &mut self.sink {
            Sink::Csv(sink) => sink.row(values),
            Sink::Parquet(sink) => sink.row(values),
        }
    }

    /// Writes buffered rows, and returns the writer.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn finish(self) -> io::Result<W> {
        match self.sink {
            Sink::Csv(sink) => sink.finish(),
            Sink::Parquet(sink) => sink.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_testing::Scratch;

    #[test]
    fn a_file_is_stored_as_its_name_says() {
        let scratch = Scratch::new("table_file");
        let magic: [(&str, &[u8]); 4] = [
            ("t.csv", b"lba\n8\n"),
            ("t.csv.gz", b"\x1f\x8b"),
            ("t.zst", b"\x28\xb5"),
            ("t.parquet", b"PAR1"),
        ];
        for (name, begin) in magic {
            let mut table =
                TableFile::create(scratch.path(name), vec![Column::new("lba", Kind::U64)]).unwrap();
            table.row(&[Value::U64(8)]).unwrap();
            assert!(!scratch.path(name).exists());
            table.finish().unwrap();
            assert!(std::fs::read(scratch.path(name)).unwrap().starts_with(begin), "{name}");
        }
    }

    #[test]
    #[should_panic(expected = "I64(1) does not fit the column lba")]
    fn a_value_of_another_kind_is_a_bug() {
        let mut table =
            TableWriter::new(Vec::new(), TableFormat::Csv, vec![Column::new("lba", Kind::U64)]).unwrap();
        let _ = table.row(&[Value::I64(1)]);
    }
}
