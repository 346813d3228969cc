//! Response and waiting times of commands, chunk by chunk.

use super::{Side, of_sides};
use crate::chart::over_time::{Join, Kind, Quantity, TimeChart};
use crate::chart::palette;
use crate::result::ChunkPoint;

/// Returns the chart of mean, 99th percentile and maximum.
pub(super) fn times(sides: &[Side<'_>]) -> TimeChart {
    let quantities = [
        Quantity::new("longest", palette::LONGEST, Join::Max, |chunk| answered(chunk, chunk.response_ns.max)),
        Quantity::new("p99", palette::P99, Join::Max, |chunk| answered(chunk, chunk.response_ns.p99)),
        Quantity::new("mean", palette::MEAN, Join::Mean, |chunk| answered(chunk, chunk.response_ns.mean))
            .weighed(|chunk| chunk.commands as f64),
    ];
    TimeChart {
        name: "response",
        kind: Kind::Times,
        title: "Response time",
        caption: "The mean can fall while the longest responses grow: a long read-ahead delays other commands.",
        y_title: "response, log scale",
        ..of_sides(sides, &quantities)
    }
}

fn answered(chunk: &ChunkPoint, ns: u64) -> Option<f64> {
    (chunk.commands > 0).then_some(ns as f64)
}

/// Returns the chart of the number of commands that waited in front of the device.
pub(super) fn backlog(sides: &[Side<'_>]) -> TimeChart {
    let quantities =
        [Quantity::new("most waiting at once", palette::BACKLOG, Join::Max, |chunk: &ChunkPoint| {
            Some(chunk.backlog_max as f64)
        })];
    TimeChart {
        name: "backlog",
        kind: Kind::Counts,
        title: "Host's queue",
        caption: "Commands that waited in the host because the device's queue was full.",
        y_title: "commands waiting",
        ..of_sides(sides, &quantities)
    }
}
