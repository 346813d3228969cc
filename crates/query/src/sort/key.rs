//! Normalized keys: most rows are ordered by comparing two integers.
//!
//! Each key column has a *digit* per row: an unsigned integer in the order of the column ([`digit`]). The ranges of the
//! digits ([`range`]) determine the bits that each column needs; a *code* packs as many columns as fit into 64 bits
//! ([`packing`]). If all columns fit without loss, codes order the rows. Otherwise rows with equal codes are compared
//! by their values ([`compare`]).

pub(crate) mod compare;
pub(crate) mod digit;
pub(crate) mod packing;
pub(crate) mod range;

use arrow_schema::DataType;

use super::row::layout::{Form, Layout, NullBit};
use crate::Error;
use crate::order::SortKey;

/// The columns that rows are ordered by, the most significant first.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// Each column once.
    pub(crate) columns: Vec<KeyColumn>,
}

/// A column that rows are ordered by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyColumn {
    /// Form of its values.
    pub(crate) form: KeyForm,
    /// Offset of its value in a row.
    pub(crate) offset: usize,
    /// Its null bit, if the column is nullable.
    pub(crate) null: Option<NullBit>,
    /// Whether large values come first.
    pub(crate) descending: bool,
    /// Whether nulls come first.
    pub(crate) nulls_first: bool,
}

/// Form of the values of a key column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// An unsigned number of 1, 2, 4 or 8 bytes.
    Unsigned(usize),
    /// A signed number of 1, 2, 4 or 8 bytes.
    Signed(usize),
    /// A floating-point number of 2, 4 or 8 bytes. -0 equals 0; all NaNs are equal and greater than all other numbers.
    Float(usize),
    /// A signed number of 16 bytes.
    Signed128,
    /// Bytes; the index among the variable values.
    Bytes(usize),
}

impl Keys {
    /// Returns the bytes of a row's digits.
    pub(crate) fn digit_bytes(&self) -> usize {
        let bytes = self.columns.iter().map(|column| {
            let is_narrow = !matches!(column.form, KeyForm::Signed128 | KeyForm::Bytes(_));
            if is_narrow { size_of::<u64>() } else { size_of::<u128>() }
        });
        bytes.sum()
    }

    /// Returns the key columns of a layout, followed by the row number if the layout has one.
    ///
    /// # Errors
    /// [`Error::Query`] if the layout does not have a column.
    pub(crate) fn new(layout: &Layout, keys: &[SortKey]) -> Result<Keys, Error> {
        let mut columns: Vec<KeyColumn> = Vec::with_capacity(keys.len() + 1);
        for (place, key) in keys.iter().enumerate() {
            let Some(column) = layout.columns.get(key.column) else {
                return Err(Error::Query(format!("the table has no column number {}", key.column)));
            };
            // A repeated column or a column of type `Null` does not affect the order.
            let is_known = keys[..place].iter().any(|known| known.column == key.column);
            let Some(form) = form_of(&column.form, &column.packed_type).filter(|_| !is_known) else {
                continue;
            };
            // Arrow's row format already encodes the direction.
            let is_encoded = matches!(column.form, Form::Encoded(..));
            columns.push(KeyColumn {
                form,
                offset: column.offset,
                null: column.null,
                descending: key.options.descending && !is_encoded,
                nulls_first: key.options.nulls_first,
            });
        }
        columns.extend(layout.row_number.map(|offset| KeyColumn {
            form: KeyForm::Unsigned(size_of::<u64>()),
            offset,
            null: None,
            descending: false,
            nulls_first: false,
        }));
        Ok(Keys { columns })
    }
}

/// Returns the form of a key column; `None` for type `Null`, which does not affect the order.
fn form_of(form: &Form, packed_type: &DataType) -> Option<KeyForm> {
    Some(match form {
        Form::Nothing => return None,
        Form::Bool => KeyForm::Unsigned(1),
        Form::Bytes(variable) | Form::Encoded(variable, _) => KeyForm::Bytes(*variable),
        Form::Fixed(width) | Form::Code { width, .. } => match packed_type {
            DataType::Float16 | DataType::Float32 | DataType::Float64 => KeyForm::Float(*width),
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
                KeyForm::Unsigned(*width)
            }
            _ if *width <= size_of::<u64>() => KeyForm::Signed(*width),
            _ => KeyForm::Signed128,
        },
    })
}
