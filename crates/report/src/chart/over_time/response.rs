//! How long commands took and waited, chunk by chunk.

use super::{Kind, Quantity, Side, TimeChart, palette, panels};
use crate::schema::ChunkPoint;

/// Mean, 99th percentile and maximum.
pub(super) fn times(sides: &[Side<'_>]) -> TimeChart {
    let quantities = [
        Quantity::new("longest", palette::LONGEST, |chunk| answered(chunk, chunk.response_ns.max)),
        Quantity::new("p99", palette::P99, |chunk| answered(chunk, chunk.response_ns.p99)),
        Quantity::new("mean", palette::MEAN, |chunk| answered(chunk, chunk.response_ns.mean)),
    ];
    TimeChart {
        name: "response",
        kind: Kind::Times,
        panels: panels(sides, &quantities),
        title: "Response time",
        caption: "The mean can fall while the longest responses grow: a long read-ahead keeps the disk from others.",
        y_title: "response, log scale",
    }
}

fn answered(chunk: &ChunkPoint, ns: u64) -> Option<u64> {
    (chunk.commands > 0).then_some(ns)
}

/// How many commands waited in front of the device.
pub(super) fn backlog(sides: &[Side<'_>]) -> TimeChart {
    let quantities =
        [Quantity::new("most waiting at once", palette::BACKLOG, |chunk| Some(chunk.backlog_max))];
    TimeChart {
        name: "backlog",
        kind: Kind::Counts,
        panels: panels(sides, &quantities),
        title: "Host's queue",
        caption: "Commands that waited because the device's own queue was full.",
        y_title: "commands waiting",
    }
}
