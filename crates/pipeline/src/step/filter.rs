//! Rows for which a condition is true.

use sakiyomi_expression::Expression;
use sakiyomi_expression::row::RowExpression;
use sakiyomi_stream::{Emitter, Operator, Recover, SaveState};

use super::{RowErrors, stateless};
use crate::row::Row;

/// Passes rows for which a condition is true.
pub(crate) struct Filter {
    condition: RowExpression,
    /// The cells that the condition uses.
    cells: Vec<usize>,
    errors: RowErrors,
}

impl Filter {
    /// Returns a filter by a condition on columns; `cells` are those of the columns that it uses, in their order.
    pub(crate) fn new(condition: Expression, cells: Vec<usize>, errors: RowErrors) -> Filter {
        let columns = condition.columns();
        Filter { condition: RowExpression::new(&condition.onto(&columns)), cells, errors }
    }
}

impl Recover for Filter {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

stateless!(Filter);

impl Operator for Filter {
    type In = Row;
    type Out = Row;

    fn process(&mut self, row: Row, out: &mut Emitter<Row>) {
        let is_selected = {
            let values = row.project(&self.cells);
            self.condition.select(&values)
        };
        match is_selected {
            Ok(true) => out.emit(row),
            Ok(false) => {}
            Err(error) => self.errors.note(&error),
        }
    }
}
