//! Operators whose inputs are all evaluated first, apart from the inputs: batches and rows share them.

use std::sync::Arc;

use arrow_arith::boolean::{is_not_null, is_null, not};
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use arrow_string::like;

use crate::node::{Comparison, Conversion, Function, Node, Test};
use crate::types::{Arithmetic, is_string};
use crate::values::{Values, unpacked};

use super::{arithmetic, compare, function};

/// An operator on values.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Cast { to: DataType, kind: Conversion },
    Arithmetic { operator: Arithmetic, to: DataType },
    Negate,
    Compare(Comparison),
    Not,
    Is { test: Test, negated: bool },
    Like { negated: bool, any_case: bool },
    Call { function: Function, to: DataType },
}

impl Operation {
    /// Returns the operator of an expression; `None` for columns, constants, and expressions that evaluate inputs as
    /// needed.
    pub(crate) fn of(node: &Node) -> Option<Operation> {
        Some(match node {
            Node::Cast { to, kind, .. } => Operation::Cast { to: to.clone(), kind: *kind },
            Node::Arithmetic { operator, data_type, .. } => {
                Operation::Arithmetic { operator: *operator, to: data_type.clone() }
            }
            Node::Negate(_) => Operation::Negate,
            Node::Compare { operator, .. } => Operation::Compare(*operator),
            Node::Not(_) => Operation::Not,
            Node::Is { test, negated, .. } => Operation::Is { test: *test, negated: *negated },
            Node::Like { negated, any_case, .. } => {
                Operation::Like { negated: *negated, any_case: *any_case }
            }
            Node::Call { function, data_type, .. } => {
                Operation::Call { function: *function, to: data_type.clone() }
            }
            Node::Column { .. }
            | Node::Literal(_)
            | Node::All(_)
            | Node::Any(_)
            | Node::Case { .. }
            | Node::Coalesce { .. } => return None,
        })
    }

    /// Applies the operator to the values of its inputs.
    ///
    /// # Panics
    /// If inputs are missing or of types for which the operator was not bound.
    pub(crate) fn apply(&self, inputs: &[Values]) -> Result<Values, ArrowError> {
        let result: ArrayRef = match self {
            Operation::Cast { to, kind } => return inputs[0].map(|array| cast(array, to, *kind)),
            Operation::Arithmetic { operator, to } => {
                arithmetic::compute(*operator, &inputs[0], &inputs[1], to)?
            }
            Operation::Negate => return inputs[0].map(|array| arrow_arith::numeric::neg(array)),
            Operation::Compare(operator) => Arc::new(compare::compare(*operator, &inputs[0], &inputs[1])?),
            Operation::Not => {
                return inputs[0].map(|array| Ok(Arc::new(not(array.as_boolean())?) as ArrayRef));
            }
            Operation::Is { test, negated } => return inputs[0].map(|array| is(array, *test, *negated)),
            Operation::Like { negated, any_case } => {
                let kernel = match (negated, any_case) {
                    (false, false) => like::like,
                    (true, false) => like::nlike,
                    (false, true) => like::ilike,
                    (true, true) => like::nilike,
                };
                Arc::new(kernel(&inputs[0], &inputs[1])?)
            }
            Operation::Call { function, to } => function::call(*function, inputs, to)?,
        };
        Ok(Values::from_kernel(result, &inputs.iter().collect::<Vec<_>>()))
    }
}

fn cast(array: &ArrayRef, to: &DataType, kind: Conversion) -> Result<ArrayRef, ArrowError> {
    if let Some(same) = arithmetic::relabelled(array, to) {
        return Ok(same);
    }
    let options = CastOptions { safe: kind == Conversion::TryCast, ..CastOptions::default() };
    match array.data_type() {
        // The library casts all values of the dictionary, and fails if a value cannot be cast that no row has.
        DataType::Dictionary(_, values) if is_string(values) => {
            return cast_with_options(array, to, &options).or_else(|_| cast(&unpacked(array)?, to, kind));
        }
        // Other values need the checks below.
        DataType::Dictionary(..) => return cast(&unpacked(array)?, to, kind),
        _ => {}
    }
    if to.is_integer()
        && let Some(whole) = whole(array)?
    {
        return cast_with_options(&whole, to, &options);
    }
    if *array.data_type() == DataType::Date64 && matches!(to, DataType::Timestamp(..)) {
        // The library does not check this multiplication, but that of timestamps.
        let milliseconds =
            cast_with_options(array, &DataType::Timestamp(TimeUnit::Millisecond, None), &options)?;
        return cast_with_options(&milliseconds, to, &options);
    }
    cast_with_options(array, to, &options)
}

/// Rounds floats half to even and decimals half away from zero, as PostgreSQL does before it casts them to integers: the
/// library cuts their digits off. `None` for other types.
fn whole(array: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    let to = match *array.data_type() {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => DataType::Float64,
        DataType::Decimal32(precision, 1..) => DataType::Decimal32(precision, 0),
        DataType::Decimal64(precision, 1..) => DataType::Decimal64(precision, 0),
        DataType::Decimal128(precision, 1..) => DataType::Decimal128(precision, 0),
        DataType::Decimal256(precision, 1..) => DataType::Decimal256(precision, 0),
        _ => return Ok(None),
    };
    let array = cast_with_options(array, &to, &CastOptions { safe: false, ..CastOptions::default() })?;
    Ok(Some(match to {
        DataType::Float64 => {
            let floats = array.as_primitive::<Float64Type>();
            Arc::new(floats.unary::<_, Float64Type>(f64::round_ties_even))
        }
        _ => array,
    }))
}

fn is(array: &ArrayRef, test: Test, negated: bool) -> Result<ArrayRef, ArrowError> {
    let values = || {
        let array = array.as_boolean();
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
