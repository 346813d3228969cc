//! Charts of a mounted drive over time: throughput, accesses, responses, and utilization.

use crate::chart::over_time::{Join, Kind, Panel, Quantity, TimeChart, TimeRange};
use crate::chart::{Chart, palette};
use crate::result::MountWindow;

/// Returns the charts; empty if the mount did not last a second.
pub(crate) fn charts(windows: &[MountWindow]) -> Vec<Chart> {
    if windows.is_empty() {
        return Vec::new();
    }
    let any = |has: fn(&MountWindow) -> bool| windows.iter().any(has);
    let mut charts = vec![throughput(windows), accesses(windows), response(windows)];
    if any(|window| window.busy_ns.is_some()) {
        charts.push(shares(windows));
    }
    charts.push(in_flight(windows));
    if any(|window| window.accuracy_ratio.is_some()) {
        charts.push(accuracy(windows));
    }
    charts.into_iter().map(TimeChart::draw).collect()
}

fn throughput(windows: &[MountWindow]) -> TimeChart {
    let quantities = [
        Quantity::new("read", palette::READ, Join::MeanOverTime, |window| {
            per_second(window, window.read_bytes)
        }),
        Quantity::new("written", palette::WRITE, Join::MeanOverTime, |window| {
            per_second(window, window.written_bytes)
        }),
    ];
    TimeChart {
        name: "throughput",
        kind: Kind::BytesPerSecond,
        title: "Throughput",
        caption: "Data that programs read from the drive and wrote to it, without what the page cache served.",
        ..over(windows, &quantities)
    }
}

fn accesses(windows: &[MountWindow]) -> TimeChart {
    let quantities =
        [Quantity::new("accesses", palette::MEAN, Join::MeanOverTime, |window: &MountWindow| {
            per_second(window, window.accesses)
        })];
    TimeChart {
        name: "accesses",
        kind: Kind::PerSecond,
        title: "Accesses",
        caption: "Completed reads, writes and flushes.",
        y_title: "a second",
        ..over(windows, &quantities)
    }
}

fn response(windows: &[MountWindow]) -> TimeChart {
    let quantity = Quantity::new("mean response", palette::MEAN, Join::Mean, |window: &MountWindow| {
        window.response_mean_ns.map(|ns| ns as f64)
    });
    TimeChart {
        name: "response",
        kind: Kind::Times,
        title: "Response time",
        caption: "Time from the arrival of an access to its reply. A gap is a time without accesses.",
        y_title: "response, log scale",
        ..over(windows, &[quantity.weighed(|window| window.accesses as f64)])
    }
}

/// Returns the chart of shares, with the hit rate only if some read has a class: a device without a cache has neither
/// hits nor misses.
fn shares(windows: &[MountWindow]) -> TimeChart {
    let busy = Quantity::new("drive busy", palette::MEAN, Join::MeanOverTime, |window: &MountWindow| {
        let length = window.end_ns.saturating_sub(window.start_ns) as f64;
        window.busy_ns.filter(|_| length > 0.0).map(|busy| (busy as f64 / length).min(1.0))
    });
    let hits =
        Quantity::new("hit rate of its reads", palette::PREFETCH, Join::Mean, |window: &MountWindow| {
            (window.reads > 0).then(|| window.hits as f64 / window.reads as f64)
        });
    let hits = hits.weighed(|window| window.reads as f64);
    let (quantities, title, caption) = if windows.iter().all(|window| window.reads == 0) {
        (vec![busy], "Utilization of the drive", "At 100 %, the drive is saturated.")
    } else {
        let caption = "At 100 %, the drive is saturated. A hit needs no positioning of the head.";
        (vec![hits, busy], "Utilization of the drive, and its cache", caption)
    };
    TimeChart { name: "busy", kind: Kind::Ratios, title, caption, ..over(windows, &quantities) }
}

fn in_flight(windows: &[MountWindow]) -> TimeChart {
    let quantities = [Quantity::new("in flight", palette::BACKLOG, Join::Max, |window: &MountWindow| {
        Some(window.in_flight_max as f64)
    })];
    TimeChart {
        name: "in-flight",
        kind: Kind::Counts,
        title: "Accesses in flight",
        caption: "Sampled at the end of each second.",
        y_title: "accesses",
        ..over(windows, &quantities)
    }
}

fn accuracy(windows: &[MountWindow]) -> TimeChart {
    let quantity =
        Quantity::new("actual over ideal time", palette::MEAN, Join::Mean, |window: &MountWindow| {
            window.accuracy_ratio
        });
    TimeChart {
        name: "accuracy",
        kind: Kind::Accuracies,
        title: "Accuracy of rates",
        caption: "The mean of all I/Os of owners with a rate: 1 is exact, and up to 1.1 is good.",
        y_title: "actual over ideal time",
        ..over(windows, &[quantity.weighed(|window| window.rated_ios as f64)])
    }
}

fn per_second(window: &MountWindow, count: u64) -> Option<f64> {
    let length = window.end_ns.saturating_sub(window.start_ns) as f64 / 1e9;
    (length > 0.0).then(|| count as f64 / length)
}

fn over(windows: &[MountWindow], quantities: &[Quantity<MountWindow>]) -> TimeChart {
    let spans = || windows.iter().map(|window| (window.start_ns, window.end_ns));
    TimeChart {
        name: "",
        kind: Kind::Counts,
        range: TimeRange::of(spans()),
        panels: vec![Panel {
            name: String::new(),
            layers: quantities.iter().map(|quantity| quantity.layer(windows)).collect(),
            spans: spans().collect(),
            bands: Vec::new(),
        }],
        title: "",
        caption: "",
        x_title: "the drive's time since the mount",
        y_title: "",
        spans_are: "seconds",
        bands_are: "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_classes_no_read_has_no_hit_rate() {
        let of = |reads| {
            let window =
                MountWindow { end_ns: 1_000_000_000, busy_ns: Some(5), reads, ..MountWindow::default() };
            let chart = shares(&[window]);
            let labels: Vec<String> =
                chart.panels[0].layers.iter().map(|layer| layer.label.clone()).collect();
            (labels.join(", "), chart.caption.contains("hit"))
        };
        assert_eq!(of(0), ("drive busy".to_owned(), false));
        assert_eq!(of(1).0, "hit rate of its reads, drive busy");
    }
}
