//! Lines that a pattern matches, in blocks of whole lines: what `grep` looks for.
//!
//! Patterns are those of the crate `regex`: no back-references, no look-around, and in time linear in the text. A line
//! matches if the pattern is found in it, without the newline that ends it.
//!
//! A block is searched as one text, not line by line, so that the search can leap over all that cannot match. That may
//! find what goes across a newline; the line in which it begins is then searched by itself, and the search goes on
//! behind that line. No line is missed: whatever matches within a line also matches in the block, so that nothing is
//! found behind it before. Patterns that look at the ends of the whole text are searched for line by line.

use memchr::{memchr, memchr_iter, memrchr};
use regex::bytes::{Regex, RegexBuilder};

/// How patterns are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meaning {
    /// They are texts, not regular expressions.
    pub fixed: bool,
    /// Upper and lower case are the same.
    pub ignore_case: bool,
    /// A match is whole words.
    pub whole_words: bool,
    /// A match is a whole line.
    pub whole_lines: bool,
    /// Lines are wanted that do not match.
    pub invert: bool,
}

/// Searches blocks of whole lines.
#[derive(Clone, Debug)]
pub struct Searcher {
    regex: Regex,
    line_by_line: bool,
    invert: bool,
}

impl Searcher {
    /// For lines that one of the patterns matches; those of several lines are several.
    ///
    /// # Errors
    /// If a pattern is none.
    pub fn new(patterns: &[impl AsRef<str>], meaning: Meaning) -> Result<Searcher, regex::Error> {
        let patterns: Vec<&str> = patterns.iter().flat_map(|pattern| pattern.as_ref().split('\n')).collect();
        let of = |pattern: &str| {
            let pattern = if meaning.fixed { regex::escape(pattern) } else { pattern.to_owned() };
            match meaning {
                Meaning { whole_lines: true, .. } => format!("^(?:{pattern})$"),
                Meaning { whole_words: true, .. } => format!(r"(?:^|\W)(?:{pattern})(?:\W|$)"),
                _ => format!("(?:{pattern})"),
            }
        };
        // Each alone first, so that `a)(b` is no pattern.
        patterns.iter().filter(|_| !meaning.fixed).try_for_each(|pattern| Regex::new(pattern).map(drop))?;
        let all = patterns.iter().map(|pattern| of(pattern)).collect::<Vec<_>>().join("|");
        let mut builder = RegexBuilder::new(&all);
        let regex = builder.multi_line(true).case_insensitive(meaning.ignore_case).build()?;
        let line_by_line = !meaning.fixed && patterns.iter().any(|pattern| looks_at_ends_of_text(pattern));
        Ok(Searcher { regex, line_by_line, invert: meaning.invert })
    }

    /// Gives each wanted line with its end, if it has one, and where it begins.
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

    /// How many lines are wanted.
    #[must_use]
    pub fn count(&self, block: &[u8]) -> u64 {
        let (mut at, mut matching) = (0, 0);
        while let Some((_, end)) = self.next(block, at) {
            matching += 1;
            at = end;
        }
        if self.invert { lines(block) - matching } else { matching }
    }

    /// The first matching line that begins at `from`, where one begins, or behind.
    fn next(&self, block: &[u8], from: usize) -> Option<(usize, usize)> {
        let mut at = from;
        while at < block.len() {
            let found = if self.line_by_line { at } else { self.regex.find_at(block, at)?.start() };
            let start = memrchr(b'\n', &block[at..found]).map_or(at, |newline| at + newline + 1);
            if start == block.len() {
                // Behind the last newline there is no line.
                return None;
            }
            let end = memchr(b'\n', &block[start..]).map_or(block.len(), |newline| start + newline + 1);
            if self.matches(&block[start..end]) {
                return Some((start, end));
            }
            at = end;
        }
        None
    }

    /// Whether a line matches: the plain version.
    fn matches(&self, line: &[u8]) -> bool {
        self.regex.is_match(line.strip_suffix(b"\n").unwrap_or(line))
    }
}

/// How many lines there are, the last one with or without its end.
#[must_use]
pub fn lines(block: &[u8]) -> u64 {
    let open = block.last().is_some_and(|&last| last != b'\n');
    memchr_iter(b'\n', block).count() as u64 + u64::from(open)
}

/// Whether a pattern could mean the ends of the text, which are not those of a line then: by `\A`, `\z`, or flags that
/// are turned off. Now and then that is taken for granted wrongly, which only costs time.
fn looks_at_ends_of_text(pattern: &str) -> bool {
    let turned_off = pattern.match_indices("(?").any(|(at, _)| {
        let flags = &pattern[at + 2..];
        flags[..flags.find([':', ')']).unwrap_or(flags.len())].contains(['-', 'R'])
    });
    turned_off || pattern.contains(r"\A") || pattern.contains(r"\z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn patterns() -> impl Strategy<Value = String> {
        prop::sample::select(vec![
            "a",
            "b+",
            "^a",
            "a$",
            "^$",
            "",
            r"\s+",
            r"a\sb",
            "[^a]",
            "[^a]b",
            r"\bab\b",
            r"\Aa",
            r"b\z",
            "(?-m)^a",
            r"\B",
            "a.b",
            "(?s)a.b",
            "a|b\nab",
            "ab?",
            r"\n",
            "a\\nb",
            "é",
            "(?i)AB",
            "[[:space:]]b",
            "^",
            "$",
        ])
        .prop_map(str::to_owned)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn a_block_is_searched_as_each_line_is(
            text in "[abAé \n\r]{0,30}", pattern in patterns(),
            ignore_case: bool, whole_words: bool, whole_lines: bool, invert: bool, fixed: bool,
        ) {
            let meaning = Meaning { fixed, ignore_case, whole_words, whole_lines, invert };
            let searcher = Searcher::new(&[pattern], meaning).unwrap();
            let block = text.as_bytes();
            let expected: Vec<&[u8]> = block
                .split_inclusive(|&byte| byte == b'\n')
                .filter(|line| searcher.matches(line) != invert)
                .collect();
            let mut found = Vec::new();
            searcher.lines(block, |at, line| {
                assert_eq!(&block[at..at + line.len()], line);
                found.push(line);
            });
            prop_assert_eq!(searcher.count(block), expected.len() as u64);
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for bad in ["(", "a)(b", "[", r"(a)\1"] {
            assert!(Searcher::new(&[bad], Meaning::default()).is_err(), "{bad}");
            assert!(Searcher::new(&[bad], Meaning { fixed: true, ..Meaning::default() }).is_ok());
        }
    }
}
