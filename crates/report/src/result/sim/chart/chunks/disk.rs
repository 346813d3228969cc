//! The disk's activity, chunk by chunk.

use super::{Side, of_sides};
use crate::chart::over_time::{Join, Kind, Quantity, TimeChart};
use crate::chart::palette;
use crate::result::ChunkPoint;

/// Returns the chart of the number of positionings of the head.
pub(super) fn seeks(sides: &[Side<'_>]) -> TimeChart {
    let quantity =
        |label, color, of: fn(&ChunkPoint) -> Option<f64>| Quantity::new(label, color, Join::Mean, of);
    let quantities = [
        quantity("read", palette::READ_SEEK, |chunk| Some(chunk.seeks.read as f64)),
        quantity("read near miss", palette::READ_NEAR_MISS_SEEK, |chunk| {
            Some(chunk.seeks.read_near_miss as f64)
        }),
        quantity("write", palette::WRITE_SEEK, |chunk| Some(chunk.seeks.write as f64)),
    ];
    TimeChart {
        name: "seeks",
        kind: Kind::Counts,
        title: "Seeks",
        caption: "A longer read-ahead would avoid the seeks of near misses.",
        y_title: "seeks in a chunk",
        ..of_sides(sides, &quantities)
    }
}

/// Returns the chart of the disk's time by activity.
pub(super) fn time(sides: &[Side<'_>]) -> TimeChart {
    let quantity =
        |label, color, of: fn(&ChunkPoint) -> Option<f64>| Quantity::new(label, color, Join::Sum, of);
    let quantities = [
        quantity("read seek", palette::READ_SEEK, |chunk| Some(chunk.disk_time_ns.read_seek as f64)),
        quantity("read data", palette::READ_DATA, |chunk| Some(chunk.disk_time_ns.read_data as f64)),
        quantity("write seek", palette::WRITE_SEEK, |chunk| Some(chunk.disk_time_ns.write_seek as f64)),
        quantity("write data", palette::WRITE_DATA, |chunk| Some(chunk.disk_time_ns.write_data as f64)),
        quantity("idle", palette::IDLE, |chunk| Some(chunk.disk_time_ns.idle as f64)),
    ];
    TimeChart {
        name: "disk-time",
        kind: Kind::ShareOfTime,
        title: "Disk time",
        caption: "A seek includes the rotational latency. Where no gray is left, the disk is the \
                  bottleneck.",
        y_title: "share of the time",
        ..of_sides(sides, &quantities)
    }
}
