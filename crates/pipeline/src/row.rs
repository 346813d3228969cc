//! Rows of streams: values that are cheap to move between operators and cores.
//!
//! A row has 16 bytes for each value. Texts are ranges of a block that all rows of it share, so that a field of a line
//! is neither copied nor allocated; up to [`INLINE_CELLS`] values take no allocation at all.

mod block;
mod key;
mod state;

use std::sync::Arc;

use arrow_schema::DataType;
use sakiyomi_expression::row::Value;
use smallvec::SmallVec;

#[cfg(test)]
pub(crate) use block::BLOCK_BYTES;
pub(crate) use block::{Block, Handles, Pool};
pub(crate) use key::{KeyForm, append, read};

/// Values of a row without an allocation: an aggregate of web logs needs a time, a key and one or two numbers. More make
/// rows of few values dearer to move.
pub(crate) const INLINE_CELLS: usize = 4;

/// The values of a row.
pub(crate) type Cells = SmallVec<[Cell; INLINE_CELLS]>;

/// The largest absolute value of a decimal, plus one: 120 bits with the sign.
const DECIMAL_LIMIT: i128 = 1 << 119;

/// A value of a row. Its column has the type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Cell {
    /// Null, of any type.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer, or a date or time in the unit of its type.
    Int(i64),
    /// An integer of type `UInt64`.
    UInt(u64),
    /// A float.
    Float(f64),
    /// A decimal without its scale, little-endian, of 120 bits so that a cell has 16 bytes.
    Decimal([u8; 15]),
    /// A range of the row's block, in bytes.
    Text {
        /// Its begin.
        start: u32,
        /// Its length.
        length: u32,
    },
}

impl Cell {
    /// Returns a decimal; none if it has more than 35 digits or so.
    pub(crate) fn decimal(value: i128) -> Option<Cell> {
        let fits = (-DECIMAL_LIMIT..DECIMAL_LIMIT).contains(&value);
        let mut bytes = [0; 15];
        bytes.copy_from_slice(&value.to_le_bytes()[..15]);
        fits.then_some(Cell::Decimal(bytes))
    }
}

fn wide(bytes: [u8; 15]) -> i128 {
    let mut all = [0; 16];
    all[1..].copy_from_slice(&bytes);
    // Shifts the sign in.
    i128::from_le_bytes(all) >> 8
}

/// A row. Its text and its values are those of [`Value`].
#[derive(Clone, Debug, Default)]
pub struct Row {
    cells: Cells,
    /// The buffer that texts are ranges of; `None` without a text.
    block: Option<Arc<Block>>,
}

impl Row {
    /// Returns a row of these cells; `block` is what its texts are ranges of.
    pub(crate) fn new(cells: Cells, block: Option<Arc<Block>>) -> Row {
        Row { cells, block }
    }

    /// Returns a row of some values, whose texts are copied.
    ///
    /// # Panics
    /// If a value is of a type that rows do not have: binary, nested, or a decimal of more than 120 bits.
    #[must_use]
    pub fn of<'v>(values: impl IntoIterator<Item = Value<'v>>) -> Row {
        let mut builder = RowBuilder::default();
        for value in values {
            assert!(builder.push(value, None), "a row does not have {value:?}");
        }
        builder.finish(None)
    }

    /// Returns the number of values.
    #[must_use]
    pub fn width(&self) -> usize {
        self.cells.len()
    }

    /// Returns the value of a column; null beyond the last one.
    #[must_use]
    #[inline]
    pub fn value(&self, column: usize) -> Value<'_> {
        match self.cells.get(column) {
            None | Some(Cell::Null) => Value::Null,
            Some(Cell::Bool(value)) => Value::Bool(*value),
            Some(Cell::Int(value)) => Value::Int(*value),
            Some(Cell::UInt(value)) => Value::UInt(*value),
            Some(Cell::Float(value)) => Value::Float(*value),
            Some(Cell::Decimal(bytes)) => Value::Decimal(wide(*bytes)),
            Some(&Cell::Text { start, length }) => Value::Text(self.text(start, length)),
        }
    }

    fn text(&self, start: u32, length: u32) -> &str {
        let (start, length) = (start as usize, length as usize);
        self.block.as_ref().and_then(|block| block.text().get(start..start + length)).unwrap_or("")
    }

    /// Returns the values.
    pub fn values(&self) -> impl Iterator<Item = Value<'_>> {
        (0..self.cells.len()).map(|column| self.value(column))
    }

    /// Returns the values of some columns.
    #[inline]
    pub(crate) fn project<'r>(&'r self, columns: &[usize]) -> SmallVec<[Value<'r>; 8]> {
        columns.iter().map(|&column| self.value(column)).collect()
    }

    /// Returns the block of the texts.
    pub(crate) fn block(&self) -> Option<&Arc<Block>> {
        self.block.as_ref()
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.values().eq(other.values())
    }
}

/// Returns whether rows have values of a type.
pub(crate) fn is_supported(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Null | Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 => true,
        Float16 | Float32 | Float64 | Decimal32(..) | Decimal64(..) | Decimal128(..) => true,
        Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => true,
        Utf8 | LargeUtf8 | Utf8View => true,
        Dictionary(_, values) => is_supported(values),
        _ => false,
    }
}

/// Marks texts that are not in the block of the input. Blocks are smaller.
const EXTRA_BIT: u32 = 1 << 31;

/// A row that is being made. Its texts are those of an input block, or are written to memory of its own.
#[derive(Debug, Default)]
pub(crate) struct RowBuilder {
    pub(crate) cells: Cells,
    /// Texts that are not in the block.
    extra: String,
    texts: usize,
}

impl RowBuilder {
    /// Begins a row of `width` nulls, to be set by their index.
    pub(crate) fn reset(&mut self, width: usize) {
        self.cells.clear();
        self.cells.resize(width, Cell::Null);
        self.extra.clear();
        self.texts = 0;
    }

    /// Sets a cell that is not a text, or a text of the input's block.
    pub(crate) fn set(&mut self, column: usize, cell: Cell) {
        self.texts += usize::from(matches!(cell, Cell::Text { .. }));
        self.cells[column] = cell;
    }

    /// Sets a text that is not in the input's block.
    pub(crate) fn set_extra(&mut self, column: usize, text: &str) {
        self.cells[column] = self.extra_cell(text);
    }

    fn extra_cell(&mut self, text: &str) -> Cell {
        self.texts += 1;
        let start = self.extra.len() as u32 | EXTRA_BIT;
        self.extra.push_str(text);
        Cell::Text { start, length: text.len() as u32 }
    }

    /// Adds a value. A text that lies in `block` is not copied. Whether rows have such values.
    pub(crate) fn push(&mut self, value: Value<'_>, block: Option<&Block>) -> bool {
        let cell = match value {
            Value::Null => Cell::Null,
            Value::Bool(value) => Cell::Bool(value),
            Value::Int(value) => Cell::Int(value),
            Value::UInt(value) => Cell::UInt(value),
            Value::Float(value) => Cell::Float(value),
            Value::Decimal(value) => match Cell::decimal(value) {
                Some(cell) => cell,
                None => return false,
            },
            Value::Text(text) => match block.and_then(|block| block.range_of(text)) {
                Some(cell) => {
                    self.texts += 1;
                    cell
                }
                None => self.extra_cell(text),
            },
            Value::Binary(_) | Value::Array(_) => return false,
        };
        self.cells.push(cell);
        true
    }

    /// Returns the row. If one of its texts is not in `block`, all are copied to a block of its own.
    pub(crate) fn finish(&mut self, block: Option<&mut Handles>) -> Row {
        let mut cells = std::mem::take(&mut self.cells);
        let texts = std::mem::take(&mut self.texts);
        if texts == 0 {
            return Row { cells, block: None };
        }
        if self.extra.is_empty() && (block.is_some() || cells.iter().all(|cell| is_empty_text(*cell))) {
            return Row { cells, block: block.map(Handles::take) };
        }
        let shared = block.map(|handles| handles.text());
        let own = gather(&mut cells, shared.unwrap_or(""), &self.extra);
        self.extra.clear();
        Row { cells, block: Some(Arc::new(Block::own(own))) }
    }

    /// Like [`RowBuilder::finish`], with the block of the row from which this one is made.
    pub(crate) fn finish_from(&mut self, row: Row) -> Row {
        let mut cells = std::mem::take(&mut self.cells);
        if std::mem::take(&mut self.texts) == 0 {
            return Row { cells, block: None };
        }
        if self.extra.is_empty() {
            return Row { cells, block: row.block };
        }
        let own = gather(&mut cells, row.block.as_ref().map_or("", |block| block.text()), &self.extra);
        self.extra.clear();
        Row { cells, block: Some(Arc::new(Block::own(own))) }
    }
}

fn is_empty_text(cell: Cell) -> bool {
    !matches!(cell, Cell::Text { length: 1.., .. })
}

/// Copies the texts of cells into one, and moves the ranges there.
fn gather(cells: &mut [Cell], shared: &str, extra: &str) -> String {
    let mut own = String::new();
    for cell in cells {
        if let Cell::Text { start, length } = cell {
            let (from, at) = match *start & EXTRA_BIT {
                0 => (shared, *start as usize),
                _ => (extra, (*start & !EXTRA_BIT) as usize),
            };
            *start = own.len() as u32;
            own.push_str(from.get(at..at + *length as usize).unwrap_or(""));
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_16_bytes_and_a_row_fits_into_two_cache_lines() {
        assert_eq!(size_of::<Cell>(), 16);
        assert!(size_of::<Row>() <= 96, "{}", size_of::<Row>());
    }

    #[test]
    fn decimals_of_120_bits_are_kept_and_larger_ones_refused() {
        for value in [0, 1, -1, 150, DECIMAL_LIMIT - 1, -DECIMAL_LIMIT] {
            let Some(Cell::Decimal(bytes)) = Cell::decimal(value) else { panic!("{value}") };
            assert_eq!(wide(bytes), value);
        }
        assert_eq!(Cell::decimal(DECIMAL_LIMIT), None);
        assert_eq!(Cell::decimal(-DECIMAL_LIMIT - 1), None);
    }

    #[test]
    fn a_row_made_from_another_shares_its_block_until_a_text_is_new() {
        let row = Row::of([Value::Text("GET /index"), Value::Int(3), Value::Null]);
        let Value::Text(line) = row.value(0) else { panic!() };
        let mut builder = RowBuilder::default();
        builder.push(Value::Text(&line[4..]), row.block().map(|block| &**block));
        let path = builder.finish_from(row.clone());
        assert_eq!(path.value(0), Value::Text("/index"));
        assert!(Arc::ptr_eq(path.block().unwrap(), row.block().unwrap()));
        builder.push(Value::Text(&line[..3]), row.block().map(|block| &**block));
        builder.push(Value::Text("new"), row.block().map(|block| &**block));
        let other = builder.finish_from(row.clone());
        assert_eq!(other, Row::of([Value::Text("GET"), Value::Text("new")]));
        assert!(!Arc::ptr_eq(other.block().unwrap(), row.block().unwrap()));
    }
}
