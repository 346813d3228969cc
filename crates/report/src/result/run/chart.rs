//! Charts of a program and the prefetcher ahead of it: positions and distance over time, with the stalls.

use crate::chart::over_time::{Join, Kind, Panel, Quantity, Span, TimeChart, TimeRange};
use crate::chart::{Chart, palette};
use crate::number::count;
use crate::result::{RunPoint, RunReading, RunResult};

/// Maximum number of streams that are drawn, the largest first.
const STREAMS_MAX: usize = 4;

/// I/O wait as a share of an interval from which it counts as a stall.
const STALL_MIN_RATIO: f64 = 0.5;

/// Returns the charts; empty if no file was followed.
pub(crate) fn charts(result: &RunResult) -> Vec<Chart> {
    // Small files beside the others would only shrink those.
    let largest = result.readings.iter().map(|reading| reading.read_bytes).max().unwrap_or(0);
    let is_worth = |reading: &RunReading| reading.points.len() > 1 && reading.read_bytes >= largest / 50;
    let readings: Vec<&RunReading> =
        result.readings.iter().filter(|reading| is_worth(reading)).take(STREAMS_MAX).collect();
    if readings.is_empty() {
        return Vec::new();
    }
    vec![positions(&readings, result.elapsed_ns).draw(), distances(&readings, result.elapsed_ns).draw()]
}

fn positions(readings: &[&RunReading], elapsed: u64) -> TimeChart {
    let quantities = [
        Quantity::new("prefetcher", palette::PREFETCH, Join::Max, |point: &RunPoint| {
            Some(point.prefetched_bytes as f64)
        }),
        Quantity::new("program", palette::MAIN, Join::Max, |point: &RunPoint| Some(point.main_bytes as f64)),
    ];
    TimeChart {
        name: "positions",
        title: "Positions of program and prefetcher",
        caption: "A steeper line is faster. Where the two lines meet, nothing is prefetched.",
        y_title: "position",
        ..of_readings(readings, elapsed, &quantities)
    }
}

fn distances(readings: &[&RunReading], elapsed: u64) -> TimeChart {
    let quantities = [Quantity::new("distance", palette::PREFETCH, Join::Max, |point: &RunPoint| {
        Some(point.prefetched_bytes.saturating_sub(point.main_bytes) as f64)
    })];
    TimeChart {
        name: "distance",
        title: "Distance of the prefetcher from the program",
        caption: "Data ahead of the program that is in memory or in flight. The distance grows while the program waits.",
        y_title: "distance",
        ..of_readings(readings, elapsed, &quantities)
    }
}

/// Returns a chart with a panel for each stream, over its stalls.
fn of_readings(readings: &[&RunReading], elapsed: u64, quantities: &[Quantity<RunPoint>]) -> TimeChart {
    let last = readings.iter().filter_map(|reading| reading.points.last()).map(|point| point.at_ns).max();
    let panel = |reading: &&RunReading| Panel {
        name: match reading.files {
            0 | 1 => reading.name.clone(),
            files => format!("{} and {} more", reading.name, count(files - 1)),
        },
        layers: quantities.iter().map(|quantity| quantity.layer(&reading.points)).collect(),
        spans: spans(&reading.points),
        bands: stalled(&reading.points),
    };
    TimeChart {
        name: "",
        kind: Kind::Bytes,
        range: TimeRange { from_ns: 0, to_ns: last.unwrap_or(0).max(elapsed) },
        panels: readings.iter().map(panel).collect(),
        title: "",
        caption: "",
        x_title: "time",
        y_title: "",
        spans_are: "points",
        bands_are: "the program waits for I/O",
    }
}

/// Returns the span of each point: the time since the previous one.
fn spans(points: &[RunPoint]) -> Vec<Span> {
    let starts = std::iter::once(0).chain(points.iter().map(|point| point.at_ns));
    starts.zip(points).map(|(start, point)| (start.min(point.at_ns), point.at_ns)).collect()
}

/// Returns the intervals in which the program mostly waited. Consecutive ones are joined to avoid visible seams.
fn stalled(points: &[RunPoint]) -> Vec<Span> {
    let mut bands: Vec<Span> = Vec::new();
    for pair in points.windows(2) {
        let (from, to) = (pair[0].at_ns, pair[1].at_ns);
        let time = to.saturating_sub(from) as f64;
        let is_stall = pair[1].io_wait_ns.saturating_sub(pair[0].io_wait_ns) as f64 > STALL_MIN_RATIO * time
            && time > 0.0;
        match bands.last_mut().filter(|last| last.1 == from) {
            _ if !is_stall => {}
            Some(last) => last.1 = to,
            None => bands.push((from, to)),
        }
    }
    bands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_that_follow_each_other_are_one_band() {
        let point = |(at_ns, io_wait_ns)| RunPoint { at_ns, io_wait_ns, ..RunPoint::default() };
        let points = [(0, 0), (10, 9), (20, 18), (30, 19), (40, 19), (50, 26), (50, 26), (60, 31)].map(point);
        assert_eq!(stalled(&points), [(0, 20), (40, 50)]);
        assert!(stalled(&points[..1]).is_empty());
    }
}
