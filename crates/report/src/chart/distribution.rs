//! How many commands took how long, by class.

use plotters::prelude::*;
use sakiyomi_model::ReadClass;

use super::axis::Axis;
use super::frame::{Drawn, Frame, Key, LEFT, PanelFrame, Plot};
use super::{Chart, Side, palette};
use crate::label;
use crate::schema::HistogramBin;

const TITLE: &str = "Distribution of the response times";

pub(super) fn chart(sides: &[Side<'_>]) -> Chart {
    let bins = || sides.iter().flat_map(|side| &side.result.response_histogram);
    let filled = bins().filter(|bin| height(bin) > 0.0);
    let x =
        Axis::log_spans("response, log scale", filled.flat_map(|bin| [bin.from_ns as f64, bin.to_ns as f64]));
    let y = Axis::counts("commands in a bin", bins().map(height).fold(0.0, f64::max));
    let mut keys: Vec<Key> =
        ReadClass::ALL.map(|class| Key { label: label::read(class), colour: palette::read(class) }).into();
    keys.push(Key { label: "write", colour: palette::WRITE });
    let panel = |side: &Side<'_>| PanelFrame {
        name: side.name.to_owned(),
        x: x.clone(),
        y: y.clone(),
        height: if sides.len() > 1 { 260 } else { 340 },
    };
    let frame = Frame {
        name: "distribution",
        title: TITLE,
        keys,
        panels: sides.iter().map(panel).collect(),
        left: LEFT,
    };
    let svg = frame.draw(|index, plot| {
        sides[index].result.response_histogram.iter().try_for_each(|bin| draw_bin(bin, &x, &y, plot))
    });
    Chart {
        name: "distribution",
        title: TITLE,
        caption: "Every hump is a way of being served: from the cache, by the head in passing, after a seek, after \
                  waiting behind others.",
        svg,
        time: None,
    }
}

/// The parts of a bin from the bottom up.
fn parts(bin: &HistogramBin) -> impl Iterator<Item = (RGBColor, f64)> {
    let reads =
        ReadClass::ALL.map(|class| (palette::read(class), label::reads_of(&bin.read_counts, class) as f64));
    reads.into_iter().chain([(palette::WRITE, bin.writes as f64)])
}

fn height(bin: &HistogramBin) -> f64 {
    parts(bin).map(|(_, commands)| commands).sum()
}

fn draw_bin(bin: &HistogramBin, x: &Axis, y: &Axis, plot: &mut Plot<'_>) -> Drawn {
    let (left, right) = (x.place(bin.from_ns as f64), x.place(bin.to_ns as f64));
    let mut ground = 0.0;
    for (colour, commands) in parts(bin).filter(|&(_, commands)| commands > 0.0) {
        let corners = [(left, y.place(ground)), (right, y.place(ground + commands))];
        plot.draw_series(std::iter::once(Rectangle::new(corners, colour.filled())))?;
        ground += commands;
    }
    Ok(())
}
