//! What the disk did, chunk by chunk.

use super::{Kind, Quantity, Side, TimeChart, palette, panels};

/// How often the head was positioned.
pub(super) fn seeks(sides: &[Side<'_>]) -> TimeChart {
    let quantities = [
        Quantity::new("read", palette::READ_SEEK, |chunk| Some(chunk.seeks.read)),
        Quantity::new("read near miss", palette::READ_NEAR_MISS_SEEK, |chunk| {
            Some(chunk.seeks.read_near_miss)
        }),
        Quantity::new("write", palette::WRITE_SEEK, |chunk| Some(chunk.seeks.write)),
    ];
    TimeChart {
        name: "seeks",
        kind: Kind::Counts,
        panels: panels(sides, &quantities),
        title: "Seeks",
        caption: "Seeks for near misses are those that a longer read-ahead would spare.",
        y_title: "seeks in a chunk",
    }
}

/// What its time went into.
pub(super) fn time(sides: &[Side<'_>]) -> TimeChart {
    let quantities = [
        Quantity::new("read seek", palette::READ_SEEK, |chunk| Some(chunk.disk_time_ns.read_seek)),
        Quantity::new("read data", palette::READ_DATA, |chunk| Some(chunk.disk_time_ns.read_data)),
        Quantity::new("write seek", palette::WRITE_SEEK, |chunk| Some(chunk.disk_time_ns.write_seek)),
        Quantity::new("write data", palette::WRITE_DATA, |chunk| Some(chunk.disk_time_ns.write_data)),
        Quantity::new("idle", palette::IDLE, |chunk| Some(chunk.disk_time_ns.idle)),
    ];
    TimeChart {
        name: "disk-time",
        kind: Kind::ShareOfTime,
        panels: panels(sides, &quantities),
        title: "Disk time",
        caption: "A seek lasts until the head has arrived: arm movement and rotational wait. Where there is no grey \
                  left, the disk is the bottleneck.",
        y_title: "share of the time",
    }
}
