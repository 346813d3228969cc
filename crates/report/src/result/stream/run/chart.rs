//! Charts of latency, rate and cores of a run over time.

use super::{StreamRunResult, StreamWindow};
use crate::chart::over_time::{Join, Kind, Panel, Quantity, Span, TimeChart, TimeRange};
use crate::chart::{Chart, palette};

/// Half of the width of a band that marks a change, in nanoseconds: it covers the window of the change.
const BAND_HALF_NS: u64 = 50_000_000;

/// Returns the charts of the sinks' latencies and rates. Empty without records.
pub(super) fn charts(result: &StreamRunResult) -> Vec<Chart> {
    if result.sinks.iter().all(|sink| sink.windows.is_empty()) {
        return Vec::new();
    }
    let latency = [
        Quantity::new("p99", palette::WRITE, Join::Max, |window: &StreamWindow| Some(window.p99_ns as f64)),
        Quantity::new("median", palette::MEAN, Join::Mean, |window: &StreamWindow| {
            Some(window.p50_ns as f64)
        })
        .weighed(|window| window.records as f64),
    ];
    let rate = [Quantity::new("records", palette::READ, Join::MeanOverTime, |window: &StreamWindow| {
        let length_ns = window.end_ns.saturating_sub(window.start_ns);
        (length_ns > 0).then(|| window.records as f64 / (length_ns as f64 / 1e9))
    })];
    let latency = TimeChart {
        name: "latency",
        kind: Kind::Times,
        title: "Latency at the sinks",
        caption: "By tenths of a second, from the scheduled arrival of a record's latest input. A gap is a time without records.",
        y_title: "latency, log scale",
        ..over(result, &latency)
    };
    let rate = TimeChart {
        name: "throughput",
        kind: Kind::PerSecond,
        title: "Records at the sinks",
        caption: "By tenths of a second.",
        y_title: "a second",
        ..over(result, &rate)
    };
    [latency, rate].map(TimeChart::draw).into()
}

fn over(result: &StreamRunResult, quantities: &[Quantity<StreamWindow>]) -> TimeChart {
    let band = |at_ns: u64| (at_ns.saturating_sub(BAND_HALF_NS), at_ns.saturating_add(BAND_HALF_NS));
    let moved = result.changes.iter().filter(|change| change.cores.is_some());
    let bands: Vec<Span> = moved.map(|change| band(change.at_ns)).collect();
    let spans = |windows: &[StreamWindow]| -> Vec<Span> {
        windows.iter().map(|window| (window.start_ns, window.end_ns)).collect()
    };
    let sinks = result.sinks.iter().filter(|sink| !sink.windows.is_empty());
    let panels: Vec<Panel> = sinks
        .map(|sink| Panel {
            name: sink.name.clone(),
            layers: quantities.iter().map(|quantity| quantity.layer(&sink.windows)).collect(),
            spans: spans(&sink.windows),
            bands: bands.clone(),
        })
        .collect();
    TimeChart {
        name: "",
        kind: Kind::Counts,
        range: TimeRange::of(panels.iter().flat_map(|panel| panel.spans().iter().copied())),
        panels,
        title: "",
        caption: "",
        x_title: "time since the start",
        y_title: "",
        spans_are: "tenths of a second",
        bands_are: if bands.is_empty() { "" } else { "changes of the plan" },
    }
}
