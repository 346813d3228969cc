//! Rows as a stream of Arrow IPC.

use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Decimal128Builder, Float64Builder, Int64Builder, StringBuilder,
    UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use sakiyomi_expression::row::Value;

use super::flat;
use crate::row::Row;

/// Bytes that a value takes, about, for how much is held.
const VALUE_BYTES: usize = 9;

/// Gathers rows to batches.
pub(super) struct ArrowEncoder {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    text_bytes: usize,
    /// The output has the schema already.
    is_continued: bool,
    writer: Option<StreamWriter<Vec<u8>>>,
}

/// Values of a column in their widest type; they are converted when they are taken.
#[derive(Debug)]
enum Column {
    Bool(BooleanBuilder),
    Int(Int64Builder),
    UInt(UInt64Builder),
    Float(Float64Builder),
    Decimal(Decimal128Builder),
    Text(StringBuilder),
}

impl Column {
    fn new(data_type: &DataType) -> Column {
        match data_type {
            DataType::Boolean => Column::Bool(BooleanBuilder::new()),
            DataType::UInt64 => Column::UInt(UInt64Builder::new()),
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Column::Float(Float64Builder::new()),
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale) => {
                let wide = DataType::Decimal128(38, *scale);
                Column::Decimal(Decimal128Builder::new().with_data_type(wide))
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Column::Text(StringBuilder::new()),
            _ => Column::Int(Int64Builder::new()),
        }
    }

    fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Column::Bool(builder), Value::Bool(value)) => builder.append_value(value),
            (Column::Int(builder), Value::Int(value)) => builder.append_value(value),
            (Column::UInt(builder), Value::UInt(value)) => builder.append_value(value),
            (Column::Float(builder), Value::Float(value)) => builder.append_value(value),
            (Column::Decimal(builder), Value::Decimal(value)) => builder.append_value(value),
            (Column::Text(builder), Value::Text(value)) => builder.append_value(value),
            (Column::Bool(builder), _) => builder.append_null(),
            (Column::Int(builder), _) => builder.append_null(),
            (Column::UInt(builder), _) => builder.append_null(),
            (Column::Float(builder), _) => builder.append_null(),
            (Column::Decimal(builder), _) => builder.append_null(),
            (Column::Text(builder), _) => builder.append_null(),
        }
    }

    fn finish(&mut self, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let wide = match self {
            Column::Bool(builder) => ArrayBuilder::finish(builder),
            Column::Int(builder) => ArrayBuilder::finish(builder),
            Column::UInt(builder) => ArrayBuilder::finish(builder),
            Column::Float(builder) => ArrayBuilder::finish(builder),
            Column::Decimal(builder) => ArrayBuilder::finish(builder),
            Column::Text(builder) => ArrayBuilder::finish(builder),
        };
        // To dates and times of 32 bits only numbers of 32 bits are converted.
        match data_type {
            DataType::Null => Ok(new_null_array(data_type, wide.len())),
            DataType::Date32 | DataType::Time32(_) => {
                let narrow = arrow_cast::cast(&wide, &DataType::Int32)?;
                arrow_cast::cast(&narrow, data_type)
            }
            _ => arrow_cast::cast(&wide, data_type),
        }
    }
}

impl ArrowEncoder {
    /// Returns an encoder of rows of a schema. `begins` says that the output has no schema yet. Rows have the values
    /// of a dictionary and not its keys: its column is one of its values.
    pub(super) fn new(schema: &SchemaRef, begins: bool) -> ArrowEncoder {
        let flattened = |field: &FieldRef| match field.data_type() {
            DataType::Dictionary(..) => {
                let values = flat(field.data_type()).clone();
                Arc::new(
                    Field::new(field.name(), values, field.is_nullable())
                        .with_metadata(field.metadata().clone()),
                )
            }
            _ => Arc::clone(field),
        };
        let fields: Vec<FieldRef> = schema.fields().iter().map(flattened).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let columns = schema.fields().iter().map(|field| Column::new(field.data_type())).collect();
        ArrowEncoder { schema, columns, rows: 0, text_bytes: 0, is_continued: !begins, writer: None }
    }

    pub(super) fn push(&mut self, row: &Row) {
        self.rows += 1;
        for (index, column) in self.columns.iter_mut().enumerate() {
            let value = row.value(index);
            if let Value::Text(text) = value {
                self.text_bytes += text.len();
            }
            column.push(value);
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.text_bytes + self.rows * (1 + self.columns.len() * VALUE_BYTES)
    }

    /// Moves the rows as a batch to `to`.
    pub(super) fn take(&mut self, to: &mut Vec<u8>, is_end: bool) -> Result<(), ArrowError> {
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => {
                let mut writer = StreamWriter::try_new(Vec::new(), &self.schema)?;
                if self.is_continued {
                    writer.get_mut().clear();
                }
                writer
            }
        };
        if self.rows > 0 {
            let fields = self.schema.fields().iter();
            let columns =
                self.columns.iter_mut().zip(fields).map(|(column, field)| column.finish(field.data_type()));
            let columns = columns.collect::<Result<Vec<ArrayRef>, _>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
            writer.write(&RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)?;
            (self.rows, self.text_bytes) = (0, 0);
        }
        if is_end {
            writer.finish()?;
        }
        std::mem::swap(writer.get_mut(), to);
        self.writer = Some(writer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow_ipc::reader::StreamReader;
    use arrow_schema::TimeUnit;

    use super::*;

    fn dictionary(values: DataType) -> DataType {
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(values))
    }

    #[test]
    fn rows_of_all_types_are_read_back() {
        let types = [
            (DataType::Int8, Value::Int(-1)),
            (DataType::UInt64, Value::UInt(u64::MAX)),
            (DataType::Float32, Value::Float(0.5)),
            (DataType::Date32, Value::Int(10_957)),
            (DataType::Timestamp(TimeUnit::Millisecond, None), Value::Int(1)),
            (DataType::Decimal128(20, 3), Value::Decimal(-1500)),
            (DataType::Utf8, Value::Text("x")),
            (DataType::Boolean, Value::Bool(true)),
            (DataType::Null, Value::Null),
            (DataType::Float16, Value::Float(-2.5)),
            (DataType::Date64, Value::Int(86_400_000)),
            (DataType::Time32(TimeUnit::Second), Value::Int(86_399)),
            (DataType::Time32(TimeUnit::Millisecond), Value::Int(1)),
            (DataType::Time64(TimeUnit::Nanosecond), Value::Int(2)),
            (DataType::Duration(TimeUnit::Microsecond), Value::Int(-3)),
            (DataType::Timestamp(TimeUnit::Nanosecond, Some("+01:00".into())), Value::Int(4)),
            (DataType::Decimal32(9, 2), Value::Decimal(105)),
            (DataType::LargeUtf8, Value::Text("")),
            (dictionary(DataType::Utf8), Value::Text("y")),
            (dictionary(dictionary(DataType::Utf8View)), Value::Text("z")),
            (dictionary(DataType::UInt64), Value::UInt(5)),
            (dictionary(DataType::Decimal64(12, 1)), Value::Decimal(6)),
        ];
        let fields: Vec<Field> = types
            .iter()
            .enumerate()
            .map(|(at, (data_type, _))| Field::new(format!("c{at}"), data_type.clone(), true))
            .collect();
        let mut encoder = ArrowEncoder::new(&Arc::new(Schema::new(fields)), true);
        let (mut all, mut part) = (Vec::new(), Vec::new());
        for is_end in [false, true] {
            encoder.push(&Row::of(types.iter().map(|(_, value)| *value)));
            encoder.push(&Row::of(types.iter().map(|_| Value::Null)));
            assert!(encoder.held_bytes() > 0);
            part.clear();
            encoder.take(&mut part, is_end).unwrap();
            all.extend_from_slice(&part);
        }
        let mut rows = 0;
        for batch in StreamReader::try_new(&all[..], None).unwrap() {
            let batch = batch.unwrap();
            for (column, (_, value)) in batch.columns().iter().zip(&types) {
                assert_eq!([Value::of(column, 0), Value::of(column, 1)], [*value, Value::Null]);
            }
            rows += batch.num_rows();
        }
        assert_eq!(rows, 4);
    }
}
