//! Jobs of tasks in an experiment: the time over the number of threads, and the runs of each.

use plotters::prelude::*;

use super::axis::Axis;
use super::ends::{self, End};
use super::frame::{self, Frame, Key, LEFT, PanelFrame, Plot};
use super::{Chart, palette};
use crate::schema::{ScenarioPoint, ScenarioResult};

/// More panels, lines in a panel, and bars than these are not drawn; the table has them.
const PANELS: usize = 6;
const LINES: usize = 8;
const BARS: usize = 60;
const PANEL_HEIGHT: u32 = 420;
/// Room behind the lines for their names, as a share of the axis.
const FREE: f64 = 0.14;
const BAR_LEFT: u32 = 420;
const LABEL_LENGTH: usize = 30;
const SECOND: f64 = 1e9;

pub(super) fn charts(result: &ScenarioResult) -> Vec<Chart> {
    by_threads(result).into_iter().chain(runs(result)).collect()
}

/// One method, over the number of threads. In seconds.
struct Line {
    label: String,
    simulated: Vec<(f64, f64)>,
    published: Vec<(f64, f64)>,
}

struct Panel {
    name: String,
    lines: Vec<Line>,
}

/// Puts points into panels: the method tells lines apart, what else is varied panels.
fn panels(result: &ScenarioResult) -> Vec<Panel> {
    let key = |end: &str| result.varied.iter().position(|key| key.ends_with(end));
    let Some(threads) = key(".threads") else { return Vec::new() };
    let method = key(".method");
    let mut panels: Vec<Panel> = Vec::new();
    for point in result.points.iter().filter(|point| !point.jobs.is_empty()) {
        let Some(at) = point.values.get(threads).and_then(|value| value.parse::<u32>().ok()) else {
            continue;
        };
        let rest =
            point.values.iter().enumerate().filter(|&(index, _)| index != threads && Some(index) != method);
        let name = rest.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ");
        let label = method.and_then(|method| point.values.get(method)).cloned().unwrap_or_default();
        let panel = panels.iter().position(|panel| panel.name == name).unwrap_or_else(|| {
            panels.push(Panel { name, lines: Vec::new() });
            panels.len() - 1
        });
        let lines = &mut panels[panel].lines;
        let line = lines.iter().position(|line| line.label == label).unwrap_or_else(|| {
            lines.push(Line { label, simulated: Vec::new(), published: Vec::new() });
            lines.len() - 1
        });
        let place = |ns: u64| (f64::from(at), ns as f64 / SECOND);
        lines[line].simulated.push(place(point.elapsed_ns));
        lines[line].published.extend(point.published_elapsed_ns.map(place));
    }
    panels.truncate(PANELS);
    panels.iter_mut().for_each(|panel| panel.lines.truncate(LINES));
    panels
}

fn by_threads(result: &ScenarioResult) -> Option<Chart> {
    const TITLE: &str = "Time over the number of threads that compute";
    let panels = panels(result);
    let all = || {
        let lines = panels.iter().flat_map(|panel| &panel.lines);
        lines.flat_map(|line| line.simulated.iter().chain(&line.published))
    };
    all().next()?;
    let x = Axis::numbers("threads", all().map(|place| place.0).chain([0.0]), FREE);
    let y = Axis::numbers("s", all().map(|place| place.1).chain([0.0]), 0.0);
    let has_published = panels.iter().flat_map(|panel| &panel.lines).any(|line| !line.published.is_empty());
    let frame = Frame {
        name: "threads",
        title: TITLE,
        keys: Vec::new(),
        panels: panels
            .iter()
            .map(|panel| PanelFrame {
                name: frame::short(&panel.name, 80),
                x: x.clone(),
                y: y.clone(),
                height: PANEL_HEIGHT,
            })
            .collect(),
        left: LEFT,
    };
    let svg = frame.draw(|index, plot| {
        let place = |&(at, seconds): &(f64, f64)| (x.place(at), y.place(seconds));
        let lines = &panels[index].lines;
        for (index, line) in lines.iter().enumerate() {
            let colour = palette::series(index);
            let simulated = line.simulated.iter().map(place);
            plot.draw_series(LineSeries::new(simulated.clone(), colour.stroke_width(4)))?;
            plot.draw_series(simulated.map(|place| Circle::new(place, 6, colour.filled())))?;
            let published = line.published.iter().map(place);
            plot.draw_series(published.map(|place| Cross::new(place, 10, colour.stroke_width(4))))?;
        }
        let ends = lines.iter().enumerate().filter_map(|(index, line)| {
            Some(End { at: place(line.simulated.last()?), label: &line.label, index })
        });
        ends::draw(ends.collect(), 34.0 / f64::from(PANEL_HEIGHT), plot)
    });
    Some(Chart {
        name: "threads",
        title: TITLE,
        caption: if has_published {
            "Lines: simulated. Crosses: published, in the colour of the method."
        } else {
            "Where a line is flat, the drive decides."
        },
        svg,
        time: None,
    })
}

/// The runs of each job, one below the other, where there are several.
fn runs(result: &ScenarioResult) -> Option<Chart> {
    const TITLE: &str = "One run after another";
    let several = |point: &&ScenarioPoint| point.jobs.iter().any(|job| job.runs.len() > 1);
    let rows: Vec<(String, usize, u64)> = result
        .points
        .iter()
        .filter(several)
        .flat_map(|point| {
            let jobs =
                point.jobs.iter().flat_map(|job| job.runs.iter().enumerate().map(move |run| (job, run)));
            jobs.map(|(job, (number, run))| {
                let values = point.values.join(", ");
                let label = if values.is_empty() { job.name.clone() } else { values };
                (if number == 0 { label } else { String::new() }, number, run.elapsed_ns)
            })
        })
        .take(BARS)
        .collect();
    if rows.is_empty() {
        return None;
    }
    let x = Axis::spans("time", rows.iter().map(|&(.., ns)| ns as f64).fold(0.0, f64::max));
    let y = Axis::rows(rows.iter().map(|(label, ..)| frame::short(label, LABEL_LENGTH)).collect());
    let frame = Frame {
        name: "runs",
        title: TITLE,
        keys: vec![
            Key { label: "first run", colour: palette::series(0) },
            Key { label: "later runs", colour: palette::series(1) },
        ],
        panels: vec![PanelFrame {
            name: String::new(),
            x: x.clone(),
            y: y.clone(),
            height: 40 * rows.len() as u32,
        }],
        left: BAR_LEFT,
    };
    let draw = |row: usize, number: usize, ns: u64, plot: &mut Plot<'_>| {
        let corners =
            [(x.place(0.0), y.place(row as f64 + 0.14)), (x.place(ns as f64), y.place(row as f64 + 0.86))];
        let colour = palette::series(number.min(1));
        plot.draw_series(std::iter::once(Rectangle::new(corners, colour.filled()))).map(drop)
    };
    let svg = frame.draw(|_, plot| {
        rows.iter().enumerate().try_for_each(|(row, &(_, number, ns))| draw(row, number, ns, plot))
    });
    Some(Chart {
        name: "runs",
        title: TITLE,
        caption: "A later run finds in memory what the one before has left there.",
        svg,
        time: None,
    })
}
