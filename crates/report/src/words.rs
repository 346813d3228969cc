//! Sentences and lists of names.

use std::fmt::Write as _;

use crate::number::count;

/// A space at which no line is broken.
pub(crate) const NO_BREAK_SPACE: char = '\u{a0}';

/// Joins the sentences to a text in which no line breaks between a number and its unit.
pub(crate) fn paragraph(sentences: &[String]) -> String {
    let mut text = String::new();
    for c in sentences.join(" ").chars() {
        let after_digit = text.ends_with(|last: char| last.is_ascii_digit());
        text.push(if c == ' ' && after_digit { NO_BREAK_SPACE } else { c });
    }
    text
}

/// Returns `a`, `a and b`, `a, b and c`.
pub(crate) fn list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

/// Maximum characters of a command line that are shown.
pub(crate) const COMMAND_MAX: usize = 300;

/// Returns the words of a command, up to about `longest` characters: a shell may expand a pattern to thousands of
/// names.
pub(crate) fn command_line(words: &[String], longest: usize) -> String {
    let mut title = String::new();
    for (index, word) in words.iter().enumerate() {
        let length = title.chars().count() + word.chars().count() + 1;
        if index > 0 && length > longest {
            let _ = write!(title, " \u{2026} and {} more", count((words.len() - index) as u64));
            break;
        }
        let _ = write!(title, "{}{}", if index > 0 { " " } else { "" }, short(word, longest));
    }
    title
}

/// Truncates a long word.
fn short(word: &str, longest: usize) -> String {
    let mut cut: String = word.chars().take(longest).collect();
    if cut.len() < word.len() {
        cut.push('\u{2026}');
    }
    cut
}

/// Returns `text` without control characters, which could move the cursor or forge a line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
