//! `grep`: the lines that a pattern matches.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use sakiyomi_task::read::{self, Report};
use sakiyomi_task::search::{Meaning, Searcher, lines};
use serde_json::json;

use crate::args::{Common, ReadingArgs};
use crate::command::wc::{add_report, in_words, run, stdin};
use crate::console::{complain, say_json};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi grep -c 'error|warning' log.txt
  sakiyomi grep -n -i 'time ?out' *.log
  sakiyomi grep -F -e 'a.b' -e 'c.d' big.csv --method uring:8 --direct
";

/// Print the lines that a pattern matches, or count them, on all cores while reading
#[derive(Debug, Args)]
#[command(
    after_help = "Patterns are Rust's (docs.rs/regex): much like grep -E and Perl, without back-references and look-around. \
Characters are UTF-8 whatever the locale says, and every file is text, as with grep -a.
With --quiet nothing is printed, and reading ends with the first line that is found.
Exit codes, as grep's: 0 a line was found, 1 none was, 2 a file could not be read, or wrong usage."
)]
pub(crate) struct Grep {
    /// The pattern, unless -e gives it; and files. `-` is stdin, which is also read if there are none
    #[arg(value_name = "PATTERN] [FILE", required_unless_present = "regexp")]
    operands: Vec<OsString>,
    /// A pattern; may be repeated
    #[arg(short = 'e', long, value_name = "PATTERN", allow_hyphen_values = true)]
    regexp: Vec<String>,
    /// Patterns are plain texts
    #[arg(short = 'F', long)]
    fixed_strings: bool,
    /// Upper and lower case are the same
    #[arg(short, long)]
    ignore_case: bool,
    /// Only whole words match
    #[arg(short, long)]
    word_regexp: bool,
    /// Only whole lines match
    #[arg(short = 'x', long)]
    line_regexp: bool,
    /// Lines that do not match
    #[arg(short = 'v', long)]
    invert_match: bool,
    /// Print how many lines each file has
    #[arg(short, long)]
    count: bool,
    /// Print the names of files that have some
    #[arg(short = 'l', long)]
    files_with_matches: bool,
    /// Print each line's number before it
    #[arg(short = 'n', long)]
    line_number: bool,
    /// Print the file's name before each line [default: if there are several]
    #[arg(short = 'H', long)]
    with_filename: bool,
    /// Never print the file's name
    #[arg(long, conflicts_with = "with_filename")]
    no_filename: bool,
    #[command(flatten)]
    reading: ReadingArgs,
}

/// Lines found in a block.
struct Found {
    /// They themselves, each with an end.
    text: Vec<u8>,
    /// Of each, if numbers are printed: its number in the block, from 0, and where it ends in the text.
    numbers: Vec<(u64, usize)>,
    found: u64,
    /// How many lines the block has.
    lines: u64,
}

impl Grep {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let begun = Instant::now();
        let (patterns, mut files) = self.patterns_and_files();
        let searcher = Searcher::new(&patterns, self.meaning())?;
        if files.is_empty() {
            files.push(OsString::from("-"));
        }
        // What is wrong with these is not a file's fault.
        let _ = self.reading.read(Path::new("-"))?;
        let named = (files.len() > 1 || self.with_filename) && !self.no_filename;
        let (mut found, mut failed, mut sum, mut counts) = (false, false, Report::default(), Vec::new());
        for name in &files {
            match self.search(name, named, &searcher, common) {
                Ok((count, report)) => {
                    add_report(&mut sum, &report);
                    found |= count > 0;
                    counts.push(json!({ "path": name.to_string_lossy(), "lines": count }));
                    if common.quiet && found {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                Err(read::Error::Write(error)) => return Err(error.into()),
                Err(error) => {
                    complain(&format!("grep: {}: {}", Path::new(name).display(), in_words(&error)));
                    failed = true;
                }
            }
        }
        if common.json {
            let run = run(&sum, begun.elapsed());
            say_json(&json!({ "schema": "sakiyomi.grep/1", "run": run, "result": { "files": counts } }))?;
        }
        Ok(ExitCode::from(if failed { 2 } else { u8::from(!found) }))
    }

    fn patterns_and_files(&self) -> (Vec<String>, Vec<OsString>) {
        if !self.regexp.is_empty() {
            return (self.regexp.clone(), self.operands.clone());
        }
        let pattern = self.operands[0].to_string_lossy().into_owned();
        (vec![pattern], self.operands[1..].to_vec())
    }

    fn meaning(&self) -> Meaning {
        Meaning {
            fixed: self.fixed_strings,
            ignore_case: self.ignore_case,
            whole_words: self.word_regexp,
            whole_lines: self.line_regexp,
            invert: self.invert_match,
        }
    }

    /// Searches a file, prints what is to be printed, and says how many lines were found.
    fn search(
        &self,
        name: &OsStr,
        named: bool,
        searcher: &Searcher,
        common: &Common,
    ) -> Result<(u64, Report), read::Error> {
        let label: &[u8] = if name == "-" { b"(standard input)" } else { name.as_bytes() };
        let prefix = if named { [label, b":"].concat() } else { Vec::new() };
        let silent = common.quiet || common.json;
        if !silent && !self.count && !self.files_with_matches {
            return self.print_lines(name, &prefix, searcher);
        }
        let (count, report) = if self.files_with_matches && !common.json || common.quiet {
            self.find_one(name, searcher)?
        } else {
            self.count(name, searcher)?
        };
        let mut out = io::stdout().lock();
        let written = match () {
            () if silent => Ok(()),
            () if self.files_with_matches && count > 0 => out.write_all(&[label, b"\n"].concat()),
            () if self.files_with_matches => Ok(()),
            () => out.write_all(&prefix).and_then(|()| writeln!(out, "{count}")),
        };
        written.map_err(read::Error::Write)?;
        Ok((count, report))
    }

    fn count(&self, name: &OsStr, searcher: &Searcher) -> Result<(u64, Report), read::Error> {
        let mapped = self.read(name)?.records(b'\n').map(|block| searcher.count(block));
        let add = |first, next| first + next;
        if name == "-" { mapped.reduce_stream(stream()?, 0, add) } else { mapped.reduce(0, add) }
    }

    /// Ends with the first block in which there is one.
    fn find_one(&self, name: &OsStr, searcher: &Searcher) -> Result<(u64, Report), read::Error> {
        let mapped = self.read(name)?.records(b'\n').map(|block| searcher.count(block));
        let mut found = 0;
        let mut take = |count| {
            found += count;
            if count > 0 { Err(io::Error::other("enough")) } else { Ok(()) }
        };
        let report = if name == "-" {
            mapped.in_order_stream(stream()?, &mut take)
        } else {
            mapped.in_order(&mut take)
        };
        match report {
            Err(read::Error::Write(_)) => Ok((found, Report::default())),
            report => Ok((found, report?)),
        }
    }

    fn print_lines(
        &self,
        name: &OsStr,
        prefix: &[u8],
        searcher: &Searcher,
    ) -> Result<(u64, Report), read::Error> {
        let mapped = self.read(name)?.records(b'\n').map(|block| self.find(block, prefix, searcher));
        let (mut before, mut total) = (0, 0);
        let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout());
        let take = |found: Found| {
            total += found.found;
            if self.line_number {
                let mut from = 0;
                for (number, end) in found.numbers {
                    out.write_all(prefix)?;
                    write!(out, "{}:", before + number + 1)?;
                    out.write_all(&found.text[from..end])?;
                    from = end;
                }
                before += found.lines;
                return Ok(());
            }
            out.write_all(&found.text)
        };
        let report =
            if name == "-" { mapped.in_order_stream(stream()?, take) } else { mapped.in_order(take) }?;
        out.flush().map_err(read::Error::Write)?;
        Ok((total, report))
    }

    fn find(&self, block: &[u8], prefix: &[u8], searcher: &Searcher) -> Found {
        let mut found = Found { text: Vec::new(), numbers: Vec::new(), found: 0, lines: 0 };
        let mut seen = 0;
        searcher.lines(block, |at, line| {
            found.found += 1;
            if !self.line_number {
                found.text.extend_from_slice(prefix);
            }
            found.text.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                found.text.push(b'\n');
            }
            if self.line_number {
                found.lines += lines(&block[seen..at]);
                seen = at;
                found.numbers.push((found.lines, found.text.len()));
            }
        });
        found.lines += lines(&block[seen..]);
        found
    }

    fn read(&self, name: &OsStr) -> Result<read::BlockedRead, read::Error> {
        self.reading.read(Path::new(name)).map_err(|error| read::Error::Stream {
            path: name.into(),
            source: io::Error::other(error.to_string()),
        })
    }
}

fn stream() -> Result<File, read::Error> {
    stdin().map_err(|source| read::Error::Stream { path: "standard input".into(), source })
}
