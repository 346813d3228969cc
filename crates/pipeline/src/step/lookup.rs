//! Columns of a table for the key of a row.

use std::sync::Arc;

use sakiyomi_expression::row::Value;
use sakiyomi_stream::{Emitter, Operator, Recover, SaveState};

use super::{RowErrors, stateless, write_key};
use crate::lookup::Table;
use crate::row::{Row, RowBuilder};

/// Adds columns of a table to its rows.
pub(crate) struct Lookup {
    table: Arc<Table>,
    columns: Columns,
    key: Vec<u8>,
}

/// The look-up of a table's row for a row, and the combination of both.
pub(crate) struct Columns {
    /// Cells of the key.
    keys: Vec<usize>,
    outputs: Vec<Output>,
    /// Whether rows whose key the table does not have are dropped.
    is_required: bool,
    builder: RowBuilder,
    pub(super) errors: RowErrors,
}

/// A cell of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A cell of the input.
    Cell(usize),
    /// A column of the table.
    Column(usize),
}

impl Columns {
    pub(crate) fn new(
        keys: Vec<usize>,
        outputs: Vec<Output>,
        is_required: bool,
        errors: RowErrors,
    ) -> Columns {
        Columns { keys, outputs, is_required, builder: RowBuilder::default(), errors }
    }

    /// Writes the key of a row. Whether it can be found: as of joins, null equals nothing.
    pub(super) fn write_key(&self, row: &Row, key: &mut Vec<u8>) -> bool {
        write_key(row, &self.keys, key);
        self.keys.iter().all(|&cell| row.value(cell) != Value::Null)
    }

    /// Emits a row with the columns of the one that was found for it.
    pub(super) fn emit(&mut self, row: Row, found: Option<&Row>, out: &mut Emitter<Row>) {
        if found.is_none() && self.is_required {
            return;
        }
        for output in &self.outputs {
            let value = match *output {
                Output::Cell(cell) => row.value(cell),
                Output::Column(column) => found.map_or(Value::Null, |found| found.value(column)),
            };
            if !self.builder.push(value, row.block().map(|block| &**block)) {
                self.builder.reset(0);
                return self.errors.note(&"a decimal has more than 35 digits");
            }
        }
        out.emit(self.builder.finish_from(row));
    }
}

impl Lookup {
    pub(crate) fn new(table: Arc<Table>, columns: Columns) -> Lookup {
        Lookup { table, columns, key: Vec::new() }
    }
}

impl Recover for Lookup {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

stateless!(Lookup);

impl Operator for Lookup {
    type In = Row;
    type Out = Row;

    fn process(&mut self, row: Row, out: &mut Emitter<Row>) {
        let has_key = self.columns.write_key(&row, &mut self.key);
        let found = if has_key { self.table.get(&self.key) } else { None };
        self.columns.emit(row, found, out);
    }
}
