//! What the reads met in the cache, chunk by chunk.

use sakiyomi_model::ReadClass;

use super::{Kind, Quantity, Side, TimeChart, palette, panels};
use crate::label;

/// The reads' classes as shares.
pub(super) fn hits(sides: &[Side<'_>]) -> TimeChart {
    TimeChart {
        name: "hits",
        kind: Kind::ShareOfCounts,
        panels: panels(sides, &reads()),
        title: "What the reads met in the cache",
        caption: "Blue is hit, warm colours are misses. A gap is a chunk without reads.",
        y_title: "share of the reads",
    }
}

/// The same as counts, with the writes on top.
pub(super) fn commands(sides: &[Side<'_>]) -> TimeChart {
    let mut quantities = reads().to_vec();
    quantities.push(Quantity::new("write", palette::WRITE, |chunk| Some(chunk.writes)));
    TimeChart {
        name: "commands",
        kind: Kind::Counts,
        panels: panels(sides, &quantities),
        title: "Commands",
        caption: "How much the host asked for, and when.",
        y_title: "commands in a chunk",
    }
}

fn reads() -> [Quantity; 5] {
    let quantity = |class, of| Quantity::new(label::read(class), palette::read(class), of);
    [
        quantity(ReadClass::FullHit, |chunk| Some(chunk.read_counts.full_hits)),
        quantity(ReadClass::ActiveHit, |chunk| Some(chunk.read_counts.active_hits)),
        quantity(ReadClass::NearMiss, |chunk| Some(chunk.read_counts.near_misses)),
        quantity(ReadClass::PurgedMiss, |chunk| Some(chunk.read_counts.purged_misses)),
        quantity(ReadClass::PureMiss, |chunk| Some(chunk.read_counts.pure_misses)),
    ]
}
