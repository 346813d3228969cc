//! Builder of tables: each column is named together with the figure that it shows of a row.

use crate::section::{Cell, Column, Emphasis, Row, Section, Table};
use crate::value::Aim;

/// Rows of a type, and the columns added so far.
pub(crate) struct Rows<T> {
    items: Vec<T>,
    table: Table,
}

impl<T> Rows<T> {
    /// Creates a table without columns; `name` is that of its CSV.
    pub(crate) fn new(name: &str, heading: &'static str, items: impl IntoIterator<Item = T>) -> Rows<T> {
        let items: Vec<T> = items.into_iter().collect();
        let rows = vec![Row::default(); items.len()];
        Rows { items, table: Table { name: name.to_owned(), heading, rows, ..Table::default() } }
    }

    /// Adds a text column. Text columns precede those of figures.
    pub(crate) fn text<C: Into<Cell>>(self, name: impl Into<String>, of: impl Fn(&T) -> C) -> Rows<T> {
        self.column(Column { name: name.into(), is_text: true, ..Column::default() }, of)
    }

    /// Adds a column of figures.
    pub(crate) fn figure<C: Into<Cell>>(self, name: impl Into<String>, of: impl Fn(&T) -> C) -> Rows<T> {
        self.column(Column { name: name.into(), ..Column::default() }, of)
    }

    fn column<C: Into<Cell>>(mut self, column: Column, of: impl Fn(&T) -> C) -> Rows<T> {
        self.table.columns.push(column);
        for (row, item) in self.table.rows.iter_mut().zip(&self.items) {
            row.cells.push(of(item).into());
        }
        self
    }

    /// Adds more columns, if `is_shown`.
    pub(crate) fn when(self, is_shown: bool, more: impl FnOnce(Rows<T>) -> Rows<T>) -> Rows<T> {
        if is_shown { more(self) } else { self }
    }

    /// Marks the last column as omitted if there is no room, before columns of a lower rank.
    pub(crate) fn spare(mut self, rank: u8) -> Rows<T> {
        self.table.columns.iter_mut().rev().take(1).for_each(|column| column.spare = rank);
        self
    }

    /// Omits the last column from a summary.
    pub(crate) fn detail(mut self) -> Rows<T> {
        self.table.columns.iter_mut().rev().take(1).for_each(|column| column.is_detail = true);
        self
    }

    /// Sets the direction in which all figures should go.
    pub(crate) fn aim(mut self, aim: Aim) -> Rows<T> {
        self.table.columns.iter_mut().for_each(|column| column.aim = aim);
        self
    }

    /// Sets the emphasis of rows.
    pub(crate) fn emphasis(mut self, of: impl Fn(&T) -> Emphasis) -> Rows<T> {
        for (row, item) in self.table.rows.iter_mut().zip(&self.items) {
            row.emphasis = of(item);
        }
        self
    }

    /// Sets the meaning of marks and columns.
    pub(crate) fn legend(mut self, legend: impl Into<String>) -> Rows<T> {
        self.table.legend = legend.into();
        self
    }

    pub(crate) fn table(self) -> Table {
        self.table
    }

    pub(crate) fn section(self) -> Section {
        Section::Table(self.table)
    }
}
