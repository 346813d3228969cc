//! Charts over time: one value, or a stack of values, for each of many spans.
//!
//! A chart is first laid out as data ([`TimeChart`]), from which both the drawing and the page's read-out are made.
//! If a chart has more spans than a picture can show, the drawing joins neighbors ([`columns`]), which the caption
//! mentions; the read-out and the CSV contain all spans.

mod columns;
mod draw;

use serde::Serialize;

use super::palette::Color;

/// How the layers of a chart are drawn and displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Stacked, as shares of their sum: counts.
    ShareOfCounts,
    /// Stacked, as shares of their sum: times.
    ShareOfTime,
    /// Stacked counts.
    Counts,
    /// Stacked counts per second.
    PerSecond,
    /// Stacked bytes per second.
    BytesPerSecond,
    /// Times on a log scale, a dash for each span.
    Times,
    /// Lines between the ends of the spans: sizes in bytes.
    Bytes,
    /// Step lines: shares from 0 to 1.
    Ratios,
    /// Step lines: ratios of actual to ideal times; 1 is exact.
    Accuracies,
}

/// How the values of neighboring spans are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// Mean of the values, or weighted mean.
    Mean,
    /// Mean weighted by the lengths of the spans.
    MeanOverTime,
    Sum,
    Max,
}

/// One quantity over all spans.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Layer {
    pub(crate) label: String,
    #[serde(serialize_with = "color_code")]
    pub(crate) color: Color,
    /// One value for each span; `None` if the span has none.
    #[serde(serialize_with = "short_numbers")]
    pub(crate) values: Vec<Option<f64>>,
    #[serde(skip)]
    pub(crate) join: Join,
    /// Weight of each value in a mean; empty if all weights are equal.
    #[serde(skip)]
    pub(crate) weights: Vec<f64>,
}

/// Start and end in nanoseconds.
pub(crate) type Span = (u64, u64);

/// The layers of one run, one file or one program.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Panel {
    /// Such as `A` or `B`; empty if it is the only panel.
    pub(crate) name: String,
    /// From bottom to top.
    pub(crate) layers: Vec<Layer>,
    #[serde(skip)]
    pub(crate) spans: Vec<Span>,
    /// Bands behind the data.
    #[serde(skip)]
    pub(crate) bands: Vec<Span>,
}

impl Panel {
    /// Returns the spans of its values.
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }
}

/// A chart over time as data.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TimeChart {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    #[serde(flatten)]
    pub(crate) range: TimeRange,
    pub(crate) panels: Vec<Panel>,
    #[serde(skip)]
    pub(crate) title: &'static str,
    #[serde(skip)]
    pub(crate) caption: &'static str,
    #[serde(skip)]
    pub(crate) x_title: &'static str,
    #[serde(skip)]
    pub(crate) y_title: &'static str,
    /// Name of the spans, in the plural: `chunks`.
    #[serde(skip)]
    pub(crate) spans_are: &'static str,
    /// Meaning of the bands behind the data; empty without bands.
    #[serde(skip)]
    pub(crate) bands_are: &'static str,
}

impl TimeChart {
    /// Returns its panels.
    pub(crate) fn panels(&self) -> &[Panel] {
        &self.panels
    }
}

/// The extent of a time axis, shared by the charts of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TimeRange {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

impl TimeRange {
    /// Returns the range from the first to the last of the spans.
    pub(crate) fn of(spans: impl Iterator<Item = Span> + Clone) -> TimeRange {
        let from_ns = spans.clone().map(|(start, _)| start).min().unwrap_or(0);
        let to_ns = spans.map(|(_, end)| end).max().unwrap_or(0).max(from_ns);
        TimeRange { from_ns, to_ns }
    }
}

/// The quantity of one layer.
#[derive(Clone)]
pub(crate) struct Quantity<T> {
    pub(crate) label: &'static str,
    pub(crate) color: Color,
    pub(crate) join: Join,
    pub(crate) of: fn(&T) -> Option<f64>,
    pub(crate) weight: Option<fn(&T) -> f64>,
}

impl<T> Quantity<T> {
    pub(crate) fn new(
        label: &'static str,
        color: Color,
        join: Join,
        of: fn(&T) -> Option<f64>,
    ) -> Quantity<T> {
        Quantity { label, color, join, of, weight: None }
    }

    pub(crate) fn weighed(self, weight: fn(&T) -> f64) -> Quantity<T> {
        Quantity { weight: Some(weight), ..self }
    }

    /// Returns the layer over these points.
    pub(crate) fn layer(&self, points: &[T]) -> Layer {
        Layer {
            label: self.label.to_owned(),
            color: self.color,
            values: points.iter().map(self.of).collect(),
            join: self.join,
            weights: self.weight.map(|weight| points.iter().map(weight).collect()).unwrap_or_default(),
        }
    }
}

fn color_code<S: serde::Serializer>(color: &Color, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(color)
}

/// Serializes integers without a decimal point, and other numbers with up to six decimals.
fn short_numbers<S: serde::Serializer>(values: &[Option<f64>], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Number {
        Whole(i64),
        Broken(f64),
    }
    /// Integers below this are exact in an `f64`.
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
            color: crate::chart::palette::MEAN,
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
