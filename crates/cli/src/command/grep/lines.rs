//! Lines on their way from a block to stdout.

use std::io::{self, BufWriter, IsTerminal, Write};

use sakiyomi_exec::read::Wanted;
use sakiyomi_text::search::{Searcher, lines};

use crate::console::{self, Stdout};

/// How lines are printed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// With their numbers.
    pub(super) numbered: bool,
    /// Only what matches, each match on a line.
    pub(super) only_matching: bool,
    /// Of each file, so many at most.
    pub(super) most: u64,
}

/// Lines found in a block.
pub(super) struct Found {
    /// What is printed of them, each line of it with an end.
    text: Vec<u8>,
    /// Of each, if they are told apart: its number in the block, from 0, and where what is printed of it ends in the text.
    apart: Vec<(u64, usize)>,
    /// Where each of those ends in the block.
    pub(super) ends: Vec<usize>,
    /// Bytes of the block.
    pub(super) length: usize,
    /// How many were found.
    found: u64,
    /// How many lines the block has, if they are told apart.
    lines: u64,
}

impl Style {
    /// Whether it must be known where each line ends and which it is.
    fn tells_apart(&self) -> bool {
        self.numbered || self.most < u64::MAX
    }

    /// The lines of a block; `prefix` is before each that is printed.
    pub(super) fn find(&self, searcher: &Searcher, block: &[u8], prefix: &[u8]) -> Found {
        let mut found = Found {
            text: Vec::new(),
            apart: Vec::new(),
            ends: Vec::new(),
            length: block.len(),
            found: 0,
            lines: 0,
        };
        let mut seen = 0;
        searcher.lines(block, |at, line| {
            found.found += 1;
            self.add(searcher, line, prefix, &mut found.text);
            if self.tells_apart() {
                found.lines += lines(&block[seen..at]);
                seen = at;
                found.apart.push((found.lines, found.text.len()));
                found.ends.push(at + line.len());
            }
        });
        if self.tells_apart() {
            found.lines += lines(&block[seen..]);
        }
        found
    }

    /// Adds what is printed of a line; its number comes when it is known.
    fn add(&self, searcher: &Searcher, line: &[u8], prefix: &[u8], text: &mut Vec<u8>) {
        let mut add = |line: &[u8]| {
            if !self.numbered {
                text.extend_from_slice(prefix);
            }
            text.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                text.push(b'\n');
            }
        };
        if self.only_matching { searcher.matches_in(line, add) } else { add(line) }
    }
}

/// Standard output, and counts of the current file's lines written there.
pub(super) struct Printed {
    style: Style,
    /// Lines that the blocks before had, where they are told apart.
    lines: u64,
    found: u64,
    out: BufWriter<Stdout>,
    /// Whether standard output is a terminal, where each line must appear at once.
    is_terminal: bool,
}

impl Printed {
    pub(super) fn new(style: Style) -> Printed {
        let out = BufWriter::with_capacity(1 << 16, console::stdout());
        Printed { style, lines: 0, found: 0, out, is_terminal: io::stdout().is_terminal() }
    }

    /// Prints what the next block has, and says whether the one behind it is wanted.
    pub(super) fn print(&mut self, found: &Found, prefix: &[u8]) -> io::Result<Wanted> {
        let wanted = self.put(found, prefix)?;
        if self.is_terminal {
            self.out.flush()?;
        }
        Ok(wanted)
    }

    fn put(&mut self, found: &Found, prefix: &[u8]) -> io::Result<Wanted> {
        if !self.style.tells_apart() {
            self.found += found.found;
            self.out.write_all(&found.text)?;
            return Ok(Wanted::More);
        }
        let mut from = 0;
        for &(number, end) in
            found.apart.iter().take(usize::try_from(self.style.most - self.found).unwrap_or(usize::MAX))
        {
            self.print_line(self.lines + number + 1, &found.text[from..end], prefix)?;
            self.found += 1;
            from = end;
        }
        self.lines += found.lines;
        Ok(if self.found < self.style.most { Wanted::More } else { Wanted::NextFile })
    }

    fn print_line(&mut self, number: u64, text: &[u8], prefix: &[u8]) -> io::Result<()> {
        if !self.style.numbered {
            return self.out.write_all(text);
        }
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            self.out.write_all(prefix)?;
            write!(self.out, "{number}:")?;
            self.out.write_all(line)?;
        }
        Ok(())
    }

    /// Lines of the current file that were found so far.
    pub(super) fn found(&self) -> u64 {
        self.found
    }

    /// The file has ended: says how many lines were found in it.
    pub(super) fn end(&mut self) -> io::Result<u64> {
        self.lines = 0;
        self.out.flush()?;
        Ok(std::mem::take(&mut self.found))
    }
}
