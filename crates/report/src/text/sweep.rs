//! An exploration of parameters as a table.

use std::fmt::Write as _;

use super::style::{Style, one_line, provenance};
use crate::number::{count, duration, percent};
use crate::schema::{Document, SweepPoint, SweepResult};
use crate::verdict;

/// Every combination of values with what came of it; undominated ones are starred.
#[must_use]
pub fn sweep(document: &Document<SweepResult>, style: Style) -> String {
    let result = &document.result;
    let mut text = String::new();
    let title = format!("{} on {}", one_line(&result.trace), one_line(&result.drive));
    let _ = writeln!(text, "{}", style.heading(&title));
    for setting in &result.settings {
        let _ = writeln!(text, "  {}", one_line(setting));
    }
    text.push('\n');
    let _ = writeln!(text, "{}\n", style.wrap(&one_line(&verdict::paragraph(&verdict::sweep(result)))));
    // A point may have more or fewer values than there are keys; rows and header then still line up.
    let keys = result.points.iter().map(|point| point.values.len()).fold(result.varied.len(), usize::max);
    let mut header: Vec<&str> = vec![""];
    header.extend((0..keys).map(|index| result.varied.get(index).map_or("", String::as_str)));
    header.extend(["hit rate", "mean", "p99", "longest", "seeks", "idle"]);
    let rows = result.points.iter().map(|point| row(point, keys)).collect();
    text.push_str(&style.table(&header, rows, keys + 1));
    let _ = writeln!(text, "\n* undominated\n{}", style.wrap(&provenance(&document.run)));
    text
}

fn row(point: &SweepPoint, keys: usize) -> Vec<String> {
    let mut row = vec![if point.undominated { "*" } else { "" }.to_owned()];
    row.extend((0..keys).map(|index| point.values.get(index).cloned().unwrap_or_default()));
    row.extend([
        percent(point.hit_ratio),
        duration(point.response_mean_ns),
        duration(point.response_p99_ns),
        duration(point.response_max_ns),
        count(point.seeks),
        percent(point.idle_ratio),
    ]);
    row
}
