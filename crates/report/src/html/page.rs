//! The frame of every page, and the parts that pages share.
//!
//! The first screen shows the verdict and the first chart. Provenance and the glossary come at the end.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::series;
use super::table::{breakable, class, markup};
use crate::chart::Chart;
use crate::document::Run;
use crate::number;
use crate::section::{Cell, Fact, Finding, Group, Note, Notes, Report, Section, Tone, Totals};
use crate::value::Value;
use crate::words::{COMMAND_MAX, command_line, paragraph};

/// Content of the generator tag, which identifies a page of sakiyomi.
const GENERATOR: &str = concat!("sakiyomi ", env!("CARGO_PKG_VERSION"));
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Renders a report with its charts as one page.
#[must_use]
pub fn render(report: &Report<'_>, charts: &[Chart]) -> String {
    let series = series::json(charts);
    let (lead, others) = charts.split_at(charts.len().min(1));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(GENERATOR);
                title { (report.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (report.title) }
                    (verdict(&report.verdict))
                    @for chart in lead { (figure(chart)) }
                    (settings(report))
                    (findings(&report.verdict))
                    (sections(&report.sections))
                    @if !others.is_empty() {
                        section {
                            h2 { "Charts" }
                            @for chart in others { (figure(chart)) }
                        }
                    }
                    footer { @for (name, run) in &report.runs { (provenance(name, run)) } }
                    (glossary(report.glossary))
                }
                @if !series.is_empty() {
                    script type="application/json" id="series" { (PreEscaped(series)) }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// Maximum findings that are shown in full: more would push the first chart from the first screen.
const WHOLE_FINDINGS_MAX: usize = 2;

/// Renders the verdict; of many findings only the first sentence of each.
fn verdict(findings: &[Finding]) -> Markup {
    let is_whole = findings.len() <= WHOLE_FINDINGS_MAX;
    let shown = |finding: &Finding| match finding.sentences.first() {
        Some(first) if !is_whole => paragraph(std::slice::from_ref(first)),
        _ => paragraph(&finding.sentences),
    };
    match findings {
        [only] if only.about.is_empty() => html! { p.verdict { (shown(only)) } },
        _ => html! { div.verdict { @for finding in findings { (say(finding, &shown(finding))) } } },
    }
}

/// Renders the findings in full if the beginning of the page has only their first sentences.
fn findings(findings: &[Finding]) -> Markup {
    html! {
        @if findings.len() > WHOLE_FINDINGS_MAX {
            section {
                h2 { "Findings" }
                @for finding in findings { (say(finding, &paragraph(&finding.sentences))) }
            }
        }
    }
}

fn say(finding: &Finding, words: &str) -> Markup {
    html! { p { @if !finding.about.is_empty() { b { (finding.about) ": " } } (words) } }
}

/// Renders the settings; those of several results side by side.
fn settings(report: &Report<'_>) -> Markup {
    html! {
        @if report.runs.len() > 1 {
            table.facts {
                thead { tr { td {} @for (name, _) in &report.runs { th scope="col" { (name) } } } }
                tbody {
                    @for fact in &report.settings {
                        tr { th scope="row" { (breakable(&fact.label)) } @for cell in &fact.values { td { (value(cell)) } } }
                    }
                }
            }
        } @else if !report.settings.is_empty() {
            dl.facts {
                @for fact in &report.settings {
                    div { dt { (fact.label) } dd { @for cell in &fact.values { (value(cell)) } } }
                }
            }
        }
    }
}

fn value(cell: &Cell) -> Markup {
    html! {
        @match &cell.value {
            Value::Keys(keys) => { @for key in keys { code { (key) } " " } },
            value if cell.tone == Tone::Differs => mark { (value.text()) },
            value => (value.text()),
        }
    }
}

/// Joins tables with the same heading, and consecutive totals, to one section.
fn sections(sections: &[Section]) -> Markup {
    let heading = |section: &Section| match section {
        Section::Totals(_) => "Totals",
        Section::Table(table) => table.heading,
        Section::Notes(notes) => notes.heading,
    };
    html! {
        @for sections in sections.chunk_by(|a, b| heading(a) == heading(b)) {
            section {
                h2 { (heading(&sections[0])) }
                @for section in sections {
                    @match section {
                        Section::Totals(totals) => (self::totals(totals)),
                        Section::Table(table) => {
                            (markup(table))
                            @if !table.legend.is_empty() { p.faint { (table.legend) } }
                        },
                        Section::Notes(notes) => (self::notes(notes)),
                    }
                }
            }
        }
    }
}

/// Renders figures in columns, group by group.
fn totals(totals: &Totals) -> Markup {
    html! {
        div.totals.two[!totals.columns.is_empty()] {
            @for group in &totals.groups {
                table {
                    caption { (group.name) }
                    @if !totals.columns.is_empty() {
                        thead { tr { td {} @for column in &totals.columns { th scope="col" { (column) } } } }
                    }
                    tbody { @for fact in &group.facts { (row(group, fact)) } }
                }
            }
        }
    }
}

fn row(group: &Group, fact: &Fact) -> Markup {
    let has_shares = group.facts.iter().any(|fact| fact.share.is_some());
    html! {
        tr {
            th scope="row" { (fact.label) }
            @for cell in &fact.values { td class=[class(cell.tone)] { (cell.value.text()) } }
            @if has_shares { td.share { @if let Some(share) = fact.share { (number::percent(share)) } } }
        }
    }
}

fn notes(notes: &Notes) -> Markup {
    let is_plain = notes.notes.iter().all(|note| note.label.is_none() && note.details.is_empty());
    html! {
        @if is_plain {
            ul { @for note in &notes.notes { li { (note.text) } } }
        } @else {
            dl.reasons { @for note in &notes.notes { (self::note(note)) } }
        }
    }
}

fn note(note: &Note) -> Markup {
    html! {
        dt {
            @if let Some(label) = &note.label { span class=[class(label.tone)] { (label.value.text()) } ": " }
            (note.text)
        }
        @for detail in &note.details { dd { (paragraph(std::slice::from_ref(detail))) } }
    }
}

/// Renders a chart in both widths; the script fills in the read-out.
fn figure(chart: &Chart) -> Markup {
    html! {
        figure id=(chart.name) {
            (PreEscaped(&chart.svg))
            (PreEscaped(&chart.narrow_svg))
            figcaption { (chart.caption) }
        }
    }
}

/// Renders how, when and where a result was made. `name` is `A` or `B`, or empty.
fn provenance(name: &str, run: &Run) -> Markup {
    let (command, whole) = (command_line(&run.command, COMMAND_MAX), run.command.join(" "));
    html! {
        p.provenance {
            @if !name.is_empty() { b { (name) } " " }
            @if !command.is_empty() {
                code title=[(command != whole).then_some(&whole)] { (command) }
                br;
            }
            (run.origin().join(" · "))
        }
    }
}

fn glossary(words: &[(&str, &str)]) -> Markup {
    html! {
        section.glossary {
            h2 { "Glossary" }
            dl {
                @for (word, meaning) in words {
                    div { dt { (word) } dd { (meaning) } }
                }
            }
        }
    }
}
