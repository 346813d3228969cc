//! Throughput by method: over the block size where several were measured, otherwise a bar for each case.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::{
    NAME_LENGTH, NAMES, bar, draw_names, height_for, left_of_rows, method_keys, range, rates, rows_panel,
    whisker,
};
use crate::chart::axis::Axis;
use crate::chart::frame::{self, Drawn, Frame, PanelFrame, Plot};
use crate::chart::{Chart, palette};
use crate::number;
use crate::probe::Group;
use crate::schema::ProbeCase;

const TITLE: &str = "Throughput by method";
/// The share of a plot that the figures behind the bars take.
const FIGURES: f64 = 0.12;

pub(super) fn chart(groups: &[Group<'_>]) -> Chart {
    let panels: Vec<PanelFrame> = groups.iter().map(panel).collect();
    let frame = Frame {
        name: "throughput",
        title: TITLE,
        keys: method_keys(groups),
        panels: groups.iter().map(panel).collect(),
        left: left_of_rows(&panels),
    };
    let svg = frame.draw(|index, plot| {
        let (group, panel) = (&groups[index], &panels[index]);
        if group.block_sizes_differ() {
            return draw_curves(group, panel, plot);
        }
        let mut rows = group.cases.iter().enumerate();
        rows.try_for_each(|(row, case)| draw_bar(row, case, panel, plot))
    });
    Chart {
        name: "throughput",
        title: TITLE,
        caption: "Medians; whiskers go from the slowest to the fastest run. Every target has a scale of its own.",
        svg,
        time: None,
    }
}

fn panel(group: &Group<'_>) -> PanelFrame {
    if !group.block_sizes_differ() {
        return rows_panel(group, Axis::rates("", rates(group), FIGURES));
    }
    let blocks = group.cases.iter().map(|case| case.block_bytes);
    PanelFrame {
        name: frame::short(&group.name, NAME_LENGTH),
        x: Axis::log_sizes("block size, log scale", blocks, NAMES),
        y: Axis::rates("", rates(group), 0.05).titled(group.shared()),
        height: height_for(curves(group).len()),
    }
}

fn draw_bar(row: usize, case: &ProbeCase, panel: &PanelFrame, plot: &mut Plot<'_>) -> Drawn {
    let (bottom, middle, top) = bar(&panel.y, row);
    let place = |rate: f64| panel.x.place(rate);
    let corners = [(0.0, bottom), (place(case.throughput_bytes_per_s), top)];
    plot.draw_series(std::iter::once(Rectangle::new(corners, palette::method(&case.method).filled())))?;
    let [slowest, fastest] = range(case).map(place);
    whisker(((slowest, middle), (fastest, middle)), plot)?;
    let style = frame::text(palette::INK, HPos::Left, VPos::Center);
    let end = fastest.max(place(case.throughput_bytes_per_s));
    let text = number::rate(case.throughput_bytes_per_s);
    plot.draw_series(std::iter::once(Text::new(text, (end + 0.01, middle), style)))?;
    Ok(())
}

/// The cases of a method with one depth and one kind of buffer, from the smallest block to the largest.
struct Curve<'a> {
    name: String,
    cases: Vec<&'a ProbeCase>,
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

fn draw_curves(group: &Group<'_>, panel: &PanelFrame, plot: &mut Plot<'_>) -> Drawn {
    let curves = curves(group);
    let place = |case: &ProbeCase| {
        (panel.x.place(case.block_bytes as f64), panel.y.place(case.throughput_bytes_per_s))
    };
    let names = curves.iter().filter_map(|curve| Some((curve.name.clone(), *curve.cases.last()?)));
    draw_names(names, place, panel.height, plot)?;
    for curve in &curves {
        for case in &curve.cases {
            let (x, _) = place(case);
            let [slowest, fastest] = range(case).map(|rate| (x, panel.y.place(rate)));
            whisker((slowest, fastest), plot)?;
        }
        let colour = palette::method(&curve.cases[0].method);
        let points = || curve.cases.iter().map(|case| place(case));
        plot.draw_series(LineSeries::new(points(), colour.stroke_width(5)))?;
        plot.draw_series(points().map(|point| Circle::new(point, 10, colour.filled())))?;
    }
    Ok(())
}
