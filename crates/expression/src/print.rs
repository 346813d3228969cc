//! Prints bound expressions as SQL for `explain` and errors, without implicit conversions.

use std::fmt;

use sqlparser::keywords::ALL_KEYWORDS;

use crate::literal;
use crate::node::{Conversion, Function, Node, Test};

/// Quotes a name unless it is a lowercase word that is not a SQL keyword.
pub(crate) fn quoted(name: &str) -> String {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let is_word = name.starts_with(is_letter)
        && name.chars().all(|letter| is_letter(letter) || letter.is_ascii_digit());
    let is_keyword = ALL_KEYWORDS.binary_search(&name.to_uppercase().as_str()).is_ok();
    if is_word && !is_keyword { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Prints an expression inside another one.
struct Inner<'a>(&'a Node);

impl fmt::Display for Inner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Node::Cast { input, kind: Conversion::Implicit, .. } => write!(f, "{}", Inner(input)),
            Node::Column { .. } | Node::Literal(_) | Node::Call { .. } | Node::Cast { .. } => {
                write!(f, "{}", self.0)
            }
            Node::Case { .. } | Node::Coalesce { .. } => write!(f, "{}", self.0),
            other => write!(f, "({other})"),
        }
    }
}

fn list<'a>(nodes: impl IntoIterator<Item = &'a Node>, between: &str) -> String {
    nodes.into_iter().map(|node| Inner(node).to_string()).collect::<Vec<_>>().join(between)
}

fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Column { name, .. } => f.write_str(&quoted(name)),
            Node::Literal(literal) => f.write_str(&literal::print(&literal.value)),
            Node::Cast { input, kind: Conversion::Implicit, .. } => input.fmt(f),
            Node::Cast { input, to, kind } => {
                let word = if *kind == Conversion::TryCast { "TRY_CAST" } else { "CAST" };
                write!(f, "{word}({input} AS {})", literal::type_name(to))
            }
            Node::Arithmetic { operator, left, right, .. } => {
                write!(f, "{} {} {}", Inner(left), operator.sign(), Inner(right))
            }
            Node::Negate(input) => write!(f, "- {}", Inner(input)),
            Node::Compare { operator, left, right } => {
                write!(f, "{} {} {}", Inner(left), operator.sign(), Inner(right))
            }
            Node::All(inputs) => f.write_str(&list(inputs, " AND ")),
            Node::Any(inputs) => f.write_str(&list(inputs, " OR ")),
            Node::Not(input) => write!(f, "NOT {}", Inner(input)),
            Node::Is { input, test, negated } => {
                let test = match test {
                    Test::Null => "NULL",
                    Test::True => "TRUE",
                    Test::False => "FALSE",
                };
                write!(f, "{} IS {}{test}", Inner(input), not(*negated))
            }
            Node::Like { input, pattern, negated, any_case } => {
                let word = if *any_case { "ILIKE" } else { "LIKE" };
                write!(f, "{} {}{word} {}", Inner(input), not(*negated), Inner(pattern))
            }
            Node::Case { branches, otherwise, .. } => {
                f.write_str("CASE")?;
                for (condition, result) in branches {
                    write!(f, " WHEN {condition} THEN {result}")?;
                }
                write!(f, " ELSE {otherwise} END")
            }
            Node::Coalesce { inputs, .. } => write!(f, "coalesce({})", list(inputs, ", ")),
            Node::Call { function: Function::Extract(part), arguments, .. } => {
                write!(f, "extract({} FROM {})", part.name(), list(arguments, ", "))
            }
            Node::Call { function: Function::Concat, arguments, .. } => {
                write!(f, "({})", list(arguments, " || "))
            }
            Node::Call { function, arguments, .. } => {
                write!(f, "{}({})", function.name(), list(arguments, ", "))
            }
        }
    }
}
