//! Evaluation on single rows, as streams need it: a row takes tens of nanoseconds, where a kernel of Arrow on a batch of
//! one row takes a microsecond.
//!
//! ```text
//! Expression ─► tree of steps ─ evaluate(row) ─► value
//!               a step without kernel: numbers, comparisons, parts of texts and dates
//!               else, and where it has no result: the kernel, on arrays of one row
//! ```
//!
//! Values, nulls, the order of evaluation and errors are those of [`Expression::evaluate`] on a batch of that row. Every
//! expression can be compiled. Numbers take no allocation; texts that are made (`lower`, `||`) are written to memory
//! that the expression keeps. Left to the kernels, which allocate, are casts of texts to other types and of floats,
//! decimals and times to texts or to fewer digits, intervals, ILIKE and patterns that are long or not constants,
//! decimals of 256 bits, weeks, and parts of times in a time zone.
//!
//! ```
//! use arrow_schema::{DataType, Field, Schema};
//! use sakiyomi_expression::Expression;
//! use sakiyomi_expression::row::{RowExpression, Value};
//!
//! let schema = Schema::new(vec![
//!     Field::new("path", DataType::Utf8, false),
//!     Field::new("status", DataType::Int32, true),
//! ]);
//! let condition = Expression::condition("starts_with(path, '/api') and status >= 500", &schema)?;
//! let mut condition = RowExpression::new(&condition);
//! assert!(condition.select(&[Value::Text("/api/users"), Value::Int(503)])?);
//! assert!(!condition.select(&[Value::Text("/api/users"), Value::Null])?);
//! # Ok::<(), sakiyomi_expression::Error>(())
//! ```

mod binary;
mod extract;
mod like;
mod memory;
mod step;
mod unary;
mod value;

use arrow_schema::{DataType, SchemaRef};

use crate::{Error, Expression, Projection};

use memory::Memory;
use step::Step;

pub use value::Value;

/// An expression compiled for rows: slices with a [`Value`] for each column of the schema to which it is bound.
#[derive(Debug)]
pub struct RowExpression {
    step: Step,
    memory: Memory,
    data_type: DataType,
}

impl RowExpression {
    /// Compiles an expression.
    #[must_use]
    pub fn new(expression: &Expression) -> RowExpression {
        let mut memory = Memory::default();
        let step = Step::new(expression.node(), &mut memory);
        RowExpression { step, memory, data_type: expression.data_type() }
    }

    /// Returns the type of the values. Values of a dictionary are those that the keys stand for.
    #[must_use]
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Evaluates the expression on a row. The value may refer to texts of the row and of the expression.
    ///
    /// # Errors
    /// [`Error::Expression`] if the value cannot be computed, with the message of [`Expression::evaluate`]; if the row
    /// has too few values, or one of another type than its column.
    pub fn evaluate<'a>(&'a mut self, row: &[Value<'a>]) -> Result<Value<'a>, Error> {
        self.memory.clear();
        self.step.run(row, &self.memory).map_err(|error| *error)
    }

    /// Returns whether a condition is true on a row; it is not if its value is null.
    ///
    /// # Errors
    /// Returns the errors of [`RowExpression::evaluate`], and an error if the expression is not a condition.
    pub fn select(&mut self, row: &[Value<'_>]) -> Result<bool, Error> {
        if self.data_type != DataType::Boolean {
            return Err(Error::Expression(format!("a value of type {} is not a condition", self.data_type)));
        }
        Ok(self.evaluate(row)? == Value::Bool(true))
    }
}

/// A projection compiled for rows.
#[derive(Debug)]
pub struct RowProjection {
    items: Vec<RowExpression>,
    schema: SchemaRef,
}

impl RowProjection {
    /// Compiles a projection.
    #[must_use]
    pub fn new(projection: &Projection) -> RowProjection {
        let items = projection.expressions().iter().map(RowExpression::new).collect();
        RowProjection { items, schema: projection.schema() }
    }

    /// The names and types of the results, as those of [`Projection::schema`].
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Evaluates the expressions on a row in their order, and passes the index and value of each to `put`.
    ///
    /// # Errors
    /// Returns the errors of [`RowExpression::evaluate`]; `put` has then received the values of the expressions before.
    pub fn evaluate(
        &mut self,
        row: &[Value<'_>],
        mut put: impl FnMut(usize, Value<'_>),
    ) -> Result<(), Error> {
        for (place, item) in self.items.iter_mut().enumerate() {
            put(place, item.evaluate(row)?);
        }
        Ok(())
    }
}
