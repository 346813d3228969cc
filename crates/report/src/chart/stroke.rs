//! Lines of charts.

use super::palette::{Colour, series};

/// How a line looks.
#[derive(Clone, Copy)]
pub(super) struct Stroke {
    pub(super) colour: Colour,
    pub(super) width: u32,
    pub(super) is_dashed: bool,
}

impl Stroke {
    pub(super) fn new(colour: Colour, width: u32) -> Stroke {
        Stroke { colour, width, is_dashed: false }
    }

    /// The line of the `index`-th series: every second round of the colours is dashed.
    pub(super) fn of_series(index: usize, width: u32) -> Stroke {
        Stroke::new(series(index), width).dashed(index / 8 % 2 == 1)
    }

    pub(super) fn dashed(self, is_dashed: bool) -> Stroke {
        Stroke { is_dashed, ..self }
    }

    /// As attributes of an SVG element.
    pub(super) fn attributes(self) -> String {
        let dash = if self.is_dashed { " stroke-dasharray=\"22 12\"" } else { "" };
        format!("fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{dash}", self.colour, self.width)
    }
}
