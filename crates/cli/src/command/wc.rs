//! `wc`: lines, words, characters, bytes and the longest line, as GNU wc counts and prints them.
//!
//! `names` determines the files, `count` counts them, `lines` prints the results.

mod count;
mod lines;
mod names;

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use sakiyomi_os::ctype::{Characters, Encoding};
use sakiyomi_text::count::{Counter, Wanted};
use serde_json::{Value, json};

use crate::console::{Common, print_error, print_pretty_json};
use crate::reading::{self, Bar, ReadingArgs, plainly};
use count::{Counted, Tool};
use lines::{Lines, Shown, add};
use names::Names;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi wc -lw big.txt
  sakiyomi wc big.txt --method uring:8 --direct --json
  find . -name '*.c' -print0 | sakiyomi wc -l --files0-from=-
";

/// Count lines, words, characters and bytes as GNU wc does, on all cores.
#[derive(Debug, Args)]
#[command(
    args_override_self = true,
    after_help = "Figures are printed in the order lines, words, characters, bytes, longest line; without any option, \
lines, words and bytes.
Characters are those of the locale (LC_ALL, LC_CTYPE, LANG), whose encoding must be UTF-8 or of single bytes.
Exit codes, as wc's: 0 done, 1 a file could not be read, or wrong usage."
)]
pub(crate) struct Wc {
    /// Files to count; `-` is standard input, which is also read if none are given
    #[arg(value_name = "FILE")]
    files: Vec<OsString>,
    #[command(flatten)]
    shown: Shown,
    /// Read file names, each terminated by a NUL byte, from this file; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    files0_from: Option<OsString>,
    /// When to print the total
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    total: Total,
    #[command(flatten)]
    reading: ReadingArgs,
}

/// When to print the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Total {
    /// If there are several files.
    Auto,
    /// Always.
    Always,
    /// Print only the total.
    Only,
    /// Never.
    Never,
}

/// The outcome of all files so far.
#[derive(Default)]
struct Sum {
    counted: Counted,
    failed: bool,
    files: Vec<Value>,
}

impl Wc {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        Ok(self.count_all(common).unwrap_or_else(|error| {
            // Distinguishes errors of standard output from those of files.
            match error.downcast_ref::<io::Error>() {
                Some(error) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
                Some(error) => print_error(&format!("wc: write error: {}", plainly(error))),
                None => print_error(&format!("wc: {error:#}")),
            }
            ExitCode::FAILURE
        }))
    }

    fn count_all(&self, common: &Common) -> Result<ExitCode> {
        let begun = Instant::now();
        let shown = self.shown.or_usual();
        let names = Names::new(&self.files, self.files0_from.as_deref())?;
        let width = if self.total == Total::Only { 1 } else { names.width(shown.count()) };
        let bar = Bar::new(&names.all, common.quiet);
        let tool =
            Tool { reading: &self.reading, shown, counter: counter(&shown)?, names: &names, bar: &bar };
        let output =
            Output { each: self.total != Total::Only, common, names: &names, lines: Lines { shown, width } };
        let mut sum = Sum::default();
        tool.count_all(|index, counted| output.note(index, counted, &mut sum))?;
        drop(bar);
        self.print_total(&output, &sum, begun.elapsed())?;
        Ok(if sum.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn print_total(&self, output: &Output<'_>, sum: &Sum, elapsed: Duration) -> Result<()> {
        let (lines, figures) = (&output.lines, &sum.counted.figures);
        let wants_total = match self.total {
            Total::Auto => output.names.all.len() > 1,
            Total::Always | Total::Only => true,
            Total::Never => false,
        };
        if output.common.json {
            let result = json!({ "files": sum.files, "total": lines.shown.in_json(figures) });
            return print_pretty_json(&reading::document(
                "sakiyomi.wc/1",
                &sum.counted.report,
                elapsed,
                result,
            ));
        }
        if wants_total {
            lines.print(figures, output.each.then(|| OsStr::new("total")))?;
        }
        Ok(())
    }
}

/// Output of the results.
struct Output<'w> {
    /// Whether each file is printed, and not only the total.
    each: bool,
    common: &'w Common,
    names: &'w Names<'w>,
    lines: Lines,
}

impl Output<'_> {
    /// Adds the result of a file, and prints it; `None` if it was not counted at all.
    fn note(&self, index: usize, counted: Option<Counted>, sum: &mut Sum) -> io::Result<()> {
        sum.failed |= counted.as_ref().is_none_or(|counted| counted.failed);
        let Some(counted) = counted else { return Ok(()) };
        add(&mut sum.counted.figures, &counted.figures);
        sum.counted.report.add(&counted.report);
        let label = self.names.label(index);
        if self.common.json {
            let name = label.map(|name| name.to_string_lossy().into_owned());
            let figures = self.lines.shown.in_json(&counted.figures);
            sum.files.push(json!({ "path": name, "figures": figures }));
            return Ok(());
        }
        if self.each { self.lines.print(&counted.figures, label) } else { Ok(()) }
    }
}

fn counter(shown: &Shown) -> Result<Counter> {
    let characters = Characters::from_environment();
    let encoding = match characters.encoding() {
        Encoding::Other(name) => name.clone(),
        Encoding::Bytes | Encoding::Utf8 => String::new(),
    };
    let wanted = Wanted { words: shown.words, chars: shown.chars, columns: shown.max_line_length };
    let posix = std::env::var_os("POSIXLY_CORRECT").is_some();
    let Some(counter) = Counter::new(Arc::new(characters), wanted, !posix) else {
        bail!("the locale's encoding {encoding} is not supported; set LC_ALL to C or to a UTF-8 locale")
    };
    Ok(counter)
}
