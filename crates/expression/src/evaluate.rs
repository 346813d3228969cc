//! Evaluates bound expressions on batches with Arrow's kernels.
//!
//! AND, OR, CASE and coalesce report errors only from rows that need an input. They evaluate it on all rows, which
//! needs no copies, and if that fails, on the needed rows alone. `b <> 0 AND a / b > 1` never divides by zero. The
//! outermost of them decides for its whole input, so that each node is evaluated at most twice on a batch.

pub(crate) mod arithmetic;
pub(crate) mod compare;
pub(crate) mod function;
mod operation;

use std::sync::Arc;

use arrow_arith::boolean::{and_kleene, or_kleene};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, DataType};
use arrow_select::filter::filter_record_batch;
use arrow_select::zip::zip;

use crate::Error;

use crate::node::Node;
use crate::parse::shortened;
use crate::values::Values;

pub(crate) use operation::Operation;

/// The rows on which inputs that only some rows need are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// All rows, then the needed ones if that fails.
    Either,
    /// All rows; an error may come from a row that is not needed.
    All,
    /// The needed rows.
    Needed,
}

/// Evaluates an expression on the rows of a batch.
pub(crate) fn evaluate(node: &Node, batch: &RecordBatch) -> Result<Values, Error> {
    evaluate_on(Rows::Either, node, batch)
}

fn evaluate_on(on: Rows, node: &Node, batch: &RecordBatch) -> Result<Values, Error> {
    match node {
        Node::Column { place, name, data_type, .. } => column(batch, *place, name, data_type),
        Node::Literal(literal) => Ok(Values::Scalar(literal.value.clone())),
        Node::All(inputs) => chain(on, inputs, batch, false, and_kleene),
        Node::Any(inputs) => chain(on, inputs, batch, true, or_kleene),
        Node::Case { branches, otherwise, data_type } => case(on, branches, otherwise, data_type, batch),
        Node::Coalesce { inputs, .. } => coalesce(on, inputs, batch),
        other => {
            let inputs = other.inputs().into_iter().map(|input| evaluate_on(on, input, batch));
            let inputs = inputs.collect::<Result<Vec<Values>, Error>>()?;
            let operation = Operation::of(other).expect("all other expressions have an operator");
            operation.apply(&inputs).map_err(|error| named(&other.to_string(), &other.data_type(), error))
        }
    }
}

/// Converts an error to one that names the failed subexpression, given as SQL and with its type.
pub(crate) fn named(text: &str, data_type: &DataType, error: ArrowError) -> Error {
    let reason = match error {
        ArrowError::DivideByZero => "division by zero".to_owned(),
        ArrowError::ArithmeticOverflow(_) => format!("a result does not fit {data_type}"),
        ArrowError::CastError(reason)
        | ArrowError::ComputeError(reason)
        | ArrowError::ParseError(reason)
        | ArrowError::InvalidArgumentError(reason) => reason,
        other => other.to_string(),
    };
    Error::Expression(format!("{}: {reason}", shortened(text)))
}

fn column(batch: &RecordBatch, place: usize, name: &str, data_type: &DataType) -> Result<Values, Error> {
    match batch.columns().get(place) {
        Some(array) if array.data_type() == data_type => Ok(Values::Array(array.clone())),
        Some(array) => {
            let found = array.data_type();
            Err(Error::Expression(format!("column {name} is of type {found} where {data_type} was expected")))
        }
        None => Err(Error::Expression(format!("column {name} is missing in a batch"))),
    }
}

/// Evaluates an expression on the selected rows; values of other rows are unspecified.
fn evaluate_where(
    on: Rows,
    node: &Node,
    batch: &RecordBatch,
    selected: &BooleanBuffer,
) -> Result<Values, Error> {
    if on != Rows::Needed {
        let value = evaluate_on(Rows::All, node, batch);
        if value.is_ok() || on == Rows::All {
            return value;
        }
    }
    let count = selected.count_set_bits();
    if count == batch.num_rows() {
        return evaluate_on(Rows::Needed, node, batch);
    }
    if count == 0 {
        return Ok(Values::Scalar(new_null_array(&node.data_type(), 1)));
    }
    let rows = filter_record_batch(batch, &BooleanArray::new(selected.clone(), None))?;
    let values = evaluate_on(Rows::Needed, node, &rows)?.into_array(count)?;
    let mut next = 0;
    let places = selected.iter().map(|is_selected| {
        is_selected.then(|| {
            next += 1;
            next - 1
        })
    });
    let places: UInt32Array = places.collect();
    Ok(Values::Array(arrow_select::take::take(&values, &places, None)?))
}

/// Returns the rows on which a condition is null or not `value`.
fn other_than(condition: &BooleanArray, value: bool) -> BooleanBuffer {
    let is_value = if value { condition.values().clone() } else { !condition.values() };
    match condition.nulls() {
        Some(valid) => !&(&is_value & valid.inner()),
        None => !&is_value,
    }
}

/// Evaluates AND or OR; the value `settled` decides the result regardless of later inputs.
fn chain(
    on: Rows,
    inputs: &[Node],
    batch: &RecordBatch,
    settled: bool,
    kernel: fn(&BooleanArray, &BooleanArray) -> Result<BooleanArray, ArrowError>,
) -> Result<Values, Error> {
    let rows = batch.num_rows();
    let Some((first, rest)) = inputs.split_first() else {
        return Ok(Values::Scalar(Arc::new(BooleanArray::from(vec![!settled]))));
    };
    let mut result = evaluate_on(on, first, batch)?.into_booleans(rows)?;
    for input in rest {
        let open = other_than(&result, settled);
        if open.count_set_bits() == 0 {
            break;
        }
        let next = evaluate_where(on, input, batch, &open)?.into_booleans(rows)?;
        result = kernel(&result, &next)?;
    }
    Ok(Values::Array(Arc::new(result)))
}

fn case(
    on: Rows,
    branches: &[(Node, Node)],
    otherwise: &Node,
    data_type: &DataType,
    batch: &RecordBatch,
) -> Result<Values, Error> {
    let rows = batch.num_rows();
    let mut open = BooleanBuffer::new_set(rows);
    let mut result: Option<ArrayRef> = None;
    for (condition, value) in branches {
        let condition = evaluate_where(on, condition, batch, &open)?.into_booleans(rows)?;
        let is_true = !&other_than(&condition, true);
        let chosen = &open & &is_true;
        if chosen.count_set_bits() == 0 {
            continue;
        }
        let value = evaluate_where(on, value, batch, &chosen)?;
        let mask = BooleanArray::new(chosen.clone(), None);
        let before = result.unwrap_or_else(|| new_null_array(data_type, rows));
        result = Some(zip(&mask, &value, &Values::Array(before))?);
        open = &open & &!&chosen;
    }
    if open.count_set_bits() > 0 {
        let value = evaluate_where(on, otherwise, batch, &open)?;
        let Some(before) = result else { return Ok(value) };
        result = Some(zip(&BooleanArray::new(open, None), &value, &Values::Array(before))?);
    }
    Ok(Values::Array(result.unwrap_or_else(|| new_null_array(data_type, rows))))
}

fn coalesce(on: Rows, inputs: &[Node], batch: &RecordBatch) -> Result<Values, Error> {
    let rows = batch.num_rows();
    let Some((first, rest)) = inputs.split_first() else {
        return Err(Error::Expression("coalesce needs an argument".into()));
    };
    let mut result = evaluate_on(on, first, batch)?.into_array(rows)?;
    for input in rest {
        let Some(valid) = result.logical_nulls().filter(|nulls| nulls.null_count() > 0) else { break };
        let value = evaluate_where(on, input, batch, &!valid.inner())?;
        result = zip(&BooleanArray::new(valid.into_inner(), None), &Values::Array(result), &value)?;
    }
    Ok(Values::Array(result))
}
