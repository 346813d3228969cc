//! The names of lines and points at the right of a plot, spaced so that they do not overlap, each with a thin line to
//! its end.

use super::layout::short;
use super::palette::Color;
use super::plot::{Align, Place, Plot, Stroke};
use super::room;

/// Length at which a label is truncated; the table has the whole label.
const LABEL_LENGTH: usize = 46;
/// Height of a name among others, in pixels.
pub(crate) const NAME_HEIGHT: u32 = 34;

/// The end of a line, and its name.
pub(crate) struct End {
    pub(crate) at: Place,
    pub(crate) label: String,
    pub(crate) color: Color,
}

/// Returns the labels for which a frame must leave room at its right.
pub(crate) fn beside<'a>(labels: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    labels.into_iter().filter(|label| !label.is_empty()).map(|label| short(label, LABEL_LENGTH)).collect()
}

/// Draws the names; a narrow chart has them only in its legend.
pub(crate) fn draw(ends: &[End], plot: &mut Plot<'_>) {
    if plot.layout.is_narrow {
        return;
    }
    let ends: Vec<&End> = ends.iter().filter(|end| !end.label.is_empty()).collect();
    let wanted: Vec<f64> = ends.iter().map(|end| end.at.1).collect();
    let heights = room::stack(&wanted, plot.height_of(f64::from(NAME_HEIGHT)));
    let (near, far) = (1.0 + plot.width_of(4.0), 1.0 + plot.width_of(10.0));
    for (end, height) in ends.iter().zip(heights) {
        plot.aid([end.at, (near, height)], Stroke::new(end.color, 2));
        plot.text(&short(&end.label, LABEL_LENGTH), (far, height), Align::Left);
    }
}
