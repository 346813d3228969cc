//! The page of a simulated drive held against a measured one.

use maud::{Markup, html};

use super::{page, sim};
use crate::chart;
use crate::label::{self, VALIDATION_GLOSSARY};
use crate::number::{count, duration, percent, percent_exact};
use crate::schema::{Accuracy, Document, LabelAgreement, Labels, Spread, ValidateResult};
use crate::verdict;

/// How far the simulation is off, as a page.
#[must_use]
pub fn validate(document: &Document<ValidateResult>) -> String {
    let result = &document.result;
    let body = html! {
        dl.facts {
            div { dt { "Trace" } dd { (result.trace) } }
            div { dt { "Drive" } dd { (result.drive) } }
            (sim::settings(&result.settings))
            div { dt { "Replay" } dd { (replay(result)) } }
            div { dt { "Judged" } dd { (verdict::judged(result)) } }
        }
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
                (requests(result, accuracy))
            }
        }
        @if let Some(labels) = &result.labels {
            section {
                h2 { "Hits and misses as the drive labelled them" }
                (label_table(labels))
            }
        }
        (page::charts(&chart::validate(result)))
        footer { (page::provenance("", &document.run)) }
    };
    let title = format!("{} on {}: simulated and measured", result.trace, result.drive);
    let verdict = page::verdict(&verdict::validate(result));
    page::page_with_words(&title, verdict, body, "", &VALIDATION_GLOSSARY)
}

fn replay(result: &ValidateResult) -> String {
    if result.replay.is_empty() { "at the trace's times".to_owned() } else { result.replay.join(", ") }
}

fn header(names: &[&str]) -> Markup {
    html! { thead { tr { @for name in names { th scope="col" { (name) } } } } }
}

fn row(name: &str, cells: &[String]) -> Markup {
    html! { tr { th scope="row" { (name) } @for cell in cells { td { (cell) } } } }
}

fn responses(result: &ValidateResult) -> Markup {
    let times = |of: &Spread| [of.mean, of.p50, of.p90, of.p99, of.p999, of.max].map(duration);
    html! {
        table.points {
            (header(&["", "mean", "median", "p90", "p99", "p99.9", "longest"]))
            tbody {
                (row("measured", &times(&result.measured_response_ns)))
                (row("free", &times(&result.free.simulated_response_ns)))
                (row("anchored", &times(&result.anchored.simulated_response_ns)))
            }
        }
    }
}

fn distances(free: &Accuracy, anchored: &Accuracy) -> Markup {
    let cells = |of: &Accuracy| [duration(of.rms_ns), percent(of.rms_ratio), duration(of.binned_rms_ns)];
    html! {
        table.points {
            (header(&["", "rms", "of the measured mean", "rms in DiskSim's bins"]))
            tbody {
                (row("free", &cells(free)))
                (row("anchored", &cells(anchored)))
            }
        }
    }
}

/// All requests first, then the kinds.
fn requests(result: &ValidateResult, accuracy: &Accuracy) -> Markup {
    let means = (result.measured_response_ns.mean, accuracy.simulated_response_ns.mean);
    let names = ["", "requests", "measured", "simulated", "bias", "median", "mean", "p90", "correlation"];
    html! {
        table.points {
            (header(&names))
            tbody {
                (row("all", &label::request_errors(
                    result.judged, means, &accuracy.request_error_ns, accuracy.correlation,
                )))
                @for kind in &accuracy.kinds {
                    (row(label::request_kind(kind.kind), &label::request_errors(
                        kind.requests, (kind.measured_mean_ns, kind.simulated_mean_ns), &kind.request_error_ns,
                        kind.correlation,
                    )))
                }
            }
        }
    }
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
    let names = [
        "",
        "agreement",
        "hits met",
        "hits taken for misses",
        "misses taken for hits",
        "misses met",
        "median error of hits",
        "of misses",
    ];
    html! {
        table.points {
            (header(&names))
            tbody {
                (row("free", &cells(&labels.free)))
                (row("anchored", &cells(&labels.anchored)))
                (row("last-end rule", &[percent_exact(labels.baseline_agreement_ratio)]))
            }
        }
    }
}
