//! Bound expressions: trees with resolved names, types and conversions.

use std::collections::BTreeSet;

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use super::types::Arithmetic;

/// An expression over the columns of a schema.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Column {
        place: usize,
        name: String,
        data_type: DataType,
        nullable: bool,
    },
    Literal(Literal),
    Cast {
        input: Box<Node>,
        to: DataType,
        kind: Conversion,
    },
    Arithmetic {
        operator: Arithmetic,
        left: Box<Node>,
        right: Box<Node>,
        data_type: DataType,
    },
    Negate(Box<Node>),
    Compare {
        operator: Comparison,
        left: Box<Node>,
        right: Box<Node>,
    },
    /// AND of all, from left to right.
    All(Vec<Node>),
    /// OR of all, from left to right.
    Any(Vec<Node>),
    Not(Box<Node>),
    /// `IS [NOT] NULL|TRUE|FALSE`; the result is never null.
    Is {
        input: Box<Node>,
        test: Test,
        negated: bool,
    },
    Like {
        input: Box<Node>,
        pattern: Box<Node>,
        negated: bool,
        any_case: bool,
    },
    /// The result of the first branch whose condition is true, else `otherwise`.
    Case {
        branches: Vec<(Node, Node)>,
        otherwise: Box<Node>,
        data_type: DataType,
    },
    /// The first value that is not null.
    Coalesce {
        inputs: Vec<Node>,
        data_type: DataType,
    },
    Call {
        function: Function,
        arguments: Vec<Node>,
        data_type: DataType,
    },
}

/// A constant: an array of one row.
#[derive(Clone, Debug)]
pub(crate) struct Literal {
    pub(crate) value: ArrayRef,
    /// Whether the constant is a string literal, which takes the type of the other operand.
    pub(crate) untyped: bool,
}

/// The origin of a conversion, and the result for values that cannot be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Added for an operator. An unconvertible value is an error.
    Implicit,
    /// `CAST`. An unconvertible value is an error.
    Cast,
    /// `TRY_CAST`. An unconvertible value becomes null.
    TryCast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Distinct,
    NotDistinct,
}

impl Comparison {
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Distinct => "IS DISTINCT FROM",
            Comparison::NotDistinct => "IS NOT DISTINCT FROM",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Null,
    True,
    False,
}

/// Functions whose result is null if any argument is null, except `NullIf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Abs,
    Ceil,
    Floor,
    Lower,
    Upper,
    Length,
    Substring,
    Trim,
    Concat,
    StartsWith,
    EndsWith,
    Contains,
    Extract(Part),
    /// Null where both arguments are equal, else the first.
    NullIf,
}

/// A part of a date or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    DayOfWeek,
    DayOfYear,
    Hour,
    Minute,
    Second,
}

impl Part {
    /// All parts, with their names in SQL.
    pub(crate) const NAMES: [(&'static str, Part); 10] = [
        ("year", Part::Year),
        ("quarter", Part::Quarter),
        ("month", Part::Month),
        ("week", Part::Week),
        ("day", Part::Day),
        ("dow", Part::DayOfWeek),
        ("doy", Part::DayOfYear),
        ("hour", Part::Hour),
        ("minute", Part::Minute),
        ("second", Part::Second),
    ];

    pub(crate) fn name(self) -> &'static str {
        Part::NAMES.iter().find(|(_, part)| *part == self).map_or("year", |(name, _)| name)
    }
}

impl Function {
    /// Functions called by name, with the minimum and maximum number of arguments.
    pub(crate) const NAMES: [(&'static str, Function, [usize; 2]); 16] = [
        ("abs", Function::Abs, [1, 1]),
        ("ceil", Function::Ceil, [1, 1]),
        ("ceiling", Function::Ceil, [1, 1]),
        ("floor", Function::Floor, [1, 1]),
        ("lower", Function::Lower, [1, 1]),
        ("upper", Function::Upper, [1, 1]),
        ("length", Function::Length, [1, 1]),
        ("char_length", Function::Length, [1, 1]),
        ("substring", Function::Substring, [2, 3]),
        ("substr", Function::Substring, [2, 3]),
        ("trim", Function::Trim, [1, 1]),
        ("starts_with", Function::StartsWith, [2, 2]),
        ("ends_with", Function::EndsWith, [2, 2]),
        ("contains", Function::Contains, [2, 2]),
        ("nullif", Function::NullIf, [2, 2]),
        ("date_part", Function::Extract(Part::Year), [2, 2]),
    ];

    pub(crate) fn name(self) -> &'static str {
        Function::NAMES.iter().find(|(_, function, _)| *function == self).map_or("extract", |(name, ..)| name)
    }
}

impl Node {
    pub(crate) fn data_type(&self) -> DataType {
        match self {
            Node::Column { data_type, .. }
            | Node::Cast { to: data_type, .. }
            | Node::Arithmetic { data_type, .. }
            | Node::Case { data_type, .. }
            | Node::Coalesce { data_type, .. }
            | Node::Call { data_type, .. } => data_type.clone(),
            Node::Literal(literal) => literal.value.data_type().clone(),
            Node::Negate(input) => input.data_type(),
            Node::Compare { .. }
            | Node::All(_)
            | Node::Any(_)
            | Node::Not(_)
            | Node::Is { .. }
            | Node::Like { .. } => DataType::Boolean,
        }
    }

    pub(crate) fn nullable(&self) -> bool {
        match self {
            Node::Column { nullable, .. } => *nullable,
            Node::Literal(literal) => literal.is_null(),
            Node::Cast { kind: Conversion::TryCast, .. } | Node::Call { function: Function::NullIf, .. } => {
                true
            }
            Node::Is { .. }
            | Node::Compare { operator: Comparison::Distinct | Comparison::NotDistinct, .. } => false,
            Node::Case { branches, otherwise, .. } => {
                otherwise.nullable() || branches.iter().any(|(_, result)| result.nullable())
            }
            Node::Coalesce { inputs, .. } => inputs.iter().all(Node::nullable),
            other => other.inputs().into_iter().any(Node::nullable),
        }
    }

    /// Returns the operands.
    pub(crate) fn inputs(&self) -> Vec<&Node> {
        match self {
            Node::Column { .. } | Node::Literal(_) => Vec::new(),
            Node::Cast { input, .. } | Node::Negate(input) | Node::Not(input) | Node::Is { input, .. } => {
                vec![&**input]
            }
            Node::Arithmetic { left, right, .. }
            | Node::Compare { left, right, .. }
            | Node::Like { input: left, pattern: right, .. } => vec![&**left, &**right],
            Node::All(inputs) | Node::Any(inputs) | Node::Coalesce { inputs, .. } => inputs.iter().collect(),
            Node::Call { arguments, .. } => arguments.iter().collect(),
            Node::Case { branches, otherwise, .. } => {
                let branches = branches.iter().flat_map(|(condition, result)| [condition, result]);
                branches.chain([&**otherwise]).collect()
            }
        }
    }

    /// Adds the indices of the columns used.
    pub(crate) fn add_columns(&self, columns: &mut BTreeSet<usize>) {
        if let Node::Column { place, .. } = self {
            columns.insert(*place);
        }
        self.inputs().into_iter().for_each(|input| input.add_columns(columns));
    }

    /// Replaces every column index by `to(index)`.
    pub(crate) fn move_columns(&mut self, to: &dyn Fn(usize) -> usize) {
        match self {
            Node::Column { place, .. } => *place = to(*place),
            Node::Literal(_) => {}
            Node::Cast { input, .. } | Node::Negate(input) | Node::Not(input) | Node::Is { input, .. } => {
                input.move_columns(to);
            }
            Node::Arithmetic { left, right, .. }
            | Node::Compare { left, right, .. }
            | Node::Like { input: left, pattern: right, .. } => {
                left.move_columns(to);
                right.move_columns(to);
            }
            Node::All(inputs)
            | Node::Any(inputs)
            | Node::Coalesce { inputs, .. }
            | Node::Call { arguments: inputs, .. } => {
                inputs.iter_mut().for_each(|input| input.move_columns(to))
            }
            Node::Case { branches, otherwise, .. } => {
                for (condition, result) in branches {
                    condition.move_columns(to);
                    result.move_columns(to);
                }
                otherwise.move_columns(to);
            }
        }
    }

    pub(crate) fn as_literal(&self) -> Option<&Literal> {
        match self {
            Node::Literal(literal) => Some(literal),
            _ => None,
        }
    }
}

impl Literal {
    pub(crate) fn is_null(&self) -> bool {
        self.value.is_null(0) || *self.value.data_type() == DataType::Null
    }
}
