//! Charts of jobs of tasks in an experiment: the time over the number of threads, and the runs of each.

use crate::chart::axis::Axis;
use crate::chart::bars::{self, Bars, Row};
use crate::chart::lines::{self, Look, Panels, Point};
use crate::chart::{Chart, palette};
use crate::number::{count, duration};
use crate::result::points;
use crate::result::{ScenarioPoint, ScenarioResult};

/// Maximum panels that are drawn; the table has all.
const PANELS_MAX: usize = 6;
/// Maximum lines of a panel that are drawn; the table has all.
const LINES_MAX: usize = 12;
/// Maximum bars that are drawn; the table has all.
const BARS_MAX: usize = 60;
const SECOND: f64 = 1e9;

pub(crate) fn charts(result: &ScenarioResult) -> Vec<Chart> {
    by_threads(result).into_iter().chain(runs(result)).collect()
}

/// Arranges points in panels: lines differ by method, panels by the other varied keys.
fn panels(result: &ScenarioResult) -> Panels {
    let key = |end: &str| result.varied.iter().position(|key| key.ends_with(end));
    let mut panels = Panels::default();
    let Some(threads) = key(".threads") else { return panels };
    let method = key(".method");
    for point in result.points.iter().filter(|point| !point.jobs.is_empty()) {
        let Some(at) = point.values.get(threads).and_then(|value| value.parse::<u32>().ok()) else {
            continue;
        };
        let rest =
            point.values.iter().enumerate().filter(|&(index, _)| index != threads && Some(index) != method);
        let name = rest.map(|(index, value)| points::named(result.varied.get(index), value));
        let name = name.collect::<Vec<_>>().join(", ");
        let label = method.and_then(|method| point.values.get(method)).cloned().unwrap_or_default();
        let place = |ns: u64, what: &str| Point {
            x: f64::from(at),
            y: ns as f64 / SECOND,
            words: format!("{}: {}{what}", point.values.join(", "), duration(ns)),
        };
        let line = panels.line(name, label);
        line.points.push(place(point.elapsed_ns, ""));
        line.published.extend(point.published_elapsed_ns.map(|ns| place(ns, " published")));
    }
    panels
}

fn by_threads(result: &ScenarioResult) -> Option<Chart> {
    let mut panels = panels(result);
    let is_cut = panels.limit(PANELS_MAX, LINES_MAX);
    panels.points().next()?;
    let has_published = result.points.iter().any(|point| point.published_elapsed_ns.is_some());
    let mut caption = if has_published {
        "Lines: simulated. Hollow marks: published, in the shape and color of the method.".to_owned()
    } else {
        "Where a line is flat, the drive is the bottleneck.".to_owned()
    };
    if is_cut {
        caption.push_str(" Lines beyond those that can be distinguished are only in the table.");
    }
    let look = Look {
        name: "threads",
        title: "Time over the number of compute threads",
        caption,
        x: Axis::numbers("threads", panels.points().map(|point| point.x).chain([0.0])),
        y: Axis::heights("time in seconds", panels.points().map(|point| point.y).chain([0.0])),
        levels: &[],
        is_dotted: true,
        height: 380,
    };
    Some(lines::chart(&panels, look))
}

/// Returns the chart of the runs of each job, one below the other, if there are several.
fn runs(result: &ScenarioResult) -> Option<Chart> {
    let several = |point: &&ScenarioPoint| point.jobs.iter().any(|job| job.runs.len() > 1);
    let of = |point: &ScenarioPoint| {
        let values = point.values.join(", ");
        let runs = point.jobs.iter().flat_map(|job| {
            let label = if values.is_empty() { job.name.clone() } else { values.clone() };
            job.runs.iter().enumerate().map(move |(number, run)| {
                let parts = if number == 0 { vec![run.elapsed_ns, 0] } else { vec![0, run.elapsed_ns] };
                let label = if number == 0 { label.clone() } else { format!("run {}", number + 1) };
                Row { label, parts, figure: duration(run.elapsed_ns) }
            })
        });
        runs.collect::<Vec<_>>()
    };
    let mut rows: Vec<Row> = result.points.iter().filter(several).flat_map(of).collect();
    if rows.is_empty() {
        return None;
    }
    let left_out = match rows.len() {
        ..=BARS_MAX => String::new(),
        all => format!(" The first {BARS_MAX} of {} are drawn.", count(all as u64)),
    };
    rows.truncate(BARS_MAX);
    Some(bars::chart(Bars {
        name: "runs",
        title: "One run after another",
        caption: format!("A later run finds the data that the previous one left in memory.{left_out}"),
        x_title: "time",
        parts: vec![("first run", palette::series(0)), ("later runs", palette::series(1))],
        rows,
    }))
}
