//! Evaluates bound expressions on batches with Arrow's kernels.
//!
//! AND, OR, CASE and coalesce report errors only from rows that need an input. They evaluate it on all rows, which
//! needs no copies, and if that fails, on the needed rows alone. `b <> 0 AND a / b > 1` never divides by zero. The
//! outermost of them decides for its whole input, so that each node is evaluated at most twice on a batch.

mod arithmetic;
mod compare;
mod function;

use std::sync::Arc;

use arrow_arith::boolean::{and_kleene, is_not_null, is_null, not, or_kleene};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use arrow_select::filter::filter_record_batch;
use arrow_select::zip::zip;
use arrow_string::like;

use crate::Error;

use super::node::{Conversion, Node, Test};
use super::parse::shortened;
use super::value::Value;

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
pub(crate) fn evaluate(node: &Node, batch: &RecordBatch) -> Result<Value, Error> {
    evaluate_on(Rows::Either, node, batch)
}

fn evaluate_on(on: Rows, node: &Node, batch: &RecordBatch) -> Result<Value, Error> {
    let evaluate = |node: &Node, batch| evaluate_on(on, node, batch);
    match node {
        Node::Column { place, name, data_type, .. } => column(batch, *place, name, data_type),
        Node::Literal(literal) => Ok(Value::Scalar(literal.value.clone())),
        Node::Cast { input, to, kind } => {
            let input = evaluate(input, batch)?;
            input.map(|array| cast(array, to, *kind)).map_err(|error| named(node, error))
        }
        Node::Arithmetic { operator, left, right, data_type } => {
            let (left, right) = (evaluate(left, batch)?, evaluate(right, batch)?);
            let result = arithmetic::compute(*operator, &left, &right, data_type);
            Ok(Value::from_kernel(result.map_err(|error| named(node, error))?, &[&left, &right]))
        }
        Node::Negate(input) => {
            let input = evaluate(input, batch)?;
            input.map(|array| arrow_arith::numeric::neg(array)).map_err(|error| named(node, error))
        }
        Node::Compare { operator, left, right } => {
            let (left, right) = (evaluate(left, batch)?, evaluate(right, batch)?);
            let result = compare::compare(*operator, &left, &right).map_err(|error| named(node, error))?;
            Ok(Value::from_kernel(Arc::new(result), &[&left, &right]))
        }
        Node::All(inputs) => chain(on, inputs, batch, false, and_kleene),
        Node::Any(inputs) => chain(on, inputs, batch, true, or_kleene),
        Node::Not(input) => {
            let input = evaluate(input, batch)?;
            Ok(input.map(|array| not(&booleans(array)).map(|result| Arc::new(result) as ArrayRef))?)
        }
        Node::Is { input, test, negated } => {
            let input = evaluate(input, batch)?;
            Ok(input.map(|array| is(array, *test, *negated))?)
        }
        Node::Like { input, pattern, negated, any_case } => {
            let (input, pattern) = (evaluate(input, batch)?, evaluate(pattern, batch)?);
            let kernel = match (negated, any_case) {
                (false, false) => like::like,
                (true, false) => like::nlike,
                (false, true) => like::ilike,
                (true, true) => like::nilike,
            };
            let result = kernel(&input, &pattern).map_err(|error| named(node, error))?;
            Ok(Value::from_kernel(Arc::new(result), &[&input, &pattern]))
        }
        Node::Case { branches, otherwise, data_type } => case(on, branches, otherwise, data_type, batch),
        Node::Coalesce { inputs, .. } => coalesce(on, inputs, batch),
        Node::Call { function, arguments, data_type } => {
            let values = arguments.iter().map(|argument| evaluate(argument, batch));
            let values = values.collect::<Result<Vec<Value>, Error>>()?;
            let result = function::call(*function, &values, data_type).map_err(|error| named(node, error))?;
            Ok(Value::from_kernel(result, &values.iter().collect::<Vec<_>>()))
        }
    }
}

/// Converts an error to one that names the failed subexpression.
fn named(node: &Node, error: ArrowError) -> Error {
    let reason = match error {
        ArrowError::DivideByZero => "division by zero".to_owned(),
        ArrowError::ArithmeticOverflow(_) => format!("a result does not fit {}", node.data_type()),
        ArrowError::CastError(reason)
        | ArrowError::ComputeError(reason)
        | ArrowError::ParseError(reason)
        | ArrowError::InvalidArgumentError(reason) => reason,
        other => other.to_string(),
    };
    Error::Query(format!("{}: {reason}", shortened(&node.to_string())))
}

fn column(batch: &RecordBatch, place: usize, name: &str, data_type: &DataType) -> Result<Value, Error> {
    match batch.columns().get(place) {
        Some(array) if array.data_type() == data_type => Ok(Value::Array(array.clone())),
        Some(array) => {
            let found = array.data_type();
            Err(Error::Query(format!("column {name} is of type {found} where {data_type} was expected")))
        }
        None => Err(Error::Query(format!("column {name} is missing in a batch"))),
    }
}

fn booleans(array: &ArrayRef) -> BooleanArray {
    use arrow_array::cast::AsArray;
    array.as_boolean().clone()
}

fn cast(array: &ArrayRef, to: &DataType, kind: Conversion) -> Result<ArrayRef, ArrowError> {
    if let Some(same) = arithmetic::relabelled(array, to) {
        return Ok(same);
    }
    let options = CastOptions { safe: kind == Conversion::TryCast, ..CastOptions::default() };
    if *array.data_type() == DataType::Date64 && matches!(to, DataType::Timestamp(..)) {
        // The library does not check this multiplication, but that of timestamps.
        let milliseconds =
            cast_with_options(array, &DataType::Timestamp(TimeUnit::Millisecond, None), &options)?;
        return cast_with_options(&milliseconds, to, &options);
    }
    cast_with_options(array, to, &options)
}

fn is(array: &ArrayRef, test: Test, negated: bool) -> Result<ArrayRef, ArrowError> {
    let values = || {
        let array = booleans(array);
        let valid = array.nulls().map(|nulls| nulls.inner().clone());
        let values = if test == Test::True { array.values().clone() } else { !array.values() };
        valid.map_or(values.clone(), |valid| &values & &valid)
    };
    let result = match (test, negated) {
        (Test::Null, false) => is_null(array)?,
        (Test::Null, true) => is_not_null(array)?,
        (_, false) => BooleanArray::new(values(), None),
        (_, true) => BooleanArray::new(!&values(), None),
    };
    Ok(Arc::new(result))
}

/// Evaluates an expression on the selected rows; values of other rows are unspecified.
fn evaluate_where(
    on: Rows,
    node: &Node,
    batch: &RecordBatch,
    selected: &BooleanBuffer,
) -> Result<Value, Error> {
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
        return Ok(Value::Scalar(new_null_array(&node.data_type(), 1)));
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
    Ok(Value::Array(arrow_select::take::take(&values, &places, None)?))
}

/// Rows on which a condition is null or not `value`.
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
) -> Result<Value, Error> {
    let rows = batch.num_rows();
    let Some((first, rest)) = inputs.split_first() else {
        return Ok(Value::Scalar(Arc::new(BooleanArray::from(vec![!settled]))));
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
    Ok(Value::Array(Arc::new(result)))
}

fn case(
    on: Rows,
    branches: &[(Node, Node)],
    otherwise: &Node,
    data_type: &DataType,
    batch: &RecordBatch,
) -> Result<Value, Error> {
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
        result = Some(zip(&mask, &value, &Value::Array(before))?);
        open = &open & &!&chosen;
    }
    if open.count_set_bits() > 0 {
        let value = evaluate_where(on, otherwise, batch, &open)?;
        let Some(before) = result else { return Ok(value) };
        result = Some(zip(&BooleanArray::new(open, None), &value, &Value::Array(before))?);
    }
    Ok(Value::Array(result.unwrap_or_else(|| new_null_array(data_type, rows))))
}

fn coalesce(on: Rows, inputs: &[Node], batch: &RecordBatch) -> Result<Value, Error> {
    let rows = batch.num_rows();
    let Some((first, rest)) = inputs.split_first() else {
        return Err(Error::Query("coalesce needs an argument".into()));
    };
    let mut result = evaluate_on(on, first, batch)?.into_array(rows)?;
    for input in rest {
        let Some(valid) = result.logical_nulls().filter(|nulls| nulls.null_count() > 0) else { break };
        let value = evaluate_where(on, input, batch, &!valid.inner())?;
        result = zip(&BooleanArray::new(valid.into_inner(), None), &Value::Array(result), &value)?;
    }
    Ok(Value::Array(result))
}
