//! Rows in the state of operators: their bytes, and copies that do not keep an input block in memory.

use std::sync::Arc;

use sakiyomi_expression::row::Value;
use sakiyomi_stream::{Decode, Decoder, Encode, StateError};

use super::{Block, Cell, Row, RowBuilder};

/// Tag of null.
const NULL_TAG: u8 = 0;
/// Tag of a boolean.
const BOOL_TAG: u8 = 1;
/// Tag of an integer.
const INT_TAG: u8 = 2;
/// Tag of an integer of type `UInt64`.
const UINT_TAG: u8 = 3;
/// Tag of a float.
const FLOAT_TAG: u8 = 4;
/// Tag of a decimal, of 16 bytes.
const DECIMAL_TAG: u8 = 5;
/// Tag of a text.
const TEXT_TAG: u8 = 6;

impl Row {
    /// Returns the row with its texts in a block of their own. A row in a state would otherwise keep the
    /// block that it was
    /// read from, with a thousand others.
    pub(crate) fn compact(self) -> Row {
        if self.block.is_none() {
            return self;
        }
        let mut builder = RowBuilder::default();
        for value in self.values() {
            builder.push(value, None);
        }
        builder.finish(None)
    }
}

impl Encode for Row {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.width() as u64).encode(out);
        for value in self.values() {
            match value {
                Value::Null | Value::Binary(_) | Value::Array(_) => out.push(NULL_TAG),
                Value::Bool(value) => (BOOL_TAG, value).encode(out),
                Value::Int(value) => (INT_TAG, value).encode(out),
                Value::UInt(value) => (UINT_TAG, value).encode(out),
                Value::Float(value) => (FLOAT_TAG, value).encode(out),
                Value::Decimal(value) => {
                    out.push(DECIMAL_TAG);
                    out.extend_from_slice(&value.to_le_bytes());
                }
                Value::Text(text) => {
                    out.push(TEXT_TAG);
                    text.encode(out);
                }
            }
        }
    }
}

impl Decode for Row {
    fn decode(from: &mut Decoder<'_>) -> Result<Row, StateError> {
        let (width, mut text) = (from.length()?, String::new());
        let mut row = Row::default();
        for _ in 0..width {
            let cell = match u8::decode(from)? {
                NULL_TAG => Cell::Null,
                BOOL_TAG => Cell::Bool(Decode::decode(from)?),
                INT_TAG => Cell::Int(Decode::decode(from)?),
                UINT_TAG => Cell::UInt(Decode::decode(from)?),
                FLOAT_TAG => Cell::Float(Decode::decode(from)?),
                DECIMAL_TAG => {
                    let value = i128::from_le_bytes(from.array()?);
                    Cell::decimal(value).ok_or(StateError::Value("a decimal of 120 bits"))?
                }
                TEXT_TAG => {
                    let part = String::decode(from)?;
                    let start = u32::try_from(text.len()).map_err(|_| StateError::Value("a row of 4 GiB"))?;
                    text.push_str(&part);
                    Cell::Text { start, length: part.len() as u32 }
                }
                _ => return Err(StateError::Value("a value of a row")),
            };
            row.cells.push(cell);
        }
        row.block = (!text.is_empty()).then(|| Arc::new(Block::own(text)));
        Ok(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_back_from_their_bytes_and_damaged_bytes_are_errors() {
        let row = Row::of([
            Value::Null,
            Value::Bool(true),
            Value::Int(-1),
            Value::UInt(u64::MAX),
            Value::Float(0.5),
            Value::Decimal(-12345),
            Value::Text("a\u{e9}"),
            Value::Text(""),
            Value::Text("b"),
        ]);
        let mut bytes = Vec::new();
        row.encode(&mut bytes);
        assert_eq!(Row::decode(&mut Decoder::new(&bytes)), Ok(row.clone()));
        assert_eq!(row.clone().compact(), row);
        for length in 0..bytes.len() {
            assert!(Row::decode(&mut Decoder::new(&bytes[..length])).is_err());
        }
        for at in 0..bytes.len() {
            bytes[at] ^= 0x5a;
            let _ = Row::decode(&mut Decoder::new(&bytes));
            bytes[at] ^= 0x5a;
        }
    }
}
