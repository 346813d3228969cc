//! Implicit conversions of operands.

use arrow_cast::can_cast_types;
use arrow_schema::DataType;

use crate::Error;

use crate::literal;
use crate::node::{Conversion, Node};
use crate::parse::shortened;
use crate::types::{self, common, flat, is_string};

/// Converts an expression to a type unless it already has that type.
pub(crate) fn convert(node: Node, to: &DataType) -> Result<Node, Error> {
    let from = node.data_type();
    if from == *to || is_same_scale(&from, to) {
        return Ok(node);
    }
    if let Some(literal) = node.as_literal() {
        return match literal::converted(&literal.value, to) {
            Some(value) => Ok(literal::typed(value)),
            None => Err(Error::Expression(format!("{node} cannot be read as {}", literal::type_name(to)))),
        };
    }
    if !can_cast_types(&from, to) {
        let text = shortened(&node.to_string());
        return Err(Error::Expression(format!("{text} is of type {from} where {to} is needed")));
    }
    Ok(Node::Cast { input: node.into(), to: to.clone(), kind: Conversion::Implicit })
}

/// Returns whether decimals differ only in precision, which arithmetic kernels accept.
fn is_same_scale(from: &DataType, to: &DataType) -> bool {
    use DataType::{Decimal64, Decimal128, Decimal256};
    match (from, to) {
        (Decimal64(_, a), Decimal64(_, b))
        | (Decimal128(_, a), Decimal128(_, b))
        | (Decimal256(_, a), Decimal256(_, b)) => a == b,
        _ => false,
    }
}

/// Converts an expression to a condition: a boolean, or NULL.
pub(crate) fn boolean(node: Node) -> Result<Node, Error> {
    match node.data_type() {
        DataType::Boolean => Ok(node),
        DataType::Null => convert(node, &DataType::Boolean),
        DataType::Dictionary(_, values) if *values == DataType::Boolean => convert(node, &DataType::Boolean),
        other => {
            let text = shortened(&node.to_string());
            Err(Error::Expression(format!(
                "{text} is of type {other} where a condition is needed; compare it to something"
            )))
        }
    }
}

/// Converts both expressions to one comparable type. Dictionaries over values of that type are kept.
pub(crate) fn unify(left: Node, right: Node, sign: &str) -> Result<(Node, Node), Error> {
    let (a, b) = (left.data_type(), right.data_type());
    let left = beside(left, flat(&b), &right);
    let right = beside(right, flat(&a), &left);
    let (a, b) = (left.data_type(), right.data_type());
    for (node, other) in [(&left, &b), (&right, &a)] {
        if node.as_literal().is_some_and(|literal| literal.untyped) && !is_string(flat(other)) {
            return Err(Error::Expression(format!(
                "{node} cannot be read as {}",
                literal::type_name(flat(other))
            )));
        }
    }
    let same = common(&a, &b).filter(types::is_comparable);
    let same = same.ok_or_else(|| {
        let text = shortened(&format!("{left} {sign} {right}"));
        Error::Expression(format!("{text} is not defined: {a} and {b} cannot be compared; CAST one of them"))
    })?;
    let convert = |node: Node| {
        let is_same = *flat(&node.data_type()) == same;
        if is_same { Ok(node) } else { exact_precision(node, &same) }
    };
    Ok((convert(left)?, convert(right)?))
}

/// Like [`convert`], but with the exact precision of decimals, because comparison kernels require equal types.
fn exact_precision(node: Node, to: &DataType) -> Result<Node, Error> {
    if !is_same_scale(&node.data_type(), to) || node.as_literal().is_some() {
        return match node.as_literal() {
            Some(literal) if types::is_decimal(to) => {
                literal::converted(&literal.value, to).map(literal::typed).ok_or_else(|| {
                    Error::Expression(format!("{node} cannot be read as {}", literal::type_name(to)))
                })
            }
            _ => convert(node, to),
        };
    }
    Ok(Node::Cast { input: node.into(), to: to.clone(), kind: Conversion::Implicit })
}

/// Converts a constant to the type of the other operand if that loses nothing. A string takes any type that parses it,
/// with its own number of decimal places and unit of time if they are finer, and a number takes any float type.
fn beside(node: Node, to: &DataType, other: &Node) -> Node {
    let Some(literal) = node.as_literal() else { return node };
    let from = literal.value.data_type();
    let other_is_untyped = other.as_literal().is_some_and(|other| other.untyped);
    let value = match to {
        _ if from == to => return node,
        _ if literal.untyped && !is_string(to) && *to != DataType::Null => literal::read(&literal.value, to),
        _ if other_is_untyped && !is_string(from) => None,
        _ if to.is_floating() && from.is_numeric() => literal::converted(&literal.value, to),
        // A constant with more decimal places keeps them, and so does the result.
        _ if types::decimal_places(from) > types::decimal_places(to) => None,
        _ if other.as_literal().is_none() && common(from, to).is_some() => {
            literal::exactly(&literal.value, to)
        }
        _ => None,
    };
    value.map_or(node, literal::typed)
}

/// Converts all expressions to one type without dictionaries.
pub(crate) fn unify_all(nodes: Vec<Node>) -> Result<(Vec<Node>, DataType), Error> {
    let is_constant = |node: &&Node| node.as_literal().is_some();
    let variable = nodes.iter().filter(|node| !is_constant(node));
    let mut same = joined(variable, DataType::Null)?;
    let nodes: Vec<Node> = match nodes.iter().find(|node| !is_constant(node)).cloned() {
        Some(other) => nodes.into_iter().map(|node| beside(node, &same, &other)).collect(),
        None => nodes,
    };
    same = joined(&nodes, same)?;
    if same == DataType::Null {
        same = DataType::Boolean;
    }
    let nodes = nodes.into_iter().map(|node| exact_or_convert(node, &same)).collect::<Result<_, _>>()?;
    Ok((nodes, same))
}

fn exact_or_convert(node: Node, to: &DataType) -> Result<Node, Error> {
    if node.data_type() == *to { Ok(node) } else { exact_precision(node, to) }
}

fn joined<'a>(nodes: impl IntoIterator<Item = &'a Node>, first: DataType) -> Result<DataType, Error> {
    nodes.into_iter().try_fold(first, |same, node| {
        let own = node.data_type();
        common(&same, &own).ok_or_else(|| {
            let text = shortened(&node.to_string());
            Error::Expression(format!("{text} is of type {own} where {same} is needed; CAST one of them"))
        })
    })
}
