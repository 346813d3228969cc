//! The reference: counts a whole text character by character as `wc` of GNU coreutils 9.1 does. Tests compare the fast
//! paths and their joining with it.

use sakiyomi_os::ctype::Class;

use super::utf8::{Decoded, decode};
use super::{Counter, Figures, is_no_break};

impl Counter {
    /// Counts a whole text, slowly and obviously.
    #[must_use]
    pub fn count_plainly(&self, text: &[u8]) -> Figures {
        let mut figures = Figures { bytes: text.len() as u64, ..Figures::default() };
        let (mut in_word, mut column, mut at) = (false, 0u64, 0);
        while at < text.len() {
            let (code, length) = match self.utf8.then(|| decode(&text[at..])) {
                None => (u32::from(text[at]), 1),
                Some(Decoded::Character(code, length)) => (code, length),
                Some(Decoded::Invalid) => {
                    at += 1;
                    continue;
                }
                Some(Decoded::Cut) => break,
            };
            at += length;
            figures.chars += 1;
            let mut ends_word = true;
            match char::from_u32(code) {
                Some(end @ ('\n' | '\r' | '\u{c}')) => {
                    figures.lines += u64::from(end == '\n');
                    figures.columns = figures.columns.max(column);
                    column = 0;
                }
                Some('\t') => column += 8 - column % 8,
                Some(' ') => column += 1,
                Some('\u{b}') => {}
                _ => {
                    let class: Class = self.characters.class(code);
                    if !class.is_printable() {
                        continue;
                    }
                    column += class.width();
                    ends_word = class.is_space() || self.no_break_ends && self.utf8 && is_no_break(code);
                }
            }
            figures.words += u64::from(in_word && ends_word);
            in_word = !ends_word;
        }
        figures.columns = figures.columns.max(column);
        figures.words += u64::from(in_word);
        figures
    }
}
