//! Groups of rows that a condition excludes, by the bounds of their columns (pure).
//!
//! A condition is interpreted once for all groups: for each of them, whether it may be true, and whether it may be false,
//! on some row (zone maps: Moerkotte, "Small materialized aggregates", VLDB 1998). Comparisons are evaluated on the bounds
//! by the same code as on rows. A group is excluded only if the condition cannot be true on any of its rows.

use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use crate::bound::Expression;
use crate::evaluate::evaluate;
use crate::node::{Comparison, Conversion, Literal, Node, Test};

/// Bounds of the columns of some groups of rows.
#[derive(Clone, Debug)]
pub struct GroupBounds {
    /// A lower bound of each column, a row for each group; null if unknown.
    pub min: RecordBatch,
    /// An upper bound of each column, a row for each group; null if unknown.
    pub max: RecordBatch,
    /// Nulls of each column in each group.
    pub nulls: Vec<Vec<Nulls>>,
}

/// Nulls of a column in a group of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// No value is null.
    None,
    /// Some values may be null.
    Unknown,
    /// All values are null.
    All,
}

impl Expression {
    /// For each group, whether the condition may be true on one of its rows.
    #[must_use]
    pub fn may_select(&self, bounds: &GroupBounds) -> Vec<bool> {
        possible(self.node(), bounds).can_be_true
    }
}

/// The values that a condition may have on the rows of each group, besides null.
#[derive(Clone, Debug)]
struct Possible {
    can_be_true: Vec<bool>,
    can_be_false: Vec<bool>,
}

impl Possible {
    fn all(groups: usize, can_be_true: bool, can_be_false: bool) -> Possible {
        Possible { can_be_true: vec![can_be_true; groups], can_be_false: vec![can_be_false; groups] }
    }

    fn not(self) -> Possible {
        Possible { can_be_true: self.can_be_false, can_be_false: self.can_be_true }
    }

    fn not_if(self, negated: bool) -> Possible {
        if negated { self.not() } else { self }
    }

    fn and(self, other: &Possible) -> Possible {
        Possible {
            can_be_true: zip(&self.can_be_true, &other.can_be_true, |a, b| a && b),
            can_be_false: zip(&self.can_be_false, &other.can_be_false, |a, b| a || b),
        }
    }
}

fn zip(left: &[bool], right: &[bool], of: impl Fn(bool, bool) -> bool) -> Vec<bool> {
    left.iter().zip(right).map(|(&left, &right)| of(left, right)).collect()
}

fn possible(node: &Node, bounds: &GroupBounds) -> Possible {
    let groups = bounds.min.num_rows();
    match node {
        Node::All(inputs) => {
            let inputs = inputs.iter().map(|input| possible(input, bounds));
            inputs.fold(Possible::all(groups, true, false), |all, input| all.and(&input))
        }
        Node::Any(inputs) => {
            // De Morgan: the negation of AND over the negated inputs.
            let inputs = inputs.iter().map(|input| possible(input, bounds).not());
            inputs.fold(Possible::all(groups, true, false), |all, input| all.and(&input)).not()
        }
        Node::Not(input) => possible(input, bounds).not(),
        Node::Is { input, test: Test::Null, negated } => match ordered_column(input) {
            Some(place) => is_null(&bounds.nulls[place]).not_if(*negated),
            None => Possible::all(groups, true, true),
        },
        Node::Is { input, test, negated } => {
            let input = possible(input, bounds);
            let is = if *test == Test::True { input.can_be_true } else { input.can_be_false };
            Possible { can_be_true: is, can_be_false: vec![true; groups] }.not_if(*negated)
        }
        Node::Compare { operator, left, right } => {
            compare(*operator, left, right, bounds).unwrap_or_else(|| Possible::all(groups, true, true))
        }
        _ => Possible::all(groups, true, true),
    }
}

fn is_null(nulls: &[Nulls]) -> Possible {
    Possible {
        can_be_true: nulls.iter().map(|&nulls| nulls != Nulls::None).collect(),
        can_be_false: nulls.iter().map(|&nulls| nulls != Nulls::All).collect(),
    }
}

/// Returns the column whose order an expression keeps: the column itself, or a cast that keeps its order.
fn ordered_column(node: &Node) -> Option<usize> {
    match node {
        Node::Column { data_type, place, .. } if !is_unordered(data_type) => Some(*place),
        Node::Cast { input, to, kind: Conversion::Implicit | Conversion::Cast } => {
            let place = ordered_column(input)?;
            keeps_order(&input.data_type(), to).then_some(place)
        }
        _ => None,
    }
}

/// Returns whether bounds of a type are unknown: those of floats exclude NaN.
fn is_unordered(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => value.is_floating(),
        other => other.is_floating() || other.is_nested(),
    }
}

/// Returns whether a cast never reverses the order of two values.
fn keeps_order(from: &DataType, to: &DataType) -> bool {
    let is_time = |data_type: &DataType| {
        matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None))
    };
    match (from, to) {
        (DataType::Dictionary(_, value), to) if **value == *to => true,
        (from, to) => (from.is_numeric() && to.is_numeric()) || (is_time(from) && is_time(to)),
    }
}

/// Returns the possible values of a comparison of a column with a constant; `None` if it is something else.
fn compare(operator: Comparison, left: &Node, right: &Node, bounds: &GroupBounds) -> Option<Possible> {
    let (column, operand, constant, operator) = match (ordered_column(left), ordered_column(right)) {
        (Some(column), None) => (column, left, right.as_literal()?, operator),
        (None, Some(column)) => (column, right, left.as_literal()?, mirrored(operator)),
        _ => return None,
    };
    let groups = bounds.min.num_rows();
    if constant.is_null() {
        return Some(Possible::all(groups, false, false));
    }
    let on = |operator, batch: &RecordBatch| evaluated(operator, operand, constant, batch);
    let (min, max) = (&bounds.min, &bounds.max);
    let mut possible = match operator {
        Comparison::Less | Comparison::LessOrEqual => ordered(on(operator, min), on(operator, max)),
        Comparison::Greater | Comparison::GreaterOrEqual => ordered(on(operator, max), on(operator, min)),
        Comparison::Equal | Comparison::NotEqual => {
            let from = ordered(on(Comparison::LessOrEqual, min), on(Comparison::Equal, min));
            let to = ordered(on(Comparison::GreaterOrEqual, max), on(Comparison::Equal, max));
            from.and(&to).not_if(operator == Comparison::NotEqual)
        }
        Comparison::Distinct | Comparison::NotDistinct => return None,
    };
    // A comparison with null is null.
    let has_values: Vec<bool> = bounds.nulls[column].iter().map(|&nulls| nulls != Nulls::All).collect();
    possible.can_be_true = zip(&possible.can_be_true, &has_values, |a, b| a && b);
    possible.can_be_false = zip(&possible.can_be_false, &has_values, |a, b| a && b);
    Some(possible)
}

/// Returns the possible values of an order comparison, from its value at the bound where it is most and least likely.
fn ordered(most_likely: Vec<Option<bool>>, least_likely: Vec<Option<bool>>) -> Possible {
    Possible {
        can_be_true: most_likely.into_iter().map(|value| value != Some(false)).collect(),
        can_be_false: least_likely.into_iter().map(|value| value != Some(true)).collect(),
    }
}

/// Returns the operator for exchanged operands.
fn mirrored(operator: Comparison) -> Comparison {
    match operator {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        other => other,
    }
}

/// Returns a comparison on a bound of each group; unknown without a bound, and where it cannot be evaluated.
fn evaluated(
    operator: Comparison,
    operand: &Node,
    constant: &Literal,
    bounds: &RecordBatch,
) -> Vec<Option<bool>> {
    let (left, right) = (Box::new(operand.clone()), Box::new(Node::Literal(constant.clone())));
    let groups = bounds.num_rows();
    let values = evaluate(&Node::Compare { operator, left, right }, bounds);
    let Some(values) = values.ok().and_then(|value| value.into_booleans(groups).ok()) else {
        return vec![None; groups];
    };
    (0..groups).map(|at| values.is_valid(at).then(|| values.value(at))).collect()
}
