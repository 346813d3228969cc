//! Binds functions, patterns and casts.

use arrow_cast::can_cast_types;
use arrow_schema::DataType;
use sqlparser::ast::{
    CastKind, CeilFloorKind, DateTimeField, Expr, Function as Called, FunctionArg, FunctionArgExpr,
    FunctionArguments, Value,
};

use sakiyomi_model::suggest::{did_you_mean, similar};

use crate::Error;

use crate::constant;
use crate::convert::{convert, unify, unify_all};
use crate::node::{Conversion, Function, Node, Part};
use crate::parse::shortened;
use crate::types::{flat, is_string};

/// Binds an expression inside another one.
type Bind<'a> = &'a dyn Fn(&Expr) -> Result<Node, Error>;

/// Binds functions, patterns and casts; other expressions are not supported.
pub(crate) fn bind(expr: &Expr, bind: Bind<'_>) -> Result<Node, Error> {
    match expr {
        Expr::Like { negated, any: false, expr: input, pattern, escape_char } => {
            like(bind(input)?, bind(pattern)?, [*negated, false], escape_char.as_deref())
        }
        Expr::ILike { negated, any: false, expr: input, pattern, escape_char } => {
            like(bind(input)?, bind(pattern)?, [*negated, true], escape_char.as_deref())
        }
        Expr::Cast { kind, expr: input, data_type, format: None } => {
            cast(bind(input)?, &constant::target(data_type)?, kind)
        }
        Expr::Extract { field, expr: input, .. } => extract(&field.to_string(), bind(input)?),
        Expr::Ceil { expr: input, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
            call(Function::Ceil, vec![bind(input)?])
        }
        Expr::Floor { expr: input, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
            call(Function::Floor, vec![bind(input)?])
        }
        Expr::Substring { expr: input, substring_from: Some(from), substring_for, .. } => {
            let mut arguments = vec![bind(input)?, bind(from)?];
            if let Some(length) = substring_for {
                arguments.push(bind(length)?);
            }
            call(Function::Substring, arguments)
        }
        Expr::Trim { trim_where: None, trim_what: None, expr: input, trim_characters: None } => {
            call(Function::Trim, vec![bind(input)?])
        }
        Expr::Function(called) => function(called, bind),
        other => Err(unsupported(other)),
    }
}

/// Names the kind of an expression that is not supported. The expression itself may be too deep to be printed.
fn unsupported(expr: &Expr) -> Error {
    let piece = match expr {
        Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } => "a subquery",
        Expr::CompoundIdentifier(_) | Expr::CompoundFieldAccess { .. } | Expr::JsonAccess { .. } => {
            "a field of a column (a.b; put a column name that has a dot in double quotes)"
        }
        Expr::Wildcard(_) | Expr::QualifiedWildcard(..) => "*",
        Expr::Array(_) => "an array",
        Expr::Tuple(_) => "a row of values",
        Expr::SimilarTo { .. } | Expr::RLike { .. } => "a regular expression",
        Expr::AnyOp { .. } | Expr::AllOp { .. } | Expr::Like { .. } | Expr::ILike { .. } => "ANY or ALL",
        Expr::Collate { .. } => "COLLATE",
        Expr::AtTimeZone { .. } => "AT TIME ZONE",
        Expr::Position { .. } => "POSITION",
        Expr::Overlay { .. } => "OVERLAY",
        Expr::Trim { .. } => "TRIM of other characters than spaces at both ends",
        Expr::Substring { .. } => "SUBSTRING without FROM",
        Expr::Ceil { .. } | Expr::Floor { .. } => "CEIL or FLOOR to a unit",
        Expr::Cast { .. } | Expr::Convert { .. } => "a cast with a format",
        _ => "a part of the expression",
    };
    Error::Expression(format!("{piece} is not supported"))
}

fn function(called: &Called, bind: Bind<'_>) -> Result<Node, Error> {
    let name = shortened(&called.name.to_string()).to_lowercase();
    let is_plain = called.filter.is_none()
        && called.over.is_none()
        && called.null_treatment.is_none()
        && called.within_group.is_empty()
        && matches!(called.parameters, FunctionArguments::None);
    if !is_plain {
        return Err(Error::Expression(format!("{name} with OVER, FILTER or WITHIN GROUP is not supported")));
    }
    let mut arguments = Vec::new();
    for argument in expressions(called)
        .ok_or_else(|| Error::Expression(format!("the arguments of {name} are not supported")))?
    {
        arguments.push(bind(argument)?);
    }
    if name == "coalesce" && !arguments.is_empty() {
        let (inputs, data_type) = unify_all(arguments)?;
        return Ok(Node::Coalesce { inputs, data_type });
    }
    let (_, function, [least, most]) =
        Function::NAMES.iter().find(|(known, ..)| *known == name).ok_or_else(|| unknown(&name))?;
    if !(*least..=*most).contains(&arguments.len()) {
        let number = if least == most { least.to_string() } else { format!("{least} to {most}") };
        return Err(Error::Expression(format!("{name} takes {number} argument(s), not {}", arguments.len())));
    }
    match function {
        Function::Extract(_) => {
            let input = arguments.pop();
            let part = arguments.pop().and_then(|part| part.as_literal().cloned());
            let (Some(input), Some(part)) = (input, part) else {
                return Err(Error::Expression(
                    "date_part takes the name of a part, such as 'year', and a date".into(),
                ));
            };
            extract(super::literal::print(&part.value).trim_matches('\''), input)
        }
        function => call(*function, arguments),
    }
}

fn unknown(name: &str) -> Error {
    if ["sum", "avg", "min", "max", "count"].contains(&name) {
        return Error::Expression(format!(
            "{name} is an aggregate function; compute it with sakiyomi aggregate --{name}"
        ));
    }
    let known = || Function::NAMES.iter().map(|(known, ..)| *known).chain(["coalesce", "extract"]);
    match similar(name, known()).as_slice() {
        [] => Error::Expression(format!(
            "no function is named {name}; the functions are {}",
            known().collect::<Vec<_>>().join(", ")
        )),
        meant => Error::Expression(format!("no function is named {name}{}", did_you_mean(meant))),
    }
}

fn expressions(called: &Called) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &called.args else { return None };
    if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return None;
    }
    let expression = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => Some(expr),
        _ => None,
    };
    list.args.iter().map(expression).collect()
}

fn mismatch(function: &str, node: &Node, needed: &str) -> Error {
    let (text, data_type) = (shortened(&node.to_string()), node.data_type());
    Error::Expression(format!("{function} takes {needed}, and {text} is of type {data_type}"))
}

/// Converts an expression to a string.
fn string(node: Node, function: &str) -> Result<Node, Error> {
    match flat(&node.data_type()) {
        data_type if is_string(data_type) => convert(node, &DataType::Utf8),
        DataType::Null => convert(node, &DataType::Utf8),
        _ => Err(mismatch(function, &node, "a string")),
    }
}

fn integer(node: Node, function: &str) -> Result<Node, Error> {
    match flat(&node.data_type()) {
        data_type if data_type.is_integer() || *data_type == DataType::Null => {
            convert(node, &DataType::Int64)
        }
        _ => Err(mismatch(function, &node, "an integer")),
    }
}

/// Binds `left || right`; other primitive values are converted to strings.
pub(crate) fn concat(left: Node, right: Node) -> Result<Node, Error> {
    let text = |node: Node| match flat(&node.data_type()) {
        data_type if is_string(data_type) || *data_type == DataType::Null => string(node, "||"),
        data_type if data_type.is_primitive() && can_cast_types(data_type, &DataType::Utf8) => {
            convert(node, &DataType::Utf8)
        }
        _ => Err(mismatch("||", &node, "strings")),
    };
    let arguments = vec![text(left)?, text(right)?];
    Ok(Node::Call { function: Function::Concat, arguments, data_type: DataType::Utf8 })
}

fn call(function: Function, arguments: Vec<Node>) -> Result<Node, Error> {
    let (arguments, data_type) = match function {
        Function::Abs | Function::Ceil | Function::Floor => return numeric(function, arguments),
        Function::Lower | Function::Upper | Function::Trim => (strings(arguments)?, DataType::Utf8),
        Function::Length => (strings(arguments)?, DataType::Int64),
        Function::StartsWith | Function::EndsWith | Function::Contains => {
            (strings(arguments)?, DataType::Boolean)
        }
        Function::Substring => {
            let mut rest = arguments.into_iter();
            let mut converted: Vec<Node> =
                rest.next().map(|input| string(input, "substring")).transpose()?.into_iter().collect();
            for number in rest {
                converted.push(integer(number, "substring")?);
            }
            (converted, DataType::Utf8)
        }
        Function::NullIf => {
            let (arguments, data_type) = unify_all(arguments)?;
            if !super::types::is_comparable(&data_type) {
                return Err(Error::Expression(format!("nullif does not compare values of type {data_type}")));
            }
            (arguments, data_type)
        }
        Function::Concat | Function::Extract(_) => unreachable!("bound by concat and extract"),
    };
    Ok(Node::Call { function, arguments, data_type })
}

fn strings(arguments: Vec<Node>) -> Result<Vec<Node>, Error> {
    arguments.into_iter().map(|argument| string(argument, "this function")).collect()
}

fn numeric(function: Function, arguments: Vec<Node>) -> Result<Node, Error> {
    let Some(input) = arguments.into_iter().next() else {
        return Err(Error::Expression("a number is missing".into()));
    };
    let data_type = input.data_type();
    let data_type = flat(&data_type);
    let is_rounding = function != Function::Abs;
    match data_type {
        _ if data_type.is_unsigned_integer() || is_rounding && data_type.is_integer() => Ok(input),
        DataType::Null => Ok(input),
        DataType::Float16 => numeric(function, vec![convert(input, &DataType::Float32)?]),
        DataType::Decimal32(precision, scale) => {
            numeric(function, vec![convert(input, &DataType::Decimal64(*precision, *scale))?])
        }
        _ if is_rounding && let Some(whole) = whole(data_type) => {
            if whole == *data_type {
                return Ok(input);
            }
            let input = convert(input, data_type)?;
            Ok(Node::Call { function, arguments: vec![input], data_type: whole })
        }
        _ if data_type.is_integer() => {
            let input = convert(input, &DataType::Int64)?;
            Ok(Node::Call { function, arguments: vec![input], data_type: DataType::Int64 })
        }
        _ if data_type.is_numeric() => {
            let input = convert(input, data_type)?;
            Ok(Node::Call { function, arguments: vec![input], data_type: data_type.clone() })
        }
        _ => Err(mismatch("a function of numbers", &input, "a number")),
    }
}

/// Returns a decimal type without decimal places; `None` for other types.
fn whole(data_type: &DataType) -> Option<DataType> {
    match *data_type {
        DataType::Decimal64(precision, scale) => Some(DataType::Decimal64(precision, scale.min(0))),
        DataType::Decimal128(precision, scale) => Some(DataType::Decimal128(precision, scale.min(0))),
        DataType::Decimal256(precision, scale) => Some(DataType::Decimal256(precision, scale.min(0))),
        _ => None,
    }
}

fn extract(part: &str, input: Node) -> Result<Node, Error> {
    let name = part.to_lowercase();
    let name = if name.len() > 2 { name.trim_end_matches('s') } else { &name };
    let found = Part::NAMES.iter().find(|(known, _)| *known == name);
    let Some((_, part)) = found else {
        let known: Vec<&str> = Part::NAMES.iter().map(|(known, _)| *known).collect();
        return Err(Error::Expression(format!(
            "no part of a date is named {part}; the parts are {}",
            known.join(", ")
        )));
    };
    let data_type = input.data_type();
    let is_time = matches!(part, Part::Hour | Part::Minute | Part::Second);
    let input = match flat(&data_type) {
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => convert(input, flat(&data_type))?,
        DataType::Time32(_) | DataType::Time64(_) if is_time => convert(input, flat(&data_type))?,
        DataType::Null => convert(input, &DataType::Date32)?,
        _ => return Err(mismatch("extract", &input, "a date, a timestamp or, for its parts, a time")),
    };
    Ok(Node::Call { function: Function::Extract(*part), arguments: vec![input], data_type: DataType::Int64 })
}

fn like(
    input: Node,
    pattern: Node,
    [negated, any_case]: [bool; 2],
    escape: Option<&Expr>,
) -> Result<Node, Error> {
    let is_backslash = |escape: &Expr| match escape {
        Expr::Value(value) => matches!(&value.value, Value::SingleQuotedString(text) if text == "\\"),
        _ => false,
    };
    if !escape.is_none_or(is_backslash) {
        return Err(Error::Expression("LIKE with an escape character other than \\ is not supported".into()));
    }
    let text = |node: Node| match flat(&node.data_type()) {
        data_type if is_string(data_type) => Ok(node),
        DataType::Null => convert(node, &DataType::Utf8),
        _ => Err(mismatch("LIKE", &node, "strings")),
    };
    let (input, pattern) = unify(text(input)?, text(pattern)?, "LIKE")?;
    let is_dictionary = |node: &Node| matches!(node.data_type(), DataType::Dictionary(..));
    let (input, pattern) =
        match is_dictionary(&input) != is_dictionary(&pattern) && pattern.as_literal().is_none() {
            true => (string(input, "LIKE")?, string(pattern, "LIKE")?),
            false => (input, pattern),
        };
    Ok(Node::Like { input: input.into(), pattern: pattern.into(), negated, any_case })
}

fn cast(input: Node, to: &DataType, kind: &CastKind) -> Result<Node, Error> {
    let from = input.data_type();
    if !can_cast_types(&from, to) {
        let text = shortened(&input.to_string());
        return Err(Error::Expression(format!("{text} cannot be cast from {from} to {to}")));
    }
    let kind = match kind {
        CastKind::Cast | CastKind::DoubleColon => Conversion::Cast,
        CastKind::TryCast | CastKind::SafeCast => Conversion::TryCast,
    };
    Ok(Node::Cast { input: input.into(), to: to.clone(), kind })
}
