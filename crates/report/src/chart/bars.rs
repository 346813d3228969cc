//! Horizontal bars of time, one below the other, each stacked of named parts.

use super::axis::Axis;
use super::frame::{Frame, Key, PanelFrame};
use super::palette::Color;
use super::plot::Plot;
use super::{Chart, layout};
use crate::number::duration;

/// Height of a row with its gap, in pixels.
const ROW_HEIGHT: u32 = 46;
/// Length at which a label is truncated; the table has the whole label.
const LABEL_LENGTH: usize = 44;

/// One bar.
pub(crate) struct Row {
    pub(crate) label: String,
    /// Durations in nanoseconds, in the order of the chart's parts.
    pub(crate) parts: Vec<u64>,
    /// The text after the bar.
    pub(crate) figure: String,
}

/// A bar chart.
pub(crate) struct Bars {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) caption: String,
    pub(crate) x_title: &'static str,
    pub(crate) parts: Vec<(&'static str, Color)>,
    pub(crate) rows: Vec<Row>,
}

pub(crate) fn chart(bars: Bars) -> Chart {
    let Bars { name, title, caption, x_title, parts, rows } = bars;
    let total = |row: &Row| row.parts.iter().map(|&ns| ns as f64).sum::<f64>();
    let x = Axis::spans(x_title, rows.iter().map(total).fold(0.0, f64::max));
    let labels: Vec<String> = rows.iter().map(|row| layout::short(&row.label, LABEL_LENGTH)).collect();
    let used = |part: &usize| rows.iter().any(|row| row.parts.get(*part).is_some_and(|&ns| ns > 0));
    let keys = (0..parts.len()).filter(used).map(|part| Key::area(parts[part].0, parts[part].1));
    let frame = Frame {
        name,
        title,
        keys: keys.collect(),
        panels: vec![PanelFrame {
            name: String::new(),
            x: x.clone(),
            y: Axis::rows(labels.clone()),
            height: ROW_HEIGHT,
        }],
        beside: rows.iter().map(|row| row.figure.clone()).collect(),
    };
    let drawing = frame.draw(|_, plot| {
        for (index, (row, label)) in rows.iter().zip(&labels).enumerate() {
            draw_row(index, row, label, &parts, &x, plot);
        }
    });
    Chart::new(&frame, caption, drawing)
}

fn draw_row(index: usize, row: &Row, label: &str, parts: &[(&str, Color)], x: &Axis, plot: &mut Plot<'_>) {
    let bar = plot.bar(index);
    let mut end = 0.0;
    plot.row_label(index, label, &row.figure);
    for (&(name, color), &ns) in parts.iter().zip(&row.parts).filter(|(_, ns)| **ns > 0) {
        let words = format!("{}: {name} {}", row.label, duration(ns));
        plot.rectangle(
            [(x.place(end), bar.top), (x.place(end + ns as f64), bar.bottom)],
            color,
            words.trim(),
        );
        end += ns as f64;
    }
    plot.figure(index, x.place(end), &row.figure);
}
