//! A program and the prefetcher ahead of it: positions and distance over time, with the stalls.

use plotters::prelude::*;

use super::axis::Axis;
use super::frame::{Drawn, Frame, Key, LEFT, PanelFrame, Plot, short};
use super::{Chart, palette};
use crate::number::count;
use crate::schema::{RunPoint, RunReading, RunResult};

/// Readings that are drawn: the largest.
const DRAWN: usize = 4;

/// A stretch counts as a stall if the program waited for I/O more than half of it.
const STALL: f64 = 0.5;

pub(super) fn charts(result: &RunResult) -> Vec<Chart> {
    // A few files that were read beside the others would only make those smaller.
    let largest = result.readings.iter().map(|reading| reading.read_bytes).max().unwrap_or(0);
    let is_worth = |reading: &RunReading| reading.points.len() > 1 && reading.read_bytes >= largest / 50;
    let readings: Vec<&RunReading> =
        result.readings.iter().filter(|reading| is_worth(reading)).take(DRAWN).collect();
    if readings.is_empty() {
        return Vec::new();
    }
    vec![positions(&readings, result.elapsed_ns), distances(&readings, result.elapsed_ns)]
}

fn stall() -> Key {
    Key { label: "the program waits for I/O", colour: palette::STALL }
}

fn positions(readings: &[&RunReading], elapsed: u64) -> Chart {
    const TITLE: &str = "Positions of program and prefetcher";
    let keys = vec![
        Key { label: "program", colour: palette::MAIN },
        Key { label: "prefetcher", colour: palette::PREFETCH },
        stall(),
    ];
    let highest = |point: &RunPoint| point.main_bytes.max(point.prefetched_bytes);
    let y = |reading: &RunReading| Axis::sizes("position", reading.points.iter().map(highest));
    let svg = draw("positions", TITLE, keys, readings, elapsed, &y, |reading, x, y, plot| {
        let line = |bytes: fn(&RunPoint) -> u64, colour: RGBColor| {
            let places = reading.points.iter().map(move |point| (point.at_ns as f64, bytes(point) as f64));
            let places = places.map(|(at, bytes)| (x.place(at), y.place(bytes)));
            LineSeries::new(places.collect::<Vec<_>>(), colour.stroke_width(4))
        };
        plot.draw_series(line(|point| point.prefetched_bytes, palette::PREFETCH))?;
        plot.draw_series(line(|point| point.main_bytes, palette::MAIN))?;
        Ok(())
    });
    Chart {
        name: "positions",
        title: TITLE,
        caption: "The steeper, the faster. Where the two lines meet, nothing is read ahead.",
        svg,
        time: None,
    }
}

fn distances(readings: &[&RunReading], elapsed: u64) -> Chart {
    const TITLE: &str = "Distance of the prefetcher from the program";
    let distance = |point: &RunPoint| point.prefetched_bytes.saturating_sub(point.main_bytes);
    let y = |reading: &RunReading| Axis::sizes("distance", reading.points.iter().map(distance));
    let keys = vec![Key { label: "distance", colour: palette::PREFETCH }, stall()];
    let svg = draw("distance", TITLE, keys, readings, elapsed, &y, |reading, x, y, plot| {
        let places =
            reading.points.iter().map(|point| (x.place(point.at_ns as f64), y.place(distance(point) as f64)));
        plot.draw_series(LineSeries::new(places, palette::PREFETCH.stroke_width(4)))?;
        Ok(())
    });
    Chart {
        name: "distance",
        title: TITLE,
        caption: "What lies ahead of the program in memory, or is on its way there. It grows while the program waits.",
        svg,
        time: None,
    }
}

/// A panel for each reading, over the stalls of it.
fn draw(
    name: &'static str,
    title: &'static str,
    keys: Vec<Key>,
    readings: &[&RunReading],
    elapsed: u64,
    y: &dyn Fn(&RunReading) -> Axis,
    data: impl Fn(&RunReading, &Axis, &Axis, &mut Plot<'_>) -> Drawn,
) -> String {
    let last = readings.iter().filter_map(|reading| reading.points.last()).map(|point| point.at_ns).max();
    let x = Axis::time("time", 0, last.unwrap_or(0).max(elapsed));
    let panel = |reading: &&RunReading| PanelFrame {
        name: match reading.files {
            0 | 1 => short(&reading.name, 80),
            files => format!("{} and {} more", short(&reading.name, 80), count(files - 1)),
        },
        x: x.clone(),
        y: y(reading),
        height: if readings.len() > 1 { 260 } else { 420 },
    };
    let frame = Frame { name, title, keys, panels: readings.iter().map(panel).collect(), left: LEFT };
    frame.draw(|index, plot| {
        let reading = readings[index];
        stalls(reading, &x, plot)?;
        data(reading, &x, &frame.panels[index].y, plot)
    })
}

fn stalls(reading: &RunReading, x: &Axis, plot: &mut Plot<'_>) -> Drawn {
    let band = |(from, to): (u64, u64)| {
        let (from, to) = (x.place(from as f64), x.place(to as f64));
        Rectangle::new([(from, 0.0), (to, 1.0)], palette::STALL.filled())
    };
    plot.draw_series(stalled(&reading.points).into_iter().map(band))?;
    Ok(())
}

/// From when to when the program mostly waited. Stretches that follow each other are one, or seams would show.
fn stalled(points: &[RunPoint]) -> Vec<(u64, u64)> {
    let mut bands: Vec<(u64, u64)> = Vec::new();
    for pair in points.windows(2) {
        let (from, to) = (pair[0].at_ns, pair[1].at_ns);
        let time = to.saturating_sub(from) as f64;
        let is_stall =
            pair[1].io_wait_ns.saturating_sub(pair[0].io_wait_ns) as f64 > STALL * time && time > 0.0;
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
