//! Lines of charts.

use super::palette::{Color, series};

/// Style of a line.
#[derive(Clone, Copy)]
pub(crate) struct Stroke {
    pub(crate) color: Color,
    pub(crate) width: u32,
    pub(crate) is_dashed: bool,
}

impl Stroke {
    pub(crate) fn new(color: Color, width: u32) -> Stroke {
        Stroke { color, width, is_dashed: false }
    }

    /// Returns the style of the `index`-th series: lines are dashed when the colors repeat.
    pub(crate) fn of_series(index: usize, width: u32) -> Stroke {
        Stroke::new(series(index), width).dashed(index / 8 % 2 == 1)
    }

    pub(crate) fn dashed(self, is_dashed: bool) -> Stroke {
        Stroke { is_dashed, ..self }
    }

    /// Returns the attributes of an SVG element.
    pub(crate) fn attributes(self) -> String {
        let dash = if self.is_dashed { " stroke-dasharray=\"22 12\"" } else { "" };
        format!("fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{dash}", self.color, self.width)
    }
}
