//! Counts lines, words, characters and columns of a text, as `wc` does, from its parts in any order.
//!
//! A part is counted without knowledge of the text before and after it. As in the word count of Kohagura & Kono (2014,
//! section 2.1), it retains its head and tail, so that a word that crosses a boundary is counted once when two parts
//! are joined ([`Counter::join`]); here a character, a tab stop or the longest line may cross a boundary as well.
//! Joining is associative, so that parts may be counted in any order, and neighbors joined as soon as they are
//! complete.
//!
//! Words are those of GNU: a printable character other than a space begins or continues a word, a space ends it, and
//! anything else (control characters, invalid bytes) does neither.

mod columns;
mod control;
mod kernel;
mod odd;
mod plain;
#[cfg(test)]
mod tests;
mod utf8;

use std::sync::{Arc, OnceLock};

use memchr::memchr_iter;
use sakiyomi_os::ctype::{Characters, Class, Encoding};

use columns::Columns;
use utf8::{Decoded, FOLLOWING_MAX_BYTES, cut_off, decode, is_following};

/// The figures to count. Bytes and lines are counted at no extra cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Words.
    pub words: bool,
    /// Characters, if they differ from bytes.
    pub chars: bool,
    /// The longest line.
    pub columns: bool,
}

/// The figures of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Newlines.
    pub lines: u64,
    /// Words.
    pub words: u64,
    /// Characters.
    pub chars: u64,
    /// Bytes.
    pub bytes: u64,
    /// Columns of the longest line.
    pub columns: u64,
}

/// Counts parts of a text, whose characters are those of a locale.
#[derive(Clone, Debug)]
pub struct Counter {
    characters: Arc<Characters>,
    wanted: Wanted,
    utf8: bool,
    /// Whether every byte is a character, and those beyond ASCII are not printable.
    is_ascii: bool,
    /// Whether a no-break space ends a word, as in GNU unless `POSIXLY_CORRECT` is set.
    no_break_ends: bool,
    /// The kind of each byte as a single-byte character.
    bytes: [Kind; PAGE_CODES],
    /// The kinds of characters of two or three bytes, in pages of [`PAGE_CODES`], computed when a character of the page
    /// first occurs.
    pages: Vec<OnceLock<Box<[Kind; PAGE_CODES]>>>,
    arch: pulp::Arch,
}

/// The effect of a character on words and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Begins or continues a word, and takes this many columns.
    Word(u8),
    /// Ends a word, and takes this many columns.
    Space(u8),
    Tab,
    Newline,
    /// Ends a word and returns to the first column.
    Return,
    /// Affects neither words nor columns.
    Nothing,
}

/// Code points whose kinds are computed at a time.
const PAGE_CODES: usize = 256;

/// Returns whether the code point is a no-break space or the word joiner, which in GNU end a word.
fn is_no_break(code: u32) -> bool {
    matches!(code, 0x00a0 | 0x2007 | 0x202f | 0x2060)
}

impl Counter {
    /// Makes a counter for some characters; `None` if their encoding is neither single-byte nor UTF-8.
    #[must_use]
    pub fn new(characters: Arc<Characters>, wanted: Wanted, no_break_ends: bool) -> Option<Counter> {
        let utf8 = match characters.encoding() {
            Encoding::Bytes => false,
            Encoding::Utf8 => true,
            Encoding::Other(_) => return None,
        };
        let arch = pulp::Arch::new();
        let pages = vec![OnceLock::new(); if utf8 { 0x1_0000 / PAGE_CODES } else { 0 }];
        let bytes = [Kind::Nothing; PAGE_CODES];
        let is_ascii = false;
        let mut counter = Counter { characters, wanted, utf8, is_ascii, no_break_ends, bytes, pages, arch };
        counter.bytes = std::array::from_fn(|byte| counter.kind(byte as u32));
        counter.is_ascii = !utf8 && counter.bytes[0x80..].iter().all(|&kind| kind == Kind::Nothing);
        Some(counter)
    }

    /// Returns whether every byte is a character.
    #[must_use]
    pub fn chars_are_bytes(&self) -> bool {
        !self.utf8
    }

    fn kind(&self, code: u32) -> Kind {
        let class: Class = self.characters.class(code);
        let width = class.width() as u8;
        match char::from_u32(code) {
            Some('\n') => Kind::Newline,
            Some('\r' | '\u{c}') => Kind::Return,
            Some('\t') => Kind::Tab,
            Some(' ') => Kind::Space(1),
            Some('\u{b}') => Kind::Space(0),
            _ if !class.is_printable() => Kind::Nothing,
            _ if class.is_space() || self.no_break_ends && self.utf8 && is_no_break(code) => {
                Kind::Space(width)
            }
            _ => Kind::Word(width),
        }
    }

    /// Returns [`Counter::kind`] from a cache.
    #[inline(always)]
    fn known_kind(&self, code: u32) -> Kind {
        let (page, index) = (code as usize / PAGE_CODES, code as usize % PAGE_CODES);
        let Some(kinds) = self.pages.get(page) else { return self.kind(code) };
        let ask = || Box::new(std::array::from_fn(|index| self.kind((page * PAGE_CODES + index) as u32)));
        kinds.get_or_init(ask)[index]
    }

    /// Counts a part.
    #[must_use]
    pub fn count(&self, part: &[u8]) -> Part {
        let (head, rest) = part.split_at(self.head_of(part));
        let (core, tail) = rest.split_at(rest.len() - if self.utf8 { cut_off(rest) } else { 0 });
        let open = core.is_empty() && tail.is_empty();
        Part {
            bytes: part.len() as u64,
            head: Edge::new(head),
            open,
            core: self.core(core),
            tail: Edge::new(tail),
        }
    }

    /// Counts a hole of a file: `bytes` NULs.
    #[must_use]
    pub fn count_hole(&self, bytes: u64) -> Part {
        let core = Core { chars: bytes, ..Core::default() };
        Part { bytes, open: bytes == 0, core, ..Part::default() }
    }

    /// Returns the number of bytes at the start that may be the rest of a character of the previous part.
    fn head_of(&self, part: &[u8]) -> usize {
        let most = if self.utf8 { FOLLOWING_MAX_BYTES.min(part.len()) } else { 0 };
        part[..most].iter().take_while(|&&byte| is_following(byte)).count()
    }

    /// Joins `part` and the part that follows it.
    #[must_use]
    pub fn join(&self, mut part: Part, next: &Part) -> Part {
        part.bytes += next.bytes;
        if part.open {
            // It consists only of bytes that may continue a character.
            let mut between = part.head;
            let surplus = between.append(&next.head);
            part.head = between;
            if surplus > 0 || !next.open {
                // Bytes beyond the longest character are invalid and count nothing.
                (part.open, part.core, part.tail) = (false, next.core, next.tail);
            }
            return part;
        }
        let mut between = part.tail;
        let surplus = between.append(&next.head);
        if next.open && surplus == 0 {
            let cut = cut_off(between.bytes());
            let (whole, tail) = between.bytes().split_at(between.bytes().len() - cut);
            part.core.then(&self.core(whole));
            part.tail = Edge::new(tail);
            return part;
        }
        part.core.then(&self.core(between.bytes()));
        part.core.then(&next.core);
        part.tail = next.tail;
        part
    }

    /// Returns the figures of a part that is the whole text.
    #[must_use]
    pub fn figures(&self, part: &Part) -> Figures {
        // Bytes at the edges belong to no character: those at the head lack a beginning, those at the tail an end.
        let core = &part.core;
        let chars = if self.utf8 { core.chars } else { part.bytes };
        let columns = core.columns.longest();
        Figures { lines: core.lines, words: core.words, chars, bytes: part.bytes, columns }
    }

    /// Counts bytes that begin and end at character boundaries.
    fn core(&self, bytes: &[u8]) -> Core {
        if !(self.wanted.words || self.wanted.columns || self.wanted.chars && self.utf8) {
            let lines = memchr_iter(b'\n', bytes).count() as u64;
            return Core { lines, ..Core::default() };
        }
        let mut core = Core::default();
        self.in_pieces(bytes, &mut core);
        core
    }

    /// Counts pieces of NULs, and plain ones, with vector instructions. Other pieces are divided into smaller ones, so that few of them
    /// need a check of each odd character.
    fn in_pieces(&self, bytes: &[u8], core: &mut Core) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (piece, behind) = self.whole(rest, kernel::PIECE_MAX_BYTES);
            rest = behind;
            let is_counted = self.nuls(piece, core) || !self.wanted.columns && self.plain(piece, core);
            if !is_counted {
                self.in_small_pieces(piece, core);
            }
        }
    }

    fn in_small_pieces(&self, bytes: &[u8], core: &mut Core) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (piece, behind) = self.whole(rest, odd::PIECE_MAX_BYTES);
            rest = behind;
            let is_counted = !self.wanted.columns && (self.plain(piece, core) || self.control(piece, core));
            if !is_counted {
                self.odd(piece, core);
            }
        }
    }

    /// Returns the first `most` bytes, or a few less in order not to cut a character; and the rest.
    fn whole<'b>(&self, bytes: &'b [u8], most: usize) -> (&'b [u8], &'b [u8]) {
        if bytes.len() <= most {
            return (bytes, &[]);
        }
        bytes.split_at(most - if self.utf8 { cut_off(&bytes[..most]) } else { 0 })
    }

    /// Counts lines and words of a piece, if it is plain.
    // Not inlined, because the compiler vectorizes it only as a separate function.
    #[inline(never)]
    fn tally(&self, piece: &[u8]) -> kernel::Tally {
        self.arch.dispatch(InVectors(piece))
    }

    /// Counts a piece if it is plain; returns whether it is.
    fn plain(&self, piece: &[u8], core: &mut Core) -> bool {
        let tally = self.tally(piece);
        if tally.plain {
            core.then(&Core::plain(piece, tally));
        }
        tally.plain
    }

    /// Returns the kind of the first character, and its length in bytes; `None` for a byte that belongs to no
    /// character.
    #[inline(always)]
    fn first_of(&self, bytes: &[u8]) -> (Option<Kind>, usize) {
        if !self.utf8 || bytes[0] < 0x80 {
            return (Some(self.bytes[usize::from(bytes[0])]), 1);
        }
        match decode(bytes) {
            Decoded::Character(code, length) => (Some(self.known_kind(code)), length),
            Decoded::Invalid | Decoded::Cut => (None, 1),
        }
    }
}

/// A piece to be counted by code compiled for the features of the CPU.
struct InVectors<'a>(&'a [u8]);

impl pulp::WithSimd for InVectors<'_> {
    type Output = kernel::Tally;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> kernel::Tally {
        kernel::tally(self.0)
    }
}

/// A few bytes at one end of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Edge {
    bytes: [u8; 2 * FOLLOWING_MAX_BYTES],
    len: u8,
}

impl Edge {
    fn new(bytes: &[u8]) -> Edge {
        let mut edge = Edge::default();
        edge.bytes[..bytes.len()].copy_from_slice(bytes);
        edge.len = bytes.len() as u8;
        edge
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Appends bytes up to the longest possible character; returns the number of surplus bytes.
    fn append(&mut self, other: &Edge) -> usize {
        let room = if self.len > 0 && !is_following(self.bytes[0]) {
            FOLLOWING_MAX_BYTES + 1 - usize::from(self.len)
        } else {
            FOLLOWING_MAX_BYTES - usize::from(self.len)
        };
        let taken = room.min(other.bytes().len());
        let len = usize::from(self.len);
        self.bytes[len..len + taken].copy_from_slice(&other.bytes()[..taken]);
        self.len += taken as u8;
        other.bytes().len() - taken
    }
}

/// Counts of a part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    bytes: u64,
    /// Bytes that may be the rest of a character that began before.
    head: Edge,
    /// Whether the part consists of the head only.
    open: bool,
    core: Core,
    /// The beginning of a character that may continue after the part.
    tail: Edge,
}

impl Default for Part {
    /// Returns the empty part.
    fn default() -> Part {
        Part { bytes: 0, head: Edge::default(), open: true, core: Core::default(), tail: Edge::default() }
    }
}

/// Counts of whole characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Core {
    lines: u64,
    /// Words that begin in it, if it were preceded by a space.
    words: u64,
    chars: u64,
    /// Whether the first character that begins or ends a word begins one.
    first: Option<bool>,
    /// Whether the last such character begins one, so that a word is open at the end.
    last: Option<bool>,
    columns: Columns,
}

impl Core {
    #[inline(always)]
    fn plain(piece: &[u8], tally: kernel::Tally) -> Core {
        Core {
            lines: tally.lines,
            words: tally.words,
            chars: piece.len() as u64,
            first: Some(kernel::is_word(piece[0])),
            last: Some(kernel::is_word(piece[piece.len() - 1])),
            columns: Columns::default(),
        }
    }

    #[inline(always)]
    fn then(&mut self, next: &Core) {
        let goes_on = self.last == Some(true) && next.first == Some(true);
        self.lines += next.lines;
        self.words = self.words + next.words - u64::from(goes_on);
        self.chars += next.chars;
        self.first = self.first.or(next.first);
        self.last = next.last.or(self.last);
        self.columns.then(&next.columns);
    }
}
