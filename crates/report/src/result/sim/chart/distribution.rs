//! Number of commands by response time and class.

use sakiyomi_model::ReadClass;

use super::Side;
use crate::chart::axis::Axis;
use crate::chart::frame::{Frame, Key, PanelFrame};
use crate::chart::palette::Color;
use crate::chart::plot::Plot;
use crate::chart::{Chart, palette};
use crate::label;
use crate::number::{count, duration};
use crate::result::HistogramBin;

const TITLE: &str = "Distribution of the response times";
const WRITE: &str = "write";

pub(super) fn chart(sides: &[Side<'_>]) -> Chart {
    let bins = || sides.iter().flat_map(|side| &side.result.response_histogram);
    let filled = bins().filter(|bin| height(bin) > 0.0);
    let x =
        Axis::log_spans("response, log scale", filled.flat_map(|bin| [bin.from_ns as f64, bin.to_ns as f64]));
    let y = Axis::counts("commands in a bin", bins().map(height).fold(0.0, f64::max));
    let mut keys: Vec<Key> =
        ReadClass::ALL.map(|class| Key::area(label::read(class), palette::read(class))).into();
    keys.push(Key::area(WRITE, palette::WRITE));
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
        beside: Vec::new(),
    };
    let drawing = frame.draw(|index, plot| {
        sides[index].result.response_histogram.iter().for_each(|bin| draw_bin(bin, &x, &y, plot));
    });
    Chart::new(
        &frame,
        "Each peak is a class of service: from the cache, without a seek, after a seek, after waiting \
         behind other commands.",
        drawing,
    )
}

/// Returns the parts of a bin from the bottom up: name, color, commands.
fn parts(bin: &HistogramBin) -> impl Iterator<Item = (&'static str, Color, u64)> {
    let reads =
        ReadClass::ALL.map(|class| (label::read(class), palette::read(class), bin.read_counts.of(class)));
    reads.into_iter().chain([(WRITE, palette::WRITE, bin.writes)])
}

fn height(bin: &HistogramBin) -> f64 {
    parts(bin).map(|(_, _, commands)| commands as f64).sum()
}

fn draw_bin(bin: &HistogramBin, x: &Axis, y: &Axis, plot: &mut Plot<'_>) {
    let (left, right) = (x.place(bin.from_ns as f64), x.place(bin.to_ns as f64));
    let mut ground = 0.0;
    for (name, color, commands) in parts(bin).filter(|&(_, _, commands)| commands > 0) {
        let top = ground + commands as f64;
        let words =
            format!("{} to {}: {name} {}", duration(bin.from_ns), duration(bin.to_ns), count(commands));
        plot.rectangle([(left, y.place(ground)), (right, y.place(top))], color, &words);
        ground = top;
    }
}
