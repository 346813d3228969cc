//! Latency against the number of cores.

use super::{StreamSimPoint, StreamSimResult};
use crate::chart::Chart;
use crate::chart::axis::Axis;
use crate::chart::lines::{self, Look, Panels, Point};
use crate::number::{duration, plural};
use crate::result::stream::whole_ns;

/// Height of the picture, in pixels.
const CHART_HEIGHT: u32 = 420;

/// A line of the picture: its name, and its figure.
type Extract = (&'static str, fn(&StreamSimPoint) -> f64);

const LINES: [Extract; 3] = [
    ("mean", |point| point.mean_ns),
    ("p99", |point| point.p99_ns as f64),
    ("p99.9", |point| point.p99_9_ns as f64),
];

/// Returns the charts; empty unless two numbers of cores sustain the rate.
pub(super) fn charts(result: &StreamSimResult) -> Vec<Chart> {
    let held: Vec<&StreamSimPoint> = result.points.iter().filter(|point| point.shed_ratio == 0.0).collect();
    if held.len() < 2 {
        return Vec::new();
    }
    let mut panels = Panels::default();
    for (name, figure) in LINES {
        let points = held.iter().map(|point| {
            let y = figure(point);
            let words = format!("{name} on {}: {}", plural(point.cores, "core"), duration(whole_ns(y)));
            Point { x: point.cores as f64, y, words }
        });
        panels.line(String::new(), name.to_owned()).points.extend(points);
    }
    let look = Look {
        name: "latency",
        title: "Latency by number of cores",
        caption: "Simulated. Numbers of cores that overflow are omitted; each further core adds a hop."
            .to_owned(),
        x: Axis::numbers("cores", panels.points().map(|point| point.x)),
        y: Axis::log_spans("latency, log scale", panels.points().map(|point| point.y)),
        levels: &[],
        is_dotted: true,
        height: CHART_HEIGHT,
    };
    vec![lines::chart(&panels, look)]
}
