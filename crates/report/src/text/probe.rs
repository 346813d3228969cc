//! Methods of I/O on one or more targets: what to choose, a table for each way of access, and the reasons.

use std::fmt::Write as _;

use super::style::{Style, one_line, provenance};
use crate::number::bytes;
use crate::probe::{self, Group};
use crate::schema::{Document, ProbeResult};
use crate::verdict::{self, Finding};

/// How each method fares, and what limits it.
#[must_use]
pub fn probe(document: &Document<ProbeResult>, style: Style) -> String {
    let result = &document.result;
    let groups = probe::groups(result);
    let mut text = String::new();
    targets(&mut text, result, style);
    for finding in verdict::probe(result) {
        say(&mut text, &finding, style);
    }
    for group in &groups {
        table(&mut text, group, style);
    }
    if !groups.is_empty() {
        let _ = writeln!(text, "{}\n", style.wrap(probe::LEGEND));
    }
    if let Some(sentence) = probe::harness(result) {
        let _ = writeln!(text, "{}\n", style.wrap(&verdict::paragraph(&[sentence])));
    }
    reasons(&mut text, &groups, style);
    notes(&mut text, &result.notes, style);
    let _ = writeln!(text, "{}", style.wrap(&provenance(&document.run)));
    text
}

fn targets(text: &mut String, result: &ProbeResult, style: Style) {
    let _ = writeln!(text, "{}", style.heading(&one_line(&probe::title(result))));
    for target in &result.targets {
        let line = format!("{}: {}, {}", target.name, target.what, bytes(target.size_bytes));
        let _ = writeln!(text, "  {}", one_line(&line));
    }
    let _ = writeln!(text, "  {}\n", probe::runs(result));
}

fn say(text: &mut String, finding: &Finding, style: Style) {
    if !finding.about.is_empty() {
        let _ = writeln!(text, "{}", style.heading(&one_line(&finding.about)));
    }
    let sentences = one_line(&verdict::paragraph(&finding.sentences));
    let _ = writeln!(text, "{}\n", style.wrap_indented(&sentences, 2));
}

/// The cases; where the terminal is narrow, without the columns that can best be spared.
fn table(text: &mut String, group: &Group<'_>, style: Style) {
    let _ = write!(text, "{}", style.heading(&one_line(&group.name)));
    if !group.shared().is_empty() {
        let _ = write!(text, ", {}", one_line(&group.shared()));
    }
    let mut cases = probe::table(group);
    for dispensable in ["range", "p50", "p99"] {
        if !style.fits(&cases.header, &cases.rows, cases.text_columns) {
            cases.remove(dispensable);
        }
    }
    let _ = writeln!(text, "\n{}", style.table(&cases.header, cases.rows, cases.text_columns));
}

fn reasons(text: &mut String, groups: &[Group<'_>], style: Style) {
    let reasons = probe::reasons(groups);
    if reasons.is_empty() {
        return;
    }
    let _ = writeln!(text, "{}", style.heading("Why"));
    for reason in reasons {
        let line = format!("{}: {}", probe::verdict(reason.verdict), reason.reason);
        let _ = writeln!(text, "{}", style.wrap_indented(&one_line(&line), 2));
        for cases in reason.cases {
            let _ = writeln!(text, "{}", style.wrap_indented(&one_line(&verdict::paragraph(&[cases])), 6));
        }
    }
    text.push('\n');
}

fn notes(text: &mut String, notes: &[String], style: Style) {
    if notes.is_empty() {
        return;
    }
    let _ = writeln!(text, "{}", style.heading("Notes"));
    for note in notes {
        let _ = writeln!(text, "{}", style.wrap_indented(&one_line(note), 2));
    }
    text.push('\n');
}
