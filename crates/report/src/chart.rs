//! Charts as SVG: one file per kind; frame, axes and colors are shared.
//!
//! Every mark, be it a line, a bar or a point, has a text that describes it (`plot`). Each chart is drawn twice, wide
//! and narrow (`layout`), so that its text can be read on a phone.
//!
//! Two runs of a comparison are drawn one above the other with the same scales, so that heights can be compared. All
//! charts over time have the same left and right edge and the same time axis. The drawing is complete without a
//! script; the page's cursor only displays the numbers.

pub(crate) mod axis;
pub(crate) mod bars;
pub(crate) mod ends;
pub(crate) mod flame;
pub(crate) mod frame;
pub(crate) mod layout;
pub(crate) mod lines;
mod mark;
pub(crate) mod over_time;
pub(crate) mod palette;
pub(crate) mod path;
pub(crate) mod plot;
pub(crate) mod room;
pub(crate) mod stroke;

use frame::{Drawing, Frame};

pub(crate) use over_time::{Panel, TimeChart};

/// Names of all charts, by which a caller can determine in advance the files that would be overwritten.
pub const NAMES: [&str; 35] = [
    "accesses",
    "accuracy",
    "allowance",
    "backlog",
    "breakdown",
    "busy",
    "commands",
    "course",
    "cpu",
    "cpu-against-throughput",
    "disk-time",
    "distance",
    "distribution",
    "distributions",
    "errors",
    "flame-graph",
    "hits",
    "in-flight",
    "ios",
    "latency",
    "limit",
    "phases",
    "positions",
    "queue",
    "response",
    "response-curve",
    "runs",
    "search",
    "seeks",
    "spread",
    "threads",
    "throughput",
    "timeline",
    "times",
    "trade-off",
];

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// A short name for a file or an anchor: `hits`, `response-curve`.
    pub name: &'static str,
    /// The heading, which the picture also carries.
    pub title: &'static str,
    /// A sentence that explains how to read the chart.
    pub caption: String,
    /// A complete SVG document that fills the available width.
    pub svg: String,
    /// The chart for narrow screens.
    pub narrow_svg: String,
    /// The numbers behind a chart over time.
    pub(crate) time: Option<TimeChart>,
}

impl Chart {
    pub(crate) fn new(frame: &Frame, caption: impl Into<String>, drawing: Drawing) -> Chart {
        Chart {
            name: frame.name,
            title: frame.title,
            caption: caption.into(),
            svg: drawing.wide,
            narrow_svg: drawing.narrow,
            time: None,
        }
    }
}
