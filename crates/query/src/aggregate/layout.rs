//! Maps aggregates to states, which several aggregates may share.

use arrow_schema::DataType;

use sakiyomi_expression::Expression;

use super::plan::{Aggregate, Aggregation, Function, SUM_DIGITS_EXTRA};
use super::types::flat;

/// Maximum precision of values whose sum over 10^10 rows fits 128 bits.
const NARROW_SUM_DIGITS_MAX: u8 = 38 - SUM_DIGITS_EXTRA;

/// The kind of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The number of rows, or of values that are not null.
    Count,
    /// The number of distinct values of an argument, which is computed separately and added at the end.
    Distinct(usize),
    /// A sum of integers, or of unscaled decimals.
    Sum,
    /// A sum that needs 256 bits.
    WideSum,
    FloatSum,
    /// The minimum or maximum of values mapped to 64-bit integers.
    Extreme {
        is_max: bool,
    },
    /// The minimum or maximum of 128-bit integers.
    WideExtreme {
        is_max: bool,
    },
    /// The minimum or maximum of bytes in Arrow's row format.
    ByteExtreme {
        is_max: bool,
    },
}

/// A state and its argument; `None` counts rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) kind: Kind,
    pub(crate) argument: Option<usize>,
}

/// The computation of a result from states.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Output {
    State(usize),
    /// A state that is null if the count in another state is 0.
    IfAny(usize, usize),
    /// A sum divided by a count.
    Average(usize, usize),
}

/// The states of an aggregation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    /// Distinct arguments of all aggregates.
    pub(crate) arguments: Vec<Expression>,
    pub(crate) specs: Vec<Spec>,
    pub(crate) outputs: Vec<Output>,
    /// Arguments whose distinct values are counted.
    pub(crate) distinct: Vec<usize>,
    names: Vec<String>,
}

impl Layout {
    pub(crate) fn new(aggregation: &Aggregation) -> Layout {
        let mut layout = Layout::default();
        for aggregate in aggregation.aggregates() {
            let output = layout.add(aggregate);
            layout.outputs.push(output);
        }
        layout
    }

    fn add(&mut self, aggregate: &Aggregate) -> Output {
        let Some(expression) = aggregate.argument() else {
            return Output::State(self.state(Kind::Count, None));
        };
        let data_type = expression.data_type();
        let data_type = flat(&data_type);
        let argument = self.argument(expression);
        let counted = if expression.nullable() { Some(argument) } else { None };
        match aggregate.function() {
            Function::Count => Output::State(self.state(Kind::Count, counted)),
            Function::CountDistinct => {
                let known = self.distinct.iter().position(|&known| known == argument);
                let place = known.unwrap_or_else(|| {
                    self.distinct.push(argument);
                    self.distinct.len() - 1
                });
                Output::State(self.state(Kind::Distinct(place), None))
            }
            Function::Sum => {
                let sum = self.state(sum_kind(data_type), Some(argument));
                Output::IfAny(sum, self.state(Kind::Count, counted))
            }
            Function::Avg => {
                let sum = self.state(sum_kind(data_type), Some(argument));
                Output::Average(sum, self.state(Kind::Count, counted))
            }
            function @ (Function::Min | Function::Max) => {
                let extreme = self.state(extreme_kind(data_type, function == Function::Max), Some(argument));
                Output::IfAny(extreme, self.state(Kind::Count, counted))
            }
        }
    }

    fn argument(&mut self, expression: &Expression) -> usize {
        // Not as it is printed, which leaves out conversions.
        let name = format!("{expression:?}");
        let known = self.names.iter().position(|known| *known == name);
        known.unwrap_or_else(|| {
            self.names.push(name);
            self.arguments.push(expression.clone());
            self.arguments.len() - 1
        })
    }

    fn state(&mut self, kind: Kind, argument: Option<usize>) -> usize {
        let spec = Spec { kind, argument };
        let known = self.specs.iter().position(|known| *known == spec);
        known.unwrap_or_else(|| {
            self.specs.push(spec);
            self.specs.len() - 1
        })
    }
}

fn sum_kind(data_type: &DataType) -> Kind {
    match *data_type {
        DataType::Decimal32(precision, _)
        | DataType::Decimal64(precision, _)
        | DataType::Decimal128(precision, _)
            if precision <= NARROW_SUM_DIGITS_MAX =>
        {
            Kind::Sum
        }
        DataType::Decimal128(..) | DataType::Decimal256(..) => Kind::WideSum,
        ref other if other.is_integer() => Kind::Sum,
        _ => Kind::FloatSum,
    }
}

fn extreme_kind(data_type: &DataType, is_max: bool) -> Kind {
    match data_type {
        DataType::Decimal128(..) => Kind::WideExtreme { is_max },
        DataType::Decimal256(..) | DataType::Interval(_) => Kind::ByteExtreme { is_max },
        DataType::Boolean => Kind::Extreme { is_max },
        other if other.is_primitive() => Kind::Extreme { is_max },
        _ => Kind::ByteExtreme { is_max },
    }
}
