//! Parses text to a syntax tree, within limits that prevent stack overflow in later steps.

use sqlparser::ast::{Expr, SelectItem};
use sqlparser::dialect::Dialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::Error;

/// Maximum length of an expression: more than a user types, and cheap to parse.
const TEXT_MAX_BYTES: usize = 64 << 10;
/// Maximum number of tokens. A chain of operators makes a tree half as deep, which is dropped recursively.
const TOKENS_MAX: usize = 2048;
/// Maximum nesting of parentheses, functions and NOT. A level takes up to 80 KiB of stack in a debug build of the
/// parser, and a thread has 2 MiB.
const NESTING_MAX: usize = 20;
/// Maximum number of characters of an expression in an error.
const QUOTED_CHARS_MAX: usize = 80;

/// SQL with `"quoted"` names, without extensions of other dialects.
#[derive(Debug)]
struct Sql;

impl Dialect for Sql {
    fn is_identifier_start(&self, character: char) -> bool {
        character.is_alphabetic() || character == '_'
    }

    fn is_identifier_part(&self, character: char) -> bool {
        character.is_alphanumeric() || character == '_' || character == '$'
    }

    fn is_delimited_identifier_start(&self, character: char) -> bool {
        character == '"'
    }

    fn supports_select_wildcard_except(&self) -> bool {
        true
    }

    fn supports_select_wildcard_exclude(&self) -> bool {
        true
    }
}

pub(crate) fn expression(text: &str) -> Result<Expr, Error> {
    parse(text, Parser::parse_expr)
}

/// Parses a list of expressions with optional names, as after SELECT.
pub(crate) fn projection(text: &str) -> Result<Vec<SelectItem>, Error> {
    parse(text, Parser::parse_projection)
}

/// Parses one expression with an optional name.
pub(crate) fn item(text: &str) -> Result<SelectItem, Error> {
    parse(text, Parser::parse_select_item)
}

fn parse<T>(
    text: &str,
    read: impl FnOnce(&mut Parser<'static>) -> Result<T, ParserError>,
) -> Result<T, Error> {
    let tokens = tokens(text)?;
    let mut parser = Parser::new(&Sql).with_recursion_limit(NESTING_MAX).with_tokens_with_locations(tokens);
    let parsed = read(&mut parser).map_err(|error| refuse(text, &reason(&error)))?;
    match &parser.peek_token().token {
        Token::EOF => Ok(parsed),
        other => Err(refuse(text, &format!("it ends before '{other}'; an operator or a comma is missing"))),
    }
}

fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, Error> {
    if text.len() > TEXT_MAX_BYTES {
        return Err(refuse(text, &format!("it is longer than {TEXT_MAX_BYTES} bytes")));
    }
    let tokens = Tokenizer::new(&Sql, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| refuse(text, &error.message))?;
    let words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).count();
    match words {
        0 => Err(Error::Expression("the expression is empty; write one such as l_quantity < 24".into())),
        1..=TOKENS_MAX => Ok(tokens),
        _ => Err(refuse(text, &format!("it has more than {TOKENS_MAX} tokens"))),
    }
}

fn refuse(text: &str, reason: &str) -> Error {
    Error::Expression(format!("the expression '{}' cannot be read: {reason}", shortened(text)))
}

/// Truncates a text to the 80 characters of it that an error quotes.
pub fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(QUOTED_CHARS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

fn reason(error: &ParserError) -> String {
    match error {
        ParserError::TokenizerError(reason) => reason.clone(),
        ParserError::ParserError(reason) => match reason.strip_prefix("Expected: ") {
            Some(rest) => format!("expected {}", rest.replace("found: EOF", "found the end")),
            None => reason.clone(),
        },
        ParserError::RecursionLimitExceeded => "it is nested too deeply".into(),
    }
}
