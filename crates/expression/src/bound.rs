//! Bound expressions, the interface for operators.

use std::collections::BTreeSet;
use std::fmt;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::filter::prep_null_mask_filter;
use sqlparser::ast::{Expr, SelectItem};

use crate::Error;

use super::bind::bind;
use crate::convert::boolean;
use crate::evaluate::evaluate;
use crate::node::Node;
use crate::parse;

/// An expression over the columns of a schema. `Display` prints SQL.
#[derive(Clone, Debug)]
pub struct Expression {
    node: Node,
}

impl Expression {
    /// Parses an expression and binds it to the columns of a schema.
    ///
    /// # Errors
    /// [`Error::Expression`] if `text` is not an expression, names a missing column, or has a type error.
    pub fn parse(text: &str, schema: &Schema) -> Result<Expression, Error> {
        Expression::bind(&parse::expression(text)?, schema)
    }

    /// Parses a condition, such as that of `--where`.
    ///
    /// # Errors
    /// Returns the errors of [`Expression::parse`], and an error if the expression is not boolean.
    pub fn condition(text: &str, schema: &Schema) -> Result<Expression, Error> {
        Ok(Expression { node: boolean(Expression::parse(text, schema)?.node)? })
    }

    /// Parses `EXPRESSION [AS NAME]`.
    ///
    /// # Errors
    /// Returns the errors of [`Expression::parse`].
    pub fn named(text: &str, schema: &Schema) -> Result<(Expression, Option<String>), Error> {
        match parse::item(text)? {
            SelectItem::UnnamedExpr(expr) => Ok((Expression::bind(&expr, schema)?, None)),
            SelectItem::ExprWithAlias { expr, alias } => {
                Ok((Expression::bind(&expr, schema)?, Some(alias.value)))
            }
            _ => Err(Error::Expression(format!("{} is not one expression", parse::shortened(text)))),
        }
    }

    pub(crate) fn bind(expr: &Expr, schema: &Schema) -> Result<Expression, Error> {
        Ok(Expression { node: bind(expr, schema)? })
    }

    /// Returns the expression of a column.
    ///
    /// # Panics
    /// If the schema has fewer columns.
    #[must_use]
    pub fn column(place: usize, schema: &Schema) -> Expression {
        let field = schema.field(place);
        let (name, data_type, nullable) =
            (field.name().clone(), field.data_type().clone(), field.is_nullable());
        Expression { node: Node::Column { place, name, data_type, nullable } }
    }

    /// Returns the type of the values.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        self.node.data_type()
    }

    /// Returns whether a value may be null.
    #[must_use]
    pub fn nullable(&self) -> bool {
        self.node.nullable()
    }

    /// Returns the indices of the columns used, ascending.
    #[must_use]
    pub fn columns(&self) -> Vec<usize> {
        let mut columns = BTreeSet::new();
        self.node.add_columns(&mut columns);
        columns.into_iter().collect()
    }

    /// Returns the index of the column, if the expression is only a column.
    #[must_use]
    pub fn as_column(&self) -> Option<usize> {
        match self.node {
            Node::Column { place, .. } => Some(place),
            _ => None,
        }
    }

    /// Rebinds the expression to batches that have only the columns `kept`, which are indices of the schema.
    ///
    /// # Panics
    /// If a column that the expression uses is not in `kept`.
    #[must_use]
    pub fn onto(mut self, kept: &[usize]) -> Expression {
        self.node.move_columns(&|place| {
            kept.iter().position(|&kept| kept == place).expect("the columns of an expression are kept")
        });
        self
    }

    /// Evaluates the expression on the rows of a batch.
    ///
    /// # Errors
    /// [`Error::Expression`] if a value cannot be computed; the message names the failed subexpression.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, Error> {
        Ok(evaluate(&self.node, batch)?.into_array(batch.num_rows())?)
    }

    /// Returns the mask of the rows on which a condition is true, without null bits.
    ///
    /// # Errors
    /// Returns the errors of [`Expression::evaluate`], and an error if the expression is not a condition.
    pub fn select(&self, batch: &RecordBatch) -> Result<BooleanArray, Error> {
        let value = evaluate(&self.node, batch)?;
        if *value.data_type() != DataType::Boolean {
            return Err(Error::Expression(format!("{self} is not a condition")));
        }
        let mask = value.into_booleans(batch.num_rows())?;
        Ok(if mask.null_count() > 0 { prep_null_mask_filter(&mask) } else { mask })
    }

    /// Returns the field of the results under a name; it keeps the metadata of a plain column.
    ///
    /// # Panics
    /// If the expression is a column that the schema does not have.
    #[must_use]
    pub fn field(&self, name: &str, schema: &Schema) -> Field {
        match self.as_column() {
            Some(place) => schema.field(place).clone().with_name(name),
            None => Field::new(name, self.data_type(), self.nullable()),
        }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}
