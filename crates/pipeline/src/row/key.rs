//! Values as bytes that sort as the values do, for keys and extremes. Pure.
//!
//! Nulls come first; NaN comes after all numbers, and -0 is 0, as in the expressions of the query engine.

use sakiyomi_expression::row::Value;
use sakiyomi_stream::{Decoder, StateError};

use super::{Cell, RowBuilder};

/// The form of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    Bool,
    Int,
    UInt,
    Float,
    Decimal,
    Text,
}

impl KeyForm {
    /// Returns the form of a type that rows have.
    pub(crate) fn of(data_type: &arrow_schema::DataType) -> KeyForm {
        use arrow_schema::DataType::*;
        match data_type {
            Boolean => KeyForm::Bool,
            UInt64 => KeyForm::UInt,
            Float16 | Float32 | Float64 => KeyForm::Float,
            Decimal32(..) | Decimal64(..) | Decimal128(..) => KeyForm::Decimal,
            Utf8 | LargeUtf8 | Utf8View => KeyForm::Text,
            Dictionary(_, values) => KeyForm::of(values),
            _ => KeyForm::Int,
        }
    }
}

/// Stands for null; less than [`VALUE_BYTE`], so that nulls come first.
const NULL_BYTE: u8 = 0;
/// Comes before a value.
const VALUE_BYTE: u8 = 1;
/// Follows a zero byte of a text; the end of a text is two zero bytes.
const ESCAPE_BYTE: u8 = 0xff;
/// The highest bit, which makes two's complement sort as unsigned.
const SIGN_64: u64 = 1 << 63;
/// The highest bit of 128 bits.
const SIGN_128: u128 = 1 << 127;

/// Appends a value.
#[inline]
pub(crate) fn append(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null | Value::Binary(_) | Value::Array(_) => out.push(NULL_BYTE),
        Value::Bool(value) => out.extend_from_slice(&[VALUE_BYTE, u8::from(value)]),
        Value::Int(value) => append_u64(value.cast_unsigned() ^ SIGN_64, out),
        Value::UInt(value) => append_u64(value, out),
        Value::Float(value) => append_u64(sortable(value), out),
        Value::Decimal(value) => {
            out.push(VALUE_BYTE);
            out.extend_from_slice(&(value.cast_unsigned() ^ SIGN_128).to_be_bytes());
        }
        Value::Text(text) => {
            out.push(VALUE_BYTE);
            for (index, part) in text.as_bytes().split(|&byte| byte == 0).enumerate() {
                if index > 0 {
                    out.extend_from_slice(&[0, ESCAPE_BYTE]);
                }
                out.extend_from_slice(part);
            }
            out.extend_from_slice(&[0, 0]);
        }
    }
}

fn append_u64(value: u64, out: &mut Vec<u8>) {
    let mut bytes = [VALUE_BYTE; 9];
    bytes[1..].copy_from_slice(&value.to_be_bytes());
    out.extend_from_slice(&bytes);
}

/// Returns the bits of a float so that they sort as its value.
fn sortable(value: f64) -> u64 {
    let value = if value.is_nan() { f64::NAN.abs() } else { value + 0.0 };
    let bits = value.to_bits();
    if bits & SIGN_64 == 0 { bits ^ SIGN_64 } else { !bits }
}

fn unsortable(bits: u64) -> f64 {
    f64::from_bits(if bits & SIGN_64 == 0 { !bits } else { bits ^ SIGN_64 })
}

/// Reads a value and adds it to a row.
///
/// # Errors
/// If the bytes are damaged.
pub(crate) fn read(form: KeyForm, from: &mut Decoder<'_>, row: &mut RowBuilder) -> Result<(), StateError> {
    if from.array::<1>()? == [NULL_BYTE] {
        row.push(Value::Null, None);
        return Ok(());
    }
    let cell = match form {
        KeyForm::Bool => Cell::Bool(from.array::<1>()? != [0]),
        KeyForm::Int => Cell::Int((u64::from_be_bytes(from.array()?) ^ SIGN_64).cast_signed()),
        KeyForm::UInt => Cell::UInt(u64::from_be_bytes(from.array()?)),
        KeyForm::Float => Cell::Float(unsortable(u64::from_be_bytes(from.array()?))),
        KeyForm::Decimal => {
            let value = (u128::from_be_bytes(from.array()?) ^ SIGN_128).cast_signed();
            Cell::decimal(value).ok_or(StateError::Value("a decimal of 120 bits"))?
        }
        KeyForm::Text => {
            row.push(Value::Text(&text(from)?), None);
            return Ok(());
        }
    };
    row.cells.push(cell);
    Ok(())
}

fn text(from: &mut Decoder<'_>) -> Result<String, StateError> {
    let mut bytes = Vec::new();
    loop {
        match from.array::<1>()? {
            [0] => match from.array::<1>()? {
                [0] => break,
                _ => bytes.push(0),
            },
            [byte] => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| StateError::Value("a text"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::row::Row;

    fn bytes(value: Value<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        append(value, &mut out);
        out
    }

    fn back(form: KeyForm, bytes: &[u8]) -> Row {
        let mut builder = RowBuilder::default();
        read(form, &mut Decoder::new(bytes), &mut builder).unwrap();
        builder.finish(None)
    }

    proptest! {
        #[test]
        fn bytes_sort_as_values_and_are_read_back(
            ints in any::<[i64; 2]>(), floats in any::<[f64; 2]>(),
            decimals in prop::array::uniform2(-(1_i128 << 100)..1 << 100), texts in prop::array::uniform2("[a\u{0}\u{1}\u{e9}]{0,4}"),
        ) {
            let pairs = [
                (KeyForm::Int, ints.map(Value::Int), ints[0].cmp(&ints[1])),
                (KeyForm::Float, floats.map(Value::Float), (floats[0] + 0.0).total_cmp(&(floats[1] + 0.0))),
                (KeyForm::Decimal, decimals.map(Value::Decimal), decimals[0].cmp(&decimals[1])),
                (KeyForm::Text, [Value::Text(&texts[0]), Value::Text(&texts[1])], texts[0].cmp(&texts[1])),
            ];
            for (form, [one, other], order) in pairs {
                let is_nan = |value| matches!(value, Value::Float(value) if value.is_nan());
                if !is_nan(one) && !is_nan(other) {
                    prop_assert_eq!(bytes(one).cmp(&bytes(other)), order);
                    prop_assert_eq!(back(form, &bytes(one)), Row::of([one]));
                }
                prop_assert!(bytes(Value::Null) < bytes(one));
            }
        }
    }

    #[test]
    fn all_nans_are_one_key_after_all_numbers() {
        assert_eq!(bytes(Value::Float(f64::NAN)), bytes(Value::Float(-f64::NAN)));
        assert!(bytes(Value::Float(f64::NAN)) > bytes(Value::Float(f64::INFINITY)));
        assert_eq!(bytes(Value::Float(-0.0)), bytes(Value::Float(0.0)));
        assert_eq!(back(KeyForm::Bool, &bytes(Value::Bool(true))), Row::of([Value::Bool(true)]));
        assert_eq!(back(KeyForm::UInt, &bytes(Value::UInt(u64::MAX))), Row::of([Value::UInt(u64::MAX)]));
    }
}
