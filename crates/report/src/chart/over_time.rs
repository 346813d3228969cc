//! Charts over time: one value, or a stack of values, for each of many spans.
//!
//! A chart is first laid out as data ([`TimeChart`]), from which both the drawing and the page's read-out are made. If
//! a chart has more spans than a picture can show, the drawing joins neighbours ([`columns`]), and the caption says so;
//! the read-out and the CSV have them all.

mod cache;
mod columns;
mod disk;
mod draw;
mod response;

use serde::Serialize;

use super::palette::{self, Colour};
use super::{Chart, Side};
use crate::result::ChunkPoint;

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
    /// Stacked counts a second.
    PerSecond,
    /// Stacked bytes a second.
    BytesPerSecond,
    /// Times on a log scale, a dash for each span.
    Times,
    /// Lines from end to end of the spans: sizes in bytes.
    Bytes,
    /// Step lines: shares from 0 to 1.
    Ratios,
    /// Step lines: ratios of actual to ideal times; 1 is exact.
    Accuracies,
}

/// How the values of neighbouring spans become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    /// The same for each, or by weight.
    Mean,
    /// By how long the spans are.
    MeanOverTime,
    Sum,
    Max,
}

/// One quantity over all spans.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Layer {
    pub(super) label: String,
    #[serde(serialize_with = "colour_code")]
    pub(super) colour: Colour,
    /// One for each span; nothing where the span has none.
    #[serde(serialize_with = "short_numbers")]
    pub(super) values: Vec<Option<f64>>,
    #[serde(skip)]
    pub(super) join: Join,
    /// Weight of each value in a mean; empty if all weights are equal.
    #[serde(skip)]
    pub(super) weights: Vec<f64>,
}

/// From when to when, in nanoseconds.
pub(super) type Span = (u64, u64);

/// The layers of one run, one file or one program.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Panel {
    /// Such as `A` or `B`; empty where there is only one.
    pub(super) name: String,
    /// From the bottom up.
    pub(super) layers: Vec<Layer>,
    #[serde(skip)]
    pub(super) spans: Vec<Span>,
    /// Bands behind the data.
    #[serde(skip)]
    pub(super) bands: Vec<Span>,
}

impl Panel {
    /// The spans of its values.
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }
}

/// A chart over time as data.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TimeChart {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    #[serde(flatten)]
    pub(super) range: TimeRange,
    pub(super) panels: Vec<Panel>,
    #[serde(skip)]
    pub(super) title: &'static str,
    #[serde(skip)]
    pub(super) caption: &'static str,
    #[serde(skip)]
    pub(super) x_title: &'static str,
    #[serde(skip)]
    pub(super) y_title: &'static str,
    /// Name of the spans, in the plural: `chunks`.
    #[serde(skip)]
    pub(super) spans_are: &'static str,
    /// Meaning of the bands behind the data; empty if there are none.
    #[serde(skip)]
    pub(super) bands_are: &'static str,
}

impl TimeChart {
    /// Its panels.
    pub(crate) fn panels(&self) -> &[Panel] {
        &self.panels
    }
}

/// The extent of a time axis, which charts of a page share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TimeRange {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

impl TimeRange {
    /// From the first to the last of these.
    pub(super) fn of(spans: impl Iterator<Item = Span> + Clone) -> TimeRange {
        let from_ns = spans.clone().map(|(start, _)| start).min().unwrap_or(0);
        let to_ns = spans.map(|(_, end)| end).max().unwrap_or(0).max(from_ns);
        TimeRange { from_ns, to_ns }
    }
}

/// What one layer is made from.
#[derive(Clone)]
pub(super) struct Quantity<T> {
    pub(super) label: &'static str,
    pub(super) colour: Colour,
    pub(super) join: Join,
    pub(super) of: fn(&T) -> Option<f64>,
    pub(super) weight: Option<fn(&T) -> f64>,
}

impl<T> Quantity<T> {
    pub(super) fn new(
        label: &'static str,
        colour: Colour,
        join: Join,
        of: fn(&T) -> Option<f64>,
    ) -> Quantity<T> {
        Quantity { label, colour, join, of, weight: None }
    }

    pub(super) fn weighed(self, weight: fn(&T) -> f64) -> Quantity<T> {
        Quantity { weight: Some(weight), ..self }
    }

    /// The layer over these points.
    pub(super) fn layer(&self, points: &[T]) -> Layer {
        Layer {
            label: self.label.to_owned(),
            colour: self.colour,
            values: points.iter().map(self.of).collect(),
            join: self.join,
            weights: self.weight.map(|weight| points.iter().map(weight).collect()).unwrap_or_default(),
        }
    }
}

/// Every chart over the time of a simulation, in the order of the page.
pub(super) fn charts(sides: &[Side<'_>]) -> Vec<Chart> {
    let mut charts =
        vec![cache::hits(sides), cache::commands(sides), disk::seeks(sides), response::times(sides)];
    if sides.iter().any(|side| side.result.chunks.iter().any(|chunk| chunk.backlog_max > 0)) {
        charts.push(response::backlog(sides));
    }
    charts.push(disk::time(sides));
    charts.into_iter().map(TimeChart::draw).collect()
}

/// Common part of the charts over the time of a simulation.
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

fn colour_code<S: serde::Serializer>(colour: &Colour, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(colour)
}

/// Whole numbers without a point, and others to six digits after it.
fn short_numbers<S: serde::Serializer>(values: &[Option<f64>], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Number {
        Whole(i64),
        Broken(f64),
    }
    /// Below this all whole numbers are exact in an `f64`.
    const EXACT_WHOLE_MAX: f64 = 9e15;
    serializer.collect_seq(values.iter().map(|value| {
        value.filter(|value| value.is_finite()).map(|value| {
            if value.fract() == 0.0 && value.abs() < EXACT_WHOLE_MAX {
                Number::Whole(value as i64)
            } else if value.abs() < 1e6 {
                Number::Broken((value * 1e6).round() / 1e6)
            } else {
                Number::Broken(value)
            }
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_s_script_can_read_out_every_kind_of_chart() {
        let script = include_str!("../html/script.js");
        let kinds = [
            Kind::ShareOfCounts,
            Kind::ShareOfTime,
            Kind::Counts,
            Kind::PerSecond,
            Kind::BytesPerSecond,
            Kind::Times,
            Kind::Bytes,
            Kind::Ratios,
            Kind::Accuracies,
        ];
        for kind in kinds {
            let name = serde_json::to_value(kind).unwrap();
            let entry = format!("    {}: [", name.as_str().unwrap());
            assert!(script.contains(&entry), "{entry}");
        }
    }

    #[test]
    fn numbers_are_short_in_the_page_s_data() {
        let layer = Layer {
            label: String::new(),
            colour: palette::MEAN,
            values: vec![Some(5.0), Some(1.0 / 3.0), None, Some(f64::NAN), Some(1e300)],
            join: Join::Mean,
            weights: Vec::new(),
        };
        let json = serde_json::to_string(&layer).unwrap();
        assert!(
            json.contains("[5,0.333333,null,null,1e300]") || json.contains("[5,0.333333,null,null,1e+300]"),
            "{json}"
        );
    }
}
