//! The names of lines behind their right ends, as far apart as text needs.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::frame::{self, Drawn, Plot};
use super::palette;

/// Beyond this a label is cut; the table has the whole of it.
const LABEL_LENGTH: usize = 22;

/// Where a line ends, and what it is called.
pub(super) struct End<'a> {
    /// Places, from 0 to 1.
    pub(super) at: (f64, f64),
    pub(super) label: &'a str,
    /// Which colour it has among the lines.
    pub(super) index: usize,
}

/// `apart` is the height of a line of text, as a share of the plot.
pub(super) fn draw(mut ends: Vec<End<'_>>, apart: f64, plot: &mut Plot<'_>) -> Drawn {
    ends.sort_by(|a, b| a.at.1.total_cmp(&b.at.1));
    // Upwards as far apart as they must be, and then down again from the top.
    let mut free = 0.0;
    for end in &mut ends {
        end.at.1 = end.at.1.max(free);
        free = end.at.1 + apart;
    }
    let mut free: f64 = 1.0;
    for end in ends.into_iter().rev() {
        let place = end.at.1.min(free);
        free = place - apart;
        let style = frame::text(palette::series(end.index), HPos::Left, VPos::Center);
        let label = frame::short(end.label, LABEL_LENGTH);
        plot.draw_series(std::iter::once(Text::new(label, (end.at.0 + 0.012, place.max(0.0)), style)))?;
    }
    Ok(())
}
