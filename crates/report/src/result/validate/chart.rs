//! Charts of a simulated drive compared with a measured one: the distributions, their distance, and single requests.

use crate::chart::axis::Axis;
use crate::chart::frame::{Frame, Key, PanelFrame};
use crate::chart::palette::Color;
use crate::chart::plot::{Plot, Stroke};
use crate::chart::{Chart, palette};
use crate::number::{count, signed_duration};
use crate::result::{ErrorBin, QuantilePoint, ValidateResult};

/// One of the two replays.
struct Replay {
    name: &'static str,
    color: Color,
    time_ns: fn(&QuantilePoint) -> u64,
    off: fn(&ErrorBin) -> u64,
}

const REPLAYS: [Replay; 2] = [
    Replay { name: "free", color: palette::FREE, time_ns: |point| point.free_ns, off: |bin| bin.free },
    Replay {
        name: "anchored",
        color: palette::ANCHORED,
        time_ns: |point| point.anchored_ns,
        off: |bin| bin.anchored,
    },
];

/// Returns the charts; empty if no request was judged.
pub(crate) fn charts(result: &ValidateResult) -> Vec<Chart> {
    if result.judged == 0 {
        return Vec::new();
    }
    vec![
        distributions(&result.quantile_curve),
        distance(&result.quantile_curve),
        errors(&result.error_histogram),
    ]
}

/// Returns the chart of measured and simulated times, cumulative.
fn distributions(curve: &[QuantilePoint]) -> Chart {
    const MEASURED: &str = "measured";
    let times = curve.iter().flat_map(|point| [point.measured_ns, point.free_ns, point.anchored_ns]);
    let x = Axis::log_spans("response, log scale", times.map(|ns| ns as f64));
    let y = Axis::shares("share of the requests that took no longer");
    let mut keys = vec![Key::line(MEASURED, palette::MEASURED)];
    keys.extend(replay_keys());
    let frame = Frame {
        name: "distributions",
        title: "Measured and simulated response times",
        keys,
        panels: vec![PanelFrame { name: String::new(), x: x.clone(), y: y.clone(), height: 480 }],
        beside: Vec::new(),
    };
    let drawing = frame.draw(|_, plot| {
        let line = |ns: fn(&QuantilePoint) -> u64, stroke: Stroke, title: &str, plot: &mut Plot<'_>| {
            let places = curve.iter().map(move |point| (ns(point) as f64, point.share_ratio));
            plot.line(places.map(|(ns, share)| (x.place(ns), y.place(share))), stroke, title);
        };
        // The measured one is a wide line below the others, so that it is visible where they coincide.
        line(|point| point.measured_ns, Stroke::new(palette::MEASURED, 11), MEASURED, plot);
        for replay in &REPLAYS {
            line(replay.time_ns, Stroke::new(replay.color, 4), replay.name, plot);
        }
    });
    Chart::new(
        &frame,
        "The demerit is the root mean square of the horizontal distance between the measured curve and a simulated one.",
        drawing,
    )
}

/// Returns the chart of the distance of the simulated curves from the measured one, by share.
fn distance(curve: &[QuantilePoint]) -> Chart {
    let off =
        |point: &QuantilePoint, replay: &Replay| (replay.time_ns)(point) as f64 - point.measured_ns as f64;
    let middle = curve.iter().filter(|point| (0.01..=0.99).contains(&point.share_ratio));
    let seen = middle.flat_map(|point| REPLAYS.iter().map(move |replay| off(point, replay)));
    let x = Axis::shares("share of the requests");
    let y = Axis::signed_spans("simulated minus measured", seen);
    let frame = Frame {
        name: "distance",
        title: "Distance of the distributions",
        keys: replay_keys().collect(),
        panels: vec![PanelFrame { name: String::new(), x: x.clone(), y: y.clone(), height: 360 }],
        beside: Vec::new(),
    };
    let drawing = frame.draw(|_, plot| {
        for replay in &REPLAYS {
            let places = curve.iter().map(|point| (x.place(point.share_ratio), y.place(off(point, replay))));
            plot.line(places, Stroke::new(replay.color, 4), replay.name);
        }
    });
    Chart::new(
        &frame,
        "Below zero, the simulation is too fast, above it too slow. A local step or bump is a class of \
         requests that is modeled badly. The scale is that of the middle 98 %; values beyond it are \
         drawn at the edge.",
        drawing,
    )
}

/// Returns the chart of the errors of single requests.
fn errors(bins: &[ErrorBin]) -> Chart {
    let x = Axis::signed_spans(
        "simulated minus measured, values beyond at the edges",
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
        title: "Errors of single requests",
        keys: replay_keys().map(|key| Key::area(key.label, key.color)).collect(),
        panels: REPLAYS.iter().map(panel).collect(),
        beside: Vec::new(),
    };
    let drawing = frame.draw(|index, plot| {
        let replay = &REPLAYS[index];
        for bin in bins.iter().filter(|bin| (replay.off)(bin) > 0) {
            let low = (x.place(bin.from_ns as f64), y.place(0.0));
            let high = (x.place(bin.to_ns as f64), y.place((replay.off)(bin) as f64));
            let words = format!(
                "{}, {} to {}: {} requests",
                replay.name,
                signed_duration(bin.from_ns),
                signed_duration(bin.to_ns),
                count((replay.off)(bin))
            );
            plot.rectangle([low, high], replay.color, &words);
        }
    });
    Chart::new(
        &frame,
        "A peak one revolution away from zero has requests that just miss their sector in the simulation \
         or on the drive. In a free replay, the phase of the platter drifts from the drive's, and errors \
         spread over a revolution.",
        drawing,
    )
}

fn replay_keys() -> impl Iterator<Item = Key> {
    REPLAYS.iter().map(|replay| Key::line(replay.name, replay.color))
}
