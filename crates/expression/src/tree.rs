//! Bound expressions as trees for other engines: names, types and conversions are resolved, so that an interpreter needs
//! no rules of SQL.
//!
//! Types are those that have a name in [`type_name`]. An expression of another type, or an operator that an interpreter
//! could hardly give the same values for (patterns of any case, weeks, casts of texts to floats and times), is refused.

use arrow_array::cast::AsArray;
use arrow_schema::{DataType, TimeUnit};
use serde::Serialize;

use crate::node::{Comparison, Conversion, Function, Literal, Node, Part, Test};
use crate::parse::shortened;
use crate::row::Value;
use crate::types::Arithmetic;
use crate::{Error, Expression};

/// An expression: an operator with its operands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tree {
    /// The operator: `column`, `literal`, `add`, `<=`, `cast`, `lower`, `year`, …
    pub op: &'static str,
    /// The type of its values; see [`type_name`].
    #[serde(rename = "type")]
    pub data_type: &'static str,
    /// Index of a `column`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// Value of a `literal` that is not null, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The operands. A `case` has a condition and a result in turn, and at last the result without a condition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Tree>,
    /// The expression as SQL, for errors.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sql: String,
}

/// Returns the name of a type in trees; none of a type that trees do not have.
///
/// | name | value |
/// |---|---|
/// | `null` | null |
/// | `bool` | a boolean |
/// | `int8` to `int64`, `uint8` to `uint32` | an integer of 64 bits in the range of the type |
/// | `float64` | a float |
/// | `text` | a string |
/// | `date` | days since 1970-01-01 |
/// | `timestamp(s)`, `(ms)`, `(us)`, `(ns)` | units since 1970-01-01 UTC |
#[must_use]
pub fn type_name(data_type: &DataType) -> Option<&'static str> {
    Some(match data_type {
        DataType::Null => "null",
        DataType::Boolean => "bool",
        DataType::Int8 => "int8",
        DataType::Int16 => "int16",
        DataType::Int32 => "int32",
        DataType::Int64 => "int64",
        DataType::UInt8 => "uint8",
        DataType::UInt16 => "uint16",
        DataType::UInt32 => "uint32",
        DataType::Float64 => "float64",
        DataType::Utf8 => "text",
        DataType::Date32 => "date",
        DataType::Timestamp(TimeUnit::Second, None) => "timestamp(s)",
        DataType::Timestamp(TimeUnit::Millisecond, None) => "timestamp(ms)",
        DataType::Timestamp(TimeUnit::Microsecond, None) => "timestamp(us)",
        DataType::Timestamp(TimeUnit::Nanosecond, None) => "timestamp(ns)",
        _ => return None,
    })
}

impl Expression {
    /// Returns the expression as a tree.
    ///
    /// # Errors
    /// [`Error::Expression`] names the first subexpression that trees do not have.
    pub fn tree(&self) -> Result<Tree, Error> {
        tree(self.node())
    }
}

fn tree(node: &Node) -> Result<Tree, Error> {
    let refused = |reason: String| {
        Error::Expression(format!("{} cannot be exported: {reason}", shortened(&node.to_string())))
    };
    let data_type = node.data_type();
    let Some(data_type) = type_name(&data_type) else {
        return Err(refused(format!("it is of type {data_type}")));
    };
    let op = operator(node).map_err(refused)?;
    let inputs = node.inputs().into_iter().map(tree).collect::<Result<_, _>>()?;
    let (column, value) = match node {
        Node::Column { place, .. } => (Some(*place), None),
        Node::Literal(literal) => (None, text(literal)),
        _ => (None, None),
    };
    let is_leaf = matches!(node, Node::Column { .. } | Node::Literal(_));
    let sql = if is_leaf { String::new() } else { shortened(&node.to_string()) };
    let made = Tree { op, data_type, column, value, inputs, sql };
    let is_negated = matches!(node, Node::Is { negated: true, .. } | Node::Like { negated: true, .. });
    Ok(if is_negated { made.negated() } else { made })
}

impl Tree {
    fn negated(self) -> Tree {
        let sql = self.sql.clone();
        Tree { op: "not", data_type: "bool", column: None, value: None, inputs: vec![self], sql }
    }
}

/// Returns the value of a constant as text; none if it is null.
fn text(literal: &Literal) -> Option<String> {
    match Value::of(&literal.value, 0) {
        Value::Bool(value) => Some(value.to_string()),
        Value::Int(value) => Some(value.to_string()),
        Value::Float(value) if value.is_infinite() => {
            Some(if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned())
        }
        Value::Float(value) => Some(format!("{value:?}")),
        Value::Text(_) => Some(literal.value.as_string::<i32>().value(0).to_owned()),
        _ => None,
    }
}

/// Returns the name of an operator, or why there is none.
fn operator(node: &Node) -> Result<&'static str, String> {
    let number = |data_type: &DataType| match data_type {
        DataType::Int64 | DataType::Float64 => Ok(()),
        other => Err(format!("it computes with values of type {other}; cast them to int64 or float64")),
    };
    Ok(match node {
        Node::Column { .. } => "column",
        Node::Literal(_) => "literal",
        Node::Cast { input, to, kind } => {
            let from = input.data_type();
            if !has_cast(&from, to) {
                return Err(format!("it casts {from} to {to}"));
            }
            if *kind == Conversion::TryCast { "try_cast" } else { "cast" }
        }
        Node::Arithmetic { operator, data_type, .. } => {
            number(data_type)?;
            match operator {
                Arithmetic::Add => "add",
                Arithmetic::Subtract => "subtract",
                Arithmetic::Multiply => "multiply",
                Arithmetic::Divide => "divide",
                Arithmetic::Remainder => "remainder",
            }
        }
        Node::Negate(input) => {
            number(&input.data_type())?;
            "negate"
        }
        Node::Compare { operator, .. } => match operator {
            Comparison::Distinct => "distinct",
            Comparison::NotDistinct => "not_distinct",
            operator => operator.sign(),
        },
        Node::All(_) => "and",
        Node::Any(_) => "or",
        Node::Not(_) => "not",
        Node::Is { test: Test::Null, .. } => "is_null",
        Node::Is { test: Test::True, .. } => "is_true",
        Node::Is { test: Test::False, .. } => "is_false",
        Node::Like { any_case: true, .. } => return Err("it matches in any case".to_owned()),
        Node::Like { .. } => "like",
        Node::Case { .. } => "case",
        Node::Coalesce { .. } => "coalesce",
        Node::Call { function, arguments, .. } => {
            let first = arguments.first().map_or(DataType::Null, Node::data_type);
            match function {
                Function::Abs => number(&first)?,
                Function::Ceil | Function::Floor if first != DataType::Float64 => {
                    return Err(format!("it rounds values of type {first}"));
                }
                _ => {}
            }
            match function {
                Function::Extract(Part::Week) => return Err("it extracts a week".to_owned()),
                Function::Extract(part) => part.name(),
                function => function_name(*function),
            }
        }
    })
}

fn function_name(function: Function) -> &'static str {
    match function {
        Function::Concat => "concat",
        function => function.name(),
    }
}

/// Returns whether an interpreter has a cast.
fn has_cast(from: &DataType, to: &DataType) -> bool {
    use DataType::{Boolean, Date32, Float64, Null, Timestamp, Utf8};
    match (from, to) {
        _ if from == to => true,
        (Null, _) => true,
        (Float64 | Utf8 | Boolean, to) if to.is_integer() => true,
        (from, to) if from.is_integer() => to.is_integer() || matches!(to, Float64 | Utf8),
        (Boolean, Utf8) => true,
        (Date32, Timestamp(_, None)) => true,
        (Timestamp(coarse, None), Timestamp(fine, None)) => coarse <= fine,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::{Field, Schema};

    use super::*;

    fn parsed(text: &str) -> Result<Tree, Error> {
        let fields = [
            Field::new("a", DataType::Int32, true),
            Field::new("t", DataType::Utf8, true),
            Field::new("f", DataType::Float64, true),
            Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true),
            Field::new("u", DataType::UInt64, true),
        ];
        Expression::parse(text, &Schema::new(fields.to_vec())).unwrap().tree()
    }

    fn shown(tree: &Tree) -> String {
        match tree.op {
            "column" => format!("#{}", tree.column.unwrap()),
            "literal" => format!("{:?}", tree.value.as_deref().unwrap_or("null")),
            op => {
                let inputs: Vec<String> = tree.inputs.iter().map(shown).collect();
                format!("{op}:{}({})", tree.data_type, inputs.join(" "))
            }
        }
    }

    #[test]
    fn names_and_types_are_resolved() {
        let cases = [
            ("a + 1", "add:int64(cast:int64(#0) \"1\")"),
            ("a / 2 > 1.5e0", ">:bool(cast:float64(divide:int64(cast:int64(#0) \"2\")) \"1.5\")"),
            ("t not like 'x%'", "not:bool(like:bool(#1 \"x%\"))"),
            ("a is not null and t = 'x'", "and:bool(not:bool(is_null:bool(#0)) =:bool(#1 \"x\"))"),
            ("case when a > 0 then t else 'no' end", "case:text(>:bool(#0 \"0\") #1 \"no\")"),
            ("cast(t as bigint)", "cast:int64(#1)"),
            ("try_cast(f as int)", "try_cast:int32(#2)"),
            ("extract(hour from at)", "hour:int64(#3)"),
            ("substring(t, 1, 2) || 'x'", "concat:text(substring:text(#1 \"1\" \"2\") \"x\")"),
            ("coalesce(f, 0)", "coalesce:float64(#2 \"0.0\")"),
            ("a is distinct from null", "distinct:bool(#0 \"null\")"),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(&parsed(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn an_expression_without_counterpart_is_named() {
        let cases = [
            ("u + 1 > 5", "it is of type UInt64"),
            ("t ilike 'x'", "it matches in any case"),
            ("extract(week from at)", "it extracts a week"),
            ("cast(t as double)", "it casts Utf8 to Float64"),
            ("a * 1.5", "it is of type Decimal"),
        ];
        for (text, expected) in cases {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("cannot be exported"), "{text}: {error}");
        }
    }
}
