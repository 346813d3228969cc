//! Columns computed from columns.

use sakiyomi_expression::Expression;
use sakiyomi_expression::row::RowExpression;
use sakiyomi_stream::{Emitter, Operator, Recover, SaveState};

use super::{RowErrors, stateless};
use crate::row::{Row, RowBuilder};

/// Computes the columns of its output.
pub(crate) struct Select {
    items: Vec<Item>,
    builder: RowBuilder,
    errors: RowErrors,
}

/// A column of the output.
#[derive(Debug)]
pub(crate) enum Item {
    /// A cell of the input.
    Cell(usize),
    /// An expression, and the cells that it uses.
    Computed(Box<RowExpression>, Vec<usize>),
}

impl Item {
    /// Returns an expression; `cells` are those of the columns that it uses, in their order.
    pub(crate) fn new(expression: Expression, cells: Vec<usize>) -> Item {
        if expression.as_column().is_some() {
            return Item::Cell(cells[0]);
        }
        let columns = expression.columns();
        Item::Computed(Box::new(RowExpression::new(&expression.onto(&columns))), cells)
    }

    /// Adds the value for a row.
    ///
    /// # Errors
    /// If it cannot be computed, or rows do not have such values.
    #[inline]
    pub(crate) fn push(&mut self, row: &Row, builder: &mut RowBuilder) -> Result<(), String> {
        let block = row.block().map(|block| &**block);
        let is_value = match self {
            Item::Cell(cell) => builder.push(row.value(*cell), block),
            Item::Computed(expression, cells) => {
                let values = row.project(cells);
                let value = expression.evaluate(&values).map_err(|error| error.to_string())?;
                builder.push(value, block)
            }
        };
        is_value.then_some(()).ok_or_else(|| "a decimal has more than 35 digits".to_owned())
    }
}

impl Select {
    pub(crate) fn new(items: Vec<Item>, errors: RowErrors) -> Select {
        Select { items, builder: RowBuilder::default(), errors }
    }
}

impl Recover for Select {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

stateless!(Select);

impl Operator for Select {
    type In = Row;
    type Out = Row;

    fn process(&mut self, row: Row, out: &mut Emitter<Row>) {
        for item in &mut self.items {
            if let Err(error) = item.push(&row, &mut self.builder) {
                self.builder.reset(0);
                return self.errors.note(&error);
            }
        }
        out.emit(self.builder.finish_from(row));
    }
}
