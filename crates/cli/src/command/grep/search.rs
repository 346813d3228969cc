//! Searching of files, the next of which is read while the last is searched, and of standard input when its turn
//! comes.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sakiyomi_exec::read::{self, Event, Mapped, Report, Wanted};
use sakiyomi_model::Bytes;
use sakiyomi_text::search::Searcher;
use serde_json::{Value, json};

use super::Grep;
use super::lines::{Printed, Style};
use crate::console::{self, Common, print_error};
use crate::reading::{Bar, describe, is_truncated, stdin};

thread_local! {
    /// The thread's copy of the searcher, of which a process has one.
    static SEARCHER: RefCell<Option<Searcher>> = const { RefCell::new(None) };
}

/// A search and its options.
pub(super) struct Search<'g> {
    pub(super) grep: &'g Grep,
    pub(super) common: &'g Common,
    pub(super) searcher: Searcher,
    /// Whether each line is printed with its file's name.
    pub(super) named: bool,
    /// Limit of the length of a line in bytes.
    pub(super) line_max: u64,
    pub(super) bar: Bar,
}

/// The outcome of all files so far.
#[derive(Default)]
pub(super) struct Sum {
    pub(super) found: bool,
    pub(super) failed: bool,
    /// Whether no further input is needed.
    pub(super) enough: bool,
    pub(super) report: Report,
    pub(super) files: Vec<Value>,
}

/// Lines counted in a block.
struct Counted {
    lines: u64,
    /// End of each line in the block, if requested.
    ends: Vec<usize>,
    /// Length of the block in bytes.
    length: usize,
}

/// Number of matching lines of a file, if it can be determined.
type Count = Result<(u64, Report), read::Error>;

impl Search<'_> {
    pub(super) fn files(&self, names: &[OsString], sum: &mut Sum) -> Result<(), read::Error> {
        if self.counts() { self.count(names, sum) } else { self.print(names, sum) }
    }

    /// Returns whether lines are only counted.
    fn counts(&self) -> bool {
        self.common.quiet || self.common.json || self.grep.shown.count || self.lists()
    }

    /// Returns whether names of files are printed.
    fn lists(&self) -> bool {
        self.grep.shown.files_with_matches || self.grep.shown.files_without_match
    }

    /// Returns whether several lines of a file can be printed.
    pub(super) fn prints_lines(&self) -> bool {
        !self.counts() && self.most() > 1
    }

    /// Returns the maximum number of lines of a file.
    fn most(&self) -> u64 {
        let one_is_enough = self.common.quiet || self.lists() && !self.common.json;
        self.grep.which.max_count.unwrap_or(u64::MAX).min(if one_is_enough { 1 } else { u64::MAX })
    }

    /// Returns the tracker of the offset at which standard input is left, which GNU grep specifies only for `-m`.
    fn rest(&self, names: &[OsString]) -> Option<InputOffset> {
        let is_promised = names == ["-"] && self.grep.which.max_count == Some(self.most());
        if is_promised { InputOffset::of(stdin().ok()?) } else { None }
    }

    /// Searches with this thread's copy of the searcher.
    fn search<R>(&self, what: impl FnOnce(&Searcher) -> R) -> R {
        SEARCHER.with_borrow_mut(|own| what(own.get_or_insert_with(|| self.searcher.clone())))
    }

    fn read(&self, names: &[OsString]) -> Result<read::Records, read::Error> {
        let read = self.grep.reading.read_all(names).map_err(|error| read::Error::Stream {
            path: names[0].clone().into(),
            source: io::Error::other(error.to_string()),
        });
        Ok(self.bar.on(read?).record_max(self.line_max).records(b'\n'))
    }

    /// Counts lines, up to the maximum.
    fn count(&self, names: &[OsString], sum: &mut Sum) -> Result<(), read::Error> {
        let most = self.most();
        if most == u64::MAX && names != ["-"] {
            let counts = self.read(names)?.map(|block| self.search(|searcher| searcher.count(block)));
            let add = |first, next| first + next;
            return counts
                .reduce_each(|| 0, add, |file, count| self.counted(&names[file], count, sum))
                .map(drop);
        }
        let mut rest = self.rest(names);
        let with_ends = rest.is_some();
        let counts = self.read(names)?.map(|block| self.count_block(block, with_ends));
        let mut found = 0u64;
        in_turn(names, counts, |file, event| {
            match event {
                Event::Result(counted) => {
                    let wanted = counted.lines.min(most - found);
                    found += wanted;
                    if let Some(rest) = &mut rest {
                        rest.note(&counted.ends, counted.length, wanted, found == most);
                    }
                }
                Event::End(end) => {
                    let count = std::mem::take(&mut found);
                    self.counted(&names[file], end.map(|report| (count, report)), sum)?;
                }
            }
            Ok(if found < most { Wanted::More } else { Wanted::NextFile })
        })?;
        if let Some(rest) = rest {
            rest.leave();
        }
        Ok(())
    }

    fn count_block(&self, block: &[u8], with_ends: bool) -> Counted {
        if !with_ends {
            let lines = self.search(|searcher| searcher.count(block));
            return Counted { lines, ends: Vec::new(), length: block.len() };
        }
        let mut ends = Vec::new();
        self.search(|searcher| searcher.lines(block, |at, line| ends.push(at + line.len())));
        Counted { lines: ends.len() as u64, ends, length: block.len() }
    }

    /// Prints the outcome of a file, if requested.
    fn counted(&self, name: &OsStr, count: Count, sum: &mut Sum) -> io::Result<()> {
        let Some(count) = self.note(name, count, sum) else { return Ok(()) };
        if self.common.quiet && count > 0 {
            sum.enough = true;
            return Err(io::Error::other("enough"));
        }
        let shown = &self.grep.shown;
        let line = if self.common.quiet || self.common.json {
            return Ok(());
        } else if !self.lists() {
            [self.prefix(name), format!("{count}\n").into_bytes()].concat()
        } else if shown.files_with_matches == (count > 0) {
            [label(name), b"\n"].concat()
        } else {
            return Ok(());
        };
        console::stdout().write_all(&line)
    }

    /// Prints matching lines.
    fn print(&self, names: &[OsString], sum: &mut Sum) -> Result<(), read::Error> {
        let shown = &self.grep.shown;
        let only_matching = shown.only_matching;
        let style = Style { numbered: shown.line_number, only_matching, most: self.most() };
        let prefixes: Vec<Vec<u8>> = names.iter().map(|name| self.prefix(name)).collect();
        let found =
            |file: usize, block: &[u8]| self.search(|searcher| style.find(searcher, block, &prefixes[file]));
        let found = self.read(names)?.map_of_each(found);
        let mut printed = Printed::new(style);
        let mut rest = self.rest(names);
        in_turn(names, found, |file, event| match event {
            Event::Result(found) => {
                let before = printed.found();
                let wanted = printed.print(&found, &prefixes[file])?;
                if let Some(rest) = &mut rest {
                    rest.note(
                        &found.ends,
                        found.length,
                        printed.found() - before,
                        wanted == Wanted::NextFile,
                    );
                }
                Ok(wanted)
            }
            Event::End(end) => {
                let count = printed.end()?;
                self.note(&names[file], end.map(|report| (count, report)), sum);
                Ok(Wanted::More)
            }
        })?;
        if let Some(rest) = rest {
            rest.leave();
        }
        Ok(())
    }

    fn prefix(&self, name: &OsStr) -> Vec<u8> {
        if self.named { [label(name), b":"].concat() } else { Vec::new() }
    }

    /// Adds the outcome of a file; returns the number of lines, or reports the error.
    fn note(&self, name: &OsStr, count: Count, sum: &mut Sum) -> Option<u64> {
        match count {
            Ok((count, report)) => {
                sum.report.add(&report);
                sum.found |= count > 0;
                sum.files.push(json!({ "path": name.to_string_lossy(), "lines": count }));
                Some(count)
            }
            Err(error) => {
                self.refuse(name, &described(&error), sum);
                if is_truncated(&error) && self.counts() {
                    return self.count_again(name, sum);
                }
                // GNU grep counts the part that it could read.
                is_directory(&error).then_some(0)
            }
        }
    }

    /// Counts the lines of what is left of a file that was truncated while it was read: from its beginning to its end,
    /// wherever that is by then.
    fn count_again(&self, name: &OsStr, sum: &mut Sum) -> Option<u64> {
        let names = [name.to_owned()];
        let counts = self.read(&names).ok()?.map(|block| self.search(|searcher| searcher.count(block)));
        let (count, report) =
            counts.reduce_stream(File::open(name).ok()?, 0, |first, next| first + next).ok()?;
        let count = count.min(self.most());
        sum.report.add(&report);
        sum.found |= count > 0;
        sum.files.push(json!({ "path": name.to_string_lossy(), "lines": count }));
        Some(count)
    }

    /// Reports why a file is not searched.
    pub(super) fn refuse(&self, name: &OsStr, why: &str, sum: &mut Sum) {
        sum.failed = true;
        if !self.grep.shown.no_messages {
            print_error(&format!("grep: {}: {why}", Path::new(OsStr::from_bytes(label(name))).display()));
        }
    }
}

/// The offset at which standard input is left for the next reader, if it can seek: after the last wanted line.
struct InputOffset {
    stdin: File,
    /// End of the blocks read so far.
    read: u64,
    /// End of the last wanted line, once it is found.
    end: Option<u64>,
}

impl InputOffset {
    fn of(mut stdin: File) -> Option<InputOffset> {
        let read = stdin.stream_position().ok()?;
        Some(InputOffset { stdin, read, end: None })
    }

    /// Records a block of `length` bytes with matching lines that end at `ends`, the first `wanted` of which are
    /// wanted; `is_last` tells whether they are the last.
    fn note(&mut self, ends: &[usize], length: usize, wanted: u64, is_last: bool) {
        let last = usize::try_from(wanted).ok().and_then(|wanted| wanted.checked_sub(1));
        if let (true, Some(last)) = (is_last, last) {
            self.end = ends.get(last).map(|&end| self.read + end as u64);
        }
        self.read += length as u64;
    }

    /// Moves standard input to the offset.
    fn leave(mut self) {
        if let Some(end) = self.end {
            // The printed lines are correct even if this fails.
            let _ = self.stdin.seek(SeekFrom::Start(end));
        }
    }
}

/// Passes on the outcome of files in order, including standard input.
fn in_turn<T: Send>(
    names: &[OsString],
    mapped: Mapped<'_, T>,
    mut take: impl FnMut(usize, Event<T>) -> io::Result<Wanted> + Send,
) -> Result<(), read::Error> {
    if names != ["-"] {
        return mapped.each_in_order(take).map(drop);
    }
    let mut enough = false;
    let ended = stream().and_then(|stdin| {
        mapped.in_order_file(stdin, |result| {
            enough = take(0, Event::Result(result))? == Wanted::NextFile;
            if enough { Err(io::Error::other("enough")) } else { Ok(()) }
        })
    });
    let ended = match ended {
        Err(read::Error::Write(_)) if enough => Ok(Report::default()),
        Err(error @ read::Error::Write(_)) => return Err(error),
        ended => ended,
    };
    take(0, Event::End(ended)).map(drop).map_err(read::Error::Write)
}

/// Describes the error of a file whose name precedes the message.
fn described(error: &read::Error) -> String {
    match error {
        read::Error::LongRecord { most, .. } => {
            format!("a line is longer than {}; allow more by --max-line", Bytes(*most))
        }
        error => describe(error),
    }
}

fn is_directory(error: &read::Error) -> bool {
    matches!(error, read::Error::Stream { source, .. } if source.kind() == io::ErrorKind::IsADirectory)
}

fn label(name: &OsStr) -> &[u8] {
    if name == "-" { b"(standard input)" } else { name.as_bytes() }
}

fn stream() -> Result<File, read::Error> {
    stdin().map_err(|source| read::Error::Stream { path: "standard input".into(), source })
}
