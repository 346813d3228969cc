//! `compute = "count(*) AS n, sum(bytes) AS total"`: the calls of aggregate functions.

use arrow_schema::{DataType, Schema};
use sakiyomi_expression::{Expression, shortened};

use crate::document::unknown_word;
use crate::step::Function;

/// The names of functions.
const FUNCTIONS: [&str; 5] = ["count", "sum", "avg", "min", "max"];

/// A call with its argument bound to a column or expression.
#[derive(Clone, Debug)]
pub(crate) struct BoundCall {
    pub(crate) name: String,
    pub(crate) function: Function,
    /// None of `count(*)`.
    pub(crate) argument: Option<Expression>,
    pub(crate) data_type: DataType,
}

/// Parses a list of calls.
///
/// # Errors
/// A sentence, if one is not a call of an aggregate function, or its argument does not fit.
pub(super) fn parse(text: &str, schema: &Schema) -> Result<Vec<BoundCall>, String> {
    split(text, |rest| rest.starts_with(',').then_some(1))
        .into_iter()
        .map(|item| call(item.trim(), schema))
        .collect()
}

fn call(item: &str, schema: &Schema) -> Result<BoundCall, String> {
    let as_word = |rest: &str| {
        let is_as = rest.len() > 4 && rest.is_char_boundary(4) && rest[..4].eq_ignore_ascii_case(" as ");
        is_as.then_some(4)
    };
    let parts = split(item, as_word);
    let (text, name) = match parts[..] {
        [text] => (text.trim(), text.trim()),
        [text, name] => (text.trim(), name.trim().trim_matches('"')),
        _ => return Err(format!("{} has more than one name", shortened(item))),
    };
    let wrong = || {
        let item = shortened(item);
        format!(
            "'{item}' is not a call of an aggregate function; write it like count(*) AS n or sum(bytes) AS total"
        )
    };
    if name.is_empty() {
        return Err(wrong());
    }
    let (function, argument) = text.split_once('(').ok_or_else(wrong)?;
    let argument = argument.strip_suffix(')').ok_or_else(wrong)?.trim();
    let function = function.trim().to_lowercase();
    let distinct = argument.get(..9).filter(|word| word.eq_ignore_ascii_case("distinct "));
    let argument = argument[distinct.map_or(0, str::len)..].trim();
    let known = Function::of(&function, distinct.is_some()).ok_or_else(|| match distinct {
        Some(_) => format!("{function}(distinct …) is not supported; only count(distinct …) is"),
        None => unknown_word(&function, &FUNCTIONS),
    })?;
    let argument = match (argument, known) {
        ("*", Function::Count) => None,
        _ => Some(Expression::parse(argument, schema).map_err(|error| error.to_string())?),
    };
    let of = argument.as_ref().map(Expression::data_type);
    let data_type = known.result(of.as_ref()).ok_or_else(|| {
        format!("{function} of {}, which is {}, has no result", shortened(text), of.unwrap_or(DataType::Null))
    })?;
    Ok(BoundCall { name: name.to_owned(), function: known, argument, data_type })
}

/// Returns the parts of a text between separators that are not within parentheses or quotes. `separator` is told the
/// rest of the text and returns the length of a separator at its begin.
fn split(text: &str, separator: impl Fn(&str) -> Option<usize>) -> Vec<&str> {
    let (mut depth, mut quote, mut from, mut skip_to) = (0_usize, None, 0, 0);
    let mut parts = Vec::new();
    for (at, letter) in text.char_indices() {
        if at < skip_to {
            continue;
        }
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, _) => {
                if depth == 0
                    && let Some(length) = separator(&text[at..])
                {
                    parts.push(&text[from..at]);
                    from = at + length;
                    skip_to = from;
                }
            }
        }
    }
    parts.push(&text[from..]);
    parts
}

#[cfg(test)]
mod tests {
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn calls_have_names_functions_and_types() {
        let schema = Schema::new(vec![
            Field::new("bytes", DataType::Int32, true),
            Field::new("path", DataType::Utf8, true),
        ]);
        let text = "count(*) AS n, SUM(bytes * (2 + 1)), count(distinct substring(path, 1, 2)) as \"p, q\",max(path)";
        let calls = parse(text, &schema).unwrap();
        let shown: Vec<_> =
            calls.iter().map(|call| (call.name.as_str(), call.function, &call.data_type)).collect();
        assert_eq!(
            shown,
            [
                ("n", Function::Count, &DataType::Int64),
                ("SUM(bytes * (2 + 1))", Function::Sum, &DataType::Int64),
                ("p, q", Function::CountDistinct, &DataType::Int64),
                ("max(path)", Function::Max, &DataType::Utf8),
            ]
        );
        for text in [
            "",
            "n",
            "count(",
            "sum(path)",
            "total(bytes)",
            "count(*) as",
            "sum(distinct bytes)",
            "count(nope)",
        ] {
            assert!(parse(text, &schema).is_err(), "{text}");
        }
    }
}
