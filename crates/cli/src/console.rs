//! Output for the user, and the options of every command about it: the only module that prints.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use sakiyomi_os::stdio;
use sakiyomi_report::Reported;
use sakiyomi_report::text::{self, Style};
use serde::Serialize;

use crate::progress::above_bar;

/// Options of every command. They are hidden in the help of each, which names the page that has them; see [`shown`].
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// Print the result as one JSON object
    #[arg(long, global = true, hide = true)]
    pub(crate) json: bool,
    /// Suppress progress and notes on standard error
    #[arg(short, long, global = true, hide = true)]
    pub(crate) quiet: bool,
    /// When to color standard output
    #[arg(long, global = true, hide = true, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// Shows the options of every command in what is made of a command: completions, a manual page, the page of these options.
pub(crate) fn shown(command: clap::Command) -> clap::Command {
    command.mut_args(|argument| if argument.is_global_set() { argument.hide(false) } else { argument })
}

impl Common {
    /// Writes a result to stdout: as JSON if requested, otherwise as text.
    pub(crate) fn emit(&self, document: &impl Serialize, words: impl FnOnce(Style) -> String) -> Result<()> {
        if self.json { print_pretty_json(document) } else { print_text(&words(self.color.style())) }
    }

    /// Writes a result to stdout: as JSON if requested, otherwise as its report.
    pub(crate) fn present(&self, reported: &impl Reported) -> Result<()> {
        self.emit(reported, |style| text::render(&reported.report(), style))
    }

    /// Writes a note to stderr, unless `--quiet` suppresses it.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            note(text);
        }
    }
}

/// When to use color.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Width of tables if the terminal is wider, or if output does not go to a terminal.
const WIDTH_MAX_COLUMNS: usize = 110;

impl Color {
    /// Returns the style of stdout: colors and width.
    pub(crate) fn style(self) -> Style {
        self.style_on(io::stdout().is_terminal())
    }

    /// Returns the style of stderr.
    pub(crate) fn style_of_notes(self) -> Style {
        self.style_on(io::stderr().is_terminal())
    }

    fn style_on(self, terminal: bool) -> Style {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let color = match self {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !plain,
        };
        let width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        Style { width: width.unwrap_or(WIDTH_MAX_COLUMNS).clamp(40, WIDTH_MAX_COLUMNS), color }
    }
}

/// Standard output; writes fail if the program was started without one.
pub(crate) struct Stdout(io::Stdout);

pub(crate) fn stdout() -> Stdout {
    Stdout(io::stdout())
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        /// Whether lines would appear beside the progress.
        static IS_TERMINAL: LazyLock<bool> = LazyLock::new(|| io::stdout().is_terminal());
        stdio::was_open(self.0.as_fd())?;
        if *IS_TERMINAL { above_bar(|| self.0.write(bytes)) } else { self.0.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes a result to stdout.
pub(crate) fn print_text(text: &str) -> Result<()> {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let mut out = stdout();
    write!(out, "{text}{end}")
        .and_then(|()| out.flush())
        .context("cannot write the result to standard output")
}

/// Prints the requested help or version to stdout.
pub(crate) fn print_help(help: &clap::Error) -> Result<()> {
    let out = io::stdout();
    stdio::was_open(out.as_fd())
        .and_then(|()| help.print())
        .and_then(|()| out.lock().flush())
        .context("cannot write to standard output")
}

/// Writes a result to stdout as JSON, on several lines.
pub(crate) fn print_pretty_json(value: &impl Serialize) -> Result<()> {
    print_text(&serde_json::to_string_pretty(value)?)
}

/// Writes a result without circumstances of a run, as a JSON object.
pub(crate) fn print_result(schema: &str, result: &impl Serialize) -> Result<()> {
    print_pretty_json(&Envelope { schema, result })
}

/// Writes such a result on one line, for a sequence of results.
pub(crate) fn print_result_line(schema: &str, result: &impl Serialize) -> Result<()> {
    print_text(&serde_json::to_string(&Envelope { schema, result })?)
}

/// JSON envelope of a result without circumstances of a run.
#[derive(Serialize)]
pub(crate) struct Envelope<'a, T> {
    pub(crate) schema: &'a str,
    pub(crate) result: T,
}

/// Writes a note to stderr. Errors are ignored: stderr may be closed.
pub(crate) fn note(text: &str) {
    let _ = above_bar(|| writeln!(io::stderr(), "{}", without_numbers(text)));
}

/// Writes a result to stderr as JSON, if stdout belongs to a program.
pub(crate) fn note_pretty_json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => note(&text),
        Err(error) => print_error(&format!("cannot write the result as JSON: {error}")),
    }
}

/// Writes an error to stderr.
pub(crate) fn print_error(text: &str) {
    note(&format!("sakiyomi: {text}"));
}

/// Returns an error's text without the numbers that the standard library appends to the system's messages: ` (os
/// error 2)`.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.parse::<i32>().is_ok() => plain.push_str(rest),
            _ => plain.extend([" (os error ", part]),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::without_numbers;

    #[test]
    fn numbers_of_errors_are_left_out_and_nothing_else() {
        let missing = std::io::Error::from_raw_os_error(2);
        assert_eq!(without_numbers(&format!("a: {missing}: b")), "a: No such file or directory: b");
        for text in ["", "a (os error x) b", "a (os error 2", "(os error 2)"] {
            assert_eq!(without_numbers(text), text);
        }
    }
}
