//! A program that was run with reading ahead.

use std::fmt::Write as _;

use super::style::{Style, one_line};
use crate::schema::{Document, RunResult};
use crate::verdict;

/// What was measured, and what came of it.
#[must_use]
pub fn run(document: &Document<RunResult>, style: Style) -> String {
    let result = &document.result;
    let mut text = format!("{}\n", style.heading(&one_line(&verdict::run_title(result))));
    for (name, value) in verdict::run_figures(result) {
        let _ = writeln!(text, "  {name:<22} {value}");
    }
    let sentences: Vec<String> = verdict::run(result).iter().map(|sentence| one_line(sentence)).collect();
    let _ = writeln!(text, "{}", style.wrap(&verdict::paragraph(&sentences)));
    text
}
