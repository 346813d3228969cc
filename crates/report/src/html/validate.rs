//! The page of a simulated drive held against a measured one.

use maud::{Markup, html};

use super::page::{self, Page};
use super::sim;
use super::table::Table;
use crate::chart;
use crate::label::{self, VALIDATION_GLOSSARY};
use crate::number::{count, duration, percent, percent_exact};
use crate::schema::{Accuracy, Document, LabelAgreement, Labels, Spread, ValidateResult};
use crate::verdict;

/// How far the simulation is off, as a page.
#[must_use]
pub fn validate(document: &Document<ValidateResult>) -> String {
    let result = &document.result;
    let page = Page {
        title: &format!("{} on {}: simulated and measured", result.trace, result.drive),
        verdict: page::verdict(&verdict::validate(result)),
        charts: &chart::validate(result),
        facts: facts(result),
        body: tables(result),
        provenance: page::provenance("", &document.run),
        words: &VALIDATION_GLOSSARY,
        ..Page::default()
    };
    page.into_string()
}

fn facts(result: &ValidateResult) -> Markup {
    html! {
        dl.facts {
            div { dt { "Trace" } dd { (result.trace) } }
            div { dt { "Drive" } dd { (result.drive) } }
            (sim::settings(&result.settings))
            div { dt { "Replay" } dd { (replay(result)) } }
            div { dt { "Judged" } dd { (verdict::judged(result)) } }
        }
    }
}

fn tables(result: &ValidateResult) -> Markup {
    html! {
        section {
            h2 { "Response times" }
            (responses(result))
        }
        section {
            h2 { "Distance of the distributions" }
            (distances(&result.free, &result.anchored))
        }
        @for (name, accuracy) in [("freely replayed", &result.free), ("anchored", &result.anchored)] {
            section {
                h2 { "Single requests, " (name) }
                (requests(name, result, accuracy))
            }
        }
        @if let Some(labels) = &result.labels {
            section {
                h2 { "Hits and misses as the drive labelled them" }
                (label_table(labels))
            }
        }
    }
}

fn replay(result: &ValidateResult) -> String {
    if result.replay.is_empty() { "at the trace's times".to_owned() } else { result.replay.join(", ") }
}

/// A name and its figures.
fn row(name: &str, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(cells).collect()
}

fn responses(result: &ValidateResult) -> Markup {
    let times = |of: &Spread| [of.mean, of.p50, of.p90, of.p99, of.p999, of.max].map(duration);
    let header = ["", "mean", "median", "p90", "p99", "p99.9", "longest"];
    let rows = [
        row("measured", times(&result.measured_response_ns)),
        row("free", times(&result.free.simulated_response_ns)),
        row("anchored", times(&result.anchored.simulated_response_ns)),
    ];
    Table::plain("response", header, 1, rows).markup()
}

fn distances(free: &Accuracy, anchored: &Accuracy) -> Markup {
    let cells = |of: &Accuracy| [duration(of.rms_ns), percent(of.rms_ratio), duration(of.binned_rms_ns)];
    let header = ["", "rms", "of the measured mean", "rms in DiskSim's bins"];
    let rows = [row("free", cells(free)), row("anchored", cells(anchored))];
    Table::plain("distance", header, 1, rows).markup()
}

/// All requests first, then the kinds.
fn requests(name: &str, result: &ValidateResult, accuracy: &Accuracy) -> Markup {
    let means = (result.measured_response_ns.mean, accuracy.simulated_response_ns.mean);
    let header = ["", "requests", "measured", "simulated", "bias", "median", "mean", "p90", "correlation"];
    let all = label::request_errors(result.judged, means, &accuracy.request_error_ns, accuracy.correlation);
    let kinds = accuracy.kinds.iter().map(|kind| {
        let means = (kind.measured_mean_ns, kind.simulated_mean_ns);
        let errors = label::request_errors(kind.requests, means, &kind.request_error_ns, kind.correlation);
        row(label::request_kind(kind.kind), errors)
    });
    Table::plain(name, header, 1, [row("all", all)].into_iter().chain(kinds)).markup()
}

fn label_table(labels: &Labels) -> Markup {
    let cells = |of: &LabelAgreement| {
        [
            percent_exact(of.agreement_ratio),
            count(of.hits_as_hits),
            count(of.hits_as_misses),
            count(of.misses_as_hits),
            count(of.misses_as_misses),
            duration(of.hit_error_ns.median),
            duration(of.miss_error_ns.median),
        ]
    };
    let header = [
        "",
        "agreement",
        "hits met",
        "hits taken for misses",
        "misses taken for hits",
        "misses met",
        "median error of hits",
        "of misses",
    ];
    let rows = [
        row("free", cells(&labels.free)),
        row("anchored", cells(&labels.anchored)),
        row("last-end rule", [percent_exact(labels.baseline_agreement_ratio)]),
    ];
    Table::plain("labels", header, 1, rows).markup()
}
