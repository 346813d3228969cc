//! A report for an issue or a wiki: Markdown with tables, as supported by GitHub, GitLab and most wikis.
//!
//! Charts are linked by the names of their files, which are in the same directory.

use std::fmt::Write as _;

use crate::chart::Chart;
use crate::number;
use crate::section::{Cell, Emphasis, Fact, Notes, Report, Section, Table, Tone, Totals};
use crate::value::Value;
use crate::words::{COMMAND_MAX, command_line, one_line};

/// First line of every report, which identifies a file of sakiyomi.
pub const MARK: &str = "<!-- sakiyomi ";

/// Renders a report with links to its charts.
#[must_use]
pub fn render(report: &Report<'_>, charts: &[Chart]) -> String {
    let mut blocks =
        vec![format!("{MARK}{} -->", env!("CARGO_PKG_VERSION")), format!("# {}", escaped(&report.title))];
    blocks.extend(report.verdict.iter().map(|finding| {
        let about = if finding.about.is_empty() { String::new() } else { strong(&finding.about) + ": " };
        about + &escaped(&finding.sentences.join(" "))
    }));
    let (lead, others) = charts.split_at(charts.len().min(1));
    blocks.extend(lead.iter().map(picture));
    blocks.extend(settings(report));
    let mut heading = "";
    for section in &report.sections {
        let (own, content) = match section {
            Section::Totals(totals) => ("Totals", self::totals(totals)),
            Section::Table(table) => (table.heading, self::table(table)),
            Section::Notes(notes) => (notes.heading, vec![self::notes(notes)]),
        };
        if own != heading {
            blocks.push(format!("## {}", escaped(own)));
        }
        heading = own;
        blocks.extend(content);
    }
    if !others.is_empty() {
        blocks.push("## Charts".to_owned());
        blocks.extend(others.iter().map(picture));
    }
    blocks.extend(report.runs.iter().map(|(name, run)| {
        let name = if name.is_empty() { String::new() } else { strong(name) + ": " };
        let command = (!run.command.is_empty()).then(|| code(&command_line(&run.command, COMMAND_MAX)));
        let origin = run.origin().into_iter().map(|part| escaped(&part));
        name + &command.into_iter().chain(origin).collect::<Vec<String>>().join(" · ")
    }));
    blocks.push(glossary(report));
    blocks.join("\n\n") + "\n"
}

fn settings(report: &Report<'_>) -> Option<String> {
    let names: Vec<String> = match report.runs.as_slice() {
        [] | [_] => vec![String::new()],
        several => several.iter().map(|(name, _)| (*name).to_owned()).collect(),
    };
    let header = std::iter::once((String::new(), true)).chain(names.into_iter().map(|name| (name, true)));
    let rows = report.settings.iter().map(|fact| {
        std::iter::once(escaped(&fact.label)).chain(fact.values.iter().map(cell)).collect::<Vec<String>>()
    });
    (!report.settings.is_empty()).then(|| grid(header.collect(), rows))
}

/// Renders a table for each group.
fn totals(totals: &Totals) -> Vec<String> {
    let group = |group: &crate::section::Group| {
        let has_shares = group.facts.iter().any(|fact| fact.share.is_some());
        let values: Vec<&str> = if totals.columns.is_empty() { vec![""] } else { totals.columns.clone() };
        let mut header = vec![(escaped(&group.name), true)];
        header.extend(values.into_iter().map(|name| (escaped(name), false)));
        header.extend(has_shares.then(|| ("share".to_owned(), false)));
        let share = |fact: &Fact| fact.share.map_or_else(String::new, number::percent);
        let row = |fact: &Fact| {
            let cells = std::iter::once(escaped(&fact.label)).chain(fact.values.iter().map(cell));
            cells.chain(has_shares.then(|| share(fact))).collect::<Vec<String>>()
        };
        grid(header, group.facts.iter().map(row))
    };
    totals.groups.iter().map(group).collect()
}

fn table(table: &Table) -> Vec<String> {
    let (name, shared) = &table.caption;
    let caption = (!name.is_empty()).then(|| match shared.as_str() {
        "" => strong(name),
        shared => format!("{}, {}", strong(name), escaped(shared)),
    });
    let header = table.columns.iter().map(|column| (escaped(&column.name), column.is_text)).collect();
    let rows = table.rows.iter().map(|row| {
        let cells = row.cells.iter().map(cell).enumerate();
        let mark = |(index, text): (usize, String)| match row.emphasis {
            Emphasis::Best if index == 0 && !text.is_empty() => format!("**{text}**"),
            _ => text,
        };
        cells.map(mark).collect::<Vec<String>>()
    });
    let legend = (!table.legend.is_empty()).then(|| escaped(&table.legend));
    caption.into_iter().chain([grid(header, rows)]).chain(legend).collect()
}

/// Renders rows below headers, each header with whether its column holds text; a row may be shorter than the header.
fn grid(header: Vec<(String, bool)>, rows: impl Iterator<Item = Vec<String>>) -> String {
    let line =
        |cells: &mut dyn Iterator<Item = String>| format!("| {} |", cells.collect::<Vec<_>>().join(" | "));
    let rule = header.iter().map(|(_, is_text)| if *is_text { "---" } else { "---:" }.to_owned());
    let mut text = line(&mut header.iter().map(|(name, _)| name.clone()));
    let _ = write!(text, "\n{}", line(&mut rule.into_iter()));
    for row in rows {
        let missing = std::iter::repeat_n(String::new(), header.len().saturating_sub(row.len()));
        let _ = write!(text, "\n{}", line(&mut row.into_iter().chain(missing)));
    }
    text
}

fn cell(cell: &Cell) -> String {
    let text = match &cell.value {
        Value::Keys(keys) => keys.iter().map(|key| code(key)).collect::<Vec<_>>().join(" "),
        value => escaped(&value.text()),
    };
    match cell.tone {
        Tone::Better => format!("{text} (better)"),
        Tone::Worse => format!("{text} (worse)"),
        Tone::Differs if !text.is_empty() => format!("**{text}**"),
        _ => text,
    }
}

fn notes(notes: &Notes) -> String {
    let mut text = String::new();
    for note in &notes.notes {
        let label = note.label.as_ref().map_or_else(String::new, |label| strong(&label.value.text()) + ": ");
        let _ = writeln!(text, "- {label}{}", escaped(&note.text));
        for detail in &note.details {
            let _ = writeln!(text, "  - {}", escaped(detail));
        }
    }
    text.trim_end().to_owned()
}

fn picture(chart: &Chart) -> String {
    format!("![{}]({}.svg)\n\n{}", escaped(chart.title), chart.name, escaped(&chart.caption))
}

fn glossary(report: &Report<'_>) -> String {
    let words =
        report.glossary.iter().map(|(word, meaning)| format!("- {}: {}\n", strong(word), escaped(meaning)));
    let words: String = words.collect();
    format!("<details><summary>Glossary</summary>\n\n{words}\n</details>")
}

fn strong(text: &str) -> String {
    format!("**{}**", escaped(text))
}

/// Escapes text so that no character is markup, and joins its lines.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in one_line(text).trim().chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' => escaped.extend(['\\', c]),
            // Prevents a mention or a reference.
            '@' => escaped.push_str("&#64;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Renders text as code. The fence is longer than any run of backticks in it.
fn code(text: &str) -> String {
    let text = one_line(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    // In a table even code must not contain an unescaped bar.
    format!("{fence}{pad}{}{pad}{fence}", text.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        assert_eq!(
            escaped("<a|b> *c* _d_ [e](f) `g` @h #1 & \n"),
            "&lt;a\\|b&gt; \\*c\\* \\_d\\_ \\[e\\](f) \\`g\\` &#64;h \\#1 &amp; \u{fffd}"
        );
        assert_eq!([code("a b"), code("`a``b"), code("a|b")], ["`a b`", "``` `a``b ```", "`a\\|b`"]);
    }

    #[test]
    fn a_short_row_is_filled_up() {
        let header = vec![("a".to_owned(), true), ("b".to_owned(), false)];
        assert_eq!(
            grid(header, std::iter::once(vec!["1".to_owned()])),
            "| a | b |\n| --- | ---: |\n| 1 |  |"
        );
    }
}
