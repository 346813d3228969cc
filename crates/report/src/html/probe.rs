//! The page of methods of I/O on one or more targets.

use maud::{Markup, html};

use super::page;
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
    let body = html! {
        (facts(result))
        @if !groups.is_empty() {
            section {
                h2 { "Cases" }
                @for group in &groups { (table(group)) }
                p.faint { (probe::LEGEND) " The last two columns say what twice the depth, and the best buffers, gain." }
                @if let Some(sentence) = probe::harness(result) { p { (sentence) } }
            }
        }
        (page::charts(&chart::probe(document)))
        (reasons(&groups))
        @if !result.notes.is_empty() {
            section { h2 { "Notes" } ul { @for note in &result.notes { li { (note) } } } }
        }
        footer { (page::provenance("", &document.run)) }
    };
    page::page_with_words(&probe::title(result), findings(result), body, "", &PROBE_GLOSSARY)
}

/// One paragraph for each target and way of access.
fn findings(result: &ProbeResult) -> Markup {
    html! {
        div.verdict {
            @for finding in verdict::probe(result) {
                p {
                    @if !finding.about.is_empty() { b { (finding.about) ": " } }
                    (verdict::paragraph(&finding.sentences))
                }
            }
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
    html! {
        div.wide {
            table.points {
                caption { b { (group.name) } @if !group.shared().is_empty() { ", " (group.shared()) } }
                thead {
                    tr {
                        @for (column, name) in cases.header.iter().chain(&EVIDENCE).enumerate() {
                            th.text[column < cases.text_columns] scope="col" { (name) }
                        }
                    }
                }
                tbody {
                    @for (case, cells) in group.cases.iter().zip(&cases.rows) {
                        tr.undominated[!group.mark(case).is_empty()] { (row(case, cells, cases.text_columns)) }
                    }
                }
            }
        }
    }
}

fn row(case: &ProbeCase, cells: &[String], text_columns: usize) -> Markup {
    let gain = |ratio: Option<f64>| ratio.map_or(NONE.to_owned(), signed_percent);
    html! {
        @for (column, cell) in cells.iter().enumerate() {
            @if column + 1 == cells.len() { td class=(class(case.verdict)) { (cell) } }
            @else { td.text[column < text_columns] { (cell) } }
        }
        td title=(case.busiest_thread) { (whole_percent(case.busiest_thread_ratio)) }
        td { (gain(case.double_depth_gain_ratio)) }
        td { (gain(case.better_buffers_gain_ratio)) }
    }
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
