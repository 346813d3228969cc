//! The outcome of reads in the cache, chunk by chunk.

use sakiyomi_model::ReadClass;

use super::{Side, of_sides};
use crate::chart::over_time::{Join, Kind, Quantity, TimeChart};
use crate::chart::palette;
use crate::label;
use crate::result::ChunkPoint;

/// Returns the chart of the reads' classes as shares.
pub(super) fn hits(sides: &[Side<'_>]) -> TimeChart {
    TimeChart {
        name: "hits",
        kind: Kind::ShareOfCounts,
        title: "Cache hits and misses of reads",
        caption: "Blue: hits; warm colors: misses. A gap is a time without reads.",
        y_title: "share of the reads",
        ..of_sides(sides, &reads(Join::Sum))
    }
}

/// Returns the chart of the reads' classes as counts, with the writes on top.
pub(super) fn commands(sides: &[Side<'_>]) -> TimeChart {
    let mut quantities = reads(Join::Mean).to_vec();
    quantities.push(Quantity::new("write", palette::WRITE, Join::Mean, |chunk| Some(chunk.writes as f64)));
    TimeChart {
        name: "commands",
        kind: Kind::Counts,
        title: "Commands",
        caption: "Number of commands over time.",
        y_title: "commands in a chunk",
        ..of_sides(sides, &quantities)
    }
}

fn reads(join: Join) -> [Quantity<ChunkPoint>; 5] {
    let quantity = |class, of: fn(&ChunkPoint) -> Option<f64>| {
        Quantity::new(label::read(class), palette::read(class), join, of)
    };
    [
        quantity(ReadClass::FullHit, |chunk| Some(chunk.read_counts.full_hits as f64)),
        quantity(ReadClass::ActiveHit, |chunk| Some(chunk.read_counts.active_hits as f64)),
        quantity(ReadClass::NearMiss, |chunk| Some(chunk.read_counts.near_misses as f64)),
        quantity(ReadClass::PurgedMiss, |chunk| Some(chunk.read_counts.purged_misses as f64)),
        quantity(ReadClass::PureMiss, |chunk| Some(chunk.read_counts.pure_misses as f64)),
    ]
}
