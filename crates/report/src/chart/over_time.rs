//! Charts over simulated time: one value, or a stack of values, for each chunk.
//!
//! A chunk's value holds for the whole chunk, so areas are drawn as steps and times as dashes. What a chart shows is set out as
//! data first ([`TimeChart`]); the drawing and the page's read-out are both made from that.

mod cache;
mod disk;
mod draw;
mod response;

use serde::Serialize;

use super::axis::Axis;
use super::{Chart, Side, palette};
use crate::schema::ChunkPoint;
use plotters::style::RGBColor;

/// How the layers of a chart are drawn and read out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Stacked, as shares of their sum: counts.
    ShareOfCounts,
    /// Stacked, as shares of their sum: times.
    ShareOfTime,
    /// Stacked counts.
    Counts,
    /// Times on a log scale, a dash for each chunk.
    Times,
}

/// One quantity over all chunks.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Layer {
    label: &'static str,
    #[serde(serialize_with = "colour_code")]
    colour: RGBColor,
    /// One for each chunk; nothing where the chunk has none.
    values: Vec<Option<u64>>,
}

/// The layers of one run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Panel {
    /// `A` or `B`; empty where there is only one.
    run: &'static str,
    /// From the bottom up.
    layers: Vec<Layer>,
    #[serde(skip)]
    spans: Vec<(u64, u64)>,
}

/// A chart over time as data.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TimeChart {
    name: &'static str,
    kind: Kind,
    panels: Vec<Panel>,
    #[serde(skip)]
    title: &'static str,
    #[serde(skip)]
    caption: &'static str,
    #[serde(skip)]
    y_title: &'static str,
}

/// The time axis that all charts of a page share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TimeRange {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

impl TimeRange {
    /// From the first to the last chunk of all runs.
    pub(crate) fn of(sides: &[Side<'_>]) -> TimeRange {
        let chunks = || sides.iter().flat_map(|side| &side.result.chunks);
        let from_ns = chunks().map(|chunk| chunk.start_ns).min().unwrap_or(0);
        let to_ns = chunks().map(|chunk| chunk.end_ns).max().unwrap_or(0).max(from_ns);
        TimeRange { from_ns, to_ns }
    }
}

/// What one layer is made from.
#[derive(Clone)]
struct Quantity {
    label: &'static str,
    colour: RGBColor,
    of: fn(&ChunkPoint) -> Option<u64>,
}

impl Quantity {
    fn new(label: &'static str, colour: RGBColor, of: fn(&ChunkPoint) -> Option<u64>) -> Quantity {
        Quantity { label, colour, of }
    }
}

/// Every chart over time, in the order of the page.
pub(super) fn charts(sides: &[Side<'_>]) -> Vec<Chart> {
    let range = TimeRange::of(sides);
    let x = Axis::time("simulated time", range.from_ns, range.to_ns);
    let mut charts =
        vec![cache::hits(sides), cache::commands(sides), disk::seeks(sides), response::times(sides)];
    if sides.iter().any(|side| side.result.chunks.iter().any(|chunk| chunk.backlog_max > 0)) {
        charts.push(response::backlog(sides));
    }
    charts.push(disk::time(sides));
    charts.into_iter().map(|chart| chart.draw(&x)).collect()
}

fn panels(sides: &[Side<'_>], quantities: &[Quantity]) -> Vec<Panel> {
    let layer = |side: &Side<'_>, quantity: &Quantity| Layer {
        label: quantity.label,
        colour: quantity.colour,
        values: side.result.chunks.iter().map(quantity.of).collect(),
    };
    let panel = |side: &Side<'_>| Panel {
        run: side.name,
        layers: quantities.iter().map(|quantity| layer(side, quantity)).collect(),
        spans: side.result.chunks.iter().map(|chunk| (chunk.start_ns, chunk.end_ns)).collect(),
    };
    sides.iter().map(panel).collect()
}

fn colour_code<S: serde::Serializer>(colour: &RGBColor, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&palette::code(*colour))
}
