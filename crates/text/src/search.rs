//! Searches blocks of whole lines for lines that match a pattern, as `grep` does.
//!
//! Patterns are compiled and matched by the crates that ripgrep stands on: `grep-regex`, over `regex-automata`. A
//! pattern has no back-references and no look-around, and takes time linear in the text. A line matches if the pattern
//! is found in it, without the newline that ends it.
//!
//! A block is searched as one text, not line by line, so that the search can skip text that cannot match. No match
//! contains a newline, so that one in the block is one in a line. Where a pattern has a literal that each match must
//! contain, such as `Error` in `[A-Z][a-z]+Error`, the block is searched for that, and then the lines where it occurs.
//! Patterns with anchors of the whole text are searched line by line.
//!
//! To match whole words, the block is searched for matches without a letter, digit or underscore of ASCII beside them,
//! and then their lines, because letters beyond ASCII belong to words, and combining marks and invalid bytes end them.

use std::borrow::Cow;

use grep_matcher::{Captures as _, LineMatchKind, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use memchr::{memchr, memchr_iter, memrchr};

/// Options that determine the meaning of patterns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meaning {
    /// Patterns are literal texts, not regular expressions.
    pub fixed: bool,
    /// Case is ignored.
    pub ignore_case: bool,
    /// A match must consist of whole words.
    pub whole_words: bool,
    /// A match must be a whole line.
    pub whole_lines: bool,
    /// Lines that do not match are selected.
    pub invert: bool,
}

/// Searches blocks of whole lines. A copy is cheap, and has memory of its own for the search: each thread should use
/// one of its own, because threads that share one wait for each other.
#[derive(Clone, Debug)]
pub struct Searcher {
    /// Finds every matching line; for whole words, also others.
    lines: RegexMatcher,
    /// For whole words: the boundary before a match, the match as first group, and the boundary after it.
    words: Option<RegexMatcher>,
    invert: bool,
}

/// The error of a pattern.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// It is not a regular expression.
    #[error(transparent)]
    Syntax(Box<regex_syntax::Error>),
    /// It matches only text with a newline.
    #[error(r"a pattern has a newline (`\n`), which no line contains; give the parts as two patterns")]
    Newline,
    /// It cannot be searched for: it takes too much memory.
    #[error(transparent)]
    Refused(Box<grep_regex::Error>),
}

/// Memory limit of all patterns together: some 100,000 words.
const REGEX_MAX_BYTES: usize = 256 << 20;
/// Memory limit of the states that a thread keeps of a search; if they exceed it, it makes them again.
const STATES_MAX_BYTES: usize = 64 << 20;

/// Replaces a byte that belongs to no character; does not occur in UTF-8.
const INVALID_BYTE: u8 = 0xff;

/// A character that does not belong to a word. Words are those of GNU: `\w` of the crate also has combining marks, connecting
/// punctuation and joiners.
const NO_WORD_CHARACTER: &str = r"[^\p{Alphabetic}\p{Nd}_]|(?-u:\xff)";

impl Searcher {
    /// Makes a searcher for lines that match one of the patterns. A pattern of several lines is several patterns;
    /// without patterns, no line matches.
    ///
    /// # Errors
    /// If a pattern is invalid, or contains a newline.
    pub fn new(patterns: &[impl AsRef<str>], meaning: Meaning) -> Result<Searcher, PatternError> {
        let patterns: Vec<&str> = patterns.iter().flat_map(|pattern| pattern.as_ref().split('\n')).collect();
        // Each is parsed separately first, so that `a)(b` is invalid.
        for pattern in patterns.iter().filter(|_| !meaning.fixed) {
            let parsed = regex_syntax::ParserBuilder::new().utf8(false).build().parse(pattern);
            parsed.map_err(|error| PatternError::Syntax(Box::new(error)))?;
        }
        let patterns = if patterns.is_empty() { vec![NO_MATCH] } else { patterns };
        if !meaning.whole_words || meaning.whole_lines {
            let mut builder = builder(meaning);
            builder.fixed_strings(meaning.fixed && patterns != [NO_MATCH]).whole_line(meaning.whole_lines);
            let lines = builder.build_many(&patterns).map_err(refused)?;
            return Ok(Searcher { lines, words: None, invert: meaning.invert });
        }
        let of = |pattern: &&str| {
            let is_literal = meaning.fixed && *pattern != NO_MATCH;
            let pattern = if is_literal { regex_syntax::escape(pattern) } else { (*pattern).to_owned() };
            format!("(?:{pattern})")
        };
        let one_of_them = patterns.iter().map(of).collect::<Vec<_>>().join("|");
        let candidates = format!(r"(?-u:\b{{start-half}})(?:{one_of_them})(?-u:\b{{end-half}})");
        let words = format!("(?:^|{NO_WORD_CHARACTER})({one_of_them})(?:{NO_WORD_CHARACTER}|$)");
        Ok(Searcher {
            lines: builder(meaning).build(&candidates).map_err(refused)?,
            words: Some(builder(meaning).build(&words).map_err(refused)?),
            invert: meaning.invert,
        })
    }

    /// Calls `wanted` with each selected line, including its newline if it has one, and its offset.
    pub fn lines<'b>(&self, block: &'b [u8], mut wanted: impl FnMut(usize, &'b [u8])) {
        let mut at = 0;
        while at < block.len() {
            let line = self.next(block, at);
            let (start, end) = line.unwrap_or((block.len(), block.len()));
            if self.invert {
                let mut from = at;
                for newline in memchr_iter(b'\n', &block[at..start]) {
                    wanted(from, &block[from..=at + newline]);
                    from = at + newline + 1;
                }
                if from < start {
                    wanted(from, &block[from..start]);
                }
            } else if start < end {
                wanted(start, &block[start..end]);
            }
            at = end;
        }
    }

    /// Returns the number of selected lines.
    #[must_use]
    pub fn count(&self, block: &[u8]) -> u64 {
        let (mut at, mut matching) = (0, 0);
        while let Some(end) = self.next_end(block, at) {
            matching += 1;
            at = end;
        }
        if self.invert { lines(block) - matching } else { matching }
    }

    /// Returns the first matching line at or after `from`, where a line begins.
    fn next(&self, block: &[u8], from: usize) -> Option<(usize, usize)> {
        let end = self.next_end(block, from)?;
        Some((line_start(block, from, end - 1), end))
    }

    /// Returns the end of the first matching line at or after `from`, where a line begins.
    fn next_end(&self, block: &[u8], from: usize) -> Option<usize> {
        let mut at = from;
        while at < block.len() {
            let (found, is_match) = self.candidate(&block[at..])?;
            let found = at + found;
            if found == block.len() && block[found - 1] == b'\n' {
                // No line begins after the last newline.
                return None;
            }
            let end = memchr(b'\n', &block[found..]).map_or(block.len(), |newline| found + newline + 1);
            if is_match && self.words.is_none() {
                return Some(end);
            }
            let line = &block[line_start(block, at, found)..end];
            // In ASCII, the boundaries of the match are those of words.
            if is_match && line.is_ascii() || self.matches(line) {
                return Some(end);
            }
            at = end;
        }
        None
    }

    /// Returns an offset in the first line that may match, and whether `lines` matches there: no line before it does.
    fn candidate(&self, lines: &[u8]) -> Option<(usize, bool)> {
        if self.lines.line_terminator().is_none() {
            return Some((0, false));
        }
        Some(match infallible(self.lines.find_candidate_line(lines))? {
            LineMatchKind::Confirmed(at) => (at, true),
            LineMatchKind::Candidate(at) => (at, false),
        })
    }

    /// Returns whether a line matches: the reference implementation.
    fn matches(&self, line: &[u8]) -> bool {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        match &self.words {
            Some(words) => infallible(words.is_match(&unbroken(line))),
            None => infallible(self.lines.is_match(line)),
        }
    }

    /// Calls `wanted` with each non-empty match in a line, with or without its newline.
    pub fn matches_in<'l>(&self, line: &'l [u8], mut wanted: impl FnMut(&'l [u8])) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let Some(words) = &self.words else {
            return infallible(self.lines.find_iter(line, |found| {
                if !found.is_empty() {
                    wanted(&line[found]);
                }
                true
            }));
        };
        let mut characters = unbroken(line);
        let (mut at, mut put_in_front) = (0, 0);
        let mut captures = infallible(words.new_captures());
        while at <= characters.len()
            && infallible(words.captures_at(&characters, at, &mut captures))
            && let Some(word) = captures.get(1)
        {
            if word.is_empty() {
                at = word.end().max(at + 1);
                continue;
            }
            wanted(&line[word.start() - put_in_front..word.end() - put_in_front]);
            // The last character of this match may bound the next one, and so may the one after it.
            at = last_character(&characters[..word.end()]);
            if at == 0 {
                // The next match does not begin at the line's start, which is the only other boundary.
                characters.to_mut().insert(0, INVALID_BYTE);
                (at, put_in_front) = (1, 1);
            }
        }
    }
}

/// Matches no line.
const NO_MATCH: &str = r"[^\s\S]";

/// Returns the options of all patterns.
fn builder(meaning: Meaning) -> RegexMatcherBuilder {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .case_insensitive(meaning.ignore_case)
        .line_terminator(Some(b'\n'))
        .size_limit(REGEX_MAX_BYTES)
        .dfa_size_limit(STATES_MAX_BYTES);
    builder
}

fn refused(error: grep_regex::Error) -> PatternError {
    match error.kind() {
        grep_regex::ErrorKind::NotAllowed(_) => PatternError::Newline,
        _ => PatternError::Refused(Box::new(error)),
    }
}

/// Returns what a search has returned.
fn infallible<T>(result: Result<T, grep_matcher::NoError>) -> T {
    result.expect("searches of grep-regex cannot fail")
}

/// Returns the start of the line that has a byte, or its end, at `within`; `from` is the start of it or of one before.
fn line_start(block: &[u8], from: usize, within: usize) -> usize {
    memrchr(b'\n', &block[from..within]).map_or(from, |newline| from + newline + 1)
}

/// Returns the offset of the last character in a text of characters and `INVALID_BYTE`.
fn last_character(text: &[u8]) -> usize {
    text.iter().rposition(|byte| !(0x80..0xc0).contains(byte)).unwrap_or(0)
}

/// Returns the line with each byte that belongs to no character replaced by `INVALID_BYTE`.
fn unbroken(line: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(line).is_ok() {
        return Cow::Borrowed(line);
    }
    let mut unbroken = Vec::with_capacity(line.len());
    for chunk in line.utf8_chunks() {
        unbroken.extend_from_slice(chunk.valid().as_bytes());
        unbroken.resize(unbroken.len() + chunk.invalid().len(), INVALID_BYTE);
    }
    Cow::Owned(unbroken)
}

/// Returns the number of lines, including a last one without a newline.
#[must_use]
pub fn lines(block: &[u8]) -> u64 {
    let open = block.last().is_some_and(|&last| last != b'\n');
    memchr_iter(b'\n', block).count() as u64 + u64::from(open)
}

#[cfg(test)]
mod tests;
