//! Charts of a regulated device over the observed time: its users, and the accuracy of their rates.

use crate::chart::Chart;
use crate::chart::over_time::{Join, Kind, Layer, Panel, TimeChart, TimeRange};
use crate::chart::palette::{self, Color};
use crate::result::{IorateOwner, TopResult, TopShare, TopWindow};

/// Maximum owners that are drawn individually: those with the most I/Os.
const OWNERS_MAX: usize = 7;

/// Returns the charts; empty if there was only one sample.
pub(crate) fn charts(result: &TopResult) -> Vec<Chart> {
    if result.windows.is_empty() {
        return Vec::new();
    }
    let drawn = drawn(result);
    let mut charts = vec![ios(result, &drawn)];
    charts.extend(accuracy(result, &drawn));
    if result.windows.iter().any(|window| window.busy_ns.is_some()) {
        charts.push(busy(result));
    }
    charts.push(queue(result));
    charts.into_iter().map(TimeChart::draw).collect()
}

/// Returns the owners to draw: those with a rate first, then the most active.
fn drawn(result: &TopResult) -> Vec<&IorateOwner> {
    let ios = |owner: &IorateOwner| -> u64 {
        let shares = result.windows.iter().filter_map(|window| window.share(owner.number));
        shares.fold(0, |sum, share| sum.saturating_add(share.ios))
    };
    let mut owners: Vec<&IorateOwner> = result.owners.iter().collect();
    owners.sort_by_key(|owner| (!owner.has_rate(), std::cmp::Reverse(ios(owner))));
    owners.truncate(OWNERS_MAX);
    owners
}

fn name(owner: &IorateOwner) -> String {
    let rate = owner.rate_percent.map_or_else(String::new, |percent| format!(", {percent} %"));
    format!("{}{rate}", owner.who())
}

/// Returns the chart of I/Os per second, by owner.
fn ios(result: &TopResult, drawn: &[&IorateOwner]) -> TimeChart {
    let per_second = |window: &TopWindow, ios: u64| {
        let length = window.end_ns.saturating_sub(window.start_ns) as f64 / 1e9;
        (length > 0.0).then(|| ios as f64 / length)
    };
    let mut layers: Vec<Layer> = layers(result, drawn, Join::MeanOverTime, |window, share| {
        per_second(window, share.map_or(0, |share| share.ios))
    });
    let others = |window: &TopWindow| {
        let is_drawn = |share: &&TopShare| drawn.iter().any(|owner| owner.number == share.number);
        let named = window.owners.iter().filter(|share| !is_drawn(share));
        named.fold(window.others_ios, |sum, share| sum.saturating_add(share.ios))
    };
    if result.windows.iter().any(|window| others(window) > 0) {
        let values = result.windows.iter().map(|window| per_second(window, others(window)));
        layers.push(layer("others".to_owned(), palette::BEATEN, values.collect(), Join::MeanOverTime));
    }
    TimeChart {
        name: "ios",
        kind: Kind::PerSecond,
        title: "I/Os by process",
        caption: "Processes with a rate are at the bottom.",
        y_title: "I/Os per second",
        ..over(result, layers)
    }
}

/// Returns the chart of the accuracy of the rates; `None` if no owner had a rate.
fn accuracy(result: &TopResult, drawn: &[&IorateOwner]) -> Option<TimeChart> {
    let rated: Vec<&IorateOwner> = drawn.iter().copied().filter(|owner| owner.has_rate()).collect();
    let layers = layers(result, &rated, Join::MeanOverTime, |_, share| share?.accuracy_ratio);
    let has_any = layers.iter().any(|layer| layer.values.iter().any(Option::is_some));
    has_any.then(|| TimeChart {
        name: "accuracy",
        kind: Kind::Accuracies,
        title: "Accuracy of rates",
        caption: "The mean of the last I/Os' actual over ideal time: 1 is exact, and up to 1.1 is good.",
        y_title: "actual over ideal time",
        ..over(result, layers)
    })
}

fn busy(result: &TopResult) -> TimeChart {
    let share = |window: &TopWindow| {
        let length = window.end_ns.saturating_sub(window.start_ns) as f64;
        window.busy_ns.filter(|_| length > 0.0).map(|busy| (busy as f64 / length).min(1.0))
    };
    let values = result.windows.iter().map(share).collect();
    TimeChart {
        name: "busy",
        kind: Kind::Ratios,
        title: "Utilization of the device",
        caption: "At 100 %, it is saturated.",
        ..over(result, vec![layer("busy".to_owned(), palette::MEAN, values, Join::MeanOverTime)])
    }
}

fn queue(result: &TopResult) -> TimeChart {
    let values =
        |of: fn(&TopWindow) -> u64| result.windows.iter().map(|window| Some(of(window) as f64)).collect();
    let layers = vec![
        layer("in the device".to_owned(), palette::MEAN, values(|window| window.in_device_max), Join::Max),
        layer(
            "waiting for admission".to_owned(),
            palette::BACKLOG,
            values(|window| window.waiting_max),
            Join::Max,
        ),
    ];
    TimeChart {
        name: "queue",
        kind: Kind::Counts,
        title: "Requests in the device and before it",
        caption: "Sampled at each update. The regulator delays requests so that those with a rate complete in time.",
        y_title: "requests",
        ..over(result, layers)
    }
}

fn layers(
    result: &TopResult,
    owners: &[&IorateOwner],
    join: Join,
    of: impl Fn(&TopWindow, Option<&TopShare>) -> Option<f64>,
) -> Vec<Layer> {
    let layer = |(index, owner): (usize, &&IorateOwner)| {
        let values = result.windows.iter().map(|window| of(window, window.share(owner.number)));
        layer(name(owner), palette::series(index), values.collect(), join)
    };
    owners.iter().enumerate().map(layer).collect()
}

fn layer(label: String, color: Color, values: Vec<Option<f64>>, join: Join) -> Layer {
    Layer { label, color, values, join, weights: Vec::new() }
}

fn over(result: &TopResult, layers: Vec<Layer>) -> TimeChart {
    let spans = || result.windows.iter().map(|window| (window.start_ns, window.end_ns));
    TimeChart {
        name: "",
        kind: Kind::Counts,
        range: TimeRange::of(spans()),
        panels: vec![Panel { name: String::new(), layers, spans: spans().collect(), bands: Vec::new() }],
        title: "",
        caption: "",
        x_title: "the device's time since the mount",
        y_title: "",
        spans_are: "looks",
        bands_are: "",
    }
}
