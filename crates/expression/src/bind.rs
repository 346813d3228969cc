//! Syntax tree to bound expression: names become columns, operators get their types, constants are folded.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, IntervalUnit, Schema, TimeUnit};
use sqlparser::ast::{BinaryOperator, CaseWhen, Expr, Ident, UnaryOperator};

use crate::{Error, columns};

use crate::call;
use crate::constant;
use crate::convert::{boolean, convert, unify, unify_all};
use crate::evaluate::evaluate;
use crate::literal;
use crate::node::{Comparison, Node, Test};
use crate::parse::shortened;
use crate::types::{self, Arithmetic, flat};

/// Maximum depth of a bound expression. Chains of AND and OR are one level.
const DEPTH_MAX: usize = 100;

/// Binds an expression to the columns of a schema.
pub(crate) fn bind(expr: &Expr, schema: &Schema) -> Result<Node, Error> {
    Binder { schema }.bind(expr, 0)
}

#[derive(Clone, Copy)]
struct Binder<'a> {
    schema: &'a Schema,
}

impl Binder<'_> {
    /// Binds a subexpression at a depth.
    fn bind(self, expr: &Expr, depth: usize) -> Result<Node, Error> {
        if depth > DEPTH_MAX {
            return Err(Error::Expression(format!(
                "the expression has more than {DEPTH_MAX} levels; split it"
            )));
        }
        self.bind_any(expr, depth + 1).map(folded)
    }

    fn bind_any(self, expr: &Expr, depth: usize) -> Result<Node, Error> {
        match expr {
            Expr::Nested(inner) => self.bind(inner, depth),
            Expr::Identifier(name) => self.column(name),
            Expr::Value(_) | Expr::TypedString(_) | Expr::Interval(_) => constant::bind(expr),
            Expr::BinaryOp { left, op, right } => self.binary(expr, (left, op, right), depth),
            Expr::UnaryOp { op, expr: input } => self.unary(*op, input, depth),
            Expr::IsNull(input) => self.is(input, Test::Null, false, depth),
            Expr::IsNotNull(input) => self.is(input, Test::Null, true, depth),
            Expr::IsUnknown(input) => self.is_boolean(input, Test::Null, false, depth),
            Expr::IsNotUnknown(input) => self.is_boolean(input, Test::Null, true, depth),
            Expr::IsTrue(input) => self.is_boolean(input, Test::True, false, depth),
            Expr::IsNotTrue(input) => self.is_boolean(input, Test::True, true, depth),
            Expr::IsFalse(input) => self.is_boolean(input, Test::False, false, depth),
            Expr::IsNotFalse(input) => self.is_boolean(input, Test::False, true, depth),
            Expr::IsDistinctFrom(left, right) => self.compared(Comparison::Distinct, left, right, depth),
            Expr::IsNotDistinctFrom(left, right) => {
                self.compared(Comparison::NotDistinct, left, right, depth)
            }
            Expr::Between { expr: input, negated, low, high } => {
                self.between(input, low, high, *negated, depth)
            }
            Expr::InList { expr: input, list, negated } => self.in_list(input, list, *negated, depth),
            Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), depth)
            }
            other => call::bind(other, &|input| self.bind(input, depth)),
        }
    }

    fn column(self, name: &Ident) -> Result<Node, Error> {
        let place = columns::find(&name.value, name.quote_style.is_some(), self.schema)?;
        let field = self.schema.field(place);
        let (data_type, nullable) = (field.data_type().clone(), field.is_nullable());
        Ok(Node::Column { place, name: field.name().clone(), data_type, nullable })
    }

    fn binary(
        self,
        whole: &Expr,
        (left, operator, right): (&Expr, &BinaryOperator, &Expr),
        depth: usize,
    ) -> Result<Node, Error> {
        let comparison = match operator {
            BinaryOperator::And | BinaryOperator::Or => return self.chain(whole, operator, depth),
            BinaryOperator::Eq => Comparison::Equal,
            BinaryOperator::NotEq => Comparison::NotEqual,
            BinaryOperator::Lt => Comparison::Less,
            BinaryOperator::LtEq => Comparison::LessOrEqual,
            BinaryOperator::Gt => Comparison::Greater,
            BinaryOperator::GtEq => Comparison::GreaterOrEqual,
            BinaryOperator::StringConcat => {
                return call::concat(self.bind(left, depth)?, self.bind(right, depth)?);
            }
            _ => {
                let operator = arithmetic_operator(operator)
                    .ok_or_else(|| Error::Expression(format!("the operator {operator} is not supported")))?;
                return arithmetic(operator, self.bind(left, depth)?, self.bind(right, depth)?);
            }
        };
        self.compared(comparison, left, right, depth)
    }

    /// Binds `a AND b AND c` as one node, because long chains would make deep trees.
    fn chain(self, whole: &Expr, operator: &BinaryOperator, depth: usize) -> Result<Node, Error> {
        let mut inputs = Vec::new();
        let mut rest = whole;
        loop {
            match rest {
                Expr::BinaryOp { left, op, right } if op == operator => {
                    inputs.push(&**right);
                    rest = left;
                }
                first => break inputs.push(first),
            }
        }
        let inputs = inputs.into_iter().rev().map(|input| boolean(self.bind(input, depth)?));
        let inputs = inputs.collect::<Result<Vec<Node>, Error>>()?;
        Ok(if *operator == BinaryOperator::And { Node::All(inputs) } else { Node::Any(inputs) })
    }

    fn compared(self, operator: Comparison, left: &Expr, right: &Expr, depth: usize) -> Result<Node, Error> {
        compare(operator, self.bind(left, depth)?, self.bind(right, depth)?)
    }

    fn unary(self, operator: UnaryOperator, input: &Expr, depth: usize) -> Result<Node, Error> {
        // The magnitude of `i64::MIN` does not fit `i64`, so that the literal is parsed with the sign.
        if let (UnaryOperator::Minus, Expr::Value(value)) = (operator, input)
            && let sqlparser::ast::Value::Number(text, _) = &value.value
            && let Ok(least) = format!("-{text}").parse::<i64>()
        {
            return Ok(literal::integer(least));
        }
        let input = self.bind(input, depth)?;
        match operator {
            UnaryOperator::Not => Ok(Node::Not(boolean(input)?.into())),
            UnaryOperator::Plus if flat(&input.data_type()).is_numeric() => Ok(input),
            UnaryOperator::Minus => negate(input),
            _ => Err(Error::Expression(format!("{operator} {} is not supported", printed(&input)))),
        }
    }

    fn is(self, input: &Expr, test: Test, negated: bool, depth: usize) -> Result<Node, Error> {
        Ok(Node::Is { input: self.bind(input, depth)?.into(), test, negated })
    }

    fn is_boolean(self, input: &Expr, test: Test, negated: bool, depth: usize) -> Result<Node, Error> {
        Ok(Node::Is { input: boolean(self.bind(input, depth)?)?.into(), test, negated })
    }

    fn between(
        self,
        input: &Expr,
        low: &Expr,
        high: &Expr,
        negated: bool,
        depth: usize,
    ) -> Result<Node, Error> {
        let input = self.bind(input, depth)?;
        let low = compare(Comparison::GreaterOrEqual, input.clone(), self.bind(low, depth)?)?;
        let high = compare(Comparison::LessOrEqual, input, self.bind(high, depth)?)?;
        Ok(negated_if(negated, Node::All(vec![low, high])))
    }

    fn in_list(self, input: &Expr, list: &[Expr], negated: bool, depth: usize) -> Result<Node, Error> {
        let input = self.bind(input, depth)?;
        let equals =
            list.iter().map(|item| compare(Comparison::Equal, input.clone(), self.bind(item, depth)?));
        Ok(negated_if(negated, Node::Any(equals.collect::<Result<_, _>>()?)))
    }

    fn case(
        self,
        operand: Option<&Expr>,
        branches: &[CaseWhen],
        otherwise: Option<&Expr>,
        depth: usize,
    ) -> Result<Node, Error> {
        let operand = operand.map(|operand| self.bind(operand, depth)).transpose()?;
        let (mut conditions, mut results) = (Vec::new(), Vec::new());
        for branch in branches {
            let condition = self.bind(&branch.condition, depth)?;
            conditions.push(match &operand {
                Some(operand) => compare(Comparison::Equal, operand.clone(), condition)?,
                None => boolean(condition)?,
            });
            results.push(self.bind(&branch.result, depth)?);
        }
        results.push(otherwise.map_or(Ok(literal::null()), |otherwise| self.bind(otherwise, depth))?);
        let (mut results, data_type) = unify_all(results)?;
        let otherwise = results.pop().unwrap_or_else(literal::null).into();
        Ok(Node::Case { branches: conditions.into_iter().zip(results).collect(), otherwise, data_type })
    }
}

fn arithmetic_operator(operator: &BinaryOperator) -> Option<Arithmetic> {
    match operator {
        BinaryOperator::Plus => Some(Arithmetic::Add),
        BinaryOperator::Minus => Some(Arithmetic::Subtract),
        BinaryOperator::Multiply => Some(Arithmetic::Multiply),
        BinaryOperator::Divide => Some(Arithmetic::Divide),
        BinaryOperator::Modulo => Some(Arithmetic::Remainder),
        _ => None,
    }
}

/// Formats an expression for an error message.
fn printed(node: &Node) -> String {
    shortened(&node.to_string())
}

fn negated_if(negated: bool, node: Node) -> Node {
    if negated { Node::Not(node.into()) } else { node }
}

/// Compares two expressions, of which one may be converted.
fn compare(operator: Comparison, left: Node, right: Node) -> Result<Node, Error> {
    let (left, right) = unify(left, right, operator.sign())?;
    Ok(folded(Node::Compare { operator, left: left.into(), right: right.into() }))
}

fn negate(input: Node) -> Result<Node, Error> {
    let data_type = input.data_type();
    match flat(&data_type) {
        flat if flat.is_unsigned_integer() => Ok(Node::Negate(convert(input, &DataType::Int64)?.into())),
        flat if flat.is_integer() => Ok(Node::Negate(convert(input, &DataType::Int64)?.into())),
        flat if flat.is_numeric() || matches!(flat, DataType::Interval(_) | DataType::Duration(_)) => {
            Ok(Node::Negate(convert(input, flat)?.into()))
        }
        DataType::Null => Ok(input),
        _ => Err(Error::Expression(format!(
            "{} is of type {data_type} and cannot be negated",
            printed(&input)
        ))),
    }
}

/// Applies an operator to two expressions, which are converted to the operand types.
fn arithmetic(operator: Arithmetic, left: Node, right: Node) -> Result<Node, Error> {
    let (left, right) = (adapted(left, &right), right);
    let (right, left) = (adapted(right, &left), left);
    let is_swapped = operator == Arithmetic::Add && is_temporal(&right) && !is_date_like(&left);
    let (left, right) = if is_swapped { (right, left) } else { (left, right) };
    let left = with_time(left, &right)?;
    let (a, b) = (left.data_type(), right.data_type());
    let signature = types::arithmetic(operator, &a, &b).ok_or_else(|| {
        let sign = operator.sign();
        let text = format!("{} {sign} {}", printed(&left), printed(&right));
        Error::Expression(format!(
            "{text} is not defined: {sign} does not take {a} and {b}; CAST one of them"
        ))
    })?;
    let (left, right) = (convert(left, &signature.left)?.into(), convert(right, &signature.right)?.into());
    Ok(Node::Arithmetic { operator, left, right, data_type: signature.result })
}

fn is_date_like(node: &Node) -> bool {
    matches!(flat(&node.data_type()), DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}

fn is_temporal(node: &Node) -> bool {
    is_date_like(node)
}

/// Converts a constant to the type that loses least with the other operand. A string is read beside the other type, an
/// integer with a decimal keeps its number of digits, and a number with a `Float32` becomes a `Float32`.
fn adapted(node: Node, other: &Node) -> Node {
    let Some(literal) = node.as_literal() else { return node };
    let other_type = other.data_type();
    let other_type = flat(&other_type);
    let digits = literal::integer_digits(&literal.value);
    let to = match other_type {
        _ if literal.untyped && !types::is_string(other_type) => {
            return literal::read(&literal.value, other_type).map_or(node.clone(), literal::typed);
        }
        DataType::Float32 | DataType::Float16 if literal.value.data_type().is_numeric() => other_type.clone(),
        _ if types::is_decimal(other_type) && digits.is_some() => {
            DataType::Decimal64(digits.unwrap_or(1).min(18), 0)
        }
        DataType::UInt64 if digits.is_some() => DataType::UInt64,
        _ => return node,
    };
    literal::converted(&literal.value, &to).map_or(node.clone(), literal::typed)
}

/// Converts a date or a timestamp to one of finer units if the added interval may have a part of its unit.
fn with_time(left: Node, right: &Node) -> Result<Node, Error> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::IntervalMonthDayNanoType;
    let left_type = left.data_type();
    let (unit_ns, zone) = match flat(&left_type) {
        DataType::Date32 | DataType::Date64 => (i64::MAX, &None),
        DataType::Timestamp(TimeUnit::Second, zone) => (1_000_000_000, zone),
        DataType::Timestamp(TimeUnit::Millisecond, zone) => (1_000_000, zone),
        _ => return Ok(left),
    };
    if right.data_type() != DataType::Interval(IntervalUnit::MonthDayNano) {
        return Ok(left);
    }
    let has_part = right.as_literal().is_none_or(|literal| {
        literal.value.as_primitive::<IntervalMonthDayNanoType>().value(0).nanoseconds % unit_ns != 0
    });
    let finer = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
    if has_part { convert(left, &finer) } else { Ok(left) }
}

/// Folds an expression over constants. An expression that fails is kept, because it may never be evaluated:
/// `CASE WHEN x THEN 1 / 0 END`.
fn folded(node: Node) -> Node {
    let inputs = node.inputs();
    let is_constant = !inputs.is_empty() && inputs.iter().all(|input| input.as_literal().is_some());
    if !is_constant {
        return node;
    }
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let Ok(row) = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options) else {
        return node;
    };
    evaluate(&node, &row).map_or(node, |value| literal::typed(value.into_inner()))
}
