//! How far a simulated drive is from a measured one: the distributions, how far apart they lie, and single requests.

use plotters::prelude::*;

use super::axis::Axis;
use super::frame::{Frame, Key, LEFT, PanelFrame};
use super::{Chart, palette};
use crate::schema::{ErrorBin, QuantilePoint, ValidateResult};

/// One of the two replays.
struct Replay {
    name: &'static str,
    colour: RGBColor,
    time_ns: fn(&QuantilePoint) -> u64,
    off: fn(&ErrorBin) -> u64,
}

const REPLAYS: [Replay; 2] = [
    Replay { name: "free", colour: palette::FREE, time_ns: |point| point.free_ns, off: |bin| bin.free },
    Replay {
        name: "anchored",
        colour: palette::ANCHORED,
        time_ns: |point| point.anchored_ns,
        off: |bin| bin.anchored,
    },
];

pub(super) fn charts(result: &ValidateResult) -> Vec<Chart> {
    vec![
        distributions(&result.quantile_curve),
        distance(&result.quantile_curve),
        errors(&result.error_histogram),
    ]
}

/// Measured and simulated times, cumulative.
fn distributions(curve: &[QuantilePoint]) -> Chart {
    const TITLE: &str = "Measured and simulated response times";
    let times = curve.iter().flat_map(|point| [point.measured_ns, point.free_ns, point.anchored_ns]);
    let x = Axis::log_spans("response, log scale", times.map(|ns| ns as f64));
    let y = Axis::shares("share of the requests that took no longer");
    let mut keys = vec![Key { label: "measured", colour: palette::MEASURED }];
    keys.extend(replay_keys());
    let frame = Frame {
        name: "distributions",
        title: TITLE,
        keys,
        panels: vec![PanelFrame { name: String::new(), x: x.clone(), y: y.clone(), height: 520 }],
        left: LEFT,
    };
    let svg = frame.draw(|_, plot| {
        let line = |ns: fn(&QuantilePoint) -> u64, style: ShapeStyle| {
            let places = curve.iter().map(move |point| (ns(point) as f64, point.share_ratio));
            LineSeries::new(places.map(|(ns, share)| (x.place(ns), y.place(share))), style)
        };
        // The measured one lies wide below the others, so that it can be seen where they meet it.
        plot.draw_series(line(|point| point.measured_ns, palette::MEASURED.stroke_width(11)))?;
        for replay in &REPLAYS {
            plot.draw_series(line(replay.time_ns, replay.colour.stroke_width(4)))?;
        }
        Ok(())
    });
    Chart {
        name: "distributions",
        title: TITLE,
        caption: "The demerit is the root mean square of the horizontal distance between the measured curve and a \
                  simulated one.",
        svg,
        time: None,
    }
}

/// How far the simulated curves lie from the measured one, share by share.
fn distance(curve: &[QuantilePoint]) -> Chart {
    const TITLE: &str = "Distance of the distributions";
    let off =
        |point: &QuantilePoint, replay: &Replay| (replay.time_ns)(point) as f64 - point.measured_ns as f64;
    let middle = curve.iter().filter(|point| (0.01..=0.99).contains(&point.share_ratio));
    let seen = middle.flat_map(|point| REPLAYS.iter().map(move |replay| off(point, replay)));
    let x = Axis::shares("share of the requests");
    let y = Axis::signed_spans("simulated less measured", seen);
    let frame = Frame {
        name: "distance",
        title: TITLE,
        keys: replay_keys().collect(),
        panels: vec![PanelFrame { name: String::new(), x: x.clone(), y: y.clone(), height: 360 }],
        left: LEFT,
    };
    let svg = frame.draw(|_, plot| {
        for replay in &REPLAYS {
            let places = curve.iter().map(|point| (x.place(point.share_ratio), y.place(off(point, replay))));
            plot.draw_series(LineSeries::new(places, replay.colour.stroke_width(4)))?;
        }
        Ok(())
    });
    Chart {
        name: "distance",
        title: TITLE,
        caption: "Below zero the simulation is too fast, above it too slow. A step or bump at one place is a kind of \
                  request that is modelled badly. The scale is that of the middle 98 %; what lies further off is \
                  drawn at the edge.",
        svg,
        time: None,
    }
}

/// How far single requests are off.
fn errors(bins: &[ErrorBin]) -> Chart {
    const TITLE: &str = "Errors of single requests";
    let x = Axis::signed_spans(
        "simulated less measured, what lies beyond is at the edges",
        bins.iter().flat_map(|bin| [bin.from_ns as f64, bin.to_ns as f64]),
    );
    let highest = bins.iter().map(|bin| bin.free.max(bin.anchored)).max().unwrap_or_default();
    let y = Axis::counts("requests in a bin", highest as f64);
    let panel = |replay: &Replay| PanelFrame {
        name: replay.name.to_owned(),
        x: x.clone(),
        y: y.clone(),
        height: 260,
    };
    let frame = Frame {
        name: "errors",
        title: TITLE,
        keys: Vec::new(),
        panels: REPLAYS.iter().map(panel).collect(),
        left: LEFT,
    };
    let svg = frame.draw(|index, plot| {
        let replay = &REPLAYS[index];
        let filled = bins.iter().filter(|bin| (replay.off)(bin) > 0);
        plot.draw_series(filled.map(|bin| {
            let low = (x.place(bin.from_ns as f64), y.place(0.0));
            let high = (x.place(bin.to_ns as f64), y.place((replay.off)(bin) as f64));
            Rectangle::new([low, high], replay.colour.filled())
        }))?;
        Ok(())
    });
    Chart {
        name: "errors",
        title: TITLE,
        caption: "A hump beside zero, a revolution away, is of requests that just miss their sector in the simulation \
                  or on the drive. In a free replay the platter's phase drifts from the drive's, and the errors \
                  spread over a revolution.",
        svg,
        time: None,
    }
}

fn replay_keys() -> impl Iterator<Item = Key> {
    REPLAYS.iter().map(|replay| Key { label: replay.name, colour: replay.colour })
}
