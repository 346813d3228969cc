//! `grep`: the lines that a pattern matches.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use sakiyomi_task::read::{self, Event, Mapped, Report, Wanted};
use sakiyomi_task::search::{Meaning, Searcher, lines};
use serde_json::{Value, json};

use crate::args::ReadingArgs;
use crate::command::wc::{in_words, run, stdin};
use crate::console::{Common, complain, say_json};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi grep -c 'error|warning' log.txt
  sakiyomi grep -n -i 'time ?out' *.log
  sakiyomi grep -F -e 'a.b' -e 'c.d' big.csv --method uring:8 --direct
";

/// Print the lines that a pattern matches, or count them, on all cores while reading
#[derive(Debug, Args)]
#[command(
    after_help = "Patterns are Rust's (docs.rs/regex): much like grep -E and Perl, without back-references and look-around. \
Characters are UTF-8 whatever the locale says, and every file is text, as with grep -a; a byte that is no character is \
matched by no dot and no class, and is no end of a word.
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
        let search = Search { grep: self, common, searcher, named };
        let mut sum = Sum::default();
        let mut at = 0;
        while at < files.len() && !sum.enough {
            // Those that are read side by side; stdin is read when it is its turn.
            let many = files[at..].iter().take_while(|name| *name != "-").count().max(1);
            match search.files(&files[at..at + many], &mut sum) {
                Err(_) if sum.enough => {}
                Err(read::Error::Write(error)) => {
                    return Err(anyhow::Error::new(error).context("grep: write error"));
                }
                searched => searched?,
            }
            at += many;
        }
        if sum.enough {
            return Ok(ExitCode::SUCCESS);
        }
        if common.json {
            let run = run(&sum.report, begun.elapsed());
            say_json(&json!({ "schema": "sakiyomi.grep/1", "run": run, "result": { "files": sum.files } }))?;
        }
        Ok(ExitCode::from(if sum.failed { 2 } else { u8::from(!sum.found) }))
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
}

/// What is looked for, and what becomes of it.
struct Search<'g> {
    grep: &'g Grep,
    common: &'g Common,
    searcher: Searcher,
    /// Whether each line is printed with its file's name.
    named: bool,
}

/// What came of all files so far.
#[derive(Default)]
struct Sum {
    found: bool,
    failed: bool,
    /// Nothing more need be read.
    enough: bool,
    report: Report,
    files: Vec<Value>,
}

impl Search<'_> {
    /// Searches files, of which the next is read while the last is searched; or stdin.
    fn files(&self, names: &[OsString], sum: &mut Sum) -> Result<(), read::Error> {
        let prefixes: Vec<Vec<u8>> = names.iter().map(|name| self.prefix(name)).collect();
        let records = self.read(names)?.records(b'\n');
        let is_silent = self.common.quiet || self.common.json;
        if is_silent || self.grep.count || self.grep.files_with_matches {
            let count = records.map(|block| self.searcher.count(block));
            return self.count(names, &prefixes, count, sum);
        }
        let found = records.map_of_each(|file, block| self.find(block, &prefixes[file]));
        self.print_lines(names, &prefixes, found, sum)
    }

    fn prefix(&self, name: &OsStr) -> Vec<u8> {
        if self.named { [label(name), b":"].concat() } else { Vec::new() }
    }

    fn read(&self, names: &[OsString]) -> Result<read::BlockedRead, read::Error> {
        self.grep.reading.read_all(names).map_err(|error| read::Error::Stream {
            path: names[0].clone().into(),
            source: io::Error::other(error.to_string()),
        })
    }

    /// Counts lines, all of them or up to the first block in which there is one.
    fn count(
        &self,
        names: &[OsString],
        prefixes: &[Vec<u8>],
        mapped: Mapped<impl Fn(usize, &[u8]) -> u64 + Sync>,
        sum: &mut Sum,
    ) -> Result<(), read::Error> {
        let one_is_enough = self.grep.files_with_matches && !self.common.json || self.common.quiet;
        if !one_is_enough {
            let add = |first, next| first + next;
            if names == ["-"] {
                let counted = stream().and_then(|stdin| mapped.reduce_stream(stdin, 0, add));
                return self.counted(&names[0], &prefixes[0], counted, sum).map_err(read::Error::Write);
            }
            let each = |file: usize, counted| self.counted(&names[file], &prefixes[file], counted, sum);
            return mapped.reduce_each(|| 0, add, each).map(drop);
        }
        let mut found = 0;
        if names == ["-"] {
            let take = |count| {
                found += count;
                if count > 0 { Err(io::Error::other("enough")) } else { Ok(()) }
            };
            let ended = stream().and_then(|stdin| mapped.in_order_stream(stdin, take));
            let report = match ended {
                Err(read::Error::Write(_)) => Ok(Report::default()),
                ended => ended,
            };
            let counted = report.map(|report| (found, report));
            return self.counted(&names[0], &prefixes[0], counted, sum).map_err(read::Error::Write);
        }
        let take = |file: usize, event: Event<u64>| match event {
            Event::Result(count) => {
                found += count;
                Ok(if count > 0 { Wanted::NextFile } else { Wanted::More })
            }
            Event::End(end) => {
                let count = std::mem::take(&mut found);
                self.counted(&names[file], &prefixes[file], end.map(|report| (count, report)), sum)?;
                Ok(Wanted::More)
            }
        };
        mapped.each_in_order(take).map(drop)
    }

    /// Prints what a file came to, if it is to be.
    fn counted(
        &self,
        name: &OsStr,
        prefix: &[u8],
        counted: Result<(u64, Report), read::Error>,
        sum: &mut Sum,
    ) -> io::Result<()> {
        let Some(count) = sum.note(name, counted) else { return Ok(()) };
        if self.common.quiet && count > 0 {
            sum.enough = true;
            return Err(io::Error::other("enough"));
        }
        let mut out = io::stdout().lock();
        match () {
            () if self.common.quiet || self.common.json => Ok(()),
            () if self.grep.files_with_matches && count > 0 => out.write_all(&[label(name), b"\n"].concat()),
            () if self.grep.files_with_matches => Ok(()),
            () => out.write_all(prefix).and_then(|()| writeln!(out, "{count}")),
        }
    }

    fn print_lines(
        &self,
        names: &[OsString],
        prefixes: &[Vec<u8>],
        mapped: Mapped<impl Fn(usize, &[u8]) -> Found + Sync>,
        sum: &mut Sum,
    ) -> Result<(), read::Error> {
        let mut printed =
            Printed { lines: 0, found: 0, out: BufWriter::with_capacity(1 << 16, io::stdout()) };
        if names == ["-"] {
            let ended = stream()
                .and_then(|stdin| mapped.in_order_stream(stdin, |found| printed.print(found, &prefixes[0])));
            if let Err(error @ read::Error::Write(_)) = ended {
                return Err(error);
            }
            let found = printed.end().map_err(read::Error::Write)?;
            sum.note(&names[0], ended.map(|report| (found, report)));
            return Ok(());
        }
        let take = |file: usize, event| {
            match event {
                Event::Result(found) => printed.print(found, &prefixes[file])?,
                Event::End(end) => {
                    let found = printed.end()?;
                    sum.note(&names[file], end.map(|report| (found, report)));
                }
            }
            Ok(Wanted::More)
        };
        mapped.each_in_order(take).map(drop)
    }

    fn find(&self, block: &[u8], prefix: &[u8]) -> Found {
        let mut found = Found { text: Vec::new(), numbers: Vec::new(), found: 0, lines: 0 };
        let (mut seen, numbered) = (0, self.grep.line_number);
        self.searcher.lines(block, |at, line| {
            found.found += 1;
            if !numbered {
                found.text.extend_from_slice(prefix);
            }
            found.text.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                found.text.push(b'\n');
            }
            if numbered {
                found.lines += lines(&block[seen..at]);
                seen = at;
                found.numbers.push((found.lines, found.text.len()));
            }
        });
        if numbered {
            found.lines += lines(&block[seen..]);
        }
        found
    }
}

/// Lines of a file on their way to stdout.
struct Printed {
    /// Lines that the blocks before had, where they are numbered.
    lines: u64,
    found: u64,
    out: BufWriter<io::Stdout>,
}

impl Printed {
    fn print(&mut self, found: Found, prefix: &[u8]) -> io::Result<()> {
        self.found += found.found;
        let mut from = 0;
        for (number, end) in found.numbers {
            self.out.write_all(prefix)?;
            write!(self.out, "{}:", self.lines + number + 1)?;
            self.out.write_all(&found.text[from..end])?;
            from = end;
        }
        self.lines += found.lines;
        self.out.write_all(&found.text[from..])
    }

    /// The file has ended: says how many lines were found in it.
    fn end(&mut self) -> io::Result<u64> {
        self.lines = 0;
        self.out.flush()?;
        Ok(std::mem::take(&mut self.found))
    }
}

impl Sum {
    /// Adds what came of a file; gives how many lines, or says what is wrong.
    fn note(&mut self, name: &OsStr, found: Result<(u64, Report), read::Error>) -> Option<u64> {
        match found {
            Ok((count, report)) => {
                self.report.add(&report);
                self.found |= count > 0;
                self.files.push(json!({ "path": name.to_string_lossy(), "lines": count }));
                Some(count)
            }
            Err(error) => {
                complain(&format!("grep: {}: {}", Path::new(name).display(), in_words(&error)));
                self.failed = true;
                // As GNU grep, which counts what it could read.
                is_directory(&error).then_some(0)
            }
        }
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
