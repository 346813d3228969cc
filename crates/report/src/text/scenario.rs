//! An experiment in virtual time as a table.

use std::fmt::Write as _;

use super::style::{Style, one_line, provenance};
use crate::scenario;
use crate::schema::{Document, ScenarioResult};
use crate::verdict;

/// Every combination of values with what came of it, what was published beside it.
#[must_use]
pub fn scenario(document: &Document<ScenarioResult>, style: Style) -> String {
    let result = &document.result;
    let mut text = String::new();
    let _ = writeln!(text, "{}", style.heading(&one_line(&result.name)));
    let _ = writeln!(text, "  on {}\n", one_line(&result.drive));
    let _ = writeln!(text, "{}\n", style.wrap(&one_line(&verdict::paragraph(&scenario::verdict(result)))));
    let points = scenario::table(result);
    let header: Vec<String> = points.header.iter().map(|name| one_line(name)).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let rows = points.rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    text.push_str(&style.table(&header, rows, points.text_columns));
    let _ = writeln!(text, "\n{}\n{}", style.wrap(scenario::LEGEND), style.wrap(&provenance(&document.run)));
    text
}
