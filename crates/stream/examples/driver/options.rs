//! Options of the form `--name value`, and flags.

use std::fmt::Display;
use std::str::FromStr;

/// The words of the command line that are not yet taken.
pub(crate) struct Options {
    words: Vec<String>,
}

impl Options {
    /// Returns the options of this process.
    pub(crate) fn of_process() -> Options {
        Options { words: std::env::args().skip(1).collect() }
    }

    /// Whether a flag is given.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let found = self.words.iter().position(|word| word == name);
        found.map(|at| self.words.remove(at)).is_some()
    }

    /// The value of an option, or `default` if it is not given.
    ///
    /// # Errors
    /// If the value is missing or cannot be parsed.
    pub(crate) fn value<T: FromStr<Err: Display>>(&mut self, name: &str, default: T) -> Result<T, String> {
        let Some(at) = self.words.iter().position(|word| word == name) else { return Ok(default) };
        if at + 1 == self.words.len() {
            return Err(format!("{name} needs a value"));
        }
        let value = self.words.remove(at + 1);
        self.words.remove(at);
        value.parse().map_err(|error| format!("{name} {value}: {error}"))
    }

    /// # Errors
    /// If a word is left.
    pub(crate) fn end(self) -> Result<(), String> {
        match self.words.first() {
            Some(word) => Err(format!("{word} is not an option; see the head of this example's file")),
            None => Ok(()),
        }
    }
}
