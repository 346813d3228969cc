//! Rows as a keyed operator needs them.

use super::{Item, RowErrors};
use crate::row::{Row, RowBuilder, append};

/// Computes keys and arguments before an operator, and drops what it does not take.
pub(crate) struct Prepare {
    /// None if the rows have what is needed.
    items: Option<Vec<Item>>,
    builder: RowBuilder,
    errors: RowErrors,
    /// Cells without which a row is dropped.
    required: Vec<usize>,
    /// Whether rows are kept: then they do not keep the block that they were read from.
    is_kept: bool,
}

impl Prepare {
    pub(crate) fn new(items: Option<Vec<Item>>, errors: RowErrors) -> Prepare {
        Prepare { items, builder: RowBuilder::default(), errors, required: Vec::new(), is_kept: false }
    }

    /// For a join: rows with null keys have no match, and the others are kept.
    pub(crate) fn of_join(keys: Vec<usize>, errors: RowErrors) -> Prepare {
        Prepare { required: keys, is_kept: true, ..Prepare::new(None, errors) }
    }

    /// Report of a keyed operator when a result cannot be computed.
    pub(crate) fn errors(&self) -> &RowErrors {
        &self.errors
    }

    /// Returns the row for the operator; none if it is dropped.
    #[inline]
    pub(crate) fn row(&mut self, row: Row) -> Option<Row> {
        let row = match &mut self.items {
            None => row,
            Some(items) => {
                for item in items {
                    if let Err(error) = item.push(&row, &mut self.builder) {
                        self.builder.reset(0);
                        self.errors.note(&error);
                        return None;
                    }
                }
                self.builder.finish_from(row)
            }
        };
        let is_null = |&cell: &usize| row.value(cell) == sakiyomi_expression::row::Value::Null;
        if self.required.iter().any(is_null) {
            return None;
        }
        Some(if self.is_kept { row.compact() } else { row })
    }
}

/// Writes the key of a row: the values of some cells.
#[inline]
pub(crate) fn write_key(row: &Row, cells: &[usize], key: &mut Vec<u8>) {
    key.clear();
    cells.iter().for_each(|&cell| append(row.value(cell), key));
}
