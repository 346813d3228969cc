//! The columns of the [`sakiyomi`](super::sakiyomi) CSV in Parquet, read in batches of rows.
//!
//! Numbers may have 32 or 64 bits, signed or unsigned, and `fua` may be a number or a boolean; other columns are
//! ignored.
//!
//! The Parquet library panics on some corrupt files. A corrupt file is invalid input, not a bug, and must cause an
//! error: every call that decodes is [`guarded`].

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::basic::{LogicalType, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::sakiyomi::{Field, blank, set_number, set_text};
use crate::error::TraceError;
use crate::record::Record;

/// Magic number of a Parquet file.
pub(crate) const MAGIC: &[u8] = b"PAR1";
/// Rows decoded at a time; bounds the memory.
const BATCH_ROWS: usize = 4096;

pub(crate) struct Reader {
    path: String,
    file: SerializedFileReader<File>,
    /// Column of each field.
    columns: Vec<(Field, usize)>,
    next_group: usize,
    /// Columns of the current row group.
    open: Vec<OpenColumn>,
    rows_left: usize,
    rows_read: u64,
    bytes_read: u64,
}

struct OpenColumn {
    field: Field,
    signed: bool,
    reader: ColumnReader,
    /// For each row of the batch, whether it has a value.
    levels: Vec<i16>,
    max_level: i16,
    values: Values,
}

enum Values {
    Numbers(Vec<i64>),
    Texts(Vec<ByteArray>),
}

impl Reader {
    pub(crate) fn open(path: &Path) -> Result<Reader, TraceError> {
        let name = path.display().to_string();
        let opened = File::open(path).map_err(|source| TraceError::Open { path: name.clone(), source })?;
        let file = guarded(&name, || {
            let file = SerializedFileReader::new(opened)?;
            check_places(&file)?;
            Ok(file)
        })?;
        let columns = find_columns(&file, &name)?;
        Ok(Reader {
            path: name,
            file,
            columns,
            next_group: 0,
            open: Vec::new(),
            rows_left: 0,
            rows_read: 0,
            bytes_read: 0,
        })
    }

    /// Returns the bytes of the row groups begun so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Appends the next batch of records; appends none at the end.
    pub(crate) fn read_batch(&mut self, out: &mut Vec<Record>) -> Result<(), TraceError> {
        while self.rows_left == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(());
            }
            let path = self.path.clone();
            guarded(&path, || self.open_group())?;
        }
        let rows = self.rows_left.min(BATCH_ROWS);
        let start = out.len();
        out.resize(start + rows, blank());
        for (record, line) in out[start..].iter_mut().zip(self.rows_read + 1..) {
            record.line = line;
        }
        for column in &mut self.open {
            guarded(&self.path, || column.read(rows))?;
            column.store(&mut out[start..]).map_err(|(line, problem)| TraceError::Line {
                path: self.path.clone(),
                line,
                problem,
            })?;
        }
        self.rows_left -= rows;
        self.rows_read += rows as u64;
        Ok(())
    }

    fn open_group(&mut self) -> Result<(), ParquetError> {
        let group = self.file.get_row_group(self.next_group)?;
        self.open.clear();
        for &(field, column) in &self.columns {
            let description = group.metadata().column(column).column_descr_ptr();
            self.open.push(OpenColumn {
                field,
                signed: !is_unsigned(&description),
                reader: group.get_column_reader(column)?,
                levels: Vec::new(),
                max_level: description.max_def_level(),
                values: match field {
                    Field::Op | Field::Label => Values::Texts(Vec::new()),
                    _ => Values::Numbers(Vec::new()),
                },
            });
        }
        self.rows_left = usize::try_from(group.metadata().num_rows())
            .map_err(|_| ParquetError::General("a row group has a negative number of rows".to_owned()))?;
        self.bytes_read += u64::try_from(group.metadata().compressed_size()).unwrap_or(0);
        self.next_group += 1;
        Ok(())
    }
}

impl OpenColumn {
    /// Decodes the next `rows` rows into the buffers.
    fn read(&mut self, rows: usize) -> Result<(), ParquetError> {
        self.levels.clear();
        let levels = &mut self.levels;
        let read = match (&mut self.values, &mut self.reader) {
            (Values::Numbers(values), ColumnReader::Int64ColumnReader(reader)) => {
                values.clear();
                read_rows(reader, rows, levels, values)?
            }
            (Values::Numbers(values), ColumnReader::Int32ColumnReader(reader)) => {
                let mut narrow = Vec::new();
                let read = read_rows(reader, rows, levels, &mut narrow)?;
                values.clear();
                // Unsigned numbers are stored as signed ones with the same bits.
                let signed = self.signed;
                let widen = |value: i32| if signed { i64::from(value) } else { i64::from(value as u32) };
                values.extend(narrow.into_iter().map(widen));
                read
            }
            (Values::Numbers(values), ColumnReader::BoolColumnReader(reader)) => {
                let mut truths = Vec::new();
                let read = read_rows(reader, rows, levels, &mut truths)?;
                values.clear();
                values.extend(truths.into_iter().map(i64::from));
                read
            }
            (Values::Texts(values), ColumnReader::ByteArrayColumnReader(reader)) => {
                values.clear();
                read_rows(reader, rows, levels, values)?
            }
            _ => 0,
        };
        if read == rows {
            return Ok(());
        }
        Err(ParquetError::General(format!("the column {} ends before its row group", self.field.name())))
    }

    /// Stores the decoded values in `records`, one per row; on error returns the row and the problem.
    fn store(&self, records: &mut [Record]) -> Result<(), (u64, String)> {
        let mut next_value = 0;
        for (row, record) in records.iter_mut().enumerate() {
            let present = self.max_level == 0 || self.levels.get(row) == Some(&self.max_level);
            if !present {
                if self.field.is_required() {
                    return Err((record.line, format!("the column {} has no value", self.field.name())));
                }
                continue;
            }
            self.store_value(next_value, record).map_err(|problem| (record.line, problem))?;
            next_value += 1;
        }
        Ok(())
    }

    fn store_value(&self, at: usize, record: &mut Record) -> Result<(), String> {
        let missing = || format!("the column {} has fewer values than rows", self.field.name());
        match &self.values {
            Values::Texts(texts) => {
                set_text(record, self.field, texts.get(at).map(ByteArray::data).ok_or_else(missing)?)
            }
            Values::Numbers(numbers) => {
                let number = *numbers.get(at).ok_or_else(missing)?;
                if self.signed && number < 0 {
                    return Err(format!(
                        "the column {} holds {number}, but may not be negative",
                        self.field.name()
                    ));
                }
                set_number(record, self.field, number as u64)
            }
        }
    }
}

fn read_rows<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    levels: &mut Vec<i16>,
    values: &mut Vec<T::T>,
) -> Result<usize, ParquetError> {
    let mut total = 0;
    while total < rows {
        let (read, _, _) = reader.read_records(rows - total, Some(levels), None, values)?;
        if read == 0 {
            break;
        }
        total += read;
    }
    Ok(total)
}

fn is_unsigned(column: &ColumnDescriptor) -> bool {
    matches!(column.logical_type_ref(), Some(LogicalType::Integer(integer)) if !integer.is_signed)
}

/// Runs `decode`, and converts a panic into the error of a corrupt file. A partially decoded state is not used again,
/// because an error ends the trace.
fn guarded<T>(path: &str, decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, TraceError> {
    let panicked = |_| Err(ParquetError::General("the file is damaged".to_owned()));
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(panicked)
        .map_err(|source| TraceError::Parquet { path: path.to_owned(), source })
}

/// Rejects columns at negative offsets, at which the library would panic.
fn check_places(file: &SerializedFileReader<File>) -> Result<(), ParquetError> {
    for column in file.metadata().row_groups().iter().flat_map(|group| group.columns()) {
        let place = column.dictionary_page_offset().unwrap_or(0).min(column.data_page_offset());
        if place < 0 || column.compressed_size() < 0 {
            return Err(ParquetError::General("a column lies at a negative place".to_owned()));
        }
    }
    Ok(())
}

/// Finds each field's column by name, and checks its type.
fn find_columns(file: &SerializedFileReader<File>, path: &str) -> Result<Vec<(Field, usize)>, TraceError> {
    let schema = file.metadata().file_metadata().schema_descr();
    let refuse = |problem| TraceError::Unrecognized { path: path.to_owned(), problem };
    let mut columns = Vec::new();
    for field in Field::ALL {
        let mut places =
            (0..schema.num_columns()).filter(|&at| schema.column(at).path().string() == field.name());
        let Some(at) = places.next() else {
            if field.is_required() {
                return Err(refuse(format!("the Parquet file has no column {}", field.name())));
            }
            continue;
        };
        let column = schema.column(at);
        let fits = match field {
            Field::Op | Field::Label => column.physical_type() == Physical::BYTE_ARRAY,
            Field::Fua => {
                matches!(column.physical_type(), Physical::BOOLEAN | Physical::INT32 | Physical::INT64)
            }
            _ => matches!(column.physical_type(), Physical::INT32 | Physical::INT64),
        };
        if !fits || column.max_rep_level() > 0 {
            let name = field.name();
            return Err(refuse(format!(
                "its column {name} is of type {}, which cannot hold it",
                column.physical_type()
            )));
        }
        columns.push((field, at));
    }
    Ok(columns)
}
