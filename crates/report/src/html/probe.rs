//! The page of methods of I/O on one or more targets.

use maud::{Markup, html};

use super::page::{self, Page};
use super::table::{Cell, Row, Table};
use crate::chart;
use crate::label::PROBE_GLOSSARY;
use crate::number::{NONE, bytes, signed_percent, whole_percent};
use crate::probe::{self, Group};
use crate::schema::{Document, ProbeCase, ProbeResult, ProbeVerdict};
use crate::verdict;

/// What the page tells of a case beyond the columns of every table.
const EVIDENCE: [&str; 3] = ["busiest thread", "2 × depth", "best buffers"];

/// How each method fares, and what limits it, as a page.
#[must_use]
pub fn probe(document: &Document<ProbeResult>) -> String {
    let result = &document.result;
    let groups = probe::groups(result);
    let page = Page {
        title: &probe::title(result),
        verdict: answer(result),
        charts: &chart::probe(document),
        facts: facts(result),
        body: html! {
            (findings(result))
            @if !groups.is_empty() {
                section {
                    h2 { "Cases" }
                    @for group in &groups { (table(group)) }
                    p.faint { (probe::LEGEND) " The last two columns say what twice the depth, and the best buffers, gain." }
                    @if let Some(sentence) = probe::harness(result) { p { (sentence) } }
                }
            }
        },
        details: html! {
            (reasons(&groups))
            @if !result.notes.is_empty() {
                section { h2 { "Notes" } ul { @for note in &result.notes { li { (note) } } } }
            }
        },
        provenance: page::provenance("", &document.run),
        words: &PROBE_GLOSSARY,
    };
    page.into_string()
}

/// More findings than this would push the first chart from the first screen.
const WHOLE_FINDINGS_MAX: usize = 2;

/// A paragraph for each target and way of access; for many of them, a summary of each.
fn answer(result: &ProbeResult) -> Markup {
    let findings = verdict::probe(result);
    let is_whole = findings.len() <= WHOLE_FINDINGS_MAX;
    html! {
        div.verdict {
            @for finding in &findings {
                (paragraph(finding, if is_whole { &finding.sentences } else { first(&finding.sentences) }))
            }
        }
    }
}

/// The findings in whole, where the beginning of the page has but their first sentences.
fn findings(result: &ProbeResult) -> Markup {
    let findings = verdict::probe(result);
    html! {
        @if findings.len() > WHOLE_FINDINGS_MAX {
            section {
                h2 { "Findings" }
                @for finding in &findings { (paragraph(finding, &finding.sentences)) }
            }
        }
    }
}

fn first(sentences: &[String]) -> &[String] {
    &sentences[..sentences.len().min(1)]
}

fn paragraph(finding: &verdict::Finding, sentences: &[String]) -> Markup {
    html! {
        p {
            @if !finding.about.is_empty() { b { (finding.about) ": " } }
            (verdict::paragraph(sentences))
        }
    }
}

fn facts(result: &ProbeResult) -> Markup {
    html! {
        dl.facts {
            @for target in &result.targets {
                div { dt { (target.name) } dd { (target.what) ", " (bytes(target.size_bytes)) } }
            }
            div { dt { "Each case" } dd { (probe::runs(result)) } }
        }
    }
}

fn table(group: &Group<'_>) -> Markup {
    let cases = probe::table(group);
    let table = Table {
        name: &group.name,
        caption: html! { b { (group.name) } @if !group.shared().is_empty() { ", " (group.shared()) } },
        header: verdict_second(cases.header.iter().copied().chain(EVIDENCE), cases.text_columns)
            .into_iter()
            .map(str::to_owned)
            .collect(),
        text_columns: cases.text_columns,
        rows: group
            .cases
            .iter()
            .zip(&cases.rows)
            .map(|(case, cells)| Row {
                cells: verdict_second(row(case, cells), cases.text_columns),
                is_marked: !group.mark(case).is_empty(),
            })
            .collect(),
    };
    table.markup()
}

/// Places the verdict right after the rate, because a phone shows later columns only by scrolling.
fn verdict_second<T>(cells: impl IntoIterator<Item = T>, text_columns: usize) -> Vec<T> {
    let mut cells: Vec<T> = cells.into_iter().collect();
    let verdict = cells.len() - EVIDENCE.len() - 1;
    let from = (text_columns + 1).min(verdict);
    cells[from..=verdict].rotate_right(1);
    cells
}

/// The last of the columns that the terminal has, too, is the verdict.
fn row(case: &ProbeCase, cells: &[String]) -> Vec<Cell> {
    let gain = |ratio: Option<f64>| ratio.map_or(NONE.to_owned(), signed_percent);
    let mut cells: Vec<Cell> = cells.iter().map(|cell| Cell::from(cell.clone())).collect();
    if let Some(verdict) = cells.pop() {
        cells.push(verdict.class(class(case.verdict)));
    }
    cells.push(Cell::from(whole_percent(case.busiest_thread_ratio)).title(&case.busiest_thread));
    cells.push(gain(case.double_depth_gain_ratio).into());
    cells.push(gain(case.better_buffers_gain_ratio).into());
    cells
}

/// The style sheet puts a mark before each verdict.
fn class(verdict: ProbeVerdict) -> &'static str {
    match verdict {
        ProbeVerdict::StorageBound => "bound storage",
        ProbeVerdict::CpuBound => "bound cpu",
        ProbeVerdict::LatencyBound => "bound latency",
        ProbeVerdict::Undecided => "bound",
    }
}

fn reasons(groups: &[Group<'_>]) -> Markup {
    let reasons = probe::reasons(groups);
    html! {
        @if !reasons.is_empty() {
            section {
                h2 { "Why" }
                dl.reasons {
                    @for reason in reasons {
                        dt { span class=(class(reason.verdict)) { (probe::verdict(reason.verdict)) } ": " (reason.reason) }
                        @for cases in &reason.cases { dd { (verdict::paragraph(std::slice::from_ref(cases))) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn of_many_findings_the_page_begins_with_what_each_comes_to() {
        let document = sample::probe();
        let findings = verdict::probe(&document.result);
        assert!(findings.len() > WHOLE_FINDINGS_MAX);
        let page = probe(&document);
        let (first_screen, rest) = page.split_once("<figure").unwrap();
        for finding in &findings {
            let [first, second, ..] = finding.sentences.as_slice() else { continue };
            let words = |sentence: &String| verdict::paragraph(std::slice::from_ref(sentence));
            assert!(first_screen.contains(&words(first)) && !first_screen.contains(&words(second)));
            assert!(rest.contains(&words(second)));
        }
    }
}
