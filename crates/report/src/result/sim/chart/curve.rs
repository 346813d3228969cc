//! All response times in ascending order (Hosogi 2013, figure 2): shows the distance between hits and misses, and the
//! spread of the misses.

use super::Side;
use crate::chart::axis::Axis;
use crate::chart::frame::{Frame, Key, PanelFrame};
use crate::chart::plot::Stroke;
use crate::chart::{Chart, palette};

const TITLE: &str = "Response times in ascending order";

pub(super) fn chart(sides: &[Side<'_>]) -> Chart {
    let x = Axis::shares("share of the commands");
    let points = sides.iter().flat_map(|side| &side.result.response_curve);
    let y = Axis::log_spans("response, log scale", points.map(|point| point.response_ns as f64));
    let keys = sides.iter().enumerate().filter(|(_, side)| !side.name.is_empty());
    let frame = Frame {
        name: "response-curve",
        title: TITLE,
        keys: keys.map(|(index, side)| Key::line(side.name, palette::side(index))).collect(),
        panels: vec![PanelFrame { name: String::new(), x: x.clone(), y: y.clone(), height: 440 }],
        beside: Vec::new(),
    };
    let drawing = frame.draw(|_, plot| {
        for (index, side) in sides.iter().enumerate() {
            let curve = side.result.response_curve.iter();
            let line = curve.map(|point| (x.place(point.share_ratio), y.place(point.response_ns as f64)));
            let title = if side.name.is_empty() { TITLE } else { side.name };
            plot.line(line, Stroke::new(palette::side(index), 5), title);
        }
    });
    Chart::new(
        &frame,
        "Each step is a class of commands: hits at the lower left, then misses, which vary widely with \
         seek, rotation and queue.",
        drawing,
    )
}
