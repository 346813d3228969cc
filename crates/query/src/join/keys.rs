//! Normalized join keys: values in the order of the key columns.
//!
//! | key columns | key form |
//! |---|---|
//! | at most 64 bits: an integer, a date, a timestamp, two 32-bit integers | `u64` |
//! | at most 128 bits: two 64-bit integers, a decimal of 38 digits | `u128` |
//! | all others: strings, three wide columns, nested types | a row of `arrow-row` |
//!
//! Equality is that of SQL engines such as DuckDB: all NaNs are equal and above all numbers, and -0 equals 0. Floats
//! inside nested types are compared bitwise instead. A row has a null key if any key column is null.

mod normal;

use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_row::{Row, RowConverter, Rows, SortField};
use arrow_schema::{DataType, SortOptions, TimeUnit};

use crate::Error;
use crate::batch_bytes::column_bytes;
use normal::{Physical, append, physical};

/// Bits of the fixed-width key forms.
const NARROW_KEY_BITS: u32 = u64::BITS;
const WIDE_KEY_BITS: u32 = u128::BITS;

/// Failed casts are errors: a key that became null would lose its matches.
const KEY_CAST: CastOptions<'static> =
    CastOptions { safe: false, format_options: arrow_cast::display::FormatOptions::new() };

/// The keys of one batch.
#[derive(Debug)]
pub(super) enum KeyValues {
    Narrow(Vec<u64>),
    Wide(Vec<u128>),
    Rows(Rows),
}

/// An owned key, which outlives its batch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Narrow(u64),
    Wide(u128),
    Bytes(Vec<u8>),
}

impl Key {
    /// Returns the smallest greater key; `None` if there is none.
    pub(super) fn after(&self) -> Option<Key> {
        match self {
            Key::Narrow(key) => key.checked_add(1).map(Key::Narrow),
            Key::Wide(key) => key.checked_add(1).map(Key::Wide),
            Key::Bytes(bytes) => Some(Key::Bytes([bytes.as_slice(), &[0]].concat())),
        }
    }

    /// Returns a 64-bit key.
    pub(super) fn narrow(self) -> Option<u64> {
        if let Key::Narrow(key) = self { Some(key) } else { None }
    }

    /// Returns a 128-bit key.
    pub(super) fn wide(self) -> Option<u128> {
        if let Key::Wide(key) = self { Some(key) } else { None }
    }

    /// Returns a key of bytes.
    pub(super) fn bytes(self) -> Option<Vec<u8>> {
        if let Key::Bytes(key) = self { Some(key) } else { None }
    }
}

/// Keys with access by row.
pub(super) trait KeySlice {
    /// A key; rows with equal keys join.
    type Key<'a>: Ord + Copy
    where
        Self: 'a;

    /// Returns the key of `row`, which must exist.
    fn key(&self, row: usize) -> Self::Key<'_>;

    /// Returns the number of rows.
    fn rows(&self) -> usize;
}

impl KeySlice for [u64] {
    type Key<'a> = u64;

    fn key(&self, row: usize) -> u64 {
        self[row]
    }

    fn rows(&self) -> usize {
        self.len()
    }
}

impl KeySlice for [u128] {
    type Key<'a> = u128;

    fn key(&self, row: usize) -> u128 {
        self[row]
    }

    fn rows(&self) -> usize {
        self.len()
    }
}

impl KeySlice for Rows {
    type Key<'a> = Row<'a>;

    fn key(&self, row: usize) -> Row<'_> {
        self.row(row)
    }

    fn rows(&self) -> usize {
        self.num_rows()
    }
}

/// Evaluates an expression with `$keys` bound to the keys in their form.
macro_rules! with_keys {
    ($values:expr, $keys:ident => $body:expr) => {
        match $values {
            $crate::join::keys::KeyValues::Narrow(values) => {
                let $keys = values.as_slice();
                $body
            }
            $crate::join::keys::KeyValues::Wide(values) => {
                let $keys = values.as_slice();
                $body
            }
            $crate::join::keys::KeyValues::Rows($keys) => $body,
        }
    };
}
pub(super) use with_keys;

impl KeyValues {
    /// Copies the key of a row.
    pub(super) fn owned(&self, row: usize) -> Key {
        match self {
            KeyValues::Narrow(values) => Key::Narrow(values[row]),
            KeyValues::Wide(values) => Key::Wide(values[row]),
            KeyValues::Rows(rows) => Key::Bytes(rows.row(row).data().to_vec()),
        }
    }

    /// Compares the key of a row with an owned key.
    pub(super) fn compare(&self, row: usize, key: &Key) -> Ordering {
        match (self, key) {
            (KeyValues::Narrow(values), Key::Narrow(key)) => values[row].cmp(key),
            (KeyValues::Wide(values), Key::Wide(key)) => values[row].cmp(key),
            (KeyValues::Rows(rows), Key::Bytes(key)) => rows.row(row).data().cmp(key.as_slice()),
            _ => unreachable!("all keys of a join have one form"),
        }
    }
}

/// Encodes batches of both sides of a join as comparable keys.
#[derive(Debug)]
pub(super) struct KeyEncoder {
    columns: Vec<KeyColumn>,
    /// `None` if the columns fit into 128 bits.
    converter: Option<RowConverter>,
    bits: u32,
}

#[derive(Debug)]
struct KeyColumn {
    data_type: DataType,
    is_descending: bool,
    physical: Option<Physical>,
}

impl KeyEncoder {
    /// Creates an encoder for columns of the given types and directions.
    ///
    /// # Errors
    /// [`Error::Arrow`] if a type has no order.
    pub(super) fn new(columns: &[(DataType, SortOptions)]) -> Result<KeyEncoder, Error> {
        let field = |(data_type, options): &(DataType, SortOptions)| {
            SortField::new_with_options(data_type.clone(), *options)
        };
        let physicals: Vec<Option<Physical>> =
            columns.iter().map(|(data_type, _)| physical(data_type)).collect();
        let widths = physicals.iter().map(|physical| physical.map(Physical::bits));
        let bits = widths.sum::<Option<u32>>().filter(|&bits| bits <= WIDE_KEY_BITS);
        let converter = match bits {
            Some(_) => None,
            None => Some(RowConverter::new(columns.iter().map(field).collect())?),
        };
        let columns = columns.iter().zip(physicals).map(|((data_type, options), physical)| KeyColumn {
            data_type: data_type.clone(),
            is_descending: options.descending,
            physical,
        });
        Ok(KeyEncoder { columns: columns.collect(), converter, bits: bits.unwrap_or(0) })
    }

    /// Returns empty keys in the encoder's form.
    pub(super) fn empty(&self) -> KeyValues {
        match &self.converter {
            Some(converter) => KeyValues::Rows(converter.empty_rows(0, 0)),
            None if self.bits <= NARROW_KEY_BITS => KeyValues::Narrow(Vec::new()),
            None => KeyValues::Wide(Vec::new()),
        }
    }

    /// Replaces `values` with the keys of a batch; returns the key validity, `None` if no key is null. The
    /// values of null keys are arbitrary.
    ///
    /// # Errors
    /// [`Error::Arrow`] if a value cannot be cast to its comparison type.
    pub(super) fn encode(
        &self,
        batch: &RecordBatch,
        places: &[usize],
        values: &mut KeyValues,
    ) -> Result<Option<NullBuffer>, Error> {
        let mut arrays = Vec::with_capacity(places.len());
        let mut nulls = None;
        for (column, &place) in self.columns.iter().zip(places) {
            let array = cast_key(batch.column(place), &column.data_type)?;
            nulls = NullBuffer::union(nulls.as_ref(), array.logical_nulls().as_ref());
            arrays.push(array);
        }
        match values {
            KeyValues::Narrow(values) => self.append_all(values, &arrays),
            KeyValues::Wide(values) => self.append_all(values, &arrays),
            KeyValues::Rows(rows) => {
                let converter = self.converter.as_ref().expect("keys in the encoder's form");
                let arrays: Vec<ArrayRef> = arrays.iter().map(canonical).collect();
                rows.clear();
                converter.append(rows, &arrays)?;
            }
        }
        Ok(nulls.filter(|nulls| nulls.null_count() > 0))
    }

    /// Returns the bytes of the keys of a batch, or slightly more.
    ///
    /// # Errors
    /// Returns the errors of [`KeyEncoder::encode`].
    pub(super) fn bytes(&self, batch: &RecordBatch, places: &[usize]) -> Result<usize, Error> {
        let rows = batch.num_rows();
        if self.converter.is_none() {
            return Ok(rows * if self.bits <= NARROW_KEY_BITS { size_of::<u64>() } else { size_of::<u128>() });
        }
        if self.columns.iter().any(|column| column.data_type.is_nested()) {
            let mut keys = self.empty();
            self.encode(batch, places, &mut keys)?;
            let KeyValues::Rows(keys) = &keys else { return Ok(0) };
            return Ok(keys.size());
        }
        let mut bytes = rows * size_of::<usize>();
        for (column, &place) in self.columns.iter().zip(places) {
            // Strings are encoded in blocks of 8 bytes and one more, of which the last is padded.
            let column = column_bytes(&cast_key(batch.column(place), &column.data_type)?);
            bytes += column + column / 8 + rows * (1 + 9);
        }
        Ok(bytes)
    }

    fn append_all<W: normal::Word>(&self, values: &mut Vec<W>, arrays: &[ArrayRef]) {
        for (place, (column, array)) in self.columns.iter().zip(arrays).enumerate() {
            let physical = column.physical.expect("columns of fixed width");
            append(values, array, physical, column.is_descending, place == 0);
        }
    }
}

fn cast_key(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Error> {
    let milliseconds = DataType::Timestamp(TimeUnit::Millisecond, None);
    match array.data_type() {
        from if from == to => Ok(array.clone()),
        // The library does not check this multiplication, but that of timestamps.
        DataType::Date64 if matches!(to, DataType::Timestamp(..)) && *to != milliseconds => {
            cast_key(&cast_with_options(array, &milliseconds, &KEY_CAST)?, to)
        }
        _ => Ok(cast_with_options(array, to, &KEY_CAST)?),
    }
}

/// Normalizes NaNs and zeros of floats; returns other columns unchanged.
fn canonical(array: &ArrayRef) -> ArrayRef {
    fn of<T: ArrowPrimitiveType>(array: &ArrayRef, map: impl Fn(T::Native) -> T::Native) -> ArrayRef {
        std::sync::Arc::new(array.as_primitive::<T>().unary::<_, T>(map))
    }
    match array.data_type() {
        DataType::Float32 => {
            of::<Float32Type>(array, |value| if value.is_nan() { f32::NAN } else { value + 0.0 })
        }
        DataType::Float64 => {
            of::<Float64Type>(array, |value| if value.is_nan() { f64::NAN } else { value + 0.0 })
        }
        _ => array.clone(),
    }
}

#[cfg(test)]
mod tests;
