//! Keys of rows as numbers, so that most rows are ordered by comparing two integers.
//!
//! Each key column gives a *digit* per row: an unsigned number in the order of the column ([`digit`]). The ranges of the
//! digits ([`range`]) tell how many bits each column needs; a *code* packs as many columns as fit into 64 bits
//! ([`packing`]). If all of them fit exactly, the order of codes is that of the rows. Otherwise rows of equal codes are
//! compared by their values ([`compare`]).

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
    /// The form of its values.
    pub(crate) form: KeyForm,
    /// Offset of its value in a row.
    pub(crate) offset: usize,
    /// The bit that says that it is null.
    pub(crate) null: Option<NullBit>,
    /// Whether large values come first.
    pub(crate) descending: bool,
    /// Whether nulls come first.
    pub(crate) nulls_first: bool,
}

/// The values of a key column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// An unsigned number of 1, 2, 4 or 8 bytes.
    Unsigned(usize),
    /// A signed number of 1, 2, 4 or 8 bytes.
    Signed(usize),
    /// A floating-point number of 2, 4 or 8 bytes. All NaN are equal, and greater than other numbers.
    Float(usize),
    /// A signed number of 16 bytes.
    Signed128,
    /// Bytes; the place among the variable values.
    Bytes(usize),
}

impl Keys {
    /// Bytes that the digits of a row take.
    pub(crate) fn digit_bytes(&self) -> usize {
        let bytes = self.columns.iter().map(|column| {
            let is_narrow = !matches!(column.form, KeyForm::Signed128 | KeyForm::Bytes(_));
            if is_narrow { size_of::<u64>() } else { size_of::<u128>() }
        });
        bytes.sum()
    }

    /// The keys in rows of a layout, the row's number last if the layout has it.
    ///
    /// # Errors
    /// [`Error::Query`] if there are none, or the layout does not have the columns.
    pub(crate) fn new(layout: &Layout, keys: &[SortKey]) -> Result<Keys, Error> {
        let mut columns: Vec<KeyColumn> = Vec::with_capacity(keys.len() + 1);
        for (place, key) in keys.iter().enumerate() {
            let Some(column) = layout.columns.get(key.column) else {
                return Err(Error::Query(format!("the table has no column number {}", key.column)));
            };
            // A column that is named again orders nothing any more; nor does one of nulls.
            let is_known = keys[..place].iter().any(|known| known.column == key.column);
            let Some(form) = form_of(&column.form, &column.packed_type).filter(|_| !is_known) else {
                continue;
            };
            // Arrow's row format has the direction in its bytes.
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

/// The form of a key column; none for one of nulls, which orders nothing.
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
