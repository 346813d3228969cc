//! Comparison of rows by the values of their keys. It defines the sort order and breaks ties between equal codes.

use std::cmp::Ordering;

use super::digit::{narrow, signed128};
use super::{KeyColumn, KeyForm, Keys};
use crate::sort::row::RowView;
use crate::sort::row::layout::Layout;

impl Keys {
    /// Compares two rows.
    pub(crate) fn compare(&self, layout: &Layout, left: RowView<'_>, right: RowView<'_>) -> Ordering {
        let orders = self.columns.iter().map(|column| column.compare(layout, left, right));
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl KeyColumn {
    fn compare(&self, layout: &Layout, left: RowView<'_>, right: RowView<'_>) -> Ordering {
        let is_null = |row: RowView<'_>| self.null.is_some_and(|bit| bit.is_set(row.fixed));
        match (is_null(left), is_null(right)) {
            (true, true) => return Ordering::Equal,
            (true, false) if self.nulls_first => return Ordering::Less,
            (false, true) if !self.nulls_first => return Ordering::Less,
            (true, false) | (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        let order = match self.form {
            KeyForm::Bytes(index) => layout.variable(left, index).cmp(layout.variable(right, index)),
            KeyForm::Signed128 => signed128(left, self.offset).cmp(&signed128(right, self.offset)),
            _ => narrow(left, self).cmp(&narrow(right, self)),
        };
        if self.descending { order.reverse() } else { order }
    }
}
