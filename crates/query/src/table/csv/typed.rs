//! Decoding of records into columns of the types that were inferred from the first records. A value that its column's
//! type would change is an error, wherever it stands.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, RecordBatchOptions,
    StringArray, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray,
};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, Schema, SchemaRef};

use sakiyomi_expression::shortened;

use super::fields::{Field, Fields};
use super::values::{Kind, boolean, date, float, integer};

/// Decodes records; reuses no memory, because the arrays keep it.
#[derive(Debug)]
pub(in crate::table) struct Decoder {
    schema: SchemaRef,
    /// For each field of a record, its place among the columns.
    places: Vec<Option<usize>>,
    columns: Vec<Column>,
    rows: usize,
    rows_max: usize,
    /// Where the record that was read last begins in its text.
    record_start: usize,
}

#[derive(Debug)]
struct Column {
    name: String,
    kind: Kind,
    values: Values,
    nulls: NullBufferBuilder,
}

#[derive(Debug)]
enum Values {
    Booleans(BooleanBufferBuilder),
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Dates(Vec<i32>),
    Timestamps(Vec<i64>),
    /// Bytes, and the end of each value.
    Texts(Vec<u8>, Vec<i32>),
}

impl Decoder {
    /// Returns a decoder of records of the schema `stored` into batches of its `columns`, with at most `rows_max`
    /// rows.
    ///
    /// # Panics
    /// If a column index is out of range.
    pub(in crate::table) fn new(stored: &Schema, columns: &[usize], rows_max: usize) -> Decoder {
        let mut places = vec![None; stored.fields().len()];
        for (place, &column) in columns.iter().enumerate() {
            places[column] = Some(place);
        }
        let fields: Vec<_> = columns.iter().map(|&column| Arc::clone(&stored.fields()[column])).collect();
        let columns = fields.iter().map(|field| {
            let kind = Kind::of_type(field.data_type());
            let nulls = NullBufferBuilder::new(0);
            Column { name: field.name().clone(), kind, values: Values::new(kind), nulls }
        });
        let columns = columns.collect();
        Decoder { schema: Arc::new(Schema::new(fields)), places, columns, rows: 0, rows_max, record_start: 0 }
    }

    /// Decodes whole records at the start of `text`, until the batch is full. Returns their bytes.
    ///
    /// # Errors
    /// If a record has another number of fields than the header, or a value is not of its column's type.
    pub(in crate::table) fn decode(&mut self, text: &[u8]) -> Result<usize, String> {
        let mut fields = Fields::new(text);
        while self.rows < self.rows_max {
            // An empty line is a null in a table of one column, as in PostgreSQL.
            if self.places.len() > 1 {
                fields.skip_empty_lines();
            }
            if !fields.has_record() {
                break;
            }
            self.record_start = fields.offset();
            self.record(&mut fields)?;
        }
        Ok(fields.offset())
    }

    /// Returns where the record that was read last, and had the error, begins in its text.
    pub(in crate::table) fn record_start(&self) -> usize {
        self.record_start
    }

    fn record(&mut self, fields: &mut Fields<'_>) -> Result<(), String> {
        let columns = self.places.len();
        let wrong_number = |found: usize| {
            let more = if found > columns { "more" } else { "fewer" };
            Err(format!("the record has {found} fields, {more} than the header, which has {columns}"))
        };
        let mut count = 0;
        loop {
            let (field, ends_record) = fields.next()?;
            match self.places.get(count) {
                // The rest of the record is counted for the message.
                None => {}
                Some(Some(place)) => self.columns[*place].push(&field)?,
                Some(None) => {}
            }
            count += 1;
            if ends_record {
                break;
            }
        }
        if count != self.places.len() {
            return wrong_number(count);
        }
        self.rows += 1;
        Ok(())
    }

    /// Returns the decoded rows; `None` without any.
    ///
    /// # Errors
    /// If a text is not UTF-8.
    pub(in crate::table) fn flush(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let rows = std::mem::take(&mut self.rows);
        if rows == 0 {
            return Ok(None);
        }
        let arrays = self.columns.iter_mut().map(Column::finish).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options).map(Some)
    }
}

impl Column {
    fn push(&mut self, field: &Field<'_>) -> Result<(), String> {
        if field.is_null() {
            self.values.push_default();
            self.nulls.append_null();
            return Ok(());
        }
        if self.values.push(self.kind, field.bytes).is_none() {
            let (name, kind) = (&self.name, self.kind.describe());
            let text = String::from_utf8_lossy(field.bytes);
            return Err(format!(
                "'{}' in column {name} is not {kind}, the type of the values in the first MiB",
                shortened(&text)
            ));
        }
        self.nulls.append_non_null();
        Ok(())
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let nulls = self.nulls.finish();
        Ok(match std::mem::replace(&mut self.values, Values::new(self.kind)) {
            Values::Booleans(mut bits) => Arc::new(BooleanArray::new(bits.finish(), nulls)),
            Values::Integers(values) => Arc::new(Int64Array::new(values.into(), nulls)),
            Values::Floats(values) => Arc::new(Float64Array::new(values.into(), nulls)),
            Values::Dates(values) => Arc::new(Date32Array::new(values.into(), nulls)),
            Values::Timestamps(values) => match self.kind {
                Kind::Millisecond => Arc::new(TimestampMillisecondArray::new(values.into(), nulls)),
                Kind::Microsecond => Arc::new(TimestampMicrosecondArray::new(values.into(), nulls)),
                Kind::Nanosecond => Arc::new(TimestampNanosecondArray::new(values.into(), nulls)),
                _ => Arc::new(TimestampSecondArray::new(values.into(), nulls)),
            },
            Values::Texts(bytes, ends) => {
                let offsets = OffsetBuffer::new(ends.into());
                Arc::new(StringArray::try_new(offsets, Buffer::from_vec(bytes), nulls)?)
            }
        })
    }
}

impl Values {
    fn new(kind: Kind) -> Values {
        match kind {
            Kind::Boolean => Values::Booleans(BooleanBufferBuilder::new(0)),
            Kind::Integer | Kind::LongInteger => Values::Integers(Vec::new()),
            Kind::Float => Values::Floats(Vec::new()),
            Kind::Date => Values::Dates(Vec::new()),
            Kind::Second | Kind::Millisecond | Kind::Microsecond | Kind::Nanosecond => {
                Values::Timestamps(Vec::new())
            }
            Kind::Nothing | Kind::Text => Values::Texts(Vec::new(), vec![0]),
        }
    }

    /// Appends a value; `None` if it is not of the kind, or the texts exceed 2 GiB.
    fn push(&mut self, kind: Kind, text: &[u8]) -> Option<()> {
        match self {
            Values::Booleans(bits) => bits.append(boolean(text)?),
            Values::Integers(values) => values.push(integer(text)?),
            Values::Floats(values) => values.push(float(text)?),
            Values::Dates(values) => values.push(date(text)?),
            Values::Timestamps(values) => values.push(kind.timestamp(text)?),
            Values::Texts(bytes, ends) => {
                ends.push(i32::try_from(bytes.len() + text.len()).ok()?);
                bytes.extend_from_slice(text);
            }
        }
        Some(())
    }

    /// Appends the value of a null.
    fn push_default(&mut self) {
        match self {
            Values::Booleans(bits) => bits.append(false),
            Values::Integers(values) | Values::Timestamps(values) => values.push(0),
            Values::Floats(values) => values.push(0.0),
            Values::Dates(values) => values.push(0),
            Values::Texts(bytes, ends) => ends.push(bytes.len() as i32),
        }
    }
}
