//! Matching lines, from a block to standard output.

use std::io::{self, BufWriter, IsTerminal, Write};

use sakiyomi_exec::read::Wanted;
use sakiyomi_text::search::{Searcher, lines};

use crate::console::{self, Stdout};

/// The format of printed lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// Whether line numbers are printed.
    pub(super) numbered: bool,
    /// Whether only the matches are printed, one per line.
    pub(super) only_matching: bool,
    /// Maximum lines of each file.
    pub(super) most: u64,
}

/// Lines found in a block.
pub(super) struct Found {
    /// The printed text, each line with a newline.
    text: Vec<u8>,
    /// For each line, if lines are distinguished: its number in the block, from 0, and the end of its printed text.
    apart: Vec<(u64, usize)>,
    /// End of each of those lines in the block.
    pub(super) ends: Vec<usize>,
    /// Length of the block in bytes.
    pub(super) length: usize,
    /// Number of lines found.
    found: u64,
    /// Number of lines in the block, if lines are distinguished.
    lines: u64,
}

impl Style {
    /// Returns whether the end and the number of each line are needed.
    fn tells_apart(&self) -> bool {
        self.numbered || self.most < u64::MAX
    }

    /// Finds the lines in a block; `prefix` precedes each printed line.
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

    /// Appends the printed text of a line; its number is added when it is known.
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

/// Standard output, and counts of the current file's lines written to it.
pub(super) struct Printed {
    style: Style,
    /// Number of lines in the preceding blocks, if lines are distinguished.
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

    /// Prints the lines of the next block; returns whether the following block is needed.
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

    /// Returns the number of lines of the current file found so far.
    pub(super) fn found(&self) -> u64 {
        self.found
    }

    /// Ends the current file; returns the number of lines found in it.
    pub(super) fn end(&mut self) -> io::Result<u64> {
        self.lines = 0;
        self.out.flush()?;
        Ok(std::mem::take(&mut self.found))
    }
}
