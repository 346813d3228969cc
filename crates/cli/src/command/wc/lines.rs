//! The output line of a file: the figures, their width, and the name.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use sakiyomi_text::count::{Counter, Figures};
use serde_json::{Value, json};

use crate::console;

/// The selected figures.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Shown {
    /// Count bytes
    #[arg(short = 'c', long)]
    pub(super) bytes: bool,
    /// Count characters
    #[arg(short = 'm', long)]
    pub(super) chars: bool,
    /// Count newlines
    #[arg(short = 'l', long)]
    pub(super) lines: bool,
    /// Count words
    #[arg(short = 'w', long)]
    pub(super) words: bool,
    /// Find the longest line, in columns
    #[arg(short = 'L', long)]
    pub(super) max_line_length: bool,
}

impl Shown {
    pub(super) fn or_usual(&self) -> Shown {
        let none = self.count() == 0;
        Shown { bytes: self.bytes || none, lines: self.lines || none, words: self.words || none, ..*self }
    }

    pub(super) fn are_only_bytes(&self, counter: &Counter) -> bool {
        !(self.chars && !counter.chars_are_bytes() || self.lines || self.words || self.max_line_length)
    }

    pub(super) fn count(&self) -> usize {
        self.named(&Figures::default()).count()
    }

    /// Returns the figures in the order of output.
    fn named(&self, figures: &Figures) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [
            (self.lines, "lines", figures.lines),
            (self.words, "words", figures.words),
            (self.chars, "chars", figures.chars),
            (self.bytes, "bytes", figures.bytes),
            (self.max_line_length, "max_line_length_columns", figures.columns),
        ];
        all.into_iter().filter(|&(shown, ..)| shown).map(|(_, name, number)| (name, number))
    }

    pub(super) fn in_json(&self, figures: &Figures) -> Value {
        self.named(figures).map(|(name, number)| (name.to_owned(), json!(number))).collect()
    }
}

/// The format of the output.
pub(super) struct Lines {
    pub(super) shown: Shown,
    /// Width of the numbers in columns.
    pub(super) width: usize,
}

impl Lines {
    pub(super) fn print(&self, figures: &Figures, name: Option<&OsStr>) -> io::Result<()> {
        let width = self.width;
        let numbers: Vec<String> =
            self.shown.named(figures).map(|(_, number)| format!("{number:>width$}")).collect();
        let mut line = numbers.join(" ").into_bytes();
        if let Some(name) = name {
            line.push(b' ');
            line.extend(quoted(name.as_bytes()));
        }
        line.push(b'\n');
        console::stdout().write_all(&line)
    }
}

/// Adds a file's figures to the total.
pub(super) fn add(total: &mut Figures, figures: &Figures) {
    total.lines += figures.lines;
    total.words += figures.words;
    total.chars += figures.chars;
    total.bytes += figures.bytes;
    total.columns = total.columns.max(figures.columns);
}

/// Quotes a name for a shell if it contains a newline.
fn quoted(name: &[u8]) -> Vec<u8> {
    if !name.contains(&b'\n') {
        return name.to_vec();
    }
    let mut text = vec![b'\''];
    for &byte in name {
        match byte {
            b'\n' => text.extend(br"'$'\n''"),
            b'\'' => text.extend(br"'\''"),
            byte => text.push(byte),
        }
    }
    text.push(b'\'');
    text
}
