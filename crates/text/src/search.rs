//! Searches blocks of whole lines for lines that match a pattern, as `grep` does.
//!
//! Patterns are those of the crate `regex`: no back-references, no look-around, and time linear in the text. A line
//! matches if the pattern is found in it, without the newline that ends it.
//!
//! A block is searched as one text, not line by line, so that the search can skip text that cannot match. A match may
//! then cross a newline; the line in which it begins is searched by itself, and the search continues after that line.
//! No line is missed: a match within a line is also a match in the block, so the search finds nothing after it first.
//! Patterns with anchors of the whole text are searched line by line. To match whole words, the block is searched for
//! candidates, and then their lines, because invalid bytes end a word.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};
use regex::bytes::{Regex, RegexBuilder};

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

/// Searches blocks of whole lines.
#[derive(Clone, Debug)]
pub struct Searcher {
    /// Finds a match in every matching line, and possibly in others.
    regex: Regex,
    /// For whole words: the boundary before a match, the match as first group, and the boundary after it.
    words: Option<Regex>,
    line_by_line: bool,
    invert: bool,
}

/// Memory limit of all patterns together: some 100,000 words.
const REGEX_MAX_BYTES: usize = 256 << 20;

/// Replaces a byte that belongs to no character; does not occur in UTF-8.
const INVALID_BYTE: u8 = 0xff;

impl Searcher {
    /// Makes a searcher for lines that match one of the patterns. A pattern of several lines is several patterns;
    /// without patterns, no line matches.
    ///
    /// # Errors
    /// If a pattern is invalid.
    pub fn new(patterns: &[impl AsRef<str>], meaning: Meaning) -> Result<Searcher, regex::Error> {
        let patterns: Vec<&str> = patterns.iter().flat_map(|pattern| pattern.as_ref().split('\n')).collect();
        // Each is compiled separately first, so that `a)(b` is invalid.
        patterns.iter().filter(|_| !meaning.fixed).try_for_each(|pattern| Regex::new(pattern).map(drop))?;
        let of = |pattern: &&str| {
            let pattern = if meaning.fixed { regex::escape(pattern) } else { (*pattern).to_owned() };
            format!("(?:{pattern})")
        };
        let one_of_them = match &patterns[..] {
            [] => r"[^\s\S]".to_owned(),
            patterns => patterns.iter().map(of).collect::<Vec<_>>().join("|"),
        };
        let regex = |pattern: &str| {
            let mut builder = RegexBuilder::new(pattern);
            builder.multi_line(true).case_insensitive(meaning.ignore_case).size_limit(REGEX_MAX_BYTES).build()
        };
        let whole_words = meaning.whole_words && !meaning.whole_lines;
        let between = |bound: &str| format!("(?:^|{bound})({one_of_them})(?:{bound}|$)");
        let candidates = match meaning {
            Meaning { whole_lines: true, .. } => format!("^(?:{one_of_them})$"),
            // A byte beyond ASCII may bound a word: the search of the line decides.
            Meaning { whole_words: true, .. } => between(r"[^\w\n]|(?-u:[\x80-\xff])"),
            _ => one_of_them.clone(),
        };
        Ok(Searcher {
            regex: regex(&candidates)?,
            words: whole_words.then(|| regex(&between(r"\W|(?-u:\xff)"))).transpose()?,
            line_by_line: !meaning.fixed && patterns.iter().any(|pattern| looks_at_ends_of_text(pattern)),
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
        while let Some((_, end)) = self.next(block, at) {
            matching += 1;
            at = end;
        }
        if self.invert { lines(block) - matching } else { matching }
    }

    /// Returns the first matching line at or after `from`, where a line begins.
    fn next(&self, block: &[u8], from: usize) -> Option<(usize, usize)> {
        let mut at = from;
        while at < block.len() {
            let found = self.candidate(block, at)?;
            let start = memrchr(b'\n', &block[at..found.start]).map_or(at, |newline| at + newline + 1);
            if start == block.len() {
                // No line begins after the last newline.
                return None;
            }
            let newline = memchr(b'\n', &block[start..]).map_or(block.len(), |newline| start + newline);
            let end = block.len().min(newline + 1);
            // A match within a line is also a match in the line alone.
            let is_within = found.end <= newline && !self.line_by_line && self.words.is_none();
            if is_within || self.matches(&block[start..end]) {
                return Some((start, end));
            }
            at = end;
        }
        None
    }

    /// Returns the next candidate of a match: no line before it matches.
    fn candidate(&self, block: &[u8], from: usize) -> Option<Range<usize>> {
        if self.line_by_line { Some(from..from) } else { Some(self.regex.find_at(block, from)?.range()) }
    }

    /// Returns whether a line matches: the reference implementation.
    fn matches(&self, line: &[u8]) -> bool {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        match &self.words {
            Some(words) => words.is_match(&unbroken(line)),
            None => self.regex.is_match(line),
        }
    }

    /// Calls `wanted` with each non-empty match in a line, with or without its newline.
    pub fn matches_in<'l>(&self, line: &'l [u8], mut wanted: impl FnMut(&'l [u8])) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let Some(words) = &self.words else {
            let found = self.regex.find_iter(line).map(|found| found.as_bytes());
            return found.filter(|found| !found.is_empty()).for_each(wanted);
        };
        let mut characters = unbroken(line);
        let (mut at, mut put_in_front) = (0, 0);
        while at <= characters.len()
            && let Some(found) = words.captures_at(&characters, at)
            && let Some(word) = found.get(1).map(|word| word.range())
        {
            if word.is_empty() {
                at = word.end.max(at + 1);
                continue;
            }
            wanted(&line[word.start - put_in_front..word.end - put_in_front]);
            // The last character of this match may bound the next one, and so may the one after it.
            at = last_character(&characters[..word.end]);
            if at == 0 {
                // The next match does not begin at the line's start, which is the only other boundary.
                characters.to_mut().insert(0, INVALID_BYTE);
                (at, put_in_front) = (1, 1);
            }
        }
    }
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

/// Returns whether a pattern may have anchors of the whole text, which differ from those of a line: `\A`, `\z`, or
/// flags that are turned off. A false positive only costs time.
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
        // Few patterns, which take long to compile, and many texts for each.
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_block_is_searched_as_each_line_is(
            texts in prop::collection::vec("[abAé \n\r]{0,30}", 40), pattern in patterns(),
            ignore_case: bool, whole_words: bool, whole_lines: bool, invert: bool, fixed: bool,
        ) {
            let meaning = Meaning { fixed, ignore_case, whole_words, whole_lines, invert };
            let searcher = Searcher::new(&[pattern], meaning).unwrap();
            for text in texts {
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
                prop_assert_eq!(searcher.count(block), expected.len() as u64, "{:?}", text);
                prop_assert_eq!(found, expected, "{:?}", text);
            }
        }
    }

    fn bytes_of_no_ascii() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            prop::collection::vec(0x80u8..=0xff, 0..4),
            prop::sample::select(vec!["é", "×", "あ", "。", "𝒂", "😀"])
                .prop_map(|text| text.as_bytes().to_vec()),
        ];
        prop::collection::vec(piece, 0..3).prop_map(|pieces| pieces.concat())
    }

    #[test]
    fn what_belongs_to_no_character_ends_a_word() {
        let searcher = Searcher::new(&["ab"], Meaning { whole_words: true, ..Meaning::default() }).unwrap();
        let word = Regex::new(r"\w").unwrap();
        proptest!(|(before in bytes_of_no_ascii(), behind in bytes_of_no_ascii())| {
            let line = [&before[..], b"ab", &behind[..]].concat();
            // GNU grep does so too: only a character that ends right before the match, or begins right after
            // it, can belong
            // to the word.
            let last = (1..=before.len()).find_map(|from| std::str::from_utf8(&before[before.len() - from..]).ok());
            let first = (1..=behind.len()).find_map(|to| std::str::from_utf8(&behind[..to]).ok());
            let is_longer = [last, first].into_iter().flatten().any(|character| word.is_match(character.as_bytes()));
            prop_assert_eq!(searcher.count(&line), u64::from(!is_longer), "{:x?}", line);
        });
    }

    #[test]
    fn matches_in_a_line_are_those_that_make_it_one() {
        let matches = |pattern: &str, meaning, line: &'static [u8]| {
            let mut found = Vec::new();
            Searcher::new(&[pattern], meaning).unwrap().matches_in(line, |text| found.push(text));
            found
        };
        let (any, words) = (Meaning::default(), Meaning { whole_words: true, ..Meaning::default() });
        assert_eq!(matches("b*", any, b"abcbb\n"), [&b"b"[..], b"bb"]);
        assert_eq!(matches("ab|cd", words, b"ab cd abcd\xffab \xc3\xa9ab"), [&b"ab"[..], b"cd", b"ab"]);
        assert_eq!(matches("a+", words, b"aaa"), [&b"aaa"[..]]);
        assert_eq!(matches("-", words, b"---"), [&b"-"[..]; 3]);
        assert_eq!(matches("-", words, b"a--a---"), [&b"-"[..]; 2]);
        assert_eq!(matches("^-|a", words, b"--\xffa"), [&b"-"[..], b"a"]);
        assert_eq!(matches("。", words, "。。 。".as_bytes()), ["。".as_bytes(); 3]);
        assert_eq!(matches("a.", Meaning { whole_lines: true, ..any }, b"ab\n"), [&b"ab"[..]]);
        assert_eq!(matches("a", Meaning { whole_lines: true, ..any }, b"ab\n"), [&b""[..]; 0]);
    }

    #[test]
    fn without_a_pattern_nothing_matches() {
        let none: [&str; 0] = [];
        assert_eq!(Searcher::new(&none, Meaning::default()).unwrap().count(b"a\n\n"), 0);
        assert_eq!(
            Searcher::new(&none, Meaning { invert: true, ..Meaning::default() }).unwrap().count(b"a\n\n"),
            2
        );
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for bad in ["(", "a)(b", "[", r"(a)\1"] {
            assert!(Searcher::new(&[bad], Meaning::default()).is_err(), "{bad}");
            assert!(Searcher::new(&[bad], Meaning { fixed: true, ..Meaning::default() }).is_ok());
        }
    }
}
