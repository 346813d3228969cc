//! Metrics of a running pipeline.

use super::{Figure, family, labels, seconds};
use crate::result::{StreamOperator, StreamRunResult, StreamSink, StreamSnapshots, StreamSource};

/// Returns the metrics of a pipeline: its sources, operators and sinks.
#[must_use]
pub fn stream(result: &StreamRunResult) -> String {
    let mut text = String::new();
    let named = |kind: &str, name: &str| labels(&[("pipeline", &result.pipeline), (kind, name)]);
    figures(&mut text, SOURCE, &result.sources, |source| named("source", &source.name));
    figures(&mut text, OPERATOR, &result.operators, |operator| named("operator", &operator.name));
    figures(&mut text, SINK, &result.sinks, |sink| named("sink", &sink.name));
    let pipeline = labels(&[("pipeline", &result.pipeline)]);
    let cpu = seconds(result.user_ns.saturating_add(result.system_ns));
    family(&mut text, "stream_cpu_seconds_total", "CPU time of the process.", [(&*pipeline, cpu)]);
    let changes = result.changes.iter().filter(|change| change.cores.is_some()).count() as f64;
    family(
        &mut text,
        "stream_plan_changes",
        "Changes of the plan among the last thousand events.",
        [(&*pipeline, changes)],
    );
    for (name, help, figure) in SNAPSHOTS {
        let value = result.snapshots.as_ref().and_then(figure);
        family(&mut text, name, help, value.map(|value| (&*pipeline, value)));
    }
    text
}

fn figures<T>(text: &mut String, figures: &[Figure<T>], items: &[T], label: impl Fn(&T) -> String) {
    let items: Vec<(String, &T)> = items.iter().map(|item| (label(item), item)).collect();
    for (name, help, figure) in figures {
        let samples = items.iter().filter_map(|(labels, item)| Some((&**labels, figure(item)?)));
        family(text, name, help, samples);
    }
}

const SNAPSHOTS: &[Figure<StreamSnapshots>] = &[
    ("stream_snapshots_total", "Snapshots written.", |snapshots| Some(snapshots.taken as f64)),
    ("stream_snapshots_failed_total", "Snapshots that failed.", |snapshots| Some(snapshots.failed as f64)),
    ("stream_snapshot_size_bytes", "Size of the last snapshot.", |snapshots| {
        (snapshots.taken > 0).then_some(snapshots.last_bytes as f64)
    }),
    ("stream_snapshot_alignment_seconds", "Time to align the last snapshot.", |snapshots| {
        (snapshots.taken > 0).then(|| seconds(snapshots.alignment_ns))
    }),
    ("stream_snapshot_write_seconds", "Time to write the last snapshot.", |snapshots| {
        (snapshots.taken > 0).then(|| seconds(snapshots.write_ns))
    }),
];

const SOURCE: &[Figure<StreamSource>] = &[
    ("stream_source_records_total", "Records that the source emitted.", |source| Some(source.records as f64)),
    ("stream_source_bad_total", "Records that could not be read.", |source| Some(source.bad as f64)),
    ("stream_source_late_total", "Records that arrived after the watermark.", |source| {
        Some(source.late as f64)
    }),
    ("stream_source_shed_total", "Records that were dropped under overload.", |source| {
        Some(source.shed as f64)
    }),
];

const OPERATOR: &[Figure<StreamOperator>] = &[
    ("stream_operator_records_total", "Records that the operator received.", |operator| {
        Some(operator.records_in as f64)
    }),
    ("stream_operator_failed_total", "Records whose processing failed.", |operator| {
        Some(operator.failed as f64)
    }),
    (
        "stream_operator_late_total",
        "Records that arrived after their window had closed, and evicted keys.",
        |operator| Some(operator.late as f64),
    ),
    ("stream_operator_busy_seconds_total", "Time in the operator, estimated.", |operator| {
        Some(seconds(operator.busy_ns))
    }),
];

const SINK: &[Figure<StreamSink>] = &[
    ("stream_sink_records_total", "Records that reached the sink.", |sink| Some(sink.records as f64)),
    ("stream_sink_latency_p50_seconds", "Median latency since the start.", |sink| Some(seconds(sink.p50_ns))),
    ("stream_sink_latency_p99_seconds", "99th percentile of latency since the start.", |sink| {
        Some(seconds(sink.p99_ns))
    }),
    ("stream_sink_latency_max_seconds", "Largest latency since the start.", |sink| {
        Some(seconds(sink.max_ns))
    }),
];
