//! Throughput by engine: over the block size if several were measured, otherwise a bar for each case.

use super::{NAME_LENGTH, height_for, method_keys, range, rates, row_label, rows_panel, words};
use crate::chart::axis::Axis;
use crate::chart::ends::{self, End};
use crate::chart::frame::{Frame, Key, KeyShape, PanelFrame};
use crate::chart::layout::short;
use crate::chart::plot::{Plot, Shape, Stroke};
use crate::chart::{Chart, palette};
use crate::number;
use crate::result::Group;
use crate::result::ProbeCase;

pub(super) fn chart(groups: &[Group<'_>]) -> Chart {
    let panels: Vec<PanelFrame> = groups.iter().map(panel).collect();
    let frame = Frame {
        name: "throughput",
        title: "Throughput by method",
        keys: keys(groups),
        panels: groups.iter().map(panel).collect(),
        beside: groups.iter().flat_map(beside).collect(),
    };
    let drawing = frame.draw(|index, plot| {
        let (group, panel) = (&groups[index], &panels[index]);
        if group.block_sizes_differ() {
            return draw_curves(group, panel, plot);
        }
        group.cases.iter().enumerate().for_each(|(row, case)| draw_bar(group, row, case, panel, plot));
    });
    Chart::new(
        &frame,
        "Medians; whiskers extend from the slowest to the fastest run. Each target has its own scale.",
        drawing,
    )
}

fn panel(group: &Group<'_>) -> PanelFrame {
    if !group.block_sizes_differ() {
        return rows_panel(group, Axis::rates("", rates(group)));
    }
    let blocks = group.cases.iter().map(|case| case.block_bytes);
    PanelFrame {
        name: short(&group.name, NAME_LENGTH),
        x: Axis::log_sizes("block size, log scale", blocks),
        y: Axis::rates("", rates(group)).titled(group.shared()),
        height: height_for(curves(group).len()),
    }
}

/// Label of memory on ordinary pages.
const ORDINARY: &str = "ordinary";

/// Returns the legend; dashes distinguish curves of the same engine with different buffers.
fn keys(groups: &[Group<'_>]) -> Vec<Key> {
    let mut keys = method_keys(groups, KeyShape::Area);
    let mut curves = groups.iter().filter(|group| group.block_sizes_differ()).flat_map(curves);
    if curves.any(|curve| curve.is_dashed()) {
        keys.push(Key::new("ordinary buffers", palette::INK, KeyShape::DashedLine));
    }
    keys
}

/// Returns the texts at the right: the names of curves, or the figures of bars.
fn beside(group: &Group<'_>) -> Vec<String> {
    if group.block_sizes_differ() {
        return ends::beside(curves(group).iter().map(|curve| &*curve.name));
    }
    group.cases.iter().map(|case| number::rate(case.throughput_bytes_per_s)).collect()
}

fn draw_bar(group: &Group<'_>, row: usize, case: &ProbeCase, panel: &PanelFrame, plot: &mut Plot<'_>) {
    let bar = plot.bar(row);
    let place = |rate: f64| panel.x.place(rate);
    let figure = number::rate(case.throughput_bytes_per_s);
    plot.row_label(row, &row_label(group, case), &figure);
    let corners = [(0.0, bar.bottom), (place(case.throughput_bytes_per_s), bar.top)];
    plot.rectangle(corners, palette::method(&case.method), &words(group, case));
    let [slowest, fastest] = range(case).map(place);
    plot.whisker((slowest, bar.middle), (fastest, bar.middle));
    let end = fastest.max(place(case.throughput_bytes_per_s));
    plot.figure(row, end, &figure);
}

/// The cases of an engine with one depth and one kind of buffer, in ascending order of block size.
struct Curve<'a> {
    name: String,
    cases: Vec<&'a ProbeCase>,
}

impl Curve<'_> {
    fn is_dashed(&self) -> bool {
        self.cases.first().is_some_and(|case| case.buffers.starts_with(ORDINARY))
    }
}

fn curves<'a>(group: &Group<'a>) -> Vec<Curve<'a>> {
    let mut curves: Vec<Curve<'a>> = Vec::new();
    for &case in &group.cases {
        let name = group.series(case);
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.cases.push(case),
            None => curves.push(Curve { name, cases: vec![case] }),
        }
    }
    curves.iter_mut().for_each(|curve| curve.cases.sort_by_key(|case| case.block_bytes));
    curves
}

fn draw_curves(group: &Group<'_>, panel: &PanelFrame, plot: &mut Plot<'_>) {
    let curves = curves(group);
    let place = |case: &ProbeCase| {
        (panel.x.place(case.block_bytes as f64), panel.y.place(case.throughput_bytes_per_s))
    };
    let end = |curve: &Curve<'_>| {
        let case = *curve.cases.last()?;
        Some(End { at: place(case), label: curve.name.clone(), color: palette::method(&case.method) })
    };
    ends::draw(&curves.iter().filter_map(end).collect::<Vec<_>>(), plot);
    for curve in &curves {
        for case in &curve.cases {
            let (x, _) = place(case);
            let [slowest, fastest] = range(case).map(|rate| (x, panel.y.place(rate)));
            plot.whisker(slowest, fastest);
        }
        let color = palette::method(&curve.cases[0].method);
        plot.line(
            curve.cases.iter().map(|case| place(case)),
            Stroke::new(color, 5).dashed(curve.is_dashed()),
            &curve.name,
        );
        for case in &curve.cases {
            plot.point(place(case), Shape::Disc, 10, color, &words(group, case));
        }
    }
}
