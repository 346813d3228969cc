//! Charts over the simulated time, chunk by chunk.

mod cache;
mod disk;
mod response;

use super::Side;
use crate::chart::Chart;
use crate::chart::over_time::{Kind, Panel, Quantity, TimeChart, TimeRange};
use crate::result::ChunkPoint;

/// Returns all charts over the time of a simulation, in the order of the page.
pub(crate) fn charts(sides: &[Side<'_>]) -> Vec<Chart> {
    let mut charts =
        vec![cache::hits(sides), cache::commands(sides), disk::seeks(sides), response::times(sides)];
    if sides.iter().any(|side| side.result.chunks.iter().any(|chunk| chunk.backlog_max > 0)) {
        charts.push(response::backlog(sides));
    }
    charts.push(disk::time(sides));
    charts.into_iter().map(TimeChart::draw).collect()
}

/// Returns the common part of the charts over the time of a simulation.
fn of_sides(sides: &[Side<'_>], quantities: &[Quantity<ChunkPoint>]) -> TimeChart {
    let span = |chunk: &ChunkPoint| (chunk.start_ns, chunk.end_ns);
    let panel = |side: &Side<'_>| Panel {
        name: side.name.to_owned(),
        layers: quantities.iter().map(|quantity| quantity.layer(&side.result.chunks)).collect(),
        spans: side.result.chunks.iter().map(span).collect(),
        bands: Vec::new(),
    };
    TimeChart {
        name: "",
        kind: Kind::Counts,
        range: TimeRange::of(sides.iter().flat_map(|side| side.result.chunks.iter().map(span))),
        panels: sides.iter().map(panel).collect(),
        title: "",
        caption: "",
        x_title: "simulated time",
        y_title: "",
        spans_are: "chunks",
        bands_are: "",
    }
}
