//! Charts of an experiment in virtual time: elapsed time over the limit, its parts, and the prefetcher's distance.

pub(super) mod job;
pub(super) mod regulation;

use crate::chart::axis::Axis;
use crate::chart::bars::{self, Bars, Row};
use crate::chart::lines::{self, Look, Panels, Point};
use crate::chart::over_time::{Join, Kind, Panel, Quantity, Span, TimeChart, TimeRange};
use crate::chart::palette::Color;
use crate::chart::{Chart, palette};
use crate::number::{count, duration, signed_percent};
use crate::result::points;
use crate::result::{DistancePoint, ScenarioPoint, ScenarioProcess, ScenarioResult};

/// Maximum bars that are drawn; the table has all.
const BARS_MAX: usize = 40;
/// Maximum distinguishable lines: eight colors, solid and dashed.
const LINES_MAX: usize = 16;

pub(crate) fn charts(result: &ScenarioResult) -> Vec<Chart> {
    let limits = speedups(result);
    let has_programs = result.points.iter().any(|point| !point.processes.is_empty());
    let times = has_programs.then(|| times(result));
    let distance = (result.points.len() == 1).then(|| distance(&result.points[0])).flatten();
    limits.into_iter().chain(times).chain(distance).collect()
}

/// Returns the chart of the programs' speed-up over the limit.
fn speedups(result: &ScenarioResult) -> Option<Chart> {
    let limit = result.varied.iter().position(|key| key == "prefetch.limit");
    let mut panels = Panels::default();
    for point in &result.points {
        let Some(bytes) = point.limit_bytes else { continue };
        let others = point.values.iter().enumerate().filter(|&(index, _)| Some(index) != limit);
        let others = others.map(|(index, value)| points::named(result.varied.get(index), value));
        let label = others.collect::<Vec<_>>().join(", ");
        let words =
            |what: &str, ratio| format!("{}: {}{what}", point.values.join(", "), signed_percent(ratio));
        let place = |ratio, words| Point { x: bytes as f64, y: ratio, words };
        let line = panels.line(String::new(), label);
        line.points.push(place(point.speedup_ratio, words(" faster", point.speedup_ratio)));
        line.published
            .extend(point.published_speedup_ratio.map(|ratio| place(ratio, words(" published", ratio))));
    }
    for panel in &mut panels.0 {
        panel.lines.retain(|line| line.points.len() > 1);
        panel.lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    }
    let is_cut = panels.limit(1, LINES_MAX);
    panels.points().next()?;
    let left_out =
        if is_cut { " Lines beyond those that can be distinguished are only in the table." } else { "" };
    let look = Look {
        name: "limit",
        title: "How much faster with prefetching, over the limit",
        caption: format!(
            "Above zero, prefetching helps. The gain falls where prefetched data is evicted before it is \
             used, because the limit exceeds the memory.{left_out}"
        ),
        x: Axis::log_sizes("limit", panels.points().map(|point| point.x as u64)),
        y: Axis::gains(
            "time without over time with prefetching, minus 1",
            panels.points().map(|point| point.y),
        ),
        levels: &[],
        is_dotted: true,
        height: 520,
    };
    Some(lines::chart(&panels, look))
}

/// Returns the chart of the parts of each program's time.
fn times(result: &ScenarioResult) -> Chart {
    let several = result.points.iter().any(|point| point.processes.len() > 1);
    let programs = || {
        let of = |point: &'_ ScenarioPoint| {
            let labels = point.processes.iter().map(|process| label(point, process, several));
            labels.zip(point.processes.clone()).collect::<Vec<_>>()
        };
        result.points.iter().flat_map(of)
    };
    let row = |(label, process): (String, ScenarioProcess)| {
        let parts: Vec<u64> = PARTS.iter().map(|(_, _, part)| part(&process)).collect();
        let total = parts.iter().fold(0, |total: u64, &ns| total.saturating_add(ns));
        Row { label, parts, figure: duration(total) }
    };
    let all = programs().count();
    let left_out = match all {
        ..=BARS_MAX => String::new(),
        _ => format!(" The first {BARS_MAX} of {} are drawn; the table has all.", count(all as u64)),
    };
    bars::chart(Bars {
        name: "times",
        title: "Breakdown of the time",
        caption: format!("Prefetching removes waiting for reads; it cannot shorten computing.{left_out}"),
        x_title: "time",
        parts: PARTS.into_iter().map(|(label, color, _)| (label, color)).collect(),
        rows: programs().take(BARS_MAX).map(row).collect(),
    })
}

type Part = (&'static str, Color, fn(&ScenarioProcess) -> u64);

const PARTS: [Part; 5] = [
    ("computes", palette::COMPUTES, |process| process.computing_ns),
    ("shares a core", palette::SHARES, |process| process.queued_ns),
    ("waits to read", palette::READ_SEEK, |process| process.io_wait_read_ns),
    ("waits to write", palette::READ_NEAR_MISS_SEEK, |process| process.io_wait_write_ns),
    ("pauses", palette::IDLE, |process| process.paused_ns),
];

fn label(point: &ScenarioPoint, process: &ScenarioProcess, several: bool) -> String {
    let values = point.values.join(", ");
    match (values.is_empty(), several) {
        (true, _) => process.name.clone(),
        (false, true) => format!("{values} {}", process.name),
        (false, false) => values,
    }
}

/// Returns the chart of the prefetcher's distance ahead of each program, over time.
fn distance(point: &ScenarioPoint) -> Option<Chart> {
    let ahead: Vec<&ScenarioProcess> =
        point.processes.iter().filter(|process| process.distance.len() > 1).collect();
    let spans = |process: &ScenarioProcess| -> Vec<Span> {
        let ends = process.distance.iter().map(|point| point.at_ns);
        let starts = std::iter::once(0).chain(ends.clone());
        starts.zip(ends).map(|(start, end)| (start.min(end), end)).collect()
    };
    let to_ns = ahead.iter().flat_map(|process| &process.distance).map(|point| point.at_ns).max()?;
    let quantity = Quantity::new("distance", palette::ANCHORED, Join::Max, |point: &DistancePoint| {
        Some(point.bytes as f64)
    });
    let panel = |process: &&ScenarioProcess| Panel {
        name: process.name.clone(),
        layers: vec![quantity.layer(&process.distance)],
        spans: spans(process),
        bands: Vec::new(),
    };
    let chart = TimeChart {
        name: "distance",
        kind: Kind::Bytes,
        range: TimeRange { from_ns: 0, to_ns },
        panels: ahead.iter().map(panel).collect(),
        title: "Prefetch distance",
        caption: "Each point is the longest distance since the previous one.",
        x_title: "time",
        y_title: "distance",
        spans_are: "points",
        bands_are: "",
    };
    Some(chart.draw())
}
