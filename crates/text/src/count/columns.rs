//! Length of the longest line of a text in columns, from parts of the text.
//!
//! The column in which a part begins is unknown, and a tab advances to the next multiple of 8. Therefore the effect of
//! a part on that column, up to the first end of a line, is kept as a function.

use super::Kind;

/// The effect of a piece of a line on a column: adds `before`; a tab then advances to the next tab stop, and `after` is
/// added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Advance {
    before: u64,
    tab: bool,
    after: u64,
}

fn next_stop(column: u64) -> u64 {
    (column / 8 + 1) * 8
}

impl Advance {
    fn end(self, column: u64) -> u64 {
        if self.tab { next_stop(column + self.before) + self.after } else { column + self.before }
    }

    fn add(&mut self, width: u64) {
        *(if self.tab { &mut self.after } else { &mut self.before }) += width;
    }

    fn tab(&mut self) {
        if self.tab {
            self.after = next_stop(self.after);
        } else {
            self.tab = true;
        }
    }

    fn then(&mut self, next: Advance) {
        self.add(next.before);
        if next.tab {
            self.tab();
            self.after += next.after;
        }
    }
}

/// Column counts of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    /// Effect of the part up to the first end of a line, or its own end.
    prefix: Advance,
    /// Whether a line ends in it.
    ended: bool,
    /// The longest of the lines that begin and end in it.
    longest: u64,
    /// Columns since the last end of a line.
    suffix: u64,
}

impl Columns {
    pub(super) fn add(&mut self, width: u64) {
        if self.ended {
            self.suffix += width;
        } else {
            self.prefix.add(width);
        }
    }

    /// Appends a character of this kind.
    #[inline]
    pub(super) fn put(&mut self, kind: Kind) {
        match kind {
            Kind::Word(width) | Kind::Space(width) => self.add(u64::from(width)),
            Kind::Tab => self.tab(),
            Kind::Newline | Kind::Return => self.end_line(),
            Kind::Nothing => {}
        }
    }

    fn tab(&mut self) {
        if self.ended {
            self.suffix = next_stop(self.suffix);
        } else {
            self.prefix.tab();
        }
    }

    fn end_line(&mut self) {
        self.longest = self.longest.max(self.suffix);
        self.suffix = 0;
        self.ended = true;
    }

    /// Appends the part that follows.
    pub(super) fn then(&mut self, next: &Columns) {
        if !self.ended {
            self.prefix.then(next.prefix);
            (self.ended, self.longest, self.suffix) = (next.ended, next.longest, next.suffix);
            return;
        }
        self.suffix = next.prefix.end(self.suffix);
        if next.ended {
            self.longest = self.longest.max(self.suffix).max(next.longest);
            self.suffix = next.suffix;
        }
    }

    /// Returns the longest line of a part that is the whole text.
    pub(super) fn longest(&self) -> u64 {
        self.prefix.end(0).max(self.longest).max(self.suffix)
    }
}
