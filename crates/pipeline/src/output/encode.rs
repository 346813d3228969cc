//! Rows as bytes: lines, JSON, CSV. Pure.

use arrow_schema::{DataType, Schema, SchemaRef, TimeUnit};
use sakiyomi_expression::format::{append_date, append_decimal, append_integer, append_natural};
use sakiyomi_expression::row::Value;

use super::arrow::ArrowEncoder;
use super::flat;
use super::number::{append_float, append_timestamp};
use crate::row::Row;
use crate::spec::OutputFormat;

/// Turns rows into bytes, which are taken from time to time.
pub(super) enum Encoder {
    Text(TextEncoder),
    Arrow(Box<ArrowEncoder>),
}

impl Encoder {
    /// Returns an encoder of rows of a schema. `begins` says that the output has no rows yet.
    pub(super) fn new(format: OutputFormat, schema: &SchemaRef, begins: bool) -> Encoder {
        match format {
            OutputFormat::Arrow => Encoder::Arrow(Box::new(ArrowEncoder::new(schema, begins))),
            format => Encoder::Text(TextEncoder::new(format, schema, begins)),
        }
    }

    /// Adds a row.
    #[inline]
    pub(super) fn push(&mut self, row: &Row) {
        match self {
            Encoder::Text(encoder) => encoder.push(row),
            Encoder::Arrow(encoder) => encoder.push(row),
        }
    }

    /// Returns the bytes that are held, about.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Encoder::Text(encoder) => encoder.buffer.len(),
            Encoder::Arrow(encoder) => encoder.held_bytes(),
        }
    }

    /// Moves the bytes of all rows to `to`, which is empty; with `is_end`, also what an output ends with.
    ///
    /// # Errors
    /// If Arrow cannot encode them.
    pub(super) fn take(&mut self, to: &mut Vec<u8>, is_end: bool) -> std::io::Result<()> {
        match self {
            Encoder::Text(encoder) => {
                std::mem::swap(&mut encoder.buffer, to);
                Ok(())
            }
            Encoder::Arrow(encoder) => encoder.take(to, is_end).map_err(std::io::Error::other),
        }
    }
}

/// Rows as text.
#[derive(Debug)]
pub(super) struct TextEncoder {
    format: OutputFormat,
    columns: Vec<Column>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Column {
    /// `"name":` of JSON, with a brace or comma before it.
    key: Vec<u8>,
    form: Form,
}

/// How the values of a column are written.
#[derive(Clone, Copy, Debug)]
enum Form {
    Plain,
    Date,
    Timestamp(TimeUnit),
    Decimal(i8),
}

impl Form {
    fn of(data_type: &DataType) -> Form {
        match flat(data_type) {
            DataType::Date32 => Form::Date,
            DataType::Timestamp(unit, _) => Form::Timestamp(*unit),
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale) => Form::Decimal(*scale),
            _ => Form::Plain,
        }
    }

    /// Returns whether JSON has values of this form in quotes.
    fn is_quoted(self) -> bool {
        matches!(self, Form::Date | Form::Timestamp(_))
    }
}

impl TextEncoder {
    fn new(format: OutputFormat, schema: &Schema, begins: bool) -> TextEncoder {
        let column = |(index, field): (usize, &arrow_schema::FieldRef)| {
            let mut key = vec![if index == 0 { b'{' } else { b',' }];
            append_json_text(&mut key, field.name());
            key.push(b':');
            Column { key, form: Form::of(field.data_type()) }
        };
        let columns = schema.fields().iter().enumerate().map(column).collect();
        let mut buffer = Vec::new();
        if let OutputFormat::Csv { separator, header: true } = format
            && begins
        {
            for (index, field) in schema.fields().iter().enumerate() {
                if index > 0 {
                    buffer.push(separator);
                }
                append_csv_text(&mut buffer, field.name(), separator);
            }
            buffer.push(b'\n');
        }
        TextEncoder { format, columns, buffer }
    }

    fn push(&mut self, row: &Row) {
        let TextEncoder { format, columns, buffer } = self;
        match *format {
            OutputFormat::Json => {
                if columns.is_empty() {
                    buffer.push(b'{');
                }
                for (index, column) in columns.iter().enumerate() {
                    buffer.extend_from_slice(&column.key);
                    append_json(buffer, row.value(index), column.form);
                }
                buffer.push(b'}');
            }
            OutputFormat::Csv { separator, .. } => {
                for (index, column) in columns.iter().enumerate() {
                    if index > 0 {
                        buffer.push(separator);
                    }
                    match row.value(index) {
                        Value::Text(text) => append_csv_text(buffer, text, separator),
                        value => append_plain(buffer, value, column.form),
                    }
                }
            }
            OutputFormat::Lines { separator } => {
                for (index, column) in columns.iter().enumerate() {
                    if index > 0 {
                        buffer.push(separator);
                    }
                    append_plain(buffer, row.value(index), column.form);
                }
            }
            OutputFormat::Arrow => {}
        }
        buffer.push(b'\n');
    }
}

/// Appends a value; null is empty.
fn append_plain(out: &mut Vec<u8>, value: Value<'_>, form: Form) {
    match (value, form) {
        (Value::Null | Value::Binary(_) | Value::Array(_), _) => {}
        (Value::Text(text), _) => out.extend_from_slice(text.as_bytes()),
        (Value::Bool(value), _) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        (Value::Int(value), Form::Date) => append_date(out, value),
        (Value::Int(value), Form::Timestamp(unit)) => append_timestamp(out, value, unit),
        (Value::Int(value), _) => append_integer(out, value),
        (Value::UInt(value), _) => append_natural(out, value),
        (Value::Float(value), _) => append_float(out, value),
        (Value::Decimal(value), Form::Decimal(scale)) => append_decimal(out, value, scale),
        (Value::Decimal(value), _) => append_decimal(out, value, 0),
    }
}

fn append_json(out: &mut Vec<u8>, value: Value<'_>, form: Form) {
    match value {
        Value::Null | Value::Binary(_) | Value::Array(_) => out.extend_from_slice(b"null"),
        Value::Text(text) => append_json_text(out, text),
        // JSON does not have these numbers.
        Value::Float(value) if !value.is_finite() => out.extend_from_slice(b"null"),
        value if form.is_quoted() => {
            out.push(b'"');
            append_plain(out, value, form);
            out.push(b'"');
        }
        value => append_plain(out, value, form),
    }
}

/// Appends a text in quotes, with escapes (RFC 8259, section 7).
fn append_json_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut plain_from = 0;
    for (at, &byte) in text.as_bytes().iter().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&text.as_bytes()[plain_from..at]);
        plain_from = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    out.extend_from_slice(&text.as_bytes()[plain_from..]);
    out.push(b'"');
}

/// Appends a field, in quotes if it is empty, since an empty field is null, or has a separator, quote or line end.
fn append_csv_text(out: &mut Vec<u8>, text: &str, separator: u8) {
    let is_special = |byte: &u8| *byte == separator || matches!(byte, b'"' | b'\n' | b'\r');
    if !text.is_empty() && !text.as_bytes().iter().any(is_special) {
        return out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
    for (index, part) in text.split('"').enumerate() {
        if index > 0 {
            out.extend_from_slice(b"\"\"");
        }
        out.extend_from_slice(part.as_bytes());
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::Field;

    use super::*;

    fn encoded(format: OutputFormat) -> String {
        let dictionary =
            DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Decimal128(10, 2)));
        let fields = vec![
            Field::new("a\"", DataType::Utf8, true),
            Field::new("n", DataType::Float64, true),
            Field::new("t", DataType::Timestamp(TimeUnit::Second, None), true),
            Field::new("d", dictionary, true),
        ];
        let mut encoder = Encoder::new(format, &Arc::new(Schema::new(fields)), true);
        encoder.push(&Row::of([
            Value::Text("x,\"\n\u{1}"),
            Value::Float(1.5),
            Value::Int(0),
            Value::Decimal(105),
        ]));
        encoder.push(&Row::of([Value::Text(""), Value::Float(f64::NAN), Value::Null, Value::Null]));
        encoder.push(&Row::of([Value::Null, Value::Null, Value::Null, Value::Null]));
        let mut bytes = Vec::new();
        encoder.take(&mut bytes, true).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn rows_are_written_in_each_format() {
        assert_eq!(
            encoded(OutputFormat::Json),
            "{\"a\\\"\":\"x,\\\"\\n\\u0001\",\"n\":1.5,\"t\":\"1970-01-01T00:00:00Z\",\"d\":1.05}\n\
             {\"a\\\"\":\"\",\"n\":null,\"t\":null,\"d\":null}\n{\"a\\\"\":null,\"n\":null,\"t\":null,\"d\":null}\n"
        );
        assert_eq!(
            encoded(OutputFormat::Csv { separator: b',', header: true }),
            "\"a\"\"\",n,t,d\n\"x,\"\"\n\u{1}\",1.5,1970-01-01T00:00:00Z,1.05\n\"\",NaN,,\n,,,\n"
        );
        assert_eq!(
            encoded(OutputFormat::Lines { separator: b'\t' }),
            "x,\"\n\u{1}\t1.5\t1970-01-01T00:00:00Z\t1.05\n\tNaN\t\t\n\t\t\t\n"
        );
    }
}
