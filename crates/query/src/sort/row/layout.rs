//! Layout of packed rows.

use std::sync::Arc;

use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, IntervalUnit, Schema, SchemaRef, SortOptions};

use super::{BLOCK_ROWS, RowView, u32_at};
use crate::Error;
use crate::order::SortKey;

/// Layout of the rows of a schema.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Schema of the input and output batches.
    pub(crate) schema: SchemaRef,
    /// Columns in schema order.
    pub(crate) columns: Vec<Column>,
    /// Bytes of the null bits at the start of a row.
    pub(crate) null_bytes: usize,
    /// Bytes of the fixed part.
    pub(crate) stride: usize,
    /// Offsets of the lengths of variable values, in the order of the values.
    pub(crate) lengths: Vec<usize>,
    /// Offset of the row number in a stable sort.
    pub(crate) row_number: Option<usize>,
    /// Number of columns stored as dictionary codes.
    pub(crate) dictionaries: usize,
    /// Rows packed or unpacked at a time: at most [`BLOCK_ROWS`], fewer if they are long.
    pub(crate) block_rows: usize,
}

/// Maximum bytes of the fixed parts of a block of long rows, which stay in the L2 cache.
const BLOCK_BYTES: usize = 256 << 10;

/// A column in a row.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// Type of the arrays that are packed: the column's type, or the value type of its dictionary.
    pub(crate) packed_type: DataType,
    /// Form of its values.
    pub(crate) form: Form,
    /// Offset of its value, code or length.
    pub(crate) offset: usize,
    /// Its null bit, if the column is nullable.
    pub(crate) null: Option<NullBit>,
}

/// The null bit of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NullBit {
    /// Offset of its byte.
    pub(crate) byte: usize,
    /// Mask of the bit in its byte.
    pub(crate) mask: u8,
}

impl NullBit {
    /// Returns whether the bit is set in a row.
    pub(crate) fn is_set(self, fixed: &[u8]) -> bool {
        fixed[self.byte] & self.mask != 0
    }

    /// Returns the index of the bit in its byte.
    pub(crate) fn index(self) -> usize {
        self.mask.trailing_zeros() as usize
    }
}

/// Storage form of a column's values.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// Arrow's representation, with a width of 1, 2, 4, 8, 16 or 32 bytes.
    Fixed(usize),
    /// A byte, 0 or 1.
    Bool,
    /// Bytes in the variable part; the index among the variable values.
    Bytes(usize),
    /// The code of a value in a sort-wide dictionary.
    Code {
        /// Bytes of a code: 1 or 2.
        width: usize,
        /// Index of the dictionary.
        dictionary: usize,
    },
    /// Arrow's row format in the variable part, which encodes nulls and their order.
    Encoded(usize, Arc<RowConverter>),
    /// No bytes: all values are null.
    Nothing,
}

impl Layout {
    /// Lays out the columns of a schema, and a row number if `numbered`.
    ///
    /// # Errors
    /// [`Error::Query`] if a column's type is not supported.
    pub(crate) fn new(schema: &SchemaRef, keys: &[SortKey], numbered: bool) -> Result<Layout, Error> {
        let mut layout = Layout {
            schema: schema.clone(),
            columns: Vec::with_capacity(schema.fields().len()),
            null_bytes: 0,
            stride: 0,
            lengths: Vec::new(),
            row_number: None,
            dictionaries: 0,
            block_rows: 0,
        };
        let forms = layout.forms(schema, keys)?;
        let nullable = |index: usize, form: &Form| {
            schema.field(index).is_nullable() && !matches!(form, Form::Encoded(..) | Form::Nothing)
        };
        let null_bits = forms.iter().enumerate().filter(|(index, (form, _))| nullable(*index, form)).count();
        layout.null_bytes = null_bits.div_ceil(8);
        layout.stride = layout.null_bytes;
        let mut next_bit = 0;
        for (index, (form, packed_type)) in forms.into_iter().enumerate() {
            let null = nullable(index, &form).then(|| {
                next_bit += 1;
                NullBit { byte: (next_bit - 1) / 8, mask: 1 << ((next_bit - 1) % 8) }
            });
            layout.push(form, packed_type, null);
        }
        if numbered {
            layout.row_number = Some(layout.stride);
            layout.stride += size_of::<u64>();
        }
        // Rows need at least one byte to have distinct places.
        layout.stride = layout.stride.max(1);
        layout.block_rows = (BLOCK_BYTES / layout.stride).clamp(1, BLOCK_ROWS);
        Ok(layout)
    }

    fn forms(&mut self, schema: &Schema, keys: &[SortKey]) -> Result<Vec<(Form, DataType)>, Error> {
        let mut variable = 0;
        let mut forms = Vec::with_capacity(schema.fields().len());
        for (index, field) in schema.fields().iter().enumerate() {
            let key = keys.iter().find(|key| key.column == index);
            let place = Place { variable, dictionary: self.dictionaries, key: key.map(|key| key.options) };
            let (form, packed_type) = form_of(field.data_type(), &place).map_err(|reason| {
                Error::Query(format!("column {:?} of type {} {reason}", field.name(), field.data_type()))
            })?;
            variable += usize::from(matches!(form, Form::Bytes(_) | Form::Encoded(..)));
            self.dictionaries += usize::from(matches!(form, Form::Code { .. }));
            forms.push((form, packed_type));
        }
        Ok(forms)
    }

    fn push(&mut self, form: Form, packed_type: DataType, null: Option<NullBit>) {
        let offset = self.stride;
        self.stride += match &form {
            Form::Fixed(width) | Form::Code { width, .. } => *width,
            Form::Bool => 1,
            Form::Bytes(_) | Form::Encoded(..) => {
                self.lengths.push(offset);
                size_of::<u32>()
            }
            Form::Nothing => 0,
        };
        self.columns.push(Column { packed_type, form, offset, null });
    }

    /// Returns the length of the row at the start of `bytes`; `None` if the row is truncated.
    pub(crate) fn row_len(&self, bytes: &[u8]) -> Option<usize> {
        let fixed = bytes.get(..self.stride)?;
        let variable: usize = self.lengths.iter().map(|&offset| u32_at(fixed, offset) as usize).sum();
        Some(self.stride + variable).filter(|&length| length <= bytes.len())
    }

    /// Returns the row at an offset.
    pub(crate) fn view<'a>(&self, bytes: &'a [u8], offset: usize) -> RowView<'a> {
        let (fixed, variable) = bytes[offset..].split_at(self.stride);
        RowView { fixed, variable }
    }

    /// Returns the variable value with index `index`.
    pub(crate) fn variable<'a>(&self, row: RowView<'a>, index: usize) -> &'a [u8] {
        let before: usize = self.lengths[..index].iter().map(|&at| u32_at(row.fixed, at) as usize).sum();
        &row.variable[before..before + u32_at(row.fixed, self.lengths[index]) as usize]
    }
}

/// Maximum bytes of a code. Dictionaries of more than 65,536 values save little, and their memory would be unbounded.
const CODE_MAX_BYTES: usize = 2;

/// Inputs of a column's form besides its type.
struct Place {
    variable: usize,
    dictionary: usize,
    /// Direction, if the column is a key.
    key: Option<SortOptions>,
}

fn form_of(data_type: &DataType, place: &Place) -> Result<(Form, DataType), &'static str> {
    use DataType::*;
    let form = match data_type {
        Null => Form::Nothing,
        Boolean => Form::Bool,
        // No single integer of at most 128 bits has their order.
        Interval(IntervalUnit::DayTime | IntervalUnit::MonthDayNano) | Decimal256(..)
            if place.key.is_some() =>
        {
            encoded(data_type, place)?
        }
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => {
            Form::Bytes(place.variable)
        }
        Dictionary(keys, values) if place.key.is_none() && is_bytes(values) => {
            let width = keys.primitive_width().unwrap_or(CODE_MAX_BYTES).min(CODE_MAX_BYTES);
            Form::Code { width, dictionary: place.dictionary }
        }
        Dictionary(_, values) => return form_of(values, place),
        // Arrow's row format orders NaN and -0 otherwise than the values' own form.
        RunEndEncoded(_, values) if place.key.is_some() && !values.data_type().is_nested() => {
            return form_of(values.data_type(), place);
        }
        _ => match data_type.primitive_width() {
            Some(width) => Form::Fixed(width),
            None => encoded(data_type, place)?,
        },
    };
    Ok((form, data_type.clone()))
}

fn is_bytes(values: &DataType) -> bool {
    use DataType::*;
    matches!(values, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

fn encoded(data_type: &DataType, place: &Place) -> Result<Form, &'static str> {
    let field = SortField::new_with_options(data_type.clone(), place.key.unwrap_or_default());
    if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
        return Err("cannot be sorted: its values have no row format; exclude it with --select");
    }
    let converter = RowConverter::new(vec![field]).map_err(|_| "cannot be sorted")?;
    Ok(Form::Encoded(place.variable, Arc::new(converter)))
}
