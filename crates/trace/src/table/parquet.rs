//! Parquet output of a table: columns are collected for a row group, then written one after the other.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use super::{Column, Kind, Value};

/// Rows per row group, kept in memory: about 64 bytes each for a table of eight columns.
const GROUP_ROWS: usize = 64 << 10;
/// Size of the text in one column from which the group is written early.
const GROUP_TEXT_BYTES: usize = 16 << 20;

pub(super) struct ParquetSink<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    gathered: Vec<Gathered>,
    rows: usize,
    full: bool,
}

impl<W: Write + Send> std::fmt::Debug for ParquetSink<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParquetSink").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// Values of a column in the current row group.
struct Gathered {
    values: Values,
    /// Definition levels: 1 for a value, 0 for a missing one; empty if the column is not nullable.
    present: Vec<i16>,
    nullable: bool,
}

enum Values {
    Integers(Vec<i64>),
    Fractions(Vec<f64>),
    Bools(Vec<bool>),
    /// All texts concatenated, with the end of each.
    Texts {
        text: Vec<u8>,
        ends: Vec<usize>,
    },
}

impl<W: Write + Send> ParquetSink<W> {
    pub(super) fn new(writer: W, columns: &[Column]) -> io::Result<ParquetSink<W>> {
        let fields = columns.iter().map(|column| field(column).map(Arc::new)).collect::<Result<_, _>>();
        let schema = Type::group_type_builder("row").with_fields(fields.map_err(io_error)?).build();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by("sakiyomi".to_owned())
            .build();
        let writer = schema
            .and_then(|schema| SerializedFileWriter::new(writer, Arc::new(schema), Arc::new(properties)))
            .map_err(io_error)?;
        Ok(ParquetSink {
            writer,
            gathered: columns.iter().map(Gathered::new).collect(),
            rows: 0,
            full: false,
        })
    }

    pub(super) fn row(&mut self, values: &[Value<'_>]) -> io::Result<()> {
        for (column, value) in self.gathered.iter_mut().zip(values) {
            self.full |= column.push(value);
        }
        self.rows += 1;
        if self.full || self.rows == GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        if self.rows > 0 {
            self.write_group()?;
        }
        let mut writer = self.writer.into_inner().map_err(io_error)?;
        writer.flush()?;
        Ok(writer)
    }

    fn write_group(&mut self) -> io::Result<()> {
        let mut group = self.writer.next_row_group().map_err(io_error)?;
        for column in &mut self.gathered {
            let Some(mut writer) = group.next_column().map_err(io_error)? else { break };
            column.write(&mut writer).and_then(|()| writer.close()).map_err(io_error)?;
            column.clear();
        }
        group.close().map_err(io_error)?;
        self.rows = 0;
        self.full = false;
        Ok(())
    }
}

fn field(column: &Column) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.kind {
        Kind::U64 => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Kind::I64 => (Physical::INT64, Some(LogicalType::integer(64, true))),
        Kind::F64 => (Physical::DOUBLE, None),
        Kind::Bool => (Physical::BOOLEAN, None),
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    Type::primitive_type_builder(&column.name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .build()
}

fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

impl Gathered {
    fn new(column: &Column) -> Gathered {
        let values = match column.kind {
            Kind::U64 | Kind::I64 => Values::Integers(Vec::new()),
            Kind::F64 => Values::Fractions(Vec::new()),
            Kind::Bool => Values::Bools(Vec::new()),
            Kind::Text => Values::Texts { text: Vec::new(), ends: Vec::new() },
        };
        Gathered { values, present: Vec::new(), nullable: column.nullable }
    }

    /// Adds a value; returns whether the group should be written now.
    fn push(&mut self, value: &Value<'_>) -> bool {
        if self.nullable {
            self.present.push(i16::from(*value != Value::Null));
        }
        match (&mut self.values, *value) {
            // Parquet stores unsigned numbers as signed ones with the same bits.
            (Values::Integers(values), Value::U64(number)) => values.push(number as i64),
            (Values::Integers(values), Value::I64(number)) => values.push(number),
            (Values::Fractions(values), Value::F64(number)) => values.push(number),
            (Values::Bools(values), Value::Bool(yes)) => values.push(yes),
            (Values::Texts { text, ends }, Value::Text(new)) => {
                text.extend_from_slice(new.as_bytes());
                ends.push(text.len());
                return text.len() >= GROUP_TEXT_BYTES;
            }
            // The types were checked when the row was added.
            _ => {}
        }
        false
    }

    fn write(&mut self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let present = self.nullable.then_some(self.present.as_slice());
        match &mut self.values {
            Values::Integers(values) => writer.typed::<Int64Type>().write_batch(values, present, None),
            Values::Fractions(values) => writer.typed::<DoubleType>().write_batch(values, present, None),
            Values::Bools(values) => writer.typed::<BoolType>().write_batch(values, present, None),
            Values::Texts { text, ends } => {
                let whole = ByteArray::from(std::mem::take(text));
                let mut start = 0;
                let slice = |&end: &usize| {
                    let begin = std::mem::replace(&mut start, end);
                    whole.slice(begin, end - begin)
                };
                let texts: Vec<_> = ends.iter().map(slice).collect();
                writer.typed::<ByteArrayType>().write_batch(&texts, present, None)
            }
        }?;
        Ok(())
    }

    fn clear(&mut self) {
        self.present.clear();
        match &mut self.values {
            Values::Integers(values) => values.clear(),
            Values::Fractions(values) => values.clear(),
            Values::Bools(values) => values.clear(),
            Values::Texts { text, ends } => {
                text.clear();
                ends.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TableFormat, TableWriter};
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use sakiyomi_testing::Scratch;

    #[test]
    fn values_of_every_kind_read_back() {
        let scratch = Scratch::new("table_parquet");
        let path = scratch.path("t.parquet");
        let columns = vec![
            Column::new("n", Kind::U64),
            Column::new("d", Kind::I64),
            Column::new("f", Kind::F64).nullable(),
            Column::new("b", Kind::Bool),
            Column::new("t", Kind::Text).nullable(),
        ];
        let file = std::fs::File::create(&path).unwrap();
        let mut table = TableWriter::new(file, TableFormat::Parquet, columns).unwrap();
        for n in 0..GROUP_ROWS as u64 + 1 {
            let text = if n % 2 == 0 { Value::Text("even") } else { Value::Null };
            let row = [
                Value::U64(u64::MAX - n),
                Value::I64(-(n as i64)),
                Value::F64(0.5),
                Value::Bool(n > 0),
                text,
            ];
            table.row(&row).unwrap();
        }
        table.finish().unwrap();

        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.num_row_groups(), 2);
        let last = reader.get_row_iter(None).unwrap().last().unwrap().unwrap();
        assert_eq!(last.get_ulong(0).unwrap(), u64::MAX - GROUP_ROWS as u64);
        assert_eq!(last.get_long(1).unwrap(), -(GROUP_ROWS as i64));
        assert_eq!(last.get_double(2).unwrap(), 0.5);
        assert!(last.get_bool(3).unwrap());
        assert_eq!(last.get_string(4).unwrap(), "even");
    }
}
