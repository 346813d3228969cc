//! How far a simulated drive is from a measured one.

use std::fmt::Write as _;

use super::style::{Style, provenance};
use crate::number::{NONE, count, duration, percent, percent_exact};
use crate::schema::{Accuracy, Document, Labels, RequestError, Spread, ValidateResult};
use crate::{label, verdict};

/// How far the simulation is off: the distributions, single requests, and the real drive's labels.
#[must_use]
pub fn validate(document: &Document<ValidateResult>, style: Style) -> String {
    let result = &document.result;
    let mut text = style.replayed(&result.trace, &result.drive, result.settings.iter().chain(&result.replay));
    let _ = writeln!(text, "  {}", verdict::judged(result));
    let _ = writeln!(text, "\n{}\n", style.wrap(&verdict::paragraph(&verdict::validate(result))));
    text.push_str(&style.table(
        &["Response", "mean", "median", "p90", "p99", "p99.9", "longest"],
        vec![
            spread("measured", &result.measured_response_ns),
            spread("free", &result.free.simulated_response_ns),
            spread("anchored", &result.anchored.simulated_response_ns),
        ],
        1,
    ));
    text.push('\n');
    text.push_str(&style.table(
        &["Distance of the distributions", "free", "anchored"],
        distances(&result.free, &result.anchored),
        1,
    ));
    let _ =
        writeln!(text, "  Spindle's phase foretold (1 always, 0 by chance): {:.2}", result.spindle_coherence);
    let header =
        ["Single requests", "number", "measured", "simulated", "bias", "median", "mean", "p90", "corr."];
    let _ = write!(text, "\n{}", style.table(&header, requests(result), 1));
    if let Some(labels) = &result.labels {
        let header = ["Reads as labelled", "free", "anchored", "last-end rule"];
        let _ = write!(text, "\n{}", style.table(&header, label_rows(labels), 1));
    }
    let _ = writeln!(text, "\n{}", style.wrap(&provenance(&document.run)));
    text
}

fn spread(name: &str, spread: &Spread) -> Vec<String> {
    let times = [spread.mean, spread.p50, spread.p90, spread.p99, spread.p999, spread.max];
    std::iter::once(format!("  {name}")).chain(times.map(duration)).collect()
}

fn distances(free: &Accuracy, anchored: &Accuracy) -> Vec<Vec<String>> {
    let row = |name: &str, text: &dyn Fn(&Accuracy) -> String| {
        vec![format!("  {name}"), text(free), text(anchored)]
    };
    vec![
        row("rms", &|of| duration(of.rms_ns)),
        row("of the measured mean", &|of| percent(of.rms_ratio)),
        row("rms in DiskSim's bins", &|of| duration(of.binned_rms_ns)),
    ]
}

/// By replay: all requests first, then the kinds.
fn requests(result: &ValidateResult) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (name, accuracy) in [("  free", &result.free), ("  anchored", &result.anchored)] {
        let all = (result.measured_response_ns.mean, accuracy.simulated_response_ns.mean);
        let (error, correlation) = (&accuracy.request_error_ns, accuracy.correlation);
        rows.push(vec![name.to_owned()]);
        rows.push(request_row("all", result.judged, all, error, correlation));
        rows.extend(accuracy.kinds.iter().map(|kind| {
            let means = (kind.measured_mean_ns, kind.simulated_mean_ns);
            let name = label::request_kind(kind.kind);
            request_row(name, kind.requests, means, &kind.request_error_ns, kind.correlation)
        }));
    }
    rows
}

fn request_row(
    name: &str,
    requests: u64,
    means: (u64, u64),
    error: &RequestError,
    correlation: Option<f64>,
) -> Vec<String> {
    let figures = label::request_errors(requests, means, error, correlation);
    std::iter::once(format!("    {name}")).chain(figures).collect()
}

fn label_rows(labels: &Labels) -> Vec<Vec<String>> {
    let (free, anchored) = (&labels.free, &labels.anchored);
    let counts = |name: &str, free: u64, anchored: u64| {
        vec![format!("  {name}"), count(free), count(anchored), NONE.to_owned()]
    };
    let median = |name: &str, free: &RequestError, anchored: &RequestError| {
        vec![format!("  {name}"), duration(free.median), duration(anchored.median), NONE.to_owned()]
    };
    let agreement = [free.agreement_ratio, anchored.agreement_ratio, labels.baseline_agreement_ratio];
    vec![
        std::iter::once("  agreement".to_owned()).chain(agreement.map(percent_exact)).collect(),
        counts("hits met", free.hits_as_hits, anchored.hits_as_hits),
        counts("hits taken for misses", free.hits_as_misses, anchored.hits_as_misses),
        counts("misses taken for hits", free.misses_as_hits, anchored.misses_as_hits),
        counts("misses met", free.misses_as_misses, anchored.misses_as_misses),
        median("median error of hits", &free.hit_error_ns, &anchored.hit_error_ns),
        median("median error of misses", &free.miss_error_ns, &anchored.miss_error_ns),
    ]
}
