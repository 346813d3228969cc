//! An experiment in virtual time as a table.

use std::fmt::Write as _;

use super::style::{Style, one_line, provenance};
use crate::job;
use crate::points::Points;
use crate::regulation;
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
    if let Some(best) = regulation::best_table(result) {
        text.push_str(&table(&best, style));
        text.push('\n');
    }
    if let Some(jobs) = job::table(result) {
        text.push_str(&table(&jobs, style));
        let _ = writeln!(text, "\n{}", style.wrap(job::LEGEND));
    }
    if !scenario::is_of_jobs_alone(result) {
        text.push_str(&table(&scenario::table(result), style));
        let _ = writeln!(text, "\n{}", style.wrap(&scenario::legend(result)));
    }
    let _ = writeln!(text, "{}", style.wrap(&provenance(&document.run)));
    text
}

fn table(points: &Points, style: Style) -> String {
    let header: Vec<String> = points.header.iter().map(|name| one_line(name)).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let rows = points.rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    style.table(&header, rows, points.text_columns)
}
