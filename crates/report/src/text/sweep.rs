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
    let repeated = result.repeated() > 0;
    header.extend(repeated.then_some("same drive as"));
    let rows = result.points.iter().map(|point| row(result, point, keys, repeated)).collect();
    text.push_str(&style.table(&header, rows, keys + 1));
    let _ = writeln!(text, "\n* undominated");
    let limits = result.limits();
    for limit in limits.iter().take(LIMITS_MAX) {
        let _ = writeln!(text, "{}", style.wrap(&one_line(&limit.describe())));
    }
    if limits.len() > LIMITS_MAX {
        let _ = writeln!(text, "and {} more, in --json", limits.len() - LIMITS_MAX);
    }
    let _ = writeln!(text, "{}", style.wrap(&provenance(&document.run)));
    text
}

/// Maximum number of limits described in the text.
const LIMITS_MAX: usize = 12;

fn row(result: &SweepResult, point: &SweepPoint, keys: usize, repeated: bool) -> Vec<String> {
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
    row.extend(repeated.then(|| one_line(&result.same_drive(point).unwrap_or_default())));
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::schema::SweepLimit;

    #[test]
    fn points_of_one_drive_are_marked_with_what_limits_them() {
        let mut document = sample::sweep();
        let plain = Style { width: 100, colour: false };
        let before = sweep(&document, plain);
        assert!(!before.contains("same drive as"), "{before}");
        let point = &mut document.result.points[2];
        point.same_drive_as_point = Some(1);
        point.limits = vec![SweepLimit {
            key: "cache.read_ahead.max".to_owned(),
            value: "512KiB".to_owned(),
            acts_as: Some("256KiB".to_owned()),
            limited_by: vec!["cache.size".to_owned(), "cache.segments.count".to_owned()],
        }];
        let text = sweep(&document, plain);
        let row = text.lines().find(|line| line.contains("512KiB")).unwrap();
        assert!(row.trim_end().ends_with("256KiB"), "{text}");
        assert!(text.contains("One combination comes to the same drive as an earlier one."), "{text}");
        let told =
            "cache.read_ahead.max = 512KiB acts as 256KiB: cache.size and cache.segments.count limit it";
        assert!(text.contains(told), "{text}");
        let page = crate::html::sweep(&document);
        assert!(page.contains("same drive as") && page.contains(told), "{page}");
    }
}
