//! TOML documents read key by key, with errors that name the key and its line.

mod definition;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::str::FromStr;

use sakiyomi_model::suggest::{did_you_mean, similar};
use toml::de::{DeTable, DeValue};

use crate::Error;

/// A TOML text and its name in errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Document<'a> {
    origin: &'a str,
    text: &'a str,
}

/// A table of a document. It records which keys were read: all others are errors.
pub(crate) struct Table<'a> {
    document: Document<'a>,
    /// The keys from the root, with dots between.
    path: String,
    at: usize,
    table: &'a DeTable<'a>,
    known: RefCell<BTreeSet<&'static str>>,
}

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    /// The value.
    pub(crate) value: T,
    /// Where it stands, for errors.
    pub(crate) place: Place,
}

/// The place of a value in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    origin: String,
    line: usize,
    key: String,
}

impl Place {
    /// Returns an error at this place.
    pub(crate) fn error(&self, problem: impl Into<String>) -> Error {
        let Place { origin, line, key } = self.clone();
        Error::Spec { origin, line, key, problem: problem.into() }
    }
}

impl<T> At<T> {
    /// Returns an error about this value.
    pub(crate) fn error(&self, problem: impl Into<String>) -> Error {
        self.place.error(problem)
    }

    /// Another value at the same place.
    pub(crate) fn with<U>(&self, value: U) -> At<U> {
        At { value, place: self.place.clone() }
    }
}

impl<'a> Document<'a> {
    /// Returns a text; `origin` is its name in errors, such as that of its file.
    pub(crate) fn new(origin: &'a str, text: &'a str) -> Document<'a> {
        Document { origin, text }
    }

    /// Parses the text and passes its root table to `read`.
    ///
    /// # Errors
    /// If the text is not TOML, and those of `read`.
    pub(crate) fn read<T>(self, read: impl FnOnce(&Table<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let root = DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let problem = format!("this is not TOML: {}", error.message().trim_end().replace('\n', "; "));
            self.place(String::new(), at).error(problem)
        })?;
        let root = root.into_inner();
        let table =
            Table { document: self, path: String::new(), at: 0, table: &root, known: RefCell::default() };
        read(&table)
    }

    fn place(self, key: String, at: usize) -> Place {
        let line = 1 + self.text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count();
        Place { origin: self.origin.to_owned(), line, key }
    }
}

impl<'a> Table<'a> {
    /// Returns the place of the table.
    pub(crate) fn place(&self) -> Place {
        self.document.place(self.path.clone(), self.at)
    }

    /// The keys of the whole table below their names, with their values: the same for all ways to write them.
    pub(crate) fn definition(&self) -> Vec<String> {
        definition::lines(self.table)
    }

    fn key_path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn find(&self, key: &str) -> Option<(Place, &'a DeValue<'a>)> {
        let (name, value) = self.table.iter().find(|(name, _)| name.get_ref().as_ref() == key)?;
        Some((self.document.place(self.key_path(key), name.span().start), value.get_ref()))
    }

    fn asked(&self, key: &'static str) -> Option<(Place, &'a DeValue<'a>)> {
        self.known.borrow_mut().insert(key);
        self.find(key)
    }

    /// Returns a text, if the key is there.
    ///
    /// # Errors
    /// If the value is of another type.
    pub(crate) fn text(&self, key: &'static str) -> Result<Option<At<String>>, Error> {
        let Some((place, value)) = self.asked(key) else { return Ok(None) };
        match value.as_str() {
            Some(text) => Ok(Some(At { value: text.to_owned(), place })),
            None => Err(place.error(format!("{} is not a string; write it in quotes", shown(value)))),
        }
    }

    /// Returns a text that must be there; `example` shows how the line is written.
    ///
    /// # Errors
    /// If the key is missing, and as [`Table::text`].
    pub(crate) fn required(&self, key: &'static str, example: &str) -> Result<At<String>, Error> {
        self.text(key)?.ok_or_else(|| self.missing(key, example))
    }

    /// Returns a text that is read into a value.
    ///
    /// # Errors
    /// Returns the errors of [`Table::text`], and those of the value's type.
    pub(crate) fn parsed<T: FromStr<Err: std::fmt::Display>>(
        &self,
        key: &'static str,
    ) -> Result<Option<At<T>>, Error> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let value = text.value.parse().map_err(|error: T::Err| text.error(error.to_string()))?;
        Ok(Some(text.with(value)))
    }

    /// Returns one of some words, as its index.
    ///
    /// # Errors
    /// Returns the errors of [`Table::text`], and an error if it is another word.
    pub(crate) fn word(&self, key: &'static str, words: &[&str]) -> Result<Option<At<usize>>, Error> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match words.iter().position(|word| *word == text.value) {
            Some(index) => Ok(Some(text.with(index))),
            None => Err(text.error(unknown_word(&text.value, words))),
        }
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// If the value is of another type.
    pub(crate) fn flag(&self, key: &'static str) -> Result<Option<bool>, Error> {
        let Some((place, value)) = self.asked(key) else { return Ok(None) };
        match value.as_bool() {
            Some(value) => Ok(Some(value)),
            None => Err(place.error(format!("{} is neither true nor false", shown(value)))),
        }
    }

    /// Returns a whole number of at least `least`.
    ///
    /// # Errors
    /// If the value is of another type or less.
    pub(crate) fn count(&self, key: &'static str, least: u64) -> Result<Option<At<u64>>, Error> {
        let Some((place, value)) = self.asked(key) else { return Ok(None) };
        let number = value.as_integer().and_then(|integer| {
            i64::from_str_radix(integer.as_str(), integer.radix()).ok().and_then(|n| u64::try_from(n).ok())
        });
        match number.filter(|&number| number >= least) {
            Some(value) => Ok(Some(At { value, place })),
            None => Err(place.error(format!("{} is not a whole number of {least} or more", shown(value)))),
        }
    }

    /// Returns a number that is not negative.
    ///
    /// # Errors
    /// If the value is of another type or negative.
    pub(crate) fn number(&self, key: &'static str) -> Result<Option<At<f64>>, Error> {
        let Some((place, value)) = self.asked(key) else { return Ok(None) };
        let digits = value.as_float().map(|float| float.as_str());
        let digits = digits.or_else(|| value.as_integer().map(|integer| integer.as_str()));
        let number = digits.and_then(|digits| digits.parse::<f64>().ok());
        match number.filter(|number| number.is_finite() && *number >= 0.0) {
            Some(value) => Ok(Some(At { value, place })),
            None => Err(place.error(format!("{} is not a number of 0 or more", shown(value)))),
        }
    }

    /// Returns a rate in records per second: a number, or a string with a suffix of thousands.
    ///
    /// # Errors
    /// If the value is neither, or negative.
    pub(crate) fn rate(&self, key: &'static str) -> Result<Option<At<f64>>, Error> {
        let Some((place, value)) = self.asked(key) else { return Ok(None) };
        let text = value.as_str().or_else(|| value.as_float().map(|float| float.as_str()));
        let text = text.or_else(|| value.as_integer().map(|integer| integer.as_str()));
        match text.and_then(parse_rate) {
            Some(value) => Ok(Some(At { value, place })),
            None => Err(place.error(format!(
                "{} is not a rate of 0 or more; write records per second, such as 5000, \"200k\" or \"1.5M\"",
                shown(value)
            ))),
        }
    }

    /// Returns a list of strings.
    ///
    /// # Errors
    /// If the value is of another type.
    pub(crate) fn texts(&self, key: &'static str) -> Result<Option<At<Vec<String>>>, Error> {
        let Some((place, value)) = self.asked(key) else { return Ok(None) };
        let items = value.as_array().map(|items| {
            items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        match items.flatten() {
            Some(value) => Ok(Some(At { value, place })),
            None => {
                Err(place.error(format!("{} is not a list of strings such as [\"a\", \"b\"]", shown(value))))
            }
        }
    }

    /// Returns a table whose keys the user chooses, with a text for each, in the order in which they stand.
    ///
    /// # Errors
    /// If a value is of another type.
    pub(crate) fn named_texts(&self, key: &'static str) -> Result<Vec<(String, At<String>)>, Error> {
        let Some(table) = self.table(key)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for (name, value) in table.table.iter() {
            let place = self.document.place(table.key_path(name.get_ref()), name.span().start);
            let Some(text) = value.get_ref().as_str() else {
                return Err(
                    place.error(format!("{} is not a string; write it in quotes", shown(value.get_ref())))
                );
            };
            found.push((name.span().start, name.get_ref().to_string(), At { value: text.to_owned(), place }));
        }
        found.sort_by_key(|(at, ..)| *at);
        Ok(found.into_iter().map(|(_, name, text)| (name, text)).collect())
    }

    /// Returns a table, if the key is there.
    ///
    /// # Errors
    /// If the value is of another type.
    pub(crate) fn table(&self, key: &'static str) -> Result<Option<Table<'a>>, Error> {
        let Some((place, value)) = self.asked(key) else { return Ok(None) };
        match value.as_table() {
            Some(table) => Ok(Some(self.below(self.key_path(key), self.span_of(key), table))),
            None => {
                Err(place.error(format!("{} is not a table; write [{}]", shown(value), self.key_path(key))))
            }
        }
    }

    /// Returns the tables of a table whose keys the user chooses, with these, in the order in which they stand.
    ///
    /// # Errors
    /// If a value is not a table.
    pub(crate) fn named_tables(&self, key: &'static str) -> Result<Vec<(String, Table<'a>)>, Error> {
        let Some(outer) = self.table(key)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for (name, value) in outer.table.iter() {
            let (path, at) = (outer.key_path(name.get_ref()), name.span().start);
            let Some(table) = value.get_ref().as_table() else {
                let place = self.document.place(path, at);
                return Err(place.error(format!(
                    "{} is not a table; give it a name: [{key}.NAME]",
                    shown(value.get_ref())
                )));
            };
            found.push((at, name.get_ref().to_string(), self.below(path, at, table)));
        }
        found.sort_by_key(|(at, ..)| *at);
        Ok(found.into_iter().map(|(_, name, table)| (name, table)).collect())
    }

    /// Returns the tables of an array of tables.
    ///
    /// # Errors
    /// If the value is of another type.
    pub(crate) fn tables(&self, key: &'static str) -> Result<Vec<Table<'a>>, Error> {
        let Some((place, value)) = self.asked(key) else { return Ok(Vec::new()) };
        let wrong = || place.error(format!("{} is not a list of tables; write [[{key}]]", shown(value)));
        let items = value.as_array().ok_or_else(wrong)?;
        let table = |(index, item): (usize, &'a toml::Spanned<DeValue<'a>>)| {
            let table = item.get_ref().as_table().ok_or_else(wrong)?;
            Ok(self.below(format!("{key}.{index}"), item.span().start, table))
        };
        items.iter().enumerate().map(table).collect()
    }

    fn below(&self, path: String, at: usize, table: &'a DeTable<'a>) -> Table<'a> {
        Table { document: self.document, path, at, table, known: RefCell::default() }
    }

    fn span_of(&self, key: &str) -> usize {
        let entry = self.table.iter().find(|(name, _)| name.get_ref().as_ref() == key);
        entry.map_or(self.at, |(name, _)| name.span().start)
    }

    /// Refuses a key that is there without `condition`, another key and its value.
    ///
    /// # Errors
    /// If it is there.
    pub(crate) fn only_with(&self, key: &'static str, condition: &str) -> Result<(), Error> {
        match self.asked(key) {
            None => Ok(()),
            Some((place, _)) => Err(place.error(format!("it needs {condition}"))),
        }
    }

    /// Returns the error of a key that is missing.
    pub(crate) fn missing(&self, key: &str, example: &str) -> Error {
        let place = Place { key: self.key_path(key), ..self.place() };
        place.error(format!("it is missing; write {key} = {example}"))
    }

    /// Refuses unknown keys.
    ///
    /// # Errors
    /// If there is one, with the known keys that look like it.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        let known = self.known.borrow();
        for (name, _) in self.table.iter() {
            let key = name.get_ref().as_ref();
            if !known.contains(key) {
                let place = self.document.place(self.key_path(key), name.span().start);
                let words: Vec<&str> = known.iter().copied().collect();
                let near = similar(key, words.iter().copied());
                let rest = if near.is_empty() {
                    format!("; valid keys: {}", words.join(", "))
                } else {
                    did_you_mean(&near)
                };
                return Err(place.error(format!("unknown key{rest}")));
            }
        }
        Ok(())
    }
}

/// Returns the problem of a word that is not one of the known ones.
pub(crate) fn unknown_word(found: &str, words: &[&str]) -> String {
    let near = similar(found, words.iter().copied());
    let rest =
        if near.is_empty() { format!("; write one of {}", words.join(", ")) } else { did_you_mean(&near) };
    format!("\"{found}\" is unknown{rest}")
}

/// Parses a rate in records per second: `5000`, `200k`, `1.5M`, also followed by `/s`. `None` if it is negative or not a
/// number.
#[must_use]
pub fn parse_rate(text: &str) -> Option<f64> {
    let bare = text.trim().trim_end_matches("/s");
    let (digits, factor) = match bare.as_bytes().last() {
        Some(b'k' | b'K') => (&bare[..bare.len() - 1], 1e3),
        Some(b'M') => (&bare[..bare.len() - 1], 1e6),
        Some(b'G') => (&bare[..bare.len() - 1], 1e9),
        _ => (bare, 1.0),
    };
    let rate = digits.parse::<f64>().ok()? * factor;
    (rate.is_finite() && rate >= 0.0).then_some(rate)
}

/// Returns a value as an error shows it.
fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(integer) => integer.as_str().to_owned(),
        DeValue::Float(float) => float.as_str().to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
