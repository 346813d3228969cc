//! The page of one simulation.

use maud::{Markup, html};

use super::page::{self, Page};
use crate::chart;
use crate::number;
use crate::schema::{ChunkMode, Document, SimResult};
use crate::totals::{Total, totals};
use crate::verdict;

/// One simulation as a page.
#[must_use]
pub fn sim(document: &Document<SimResult>) -> String {
    let result = &document.result;
    let charts = chart::sim(result);
    let page = Page {
        title: &format!("{} on {}", result.trace, result.drive),
        verdict: page::verdict(&verdict::sim(result)),
        charts: &charts,
        facts: facts(result),
        body: html! {
            section {
                h2 { "Totals" }
                (totals_table(&totals(result)))
            }
        },
        provenance: page::provenance("", &document.run),
        ..Page::default()
    };
    page.into_string()
}

fn facts(result: &SimResult) -> Markup {
    html! {
        dl.facts {
            div { dt { "Trace" } dd { (result.trace) } }
            div { dt { "Drive" } dd { (result.drive) } }
            (settings(&result.settings))
            div { dt { "Replay" } dd { (replay(result)) } }
            div { dt { "Chunks" } dd { (chunking(result)) } }
            @if result.warm_up_ns > 0 {
                div { dt { "Not counted" } dd { (not_counted(result)) } }
            }
        }
    }
}

/// What was set differently from the drive's own file.
pub(super) fn settings(settings: &[String]) -> Markup {
    html! {
        div {
            dt { "Settings" }
            dd {
                @if settings.is_empty() { "the drive's own" }
                @for setting in settings { code { (setting) } " " }
            }
        }
    }
}

/// How the trace was replayed.
pub(super) fn replay(result: &SimResult) -> String {
    if result.replay.is_empty() { "at the trace's times".to_owned() } else { result.replay.join(", ") }
}

/// What of the run's beginning is left out.
pub(super) fn not_counted(result: &SimResult) -> String {
    match result.warm_up_ns {
        0 => "nothing".to_owned(),
        warm_up => format!("the first {}", number::duration(warm_up)),
    }
}

/// How the run was cut: `each 1.00 s of simulated time`.
pub(super) fn chunking(result: &SimResult) -> String {
    let chunking = result.chunking;
    let size = match chunking.mode {
        ChunkMode::Time => format!("each {} of simulated time", number::duration(chunking.size)),
        ChunkMode::Bytes => format!("each {} asked for", number::bytes(chunking.size)),
        ChunkMode::Commands => format!("each {} commands", number::count(chunking.size)),
    };
    match chunking.chunks_per_point {
        0 | 1 => size,
        merged => format!("{size}, {} drawn as one", number::count(merged)),
    }
}

/// The totals in columns, group by group.
fn totals_table(rows: &[Total]) -> Markup {
    html! {
        div.totals {
            @for group in rows.chunk_by(|a, b| a.group == b.group) {
                table {
                    caption { (group[0].group) }
                    tbody {
                        @for row in group {
                            tr { th scope="row" { (row.label) } td { (row.value.text()) } }
                        }
                    }
                }
            }
        }
    }
}
