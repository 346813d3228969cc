//! Renderer for the terminal: a summary that can be read at a glance, with scaled units.

mod lines;
mod live;
mod style;
mod table;

use std::fmt::Write as _;

pub use lines::{iorate_lines, iorate_owner};
pub use live::{Window, top};
pub use style::Style;

use crate::number;
use crate::section::{Fact, Finding, Group, Notes, Report, Section, Totals};
use crate::words::{one_line, paragraph};
use style::{GREY, RED};

/// Renders a report without its charts: settings and verdict first, then the figures.
#[must_use]
pub fn render(report: &Report<'_>, style: Style) -> String {
    let mut parts = vec![settings(report, style), verdict(&report.verdict, style)];
    parts.extend(report.sections.iter().map(|section| match section {
        Section::Totals(totals) => self::totals(totals, style),
        Section::Table(table) if table.is_detail => String::new(),
        Section::Table(table) => table::draw(table, style),
        Section::Notes(notes) => self::notes(notes, style),
    }));
    let runs = report.runs.iter().map(|(name, run)| {
        let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
        style.paint(GREY, &style.wrap(&one_line(&format!("{name}{}", run.origin().join(" · "))))) + "\n"
    });
    parts.push(runs.collect());
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// Renders the title and the settings.
fn settings(report: &Report<'_>, style: Style) -> String {
    let mut text = format!("{}\n", style.heading(&one_line(&report.title)));
    if report.runs.len() > 1 {
        let mut header = vec![""];
        header.extend(report.runs.iter().map(|(name, _)| *name));
        let cells =
            |fact: &Fact| fact.values.iter().map(|cell| one_line(&cell.value.text())).collect::<Vec<_>>();
        let row = |fact: &Fact| {
            std::iter::once(format!("  {}", one_line(&fact.label))).chain(cells(fact)).collect()
        };
        return text + &style.table(&header, report.settings.iter().map(row).collect(), header.len());
    }
    let width = report.settings.iter().map(|fact| fact.label.chars().count()).max().unwrap_or_default();
    for fact in &report.settings {
        let value = style.narrower(width + 4).wrap(&one_line(&value(fact)));
        let value = value.replace('\n', &format!("\n{:width$}", "", width = width + 4));
        let _ = writeln!(text, "{}", format!("  {:width$}  {value}", one_line(&fact.label)).trim_end());
    }
    text
}

fn verdict(findings: &[Finding], style: Style) -> String {
    let say = |finding: &Finding| {
        let sentences = one_line(&paragraph(&finding.sentences));
        if finding.about.is_empty() {
            let code = if finding.is_alarm { RED } else { "" };
            return style.paint(code, &style.wrap(&sentences)) + "\n";
        }
        format!("{}\n{}\n", style.heading(&one_line(&finding.about)), style.wrap_indented(&sentences, 2))
    };
    let between = if findings.iter().any(|finding| !finding.about.is_empty()) { "\n" } else { "" };
    findings.iter().map(say).collect::<Vec<_>>().join(between)
}

/// Length of the longest bar in columns.
const BAR_MAX_COLUMNS: usize = 30;

/// ANSI codes of green, cyan, yellow, magenta, red.
const BARS: [&str; 5] = ["32", "36", "33", "35", "31"];

fn totals(totals: &Totals, style: Style) -> String {
    if !totals.columns.is_empty() {
        return table::side_by_side(totals, style);
    }
    totals.groups.iter().map(|group| self::group(group, style)).collect::<Vec<_>>().join("\n")
}

/// Renders parts of a whole as bars, and other figures one after the other.
fn group(group: &Group, style: Style) -> String {
    let mut text = format!("{}\n", style.heading(&one_line(&group.name)));
    if group.facts.iter().all(|fact| fact.share.is_none()) {
        let facts = group.facts.iter().map(|fact| format!("{} {}", fact.label, value(fact)));
        let facts = paragraph(&[one_line(&facts.collect::<Vec<_>>().join(", "))]);
        return text + &style.wrap_indented(&facts, 2) + "\n";
    }
    let mut colors = BARS.iter().cycle();
    for fact in &group.facts {
        let mut line = format!("  {:<15} {:>12}", one_line(&fact.label), value(fact));
        if let (Some(share), Some(color)) = (fact.share, fact.share.and_then(|_| colors.next())) {
            let bar = style.bar(share, BAR_MAX_COLUMNS.min(style.width() / 3), color);
            let _ = write!(line, " {:>8}  {bar}", number::percent(share));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn value(fact: &Fact) -> String {
    fact.values.first().map_or_else(String::new, |cell| cell.value.text())
}

/// Maximum number of notes under one heading; the others are in the JSON.
const NOTES_MAX: usize = 12;

fn notes(notes: &Notes, style: Style) -> String {
    let mut text = format!("{}\n", style.heading(notes.heading));
    for note in notes.notes.iter().take(NOTES_MAX) {
        let label = note.label.as_ref().map_or_else(String::new, |label| format!("{}: ", label.value.text()));
        let line = one_line(&format!("{label}{}", note.text));
        let _ = writeln!(text, "{}", style.wrap_indented(&line, 2));
        for detail in &note.details {
            let detail = one_line(&paragraph(std::slice::from_ref(detail)));
            let _ = writeln!(text, "{}", style.wrap_indented(&detail, 6));
        }
    }
    if notes.notes.len() > NOTES_MAX {
        let _ = writeln!(text, "  and {} more, in --json", notes.notes.len() - NOTES_MAX);
    }
    text
}
