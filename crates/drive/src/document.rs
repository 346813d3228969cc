//! Deserialization of TOML documents, with errors that state the place, the value found and the values expected.
//!
//! serde passes the found and the expected values to the deserializer's error type. The error type here, [`Fault`],
//! keeps them with the path of keys, so that no library's message has to be parsed. Drives and experiments phrase the
//! error with their explanations of the keys.

use std::fmt;

use sakiyomi_model::suggest::{did_you_mean, similar};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// A mismatch between a document and the type that it is deserialized into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Keys from the root to the mismatch; list items by their index.
    pub path: Vec<String>,
    /// Kind of mismatch.
    pub kind: FaultKind,
}

/// Kinds of mismatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A value of the wrong type, or outside the range of its type.
    Value {
        /// Value found, as it is written.
        found: String,
        /// Values expected.
        expected: String,
    },
    /// A key that its table does not accept.
    UnknownKey {
        /// The key.
        key: String,
        /// Keys that the table accepts.
        known: &'static [&'static str],
    },
    /// A required key that is missing.
    MissingKey(&'static str),
    /// A message of the type itself.
    Other(String),
}

impl Fault {
    fn new(kind: FaultKind) -> Fault {
        Fault { path: Vec::new(), kind }
    }

    /// Prepends a key to the path.
    fn below(mut self, key: impl fmt::Display) -> Fault {
        self.path.insert(0, key.to_string());
        self
    }

    /// Returns the full dotted key, including that of an unknown or missing one.
    #[must_use]
    pub fn key(&self) -> String {
        let last = match &self.kind {
            FaultKind::UnknownKey { key, .. } => Some(key.as_str()),
            FaultKind::MissingKey(key) => Some(*key),
            FaultKind::Value { .. } | FaultKind::Other(_) => None,
        };
        self.path.iter().map(String::as_str).chain(last).collect::<Vec<_>>().join(".")
    }

    /// Returns the message without the key: `"fast", expected a number`.
    #[must_use]
    pub fn problem(&self) -> String {
        match &self.kind {
            FaultKind::Value { found, expected } => format!("{found}; expected {expected}"),
            FaultKind::UnknownKey { key, known } => {
                let near = similar(key, known.iter().copied());
                let parents = self.path.join(".");
                let dot = if parents.is_empty() { "" } else { "." };
                let near: Vec<String> = near.iter().map(|name| format!("{parents}{dot}{name}")).collect();
                let known = match (near.is_empty(), self.path.is_empty()) {
                    (false, _) => String::new(),
                    (true, true) => format!("; valid keys: {}", known.join(", ")),
                    (true, false) => format!("; `{parents}` has {}", known.join(", ")),
                };
                format!("unknown key{}{known}", did_you_mean(&near))
            }
            FaultKind::MissingKey(_) => "it is missing".to_owned(),
            FaultKind::Other(sentence) => sentence.clone(),
        }
    }

    fn value(found: Unexpected<'_>, expected: &dyn de::Expected) -> Fault {
        Fault::new(FaultKind::Value { found: shown(found), expected: describe(&expected.to_string()) })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key().as_str() {
            "" => f.write_str(&self.problem()),
            key => write!(f, "{key}: {}", self.problem()),
        }
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Fault {
        Fault::new(FaultKind::Other(message.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn de::Expected) -> Fault {
        Fault::value(found, expected)
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn de::Expected) -> Fault {
        Fault::value(found, expected)
    }

    fn invalid_length(length: usize, expected: &dyn de::Expected) -> Fault {
        Fault::value(Unexpected::Other(&format!("a list of {length}")), expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Fault {
        let near = similar(variant, expected.iter().copied());
        let expected = match expected {
            [one] => format!("\"{one}\""),
            names => format!("one of {}", names.join(", ")),
        };
        let expected = format!("{expected}{}", did_you_mean(&near));
        Fault::new(FaultKind::Value { found: format!("\"{variant}\""), expected })
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Fault {
        Fault::new(FaultKind::UnknownKey { key: field.to_owned(), known: expected })
    }

    fn missing_field(field: &'static str) -> Fault {
        Fault::new(FaultKind::MissingKey(field))
    }
}

/// Formats a value as TOML writes it.
fn shown(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(value) => value.to_string(),
        Unexpected::Signed(value) => value.to_string(),
        Unexpected::Float(value) => value.to_string(),
        Unexpected::Str(text) => format!("{text:?}"),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a table".to_owned(),
        Unexpected::Other(what) => what.to_owned(),
        _ => "a value of another kind".to_owned(),
    }
}

/// Replaces serde's name of a type by plain words; other texts are unchanged.
fn describe(expected: &str) -> String {
    let whole = |most: &str| format!("a whole number from 0 to {most}");
    match expected {
        "u8" => whole("255"),
        "u16" => whole("65535"),
        "u32" => whole("4294967295"),
        "u64" | "usize" => "a whole number, 0 or more".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number such as 2 or 0.5".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" => "text in quotes".to_owned(),
        "a sequence" => "a list in brackets".to_owned(),
        expected if expected.starts_with("struct ") || expected == "a map" => "a table of keys".to_owned(),
        expected => match expected.split_once(" of size ").or_else(|| expected.split_once(" of length ")) {
            Some((_, size)) => format!("a list of {size} in brackets"),
            None => expected.to_owned(),
        },
    }
}

/// Deserializes a parsed table.
///
/// # Errors
/// [`Fault`] if the table does not match the type.
pub fn from_table<T: DeserializeOwned>(table: &Table) -> Result<T, Fault> {
    T::deserialize(Tree(&Value::Table(table.clone())))
}

/// Parses a typed value that replaces `now`: as TOML if it is valid, else as a string, so that `1MiB` needs no quotes.
/// If the current value is a string, as for sizes and durations, a number becomes a string too, so that one rule
/// produces the error.
#[must_use]
pub fn typed_value(now: &Value, typed: &str) -> Value {
    let parsed: Option<Table> = toml::from_str(&format!("value = {typed}")).ok();
    let parsed = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    let text = || Value::String(typed.to_owned());
    match parsed {
        Some(scalar) if now.is_str() && !(scalar.is_table() || scalar.is_array() || scalar.is_str()) => {
            text()
        }
        parsed => parsed.unwrap_or_else(text),
    }
}

/// Deserializes `text`. `problem` describes a fault without its key; `origin` names the text in errors.
///
/// # Errors
/// A message that begins with the origin and the line.
pub fn from_text<T: DeserializeOwned>(
    text: &str,
    origin: &str,
    problem: impl Fn(&Fault) -> String,
) -> Result<T, String> {
    let table: Table = match toml::from_str(text) {
        Ok(table) => table,
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            let message = error.message().trim_end();
            return Err(format!(
                "{origin}:{}: this is not TOML: {message}; a line is written like size = \"8MiB\"",
                line_of(text, at)
            ));
        }
    };
    from_table(&table).map_err(|fault| {
        let key = fault.key();
        let line = line_of_key(text, &key);
        let colon = if key.is_empty() { "" } else { ": " };
        format!("{origin}:{line}: {key}{colon}{}", problem(&fault))
    })
}

/// Returns the line of a byte offset, from 1.
fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
}

/// Returns the line of a key, or else of the innermost table around it; 1 if the text is not TOML.
#[must_use]
pub fn line_of_key(text: &str, key: &str) -> usize {
    place_of(text, key).map_or(1, |at| line_of(text, at))
}

fn place_of(text: &str, key: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let mut at = None;
    let mut around = &DeValue::Table(root.into_inner());
    for key in key.split('.') {
        let value = match around {
            DeValue::Table(table) => {
                let Some((name, value)) = table.iter().find(|(name, _)| name.get_ref() == key) else { break };
                at = Some(name.span().start);
                value
            }
            DeValue::Array(items) => {
                let Some(item) = key.parse().ok().and_then(|index: usize| items.get(index)) else { break };
                at = Some(item.span().start);
                item
            }
            _ => break,
        };
        around = value.get_ref();
    }
    at
}

/// A TOML value as a deserializer.
struct Tree<'a>(&'a Value);

impl Tree<'_> {
    fn unexpected(&self) -> Unexpected<'_> {
        match self.0 {
            Value::String(text) => Unexpected::Str(text),
            Value::Integer(number) => Unexpected::Signed(*number),
            Value::Float(number) => Unexpected::Float(*number),
            Value::Boolean(value) => Unexpected::Bool(*value),
            Value::Datetime(_) => Unexpected::Other("a date"),
            Value::Array(_) => Unexpected::Seq,
            Value::Table(_) => Unexpected::Map,
        }
    }
}

impl<'de> de::Deserializer<'de> for Tree<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0 {
            Value::String(text) => visitor.visit_str(text),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(value) => visitor.visit_bool(*value),
            Value::Datetime(_) => Err(Fault::value(self.unexpected(), &visitor)),
            Value::Array(items) => {
                let mut items = Items { items: items.iter(), number: 0 };
                let value = visitor.visit_seq(&mut items)?;
                match items.items.len() {
                    0 => Ok(value),
                    left => Err(de::Error::invalid_length(items.number + left, &"fewer items")),
                }
            }
            Value::Table(table) => visitor.visit_map(Entries::new(table, &[])),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.0 {
            Value::Table(table) => visitor.visit_map(Entries::new(table, fields)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.0 {
            Value::String(text) => {
                let text: de::value::StrDeserializer<'_, Fault> = text.as_str().into_deserializer();
                visitor.visit_enum(text)
            }
            _ => {
                let expected = format!("one of {}, in quotes", variants.join(", "));
                Err(Fault::value(self.unexpected(), &expected.as_str()))
            }
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Items<'a> {
    items: std::slice::Iter<'a, Value>,
    number: usize,
}

impl<'de> SeqAccess<'de> for &mut Items<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let number = self.number;
        self.number += 1;
        seed.deserialize(Tree(item)).map(Some).map_err(|fault| fault.below(number))
    }
}

struct Entries<'a> {
    entries: std::vec::IntoIter<(&'a String, &'a Value)>,
    next: Option<(&'a String, &'a Value)>,
}

impl<'a> Entries<'a> {
    /// Unknown keys come first, because a misspelt key is the cause of a missing one.
    fn new(table: &'a Table, fields: &[&str]) -> Entries<'a> {
        let mut entries: Vec<(&String, &Value)> = table.iter().collect();
        entries.sort_by_key(|(key, _)| fields.contains(&key.as_str()));
        Entries { entries: entries.into_iter(), next: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.next = Some((key, value));
        let key: de::value::StrDeserializer<'_, Fault> = key.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let (key, value) = self.next.take().expect("serde asks for the key first");
        seed.deserialize(Tree(value)).map_err(|fault| fault.below(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_model::{Bytes, Nanos};
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        Off,
        TrackEnd,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Inner {
        size: Bytes,
        #[serde(default)]
        delay: Option<Nanos>,
        #[serde(default)]
        share: f64,
        #[serde(default)]
        pair: Option<[u64; 2]>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Outer {
        name: String,
        #[serde(default)]
        on: bool,
        #[serde(default)]
        count: u32,
        #[serde(default)]
        mode: Option<Mode>,
        #[serde(default)]
        part: Vec<Inner>,
    }

    fn refused(text: &str) -> String {
        from_text::<Outer>(text, "x.toml", Fault::problem).unwrap_err()
    }

    #[test]
    fn a_document_that_fits_is_read() {
        let text = "name = 'a'\non = true\ncount = 3\nmode = 'track_end'\n[[part]]\nsize = '4KiB'\nshare = 1\n\
                    delay = '2ms'\npair = [1, 2]";
        let read: Outer = from_text(text, "x.toml", Fault::problem).unwrap();
        assert_eq!((read.name.as_str(), read.on, read.count), ("a", true, 3));
        assert!(matches!(read.mode, Some(Mode::TrackEnd)));
        let part = &read.part[0];
        assert_eq!((part.size, part.delay, part.share), (Bytes(4096), Some(Nanos(2_000_000)), 1.0));
        assert_eq!(part.pair, Some([1, 2]));
    }

    #[test]
    fn a_fault_is_told_by_line_key_value_and_what_is_expected() {
        let part =
            |line: &str| refused(&format!("name = 'a'\n\n[[part]]\nsize = 1\n\n[[part]]\nsize = 1\n{line}"));
        for (said, expected) in [
            (refused("name = 3"), "x.toml:1: name: 3; expected text in quotes"),
            (refused("name = 'a'\non = 1"), "x.toml:2: on: 1; expected true or false"),
            (
                refused("name = 'a'\ncount = -1"),
                "x.toml:2: count: -1; expected a whole number from 0 to 4294967295",
            ),
            (
                refused("name = 'a'\ncount = 2026-01-01"),
                "x.toml:2: count: a date; expected a whole number from 0 to 4294967295",
            ),
            (
                refused("name = 'a'\nmode = 'trackend'"),
                "x.toml:2: mode: \"trackend\"; expected one of off, track_end; did you mean track_end?",
            ),
            (refused("name = 'a'\nmode = 3"), "x.toml:2: mode: 3; expected one of off, track_end, in quotes"),
            (refused("on = true"), "x.toml:1: name: it is missing"),
            (refused("name = 'a'\n\ncuont = 1"), "x.toml:3: cuont: unknown key; did you mean count?"),
            (
                refused("name = 'a'\nxyz = 1"),
                "x.toml:2: xyz: unknown key; valid keys: name, on, count, mode, part",
            ),
            (
                part("delay = 3"),
                "x.toml:8: part.1.delay: 3; expected a duration with its unit such as \"1.5ms\"",
            ),
            (
                part("delay = '3'"),
                "x.toml:8: part.1.delay: `3` is not a duration: the unit is missing; write it like 250us, 1.5ms, 10s or 2min",
            ),
            (part("share = 'nan'"), "x.toml:8: part.1.share: \"nan\"; expected a number such as 2 or 0.5"),
            (part("pair = [1]"), "x.toml:8: part.1.pair: a list of 1; expected a list of 2 in brackets"),
            (part("pair = [1, 2, 3]"), "x.toml:8: part.1.pair: a list of 3; expected fewer items"),
            (part("sise = 3"), "x.toml:8: part.1.sise: unknown key; did you mean part.1.size?"),
            (refused("name = 'a'\npart = 3"), "x.toml:2: part: 3; expected a list in brackets"),
            (refused("name = 'a'\npart = [3]"), "x.toml:2: part.0: 3; expected a table of keys"),
            (refused("name = 'a'\n[[part]]"), "x.toml:2: part.0.size: it is missing"),
            (
                refused("name = 'a'\n[[part]]\n[[prat]]\nsize = 1"),
                "x.toml:3: prat: unknown key; did you mean part?",
            ),
        ] {
            assert_eq!(said, expected);
        }
        let said = refused("name = 'a'\n\nsize: 3");
        assert!(said.starts_with("x.toml:3: this is not TOML: "), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
