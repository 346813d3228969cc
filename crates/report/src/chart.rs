//! Charts as SVG: one file per kind; frame, axes and colours are shared.
//!
//! Every mark, be it a line, a bar or a point, carries a text that describes it (`plot`). Each chart is drawn twice,
//! wide and narrow (`layout`), so that its text can be read on a phone.
//!
//! Two runs of a comparison are drawn one above the other with the same scales, so that heights can be compared. All
//! charts over time have the same left and right edge and the same time axis. The drawing is complete without a script;
//! the page's cursor only reads the numbers out.

mod axis;
mod bars;
mod breakdown;
mod curve;
mod distribution;
mod ends;
mod frame;
pub(crate) mod job;
mod layout;
mod lines;
pub(crate) mod mount;
mod over_time;
mod palette;
mod path;
mod plot;
pub(crate) mod probe;
pub(crate) mod regulation;
mod room;
pub(crate) mod run;
pub(crate) mod scenario;
mod stroke;
pub(crate) mod top;
pub(crate) mod tradeoff;
pub(crate) mod validation;

use crate::result::SimResult;

use frame::{Drawing, Frame};

pub(crate) use over_time::{Panel, TimeChart};

/// Names of all charts, by which a caller can determine in advance the files that would be overwritten.
pub const NAMES: [&str; 30] = [
    "accesses",
    "accuracy",
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
    "hits",
    "in-flight",
    "ios",
    "limit",
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
    "times",
    "trade-off",
];

/// One picture.
#[derive(Clone, Debug)]
pub struct Chart {
    /// A short name for a file or an anchor: `hits`, `response-curve`.
    pub name: &'static str,
    /// The heading, which the picture also carries.
    pub title: &'static str,
    /// What to look for, in a sentence.
    pub caption: String,
    /// A complete SVG document that fills the width it is given.
    pub svg: String,
    /// The same for a phone.
    pub narrow_svg: String,
    /// The numbers behind a chart over time.
    pub(crate) time: Option<TimeChart>,
}

impl Chart {
    fn new(frame: &Frame, caption: impl Into<String>, drawing: Drawing) -> Chart {
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

/// One side of a comparison, or the only result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side<'a> {
    /// `A` or `B`; empty where there is only one.
    pub(crate) name: &'static str,
    pub(crate) result: &'a SimResult,
}

/// The charts of one simulation, in the order of the page; none where no command was counted.
pub(crate) fn sim(result: &SimResult) -> Vec<Chart> {
    of_sides(&[Side { name: "", result }])
}

/// The charts of two simulations on the same scales; none where neither counted a command.
pub(crate) fn compare(a: &SimResult, b: &SimResult) -> Vec<Chart> {
    of_sides(&[Side { name: "A", result: a }, Side { name: "B", result: b }])
}

fn of_sides(sides: &[Side<'_>]) -> Vec<Chart> {
    if sides.iter().all(|side| side.result.commands == 0) {
        return Vec::new();
    }
    let mut charts = over_time::charts(sides);
    charts.push(curve::chart(sides));
    charts.push(distribution::chart(sides));
    charts.push(breakdown::chart(sides));
    charts
}
