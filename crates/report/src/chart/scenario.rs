//! An experiment in virtual time: what the limit does to the time, where the time goes, how far ahead the prefetcher is.

use plotters::prelude::*;

use super::axis::Axis;
use super::ends::{self, End};
use super::frame::{self, Drawn, Frame, Key, LEFT, PanelFrame, Plot};
use super::{Chart, palette};
use crate::schema::{ScenarioPoint, ScenarioProcess, ScenarioResult};

/// More bars than this are not drawn; the table has them.
const BARS: usize = 40;
/// Beyond this a label is cut; the table has the whole of it.
const LABEL_LENGTH: usize = 22;
const BAR_LEFT: u32 = 330;

pub(super) fn charts(result: &ScenarioResult) -> Vec<Chart> {
    let limits = speedups(result);
    let has_programs = result.points.iter().any(|point| !point.processes.is_empty());
    let times = (has_programs && result.points.len() <= BARS).then(|| times(result));
    let distance = (result.points.len() == 1).then(|| distance(&result.points[0])).flatten();
    limits.into_iter().chain(times).chain(distance).collect()
}

/// A line through the points that differ in the limit alone.
struct Line<'a> {
    label: String,
    points: Vec<(u64, &'a ScenarioPoint)>,
    /// Where the published times are in the same bytes.
    published: Vec<(u64, f64)>,
}

fn lines(result: &ScenarioResult) -> Vec<Line<'_>> {
    let limit = result.varied.iter().position(|key| key == "prefetch.limit");
    let mut lines: Vec<Line<'_>> = Vec::new();
    for point in &result.points {
        let Some(bytes) = point.limit_bytes else { continue };
        let others = point.values.iter().enumerate().filter(|&(index, _)| Some(index) != limit);
        let label = others.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ");
        let index = lines.iter().position(|line| line.label == label).unwrap_or_else(|| {
            lines.push(Line { label, points: Vec::new(), published: Vec::new() });
            lines.len() - 1
        });
        lines[index].points.push((bytes, point));
        lines[index].published.extend(point.published_speedup_ratio.map(|ratio| (bytes, ratio)));
    }
    lines.retain(|line| line.points.len() > 1);
    lines.iter_mut().for_each(|line| line.points.sort_by_key(|&(bytes, _)| bytes));
    lines
}

/// How much faster the programs are, over the limit.
fn speedups(result: &ScenarioResult) -> Option<Chart> {
    const TITLE: &str = "How much faster with prefetching, over the limit";
    let lines = lines(result);
    if lines.is_empty() {
        return None;
    }
    let points = || lines.iter().flat_map(|line| &line.points);
    let x = Axis::log_sizes("limit", points().map(|&(bytes, _)| bytes), 0.14);
    let ratios = points().map(|(_, point)| point.speedup_ratio);
    let published = lines.iter().flat_map(|line| line.published.iter().map(|&(_, ratio)| ratio));
    let y = Axis::gains("without prefetching over with it, less one", ratios.chain(published));
    let frame = Frame {
        name: "limit",
        title: TITLE,
        keys: if lines.iter().all(|line| line.published.is_empty()) {
            Vec::new()
        } else {
            vec![
                Key { label: "simulated", colour: palette::series(0) },
                Key { label: "published", colour: palette::INK },
            ]
        },
        panels: vec![PanelFrame { name: String::new(), x: x.clone(), y: y.clone(), height: 560 }],
        left: LEFT,
    };
    let svg = frame.draw(|_, plot| {
        for (index, line) in lines.iter().enumerate() {
            draw_line(line, palette::series(index), (&x, &y), plot)?;
        }
        draw_labels(&lines, (&x, &y), plot)
    });
    Some(Chart {
        name: "limit",
        title: TITLE,
        caption: "Above zero prefetching helps. It falls where prefetched data is evicted before it is used, because \
                  the limit is more than memory holds.",
        svg,
        time: None,
    })
}

fn draw_line(line: &Line<'_>, colour: RGBColor, (x, y): (&Axis, &Axis), plot: &mut Plot<'_>) -> Drawn {
    let places =
        line.points.iter().map(|&(bytes, point)| (x.place(bytes as f64), y.place(point.speedup_ratio)));
    plot.draw_series(LineSeries::new(places.clone(), colour.stroke_width(4)))?;
    plot.draw_series(places.map(|place| Circle::new(place, 5, colour.filled())))?;
    let published = line.published.iter().map(|&(bytes, ratio)| (x.place(bytes as f64), y.place(ratio)));
    plot.draw_series(published.map(|place| Cross::new(place, 9, palette::INK.stroke_width(3))))?;
    Ok(())
}

/// The names of the lines behind their ends.
fn draw_labels(lines: &[Line<'_>], (x, y): (&Axis, &Axis), plot: &mut Plot<'_>) -> Drawn {
    const APART: f64 = 0.055;
    let ends = lines.iter().enumerate().filter_map(|(index, line)| {
        let &(bytes, point) = line.points.last()?;
        Some(End { at: (x.place(bytes as f64), y.place(point.speedup_ratio)), label: &line.label, index })
    });
    ends::draw(ends.collect(), APART, plot)
}

/// Where the time of each program goes.
fn times(result: &ScenarioResult) -> Chart {
    const TITLE: &str = "Where the time goes";
    let several = result.points.iter().any(|point| point.processes.len() > 1);
    let rows: Vec<(String, &ScenarioProcess)> = result
        .points
        .iter()
        .flat_map(|point| {
            point.processes.iter().map(move |process| (label(point, process, several), process))
        })
        .take(BARS)
        .collect();
    let longest = rows.iter().map(|(_, process)| total(process) as f64).fold(0.0, f64::max);
    let x = Axis::spans("time", longest);
    let y = Axis::rows(rows.iter().map(|(label, _)| frame::short(label, LABEL_LENGTH)).collect());
    let frame = Frame {
        name: "times",
        title: TITLE,
        keys: PARTS.into_iter().map(|(label, colour, _)| Key { label, colour }).collect(),
        panels: vec![PanelFrame {
            name: String::new(),
            x: x.clone(),
            y: y.clone(),
            height: 46 * rows.len().clamp(1, BARS) as u32,
        }],
        left: BAR_LEFT,
    };
    let svg = frame.draw(|_, plot| {
        rows.iter().enumerate().try_for_each(|(row, (_, process))| draw_bar(row, process, (&x, &y), plot))
    });
    Chart {
        name: "times",
        title: TITLE,
        caption: "Prefetching turns waiting for reads into nothing; it cannot make computing shorter.",
        svg,
        time: None,
    }
}

type Part = (&'static str, RGBColor, fn(&ScenarioProcess) -> u64);

const PARTS: [Part; 5] = [
    ("computes", palette::ANCHORED, |process| process.computing_ns),
    ("shares a core", palette::MEASURED, |process| process.queued_ns),
    ("waits to read", palette::READ_SEEK, |process| process.io_wait_read_ns),
    ("waits to write", palette::READ_NEAR_MISS_SEEK, |process| process.io_wait_write_ns),
    ("pauses", palette::IDLE, |process| process.paused_ns),
];

fn total(process: &ScenarioProcess) -> u64 {
    PARTS.iter().fold(0, |total, (_, _, part)| total.saturating_add(part(process)))
}

fn label(point: &ScenarioPoint, process: &ScenarioProcess, several: bool) -> String {
    let values = point.values.join(", ");
    match (values.is_empty(), several) {
        (true, _) => process.name.clone(),
        (false, true) => format!("{values} {}", process.name),
        (false, false) => values,
    }
}

fn draw_bar(row: usize, process: &ScenarioProcess, (x, y): (&Axis, &Axis), plot: &mut Plot<'_>) -> Drawn {
    let (top, bottom) = (y.place(row as f64 + 0.16), y.place(row as f64 + 0.84));
    let mut end = 0.0;
    for (_, colour, part) in PARTS {
        let ns = part(process) as f64;
        if ns > 0.0 {
            let corners = [(x.place(end), top), (x.place(end + ns), bottom)];
            plot.draw_series(std::iter::once(Rectangle::new(corners, colour.filled())))?;
            end += ns;
        }
    }
    Ok(())
}

/// How far the prefetcher is ahead of each program, over time.
fn distance(point: &ScenarioPoint) -> Option<Chart> {
    const TITLE: &str = "How far ahead the prefetcher is";
    let ahead: Vec<&ScenarioProcess> =
        point.processes.iter().filter(|process| process.distance.len() > 1).collect();
    if ahead.is_empty() {
        return None;
    }
    let all = || ahead.iter().flat_map(|process| &process.distance);
    let last = all().map(|point| point.at_ns).max().unwrap_or_default();
    let x = Axis::time("time", 0, last);
    let y = Axis::sizes("distance", all().map(|point| point.bytes));
    let panel = |process: &&ScenarioProcess| PanelFrame {
        name: frame::short(&process.name, LABEL_LENGTH),
        x: x.clone(),
        y: y.clone(),
        height: 300,
    };
    let frame = Frame {
        name: "distance",
        title: TITLE,
        keys: Vec::new(),
        panels: ahead.iter().map(panel).collect(),
        left: LEFT,
    };
    let svg = frame.draw(|index, plot| {
        let places =
            ahead[index].distance.iter().map(|at| (x.place(at.at_ns as f64), y.place(at.bytes as f64)));
        plot.draw_series(LineSeries::new(places, palette::ANCHORED.stroke_width(3)))?;
        Ok(())
    });
    Some(Chart {
        name: "distance",
        title: TITLE,
        caption: "Each point is the longest distance since the one before.",
        svg,
        time: None,
    })
}
