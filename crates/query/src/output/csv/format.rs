//! Formatting of values as CSV fields.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use sakiyomi_expression::format::{append_date, append_decimal, append_integer, append_natural};

use crate::Error;
use crate::output::buffer::Buf;
use crate::output::plain::dictionary_keys;

/// A column of a batch.
pub(super) struct Column<'a> {
    nulls: Option<NullBuffer>,
    values: Values<'a>,
}

enum Values<'a> {
    Boolean(&'a BooleanArray),
    Int8(&'a PrimitiveArray<Int8Type>),
    Int16(&'a PrimitiveArray<Int16Type>),
    Int32(&'a PrimitiveArray<Int32Type>),
    Int64(&'a PrimitiveArray<Int64Type>),
    UInt8(&'a PrimitiveArray<UInt8Type>),
    UInt16(&'a PrimitiveArray<UInt16Type>),
    UInt32(&'a PrimitiveArray<UInt32Type>),
    UInt64(&'a PrimitiveArray<UInt64Type>),
    Decimal32(&'a PrimitiveArray<Decimal32Type>, i8),
    Decimal64(&'a PrimitiveArray<Decimal64Type>, i8),
    Decimal128(&'a PrimitiveArray<Decimal128Type>, i8),
    Date(&'a PrimitiveArray<Date32Type>),
    Utf8(&'a arrow_array::StringArray),
    LargeUtf8(&'a arrow_array::LargeStringArray),
    Utf8View(&'a arrow_array::StringViewArray),
    /// Keys, and the column of the values.
    Dictionary(Vec<usize>, Box<Column<'a>>),
    /// Arrow's display format, with a reused string.
    Other(ArrayFormatter<'a>, String),
}

/// Options for types that Arrow formats; nulls are handled before.
const DISPLAY: FormatOptions<'static> = FormatOptions::new().with_display_error(false);

impl<'a> Column<'a> {
    /// # Errors
    /// If Arrow cannot display the type.
    pub(super) fn new(array: &'a ArrayRef) -> Result<Column<'a>, Error> {
        let values = match array.data_type() {
            DataType::Boolean => Values::Boolean(array.as_boolean()),
            DataType::Int8 => Values::Int8(array.as_primitive()),
            DataType::Int16 => Values::Int16(array.as_primitive()),
            DataType::Int32 => Values::Int32(array.as_primitive()),
            DataType::Int64 => Values::Int64(array.as_primitive()),
            DataType::UInt8 => Values::UInt8(array.as_primitive()),
            DataType::UInt16 => Values::UInt16(array.as_primitive()),
            DataType::UInt32 => Values::UInt32(array.as_primitive()),
            DataType::UInt64 => Values::UInt64(array.as_primitive()),
            DataType::Decimal32(_, scale) => Values::Decimal32(array.as_primitive(), *scale),
            DataType::Decimal64(_, scale) => Values::Decimal64(array.as_primitive(), *scale),
            DataType::Decimal128(_, scale) => Values::Decimal128(array.as_primitive(), *scale),
            DataType::Date32 => Values::Date(array.as_primitive()),
            DataType::Utf8 => Values::Utf8(array.as_string()),
            DataType::LargeUtf8 => Values::LargeUtf8(array.as_string()),
            DataType::Utf8View => Values::Utf8View(array.as_string_view()),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                Values::Dictionary(dictionary_keys(dictionary), Box::new(Column::new(dictionary.values())?))
            }
            _ => Values::Other(ArrayFormatter::try_new(array, &DISPLAY)?, String::new()),
        };
        Ok(Column { nulls: array.logical_nulls().filter(|nulls| nulls.null_count() > 0), values })
    }

    /// Appends the field of a row.
    ///
    /// # Errors
    /// If Arrow cannot display the value.
    pub(super) fn append(&mut self, row: usize, out: &mut Buf) -> Result<(), Error> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(());
        }
        match &mut self.values {
            Values::Boolean(array) => out.extend(if array.value(row) { b"true" } else { b"false" }),
            Values::Int8(array) => append_integer(out, array.value(row).into()),
            Values::Int16(array) => append_integer(out, array.value(row).into()),
            Values::Int32(array) => append_integer(out, array.value(row).into()),
            Values::Int64(array) => append_integer(out, array.value(row)),
            Values::UInt8(array) => append_integer(out, array.value(row).into()),
            Values::UInt16(array) => append_integer(out, array.value(row).into()),
            Values::UInt32(array) => append_integer(out, array.value(row).into()),
            Values::UInt64(array) => append_natural(out, array.value(row)),
            Values::Decimal32(array, scale) => append_decimal(out, array.value(row).into(), *scale),
            Values::Decimal64(array, scale) => append_decimal(out, array.value(row).into(), *scale),
            Values::Decimal128(array, scale) => append_decimal(out, array.value(row), *scale),
            Values::Date(array) => append_date(out, array.value(row).into()),
            Values::Utf8(array) => append_text(out, array.value(row).as_bytes()),
            Values::LargeUtf8(array) => append_text(out, array.value(row).as_bytes()),
            Values::Utf8View(array) => append_text(out, array.value(row).as_bytes()),
            Values::Dictionary(keys, values) => return values.append(keys[row], out),
            Values::Other(formatter, text) => {
                text.clear();
                formatter.value(row).write(text)?;
                append_text(out, text.as_bytes());
            }
        }
        Ok(())
    }
}

/// Appends a field, quoted if it is empty or contains a comma, a quote or a line end.
pub(super) fn append_text(out: &mut Buf, text: &[u8]) {
    let is_special = |&byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if !text.is_empty() && !text.iter().any(is_special) {
        return out.extend(text);
    }
    out.push(b'"');
    for (index, part) in text.split(|&byte| byte == b'"').enumerate() {
        if index > 0 {
            out.extend(b"\"\"");
        }
        out.extend(part);
    }
    out.push(b'"');
}
