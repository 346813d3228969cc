//! The two widths of every chart: for a desktop and for paper, and for a phone.
//!
//! A page contains both, and its style sheet shows the one that fits. Both are drawn larger than they are displayed,
//! so that whole pixels are precise enough; texts have the same size in either.

/// Height of a line of ordinary text, and of the smaller gaps, in pixels.
pub(crate) const TEXT_SIZE: u32 = 24;
/// Font size of a title, in pixels.
pub(crate) const TITLE_SIZE: u32 = 31;
/// Mean width of a bold character at [`TITLE_SIZE`], in pixels, of DejaVu Sans, the widest of the usual fonts.
const TITLE_CHARACTER_WIDTH: u32 = 21;
/// Mean width of a character at [`TEXT_SIZE`], in pixels; without fonts it can only be estimated.
const CHARACTER_WIDTH: u32 = 12;
/// Mean width of a bold character, possibly a capital, in pixels.
const BOLD_CHARACTER_WIDTH: u32 = 17;

/// A width, and the layout that it determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Width of the drawing in pixels.
    pub(crate) width: u32,
    /// Whether labels of rows are above their bars, and names of lines only in the legend.
    pub(crate) is_narrow: bool,
    /// The CSS class.
    pub(crate) class: &'static str,
}

/// For windows wider than a phone, and for paper.
pub(crate) const WIDE: Layout = Layout { width: 2200, is_narrow: false, class: "chart" };
/// For phones.
pub(crate) const NARROW: Layout = Layout { width: 800, is_narrow: true, class: "chart narrow" };

impl Layout {
    /// Returns the number of characters of the title that fit on a line.
    pub(crate) fn title_characters(self) -> usize {
        (self.width / TITLE_CHARACTER_WIDTH) as usize
    }

    /// Returns the text, truncated to a width of `pixels`.
    pub(crate) fn fitting(self, text: &str, pixels: u32) -> String {
        short(text, (pixels / CHARACTER_WIDTH) as usize)
    }
}

/// Returns the first `length` characters of a name, without control characters.
pub(crate) fn short(name: &str, length: usize) -> String {
    let name: Vec<char> = name.chars().filter(|c| !c.is_control()).collect();
    if name.len() <= length {
        return name.into_iter().collect();
    }
    name.into_iter().take(length.saturating_sub(1)).chain(['…']).collect()
}

/// Returns the approximate width of a text, in pixels.
pub(crate) fn text_width(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX).saturating_mul(CHARACTER_WIDTH)
}

/// Returns the width of a text in DejaVu Sans, the widest of the usual fonts, in pixels: where texts follow each other.
pub(crate) fn wide_text_width(text: &str) -> u32 {
    let width = |c: char| match c {
        'm' | 'w' | 'M' | 'W' | '%' => 22,
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' | 'I' => 8,
        'f' | 't' | 'r' | '(' | ')' | '-' => 10,
        c if c.is_uppercase() => 17,
        _ => 15,
    };
    text.chars().map(width).fold(0, u32::saturating_add)
}

/// Returns the approximate width of a bold text, in pixels.
pub(crate) fn bold_width(text: &str) -> u32 {
    text_width(text) / CHARACTER_WIDTH * BOLD_CHARACTER_WIDTH
}

/// Breaks a title into lines of at most `characters` characters; a longer word has its own line.
pub(crate) fn lines(text: &str, characters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= characters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Escapes a text for XML, and removes control characters, which XML does not permit.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars().filter(|c| !c.is_control()) {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{FFFE}' | '\u{FFFF}' => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_cut_says_so() {
        assert_eq!(short("abc", 3), "abc");
        assert_eq!(short("abcd", 3), "ab…");
        assert_eq!(short("a\nb", 3), "ab");
    }

    #[test]
    fn headings_break_between_words() {
        assert_eq!(lines("one two three", 7), ["one two", "three"]);
        assert_eq!(lines("incomprehensible", 3), ["incomprehensible"]);
    }
}
