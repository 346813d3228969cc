//! Two simulations side by side.

use std::fmt::Write as _;

use super::style::{Style, one_line, provenance};
use crate::schema::{Document, SimResult};
use crate::totals::{Judgement, compared};
use crate::verdict;

/// What B changes against A: in words, then as a table.
#[must_use]
pub fn compare(a: &Document<SimResult>, b: &Document<SimResult>, style: Style) -> String {
    let mut text = String::new();
    for (name, document) in [("A", a), ("B", b)] {
        let result = &document.result;
        let title = format!("{name}  {} on {}", one_line(&result.trace), one_line(&result.drive));
        let _ = writeln!(text, "{}", style.heading(&title));
        for setting in result.settings.iter().chain(&result.replay) {
            let _ = writeln!(text, "     {}", one_line(setting));
        }
    }
    let _ =
        writeln!(text, "\n{}\n", style.wrap(&verdict::paragraph(&verdict::compare(&a.result, &b.result))));
    let table = style.table(&["", "A", "B", "change", ""], rows(&a.result, &b.result), 1);
    text.extend(table.lines().map(|line| judged(line, style) + "\n"));
    for (name, document) in [("A", a), ("B", b)] {
        let _ = write!(text, "\n{}", style.wrap(&format!("{name}: {}", provenance(&document.run))));
    }
    text.push('\n');
    text
}

/// A line of the table with the judgement at its end in colour.
fn judged(line: &str, style: Style) -> String {
    for (judgement, code) in [(Judgement::Better, "32"), (Judgement::Worse, "31")] {
        if let Some(rest) = line.strip_suffix(judgement.word()) {
            return rest.to_owned() + &style.paint(code, judgement.word());
        }
    }
    line.to_owned()
}

fn rows(a: &SimResult, b: &SimResult) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut group = "";
    for (a, b, judgement) in compared(a, b) {
        if a.group != group {
            group = a.group;
            rows.push(vec![group.to_owned()]);
        }
        let label = format!("  {}", a.label);
        rows.push(vec![
            label,
            a.value.text(),
            b.value.text(),
            a.value.change(b.value),
            judgement.word().to_owned(),
        ]);
    }
    rows
}
