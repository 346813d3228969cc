//! `grep`: prints or counts the lines that match a pattern.
//!
//! `search` reads and searches the files, `lines` formats the printed lines.

mod lines;
mod search;

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use clap::{ArgAction, Args};
use sakiyomi_exec::read;
use sakiyomi_io::buffer::available_memory;
use sakiyomi_model::Bytes;
use sakiyomi_os::process::memory;
use sakiyomi_text::search::{Meaning, Searcher};
use serde_json::json;

use crate::console::{Common, print_pretty_json};
use crate::reading::{self, Bar, ReadingArgs, plainly, stdin};
use search::{Search, Sum};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi grep -c 'error|warning' log.txt
  sakiyomi grep -n -i 'time ?out' *.log
  sakiyomi grep -oh '[0-9]+ ms' a.log b.log
  sakiyomi grep -F -e 'a.b' -e 'c.d' big.csv --method uring:8 --direct
";

/// Print or count the lines that match a pattern, on all cores.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    args_override_self = true,
    override_usage = "sakiyomi grep [OPTIONS] <PATTERN> [FILE]...\n       sakiyomi grep [OPTIONS] <-e PATTERN|-f FILE>... [FILE]...",
    after_help = "Patterns have the syntax of Rust's regex crate (docs.rs/regex): much like grep -E and Perl, without \
back-references and look-around. Text is UTF-8 in every locale, and every file is text, as with grep -a; bytes that are not \
UTF-8 match no dot and no class.
With --quiet, grep prints nothing and stops at the first matching line.
Exit codes, as grep's: 0 a line matches, 1 no line matches, 2 a file could not be read, or wrong usage."
)]
pub(crate) struct Grep {
    /// The pattern, unless -e or -f gives it, and the files; `-` is standard input, which is also read if none are given
    #[arg(value_name = "PATTERN", required_unless_present_any = ["regexp", "file"])]
    operands: Vec<OsString>,
    #[command(flatten, next_help_heading = "Matching")]
    which: LineSelection,
    #[command(flatten, next_help_heading = "Output")]
    shown: Shown,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// Options that select lines.
#[derive(Debug, Args)]
struct LineSelection {
    /// A pattern; may be repeated
    #[arg(short = 'e', long, value_name = "PATTERN", allow_hyphen_values = true, action = ArgAction::Append)]
    regexp: Vec<String>,
    /// Read patterns from a file, one per line; may be repeated; `-` is standard input
    #[arg(short = 'f', long, value_name = "FILE", action = ArgAction::Append)]
    file: Vec<PathBuf>,
    /// Patterns are plain strings
    #[arg(short = 'F', long, overrides_with = "extended_regexp")]
    fixed_strings: bool,
    /// Patterns are regular expressions (the default)
    #[arg(short = 'E', long)]
    extended_regexp: bool,
    /// Ignore case
    #[arg(short, long)]
    ignore_case: bool,
    /// Match only whole words
    #[arg(short, long)]
    word_regexp: bool,
    /// Match only whole lines
    #[arg(short = 'x', long)]
    line_regexp: bool,
    /// Select the lines that do not match
    #[arg(short = 'v', long)]
    invert_match: bool,
    /// Stop after N matching lines in each file
    #[arg(short, long, value_name = "N")]
    max_count: Option<u64>,
    /// Treat every file as text (the default)
    #[arg(short = 'a', long)]
    text: bool,
    /// Length of a line above which a file is refused [default: 1GiB, less if a quarter of the available memory is less]
    #[arg(long, value_name = "SIZE")]
    max_line: Option<Bytes>,
}

/// Options of the output.
#[derive(Debug, Args)]
struct Shown {
    /// Print only the number of matching lines in each file
    #[arg(short, long)]
    count: bool,
    /// Print only the names of files with matching lines
    #[arg(short = 'l', long, overrides_with = "files_without_match")]
    files_with_matches: bool,
    /// Print only the names of files without matching lines
    #[arg(short = 'L', long)]
    files_without_match: bool,
    /// Print only the matches, one per line
    #[arg(short, long)]
    only_matching: bool,
    /// Print the line number before each line
    #[arg(short = 'n', long)]
    line_number: bool,
    /// Print the file name before each line [default, if there are several files]
    #[arg(short = 'H', long, overrides_with = "no_filename")]
    with_filename: bool,
    /// Never print the file name before a line
    #[arg(short = 'h', long)]
    no_filename: bool,
    /// Suppress messages about files that cannot be read
    #[arg(short = 's', long)]
    no_messages: bool,
}

impl Grep {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let begun = Instant::now();
        let (patterns, mut files) = self.patterns_and_files()?;
        let searcher = Searcher::new(&patterns, self.which.meaning())
            .map_err(|error| anyhow!("grep: {}", in_a_sentence(&error.to_string())))?;
        if files.is_empty() {
            files.push(OsString::from("-"));
        }
        // Errors in these options are not errors of a file.
        let _ = self.reading.read(Path::new("-")).context("grep")?;
        if self.which.max_count == Some(0) && !self.shown.files_without_match {
            return Ok(ExitCode::from(1));
        }
        let named = (files.len() > 1 || self.shown.with_filename) && !self.shown.no_filename;
        let line_max = self.which.line_max_bytes();
        let bar = Bar::new(&files, common.quiet);
        let search = Search { grep: self, common, searcher, named, line_max, bar };
        let sum = self.search_all(&search, &files)?;
        drop(search);
        if common.json && !common.quiet {
            let result = json!({ "files": sum.files });
            print_pretty_json(&reading::document("sakiyomi.grep/1", &sum.report, begun.elapsed(), result))?;
        }
        Ok(ExitCode::from(if sum.failed && !sum.enough { 2 } else { u8::from(!sum.found) }))
    }

    fn search_all(&self, search: &Search<'_>, files: &[OsString]) -> Result<Sum> {
        let output = search.prints_lines().then(Output::of_stdout).flatten();
        let is_output = |name: &OsStr| output.as_ref().is_some_and(|output| output.is(name));
        let mut sum = Sum::default();
        let mut at = 0;
        while at < files.len() && !sum.enough {
            if is_output(&files[at]) {
                // Otherwise the printed lines would be read, matched and printed again.
                search.refuse(&files[at], "input file is also the output", &mut sum);
                at += 1;
                continue;
            }
            // The files that are read concurrently; standard input is read when its turn comes.
            let side_by_side = files[at..].iter().take_while(|name| *name != "-" && !is_output(name));
            let many = side_by_side.count().max(1);
            match search.files(&files[at..at + many], &mut sum) {
                Err(_) if sum.enough => {}
                Err(read::Error::Write(error)) => {
                    return Err(anyhow::Error::new(error).context("grep: write error"));
                }
                searched => searched?,
            }
            at += many;
        }
        Ok(sum)
    }

    fn patterns_and_files(&self) -> Result<(Vec<String>, Vec<OsString>)> {
        let mut patterns = self.which.regexp.clone();
        for file in &self.which.file {
            patterns.extend(patterns_in(file).with_context(|| format!("grep: {}", file.display()))?);
        }
        if !self.which.regexp.is_empty() || !self.which.file.is_empty() {
            return Ok((patterns, self.operands.clone()));
        }
        let pattern = self.operands[0].to_str().ok_or_else(|| anyhow!("grep: the pattern is {NO_UTF8}"))?;
        Ok((vec![pattern.to_owned()], self.operands[1..].to_vec()))
    }
}

const NO_UTF8: &str = r"not UTF-8; write bytes that are not characters as (?-u:\xff)";

/// Extracts the message about a pattern, which the crate draws on four lines with a mark below the position.
fn in_a_sentence(drawn: &str) -> String {
    match drawn.lines().collect::<Vec<_>>()[..] {
        [_, pattern, mark, why] => {
            let at = mark.chars().take_while(|&character| character == ' ').count();
            let why = why.trim_start_matches("error: ");
            format!("pattern `{}`, from character {} on: {why}", pattern.trim_start(), at.saturating_sub(3))
        }
        _ => drawn.replace('\n', " "),
    }
}

/// Reads the lines of a file of patterns.
fn patterns_in(file: &Path) -> Result<Vec<String>> {
    let mut text = Vec::new();
    let read = if file == "-" {
        stdin().and_then(|mut stdin| stdin.read_to_end(&mut text)).map(drop)
    } else {
        fs::read(file).map(|read| text = read)
    };
    read.map_err(|error| anyhow!("{}", plainly(&error)))?;
    let text = String::from_utf8(text).map_err(|_| anyhow!("{NO_UTF8}"))?;
    Ok(text.split_terminator('\n').map(str::to_owned).collect())
}

/// Default limit of the length of a line.
const LINE_MAX_BYTES: u64 = 1 << 30;

impl LineSelection {
    /// Returns the limit of the length of a line in bytes. A line that is printed is twice in memory.
    fn line_max_bytes(&self) -> u64 {
        let left = memory::left_to(std::process::id()).map_or(u64::MAX, |left| left / 4);
        let usual = || LINE_MAX_BYTES.min(left).min(available_memory() / 4);
        self.max_line.map_or_else(usual, |line| line.0)
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

/// The regular file that standard output refers to.
struct Output(Metadata);

impl Output {
    fn of_stdout() -> Option<Output> {
        let stdout = io::stdout().as_fd().try_clone_to_owned().ok()?;
        fs::File::from(stdout).metadata().ok().filter(Metadata::is_file).map(Output)
    }

    fn is(&self, name: &OsStr) -> bool {
        let metadata =
            if name == "-" { stdin().and_then(|stdin| stdin.metadata()) } else { fs::metadata(name) };
        metadata.is_ok_and(|input| (input.dev(), input.ino()) == (self.0.dev(), self.0.ino()))
    }
}
