//! Charts of an explanation: the ledger as bars, the critical path over time, and the predictions.

use super::{ExplainInterval, ExplainKind, ExplainPrediction, ExplainResult, ExplainTerm};
use crate::chart::Chart;
use crate::chart::bars::{self, Bars, Row};
use crate::chart::flame::{self, Flame, Leaf};
use crate::chart::layout::short;
use crate::chart::over_time::{Join, Kind, Layer, Panel, Quantity, Span, TimeChart, TimeRange};
use crate::chart::palette::{self, Color};
use crate::number::{count, duration, percent, ratio};

/// Bars that are drawn; the table has more.
const BARS_MAX: usize = 12;
/// Length at which the label of a bar is truncated.
const LABEL_LENGTH: usize = 46;

/// Kinds of activity in a bar: label, color.
const PARTS: [(&str, Color); 4] = [
    ("storage", palette::READ_SEEK),
    ("computing", palette::COMPUTES),
    ("waiting for a core", palette::SHARES),
    ("other", palette::IDLE),
];

pub(super) fn charts(result: &ExplainResult) -> Vec<Chart> {
    let mut charts = Vec::new();
    if !result.terms.is_empty() {
        charts.push(ledger(result));
        charts.push(flame_graph(result));
    }
    if result.intervals.len() > 1 {
        charts.push(over_time(result).draw());
        if result.intervals.iter().any(|interval| interval.read_bytes > 0) {
            charts.push(data(result).draw());
        }
    }
    charts.extend(predictions(&result.predictions, result.elapsed_ns));
    charts
}

fn ledger(result: &ExplainResult) -> Chart {
    let row = |term: &ExplainTerm| {
        let mut parts = vec![0; PARTS.len()];
        parts[part_of(term.kind)] = term.time_ns;
        let place = term.place();
        let what = term.kind.describe();
        let label = match (term.program.as_str(), place.as_str()) {
            ("", _) => what.to_owned(),
            (program, "") => format!("{program}: {what}"),
            // The end of a path says most.
            (program, place) if term.files > 1 => {
                format!("{program}: {what}, {} files in {}", count(term.files), end_of(place))
            }
            (program, place) => format!("{program}: {what}, {}", end_of(place)),
        };
        let share = percent(ratio(term.time_ns, result.elapsed_ns));
        Row {
            label: short(&label, LABEL_LENGTH),
            parts,
            figure: format!("{} ({share})", duration(term.time_ns)),
        }
    };
    bars::chart(Bars {
        name: "breakdown",
        title: "Where the time went",
        caption: "Times on the critical path, which add up to the elapsed time.".to_owned(),
        x_title: "time",
        parts: PARTS.to_vec(),
        rows: result.terms.iter().take(BARS_MAX).map(row).collect(),
    })
}

/// Returns the last name of a path.
fn end_of(place: &str) -> &str {
    place.rsplit('/').next().filter(|end| !end.is_empty()).unwrap_or(place)
}

/// Kinds of activity in a block of the flame graph, which has text: label, color.
const BLOCKS: [(&str, Color); 4] = [
    ("storage", palette::READ_DATA),
    ("computing", palette::SHARES),
    ("waiting for a core", palette::STALL),
    ("other", palette::IDLE),
];

fn flame_graph(result: &ExplainResult) -> Chart {
    let leaf = |term: &ExplainTerm| {
        let program = if term.program.is_empty() { "not known" } else { &term.program };
        Leaf {
            path: vec![program.to_owned(), term.place(), term.kind.describe().to_owned()],
            time: term.time_ns,
            color: BLOCKS[part_of(term.kind)].1,
        }
    };
    flame::chart(Flame {
        name: "flame-graph",
        title: "Programs, files and accesses",
        caption: "Widths are times on the critical path; what is not of a file has no block at that level."
            .to_owned(),
        x_title: "time",
        levels: vec!["program", "file", "spent on"],
        keys: BLOCKS.to_vec(),
        leaves: result.terms.iter().map(leaf).collect(),
    })
}

/// Draws what the program read of its files, and what was loaded from storage for it.
fn data(result: &ExplainResult) -> TimeChart {
    let ends = result.intervals.iter().map(|interval| interval.until_ns);
    let spans: Vec<Span> = std::iter::once(0).chain(ends.clone()).zip(ends).collect();
    let per_second = |bytes: fn(&ExplainInterval) -> u64| {
        let rate = |(interval, &(from, to)): (&ExplainInterval, &Span)| {
            (to > from).then(|| bytes(interval) as f64 * 1e9 / (to - from) as f64)
        };
        result.intervals.iter().zip(&spans).map(rate).collect::<Vec<Option<f64>>>()
    };
    let panel = |name: &str, color, values| Panel {
        name: name.to_owned(),
        layers: vec![Layer {
            label: name.to_owned(),
            color,
            values,
            join: Join::MeanOverTime,
            weights: spans.iter().map(|&(from, to)| (to - from) as f64).collect(),
        }],
        spans: spans.clone(),
        bands: Vec::new(),
    };
    TimeChart {
        name: "throughput",
        kind: Kind::BytesPerSecond,
        range: TimeRange { from_ns: 0, to_ns: result.elapsed_ns },
        panels: vec![
            panel("read by the program", palette::COMPUTES, per_second(|interval| interval.read_bytes)),
            panel("loaded from storage", palette::READ_SEEK, per_second(|interval| interval.loaded_bytes)),
        ],
        title: "The page cache and the storage over time",
        caption: "What is read without being loaded at that time was in the page cache: read ahead, or used before.",
        x_title: "time",
        y_title: "bytes per second",
        spans_are: "intervals",
        bands_are: "",
    }
}

fn part_of(kind: ExplainKind) -> usize {
    match kind {
        kind if kind.is_storage() => 0,
        ExplainKind::Computing => 1,
        ExplainKind::AwaitingCore => 2,
        _ => 3,
    }
}

fn over_time(result: &ExplainResult) -> TimeChart {
    let [storage, computing, core, other] = PARTS;
    let quantity = |(label, color): (&'static str, Color), of: fn(&ExplainInterval) -> Option<f64>| {
        Quantity::new(label, color, Join::Sum, of)
    };
    let quantities = [
        quantity(storage, |interval| Some(interval.io_wait_ns as f64)),
        quantity(computing, |interval| Some(interval.computing_ns as f64)),
        quantity(core, |interval| Some(interval.core_wait_ns as f64)),
        quantity(other, |interval| Some(interval.other_ns as f64)),
    ];
    let ends = result.intervals.iter().map(|interval| interval.until_ns);
    let spans: Vec<Span> = std::iter::once(0).chain(ends.clone()).zip(ends).collect();
    TimeChart {
        name: "timeline",
        kind: Kind::ShareOfTime,
        range: TimeRange { from_ns: 0, to_ns: result.elapsed_ns },
        panels: vec![Panel {
            name: String::new(),
            layers: quantities.iter().map(|quantity| quantity.layer(&result.intervals)).collect(),
            spans,
            bands: Vec::new(),
        }],
        title: "The critical path over time",
        caption: "At each time the thread for which the others waited.",
        x_title: "time",
        y_title: "share",
        spans_are: "intervals",
        bands_are: "",
    }
}

/// Returns the chart of predictions; `None` if there are none.
pub(super) fn predictions(predictions: &[ExplainPrediction], elapsed: u64) -> Option<Chart> {
    if predictions.is_empty() {
        return None;
    }
    let recorded =
        Row { label: "as recorded".to_owned(), parts: vec![elapsed, 0], figure: duration(elapsed) };
    let row = |prediction: &ExplainPrediction| Row {
        label: short(&prediction.change, LABEL_LENGTH),
        parts: vec![0, prediction.predicted_ns],
        figure: format!(
            "{} ({} to {})",
            duration(prediction.predicted_ns),
            duration(prediction.low_ns),
            duration(prediction.high_ns)
        ),
    };
    Some(bars::chart(Bars {
        name: "times",
        title: "Predicted elapsed times",
        caption: "By replaying the recorded program in virtual time.".to_owned(),
        x_title: "elapsed time",
        parts: vec![("recorded", palette::IDLE), ("predicted", palette::COMPUTES)],
        rows: std::iter::once(recorded).chain(predictions.iter().map(row)).collect(),
    }))
}
