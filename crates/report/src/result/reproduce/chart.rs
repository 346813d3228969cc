//! The papers' pictures, redrawn: lines are reproduced, hollow marks published.

use super::{ReproduceResult, ReproducedCurve};
use crate::chart::Chart;
use crate::chart::axis::Axis;
use crate::chart::lines::{self, Level, Look, Panels, Point};
use crate::number::round_bytes;

/// A picture: its name in results, that of its file, its title, and the titles of its axes.
struct Picture {
    id: &'static str,
    name: &'static str,
    title: &'static str,
    x: &'static str,
    y: &'static str,
    levels: &'static [Level],
    /// The lowest value of the vertical axis: not 0 where that would flatten all differences.
    y_from: f64,
}

const PICTURES: [Picture; 5] = [
    Picture {
        id: "gain_by_limit",
        name: "limit",
        title: "Gain by prefetching over the limit of its distance (Waseda 2006, figures 3 to 6)",
        x: "limit",
        y: "gain in percent",
        levels: &[(36.2, "published mean, machine A"), (35.3, "published mean, machine B")],
        y_from: 0.0,
    },
    Picture {
        id: "time_by_size",
        name: "times",
        title: "Time of gzip over the size of its file (Waseda 2006, table 3)",
        x: "size in GB",
        y: "time in seconds",
        levels: &[],
        y_from: 0.0,
    },
    Picture {
        id: "allowance_by_rate",
        name: "allowance",
        title: "Best allowance over the requested performance (Kochi 2023, figure 6.1)",
        x: "requested performance in percent",
        y: "requests in the device",
        levels: &[],
        y_from: 0.0,
    },
    Picture {
        id: "accuracy_by_rate",
        name: "accuracy",
        title: "Accuracy over the requested performance (Kochi 2023, figures 6.2 to 6.4)",
        x: "requested performance in percent",
        y: "actual over ideal I/O time",
        levels: &[(1.1, "good up to here")],
        y_from: 0.9,
    },
    Picture {
        id: "time_by_threads",
        name: "threads",
        title: "Time over the number of threads (Cerium 2014, tables 5 and 6)",
        x: "threads",
        y: "time in seconds",
        levels: &[],
        y_from: 0.0,
    },
];

pub(super) fn charts(result: &ReproduceResult) -> Vec<Chart> {
    PICTURES.iter().filter_map(|picture| draw(result, picture)).collect()
}

fn draw(result: &ReproduceResult, picture: &Picture) -> Option<Chart> {
    let curves: Vec<&ReproducedCurve> = result
        .papers
        .iter()
        .flat_map(|paper| &paper.curves)
        .filter(|curve| curve.picture == picture.id)
        .collect();
    if curves.is_empty() {
        return None;
    }
    let is_size = picture.id == "gain_by_limit";
    let mut panels = Panels::default();
    for curve in &curves {
        let place = |&(x, y): &(f64, f64), kind: &str| {
            let at = if is_size { round_bytes(x as u64) } else { x.to_string() };
            Point { x, y, words: format!("{}, {}: {y:.2} at {at}{kind}", curve.panel, curve.label) }
        };
        let line = panels.line(curve.panel.clone(), curve.label.clone());
        line.points.extend(curve.points.iter().map(|point| place(point, "")));
        line.published.extend(curve.published.iter().map(|point| place(point, ", published")));
    }
    let has_published = curves.iter().any(|curve| !curve.published.is_empty());
    let hollow = if has_published { " Hollow marks: published." } else { "" };
    let xs = || panels.points().map(|point| point.x);
    let ys = || panels.points().map(|point| point.y).chain(picture.levels.iter().map(|(level, _)| *level));
    let x = if is_size {
        Axis::log_sizes(picture.x, xs().map(|x| x as u64))
    } else {
        Axis::numbers(picture.x, xs())
    };
    let look = Look {
        name: picture.name,
        title: picture.title,
        caption: format!("Lines: simulated in virtual time.{hollow}"),
        x,
        y: Axis::heights(picture.y, ys().chain([picture.y_from])),
        levels: picture.levels,
        is_dotted: true,
        height: 320,
    };
    Some(lines::chart(&panels, look))
}
