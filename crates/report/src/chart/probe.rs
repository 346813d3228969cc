//! Methods of I/O: their throughput, the CPU they take, and how the two go together (Ueda 2013, figures 1 and 2).

mod cpu;
mod throughput;
mod tradeoff;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::axis::Axis;
use super::frame::{self, Drawn, Key, LEFT, PanelFrame, Plot};
use super::{Chart, palette, room};
use crate::probe::{Group, groups};
use crate::schema::{Document, ProbeCase, ProbeResult};

const ROW_HEIGHT: u32 = 44;
/// Height that names need that stand one above the other.
const NAME_HEIGHT: u32 = 34;
/// The share of a plot that such names take at its right, and where they begin.
const NAMES: f64 = 0.29;
const NAMES_FROM: f64 = 1.0 - NAMES + 0.035;
/// Beyond this the label of a case is cut; the table has the whole of it.
const LABEL_LENGTH: usize = 46;
/// Beyond this the name of a target with its access is cut.
const NAME_LENGTH: usize = 60;

pub(super) fn charts(document: &Document<ProbeResult>) -> Vec<Chart> {
    let groups = groups(&document.result);
    if groups.is_empty() {
        return Vec::new();
    }
    vec![
        throughput::chart(&groups),
        cpu::chart(&groups, document.run.machine.cores),
        tradeoff::chart(&groups),
    ]
}

/// The methods that occur.
fn method_keys(groups: &[Group<'_>]) -> Vec<Key> {
    let occurs = |name: &str| groups.iter().flat_map(|group| &group.cases).any(|case| case.method == name);
    let known = palette::METHODS.into_iter().filter(|&(name, _)| occurs(name));
    known.map(|(label, colour)| Key { label, colour }).collect()
}

/// A panel with a row for each case.
fn rows_panel(group: &Group<'_>, x: Axis) -> PanelFrame {
    let labels = group.cases.iter().map(|case| frame::short(&group.label(case), LABEL_LENGTH));
    PanelFrame {
        name: frame::short(&group.name, NAME_LENGTH),
        x,
        y: Axis::rows(labels.collect()).titled(group.shared()),
        height: ROW_HEIGHT * group.cases.len() as u32,
    }
}

/// Room enough for the longest label of rows.
fn left_of_rows(panels: &[PanelFrame]) -> u32 {
    let labels = panels.iter().flat_map(|panel| &panel.y.ticks).map(|tick| tick.label.as_str());
    labels.map(frame::text_width).max().unwrap_or_default().saturating_add(30).max(LEFT)
}

/// Names at the right, each with a thin line from its point.
fn draw_names<'a>(
    names: impl Iterator<Item = (String, &'a ProbeCase)>,
    place: impl Fn(&ProbeCase) -> (f64, f64),
    height: u32,
    plot: &mut Plot<'_>,
) -> Drawn {
    let (names, cases): (Vec<String>, Vec<&ProbeCase>) = names.unzip();
    let wanted: Vec<f64> = cases.iter().map(|case| place(case).1).collect();
    let heights = room::stack(&wanted, f64::from(NAME_HEIGHT) / f64::from(height));
    for ((name, case), height) in names.iter().zip(cases).zip(heights) {
        let line = [place(case), (NAMES_FROM - 0.006, height)];
        let colour = palette::method(&case.method);
        plot.draw_series(std::iter::once(PathElement::new(line, colour.stroke_width(2))))?;
        let style = frame::text(palette::INK, HPos::Left, VPos::Center);
        let name = frame::short(name, LABEL_LENGTH);
        plot.draw_series(std::iter::once(Text::new(name, (NAMES_FROM, height), style)))?;
    }
    Ok(())
}

/// The height of a panel with so many names at its right.
fn height_for(names: usize) -> u32 {
    const LEAST: u32 = 420;
    LEAST.max(NAME_HEIGHT.saturating_mul(names as u32))
}

/// Bottom, middle and top of a bar in its row.
fn bar(y: &Axis, row: usize) -> (f64, f64, f64) {
    let place = |share: f64| y.place(row as f64 + share);
    (place(0.8), place(0.5), place(0.2))
}

/// A line from the slowest to the fastest run, with ends across it.
fn whisker((from, to): ((f64, f64), (f64, f64)), plot: &mut Plot<'_>) -> Drawn {
    const END: i32 = 7;
    let style = palette::INK.stroke_width(3);
    let across = if from.1 == to.1 { (0, END) } else { (END, 0) };
    plot.draw_series(std::iter::once(PathElement::new([from, to], style)))?;
    plot.draw_series([from, to].map(|end| {
        let line = PathElement::new([(-across.0, -across.1), across], style);
        EmptyElement::at(end) + line
    }))?;
    Ok(())
}

/// The slowest and the fastest run of a case.
fn range(case: &ProbeCase) -> [f64; 2] {
    [case.throughput_range_bytes_per_s.min, case.throughput_range_bytes_per_s.max]
}

/// Every rate of a group, for the extent of an axis.
fn rates(group: &Group<'_>) -> impl Iterator<Item = f64> {
    group.cases.iter().flat_map(|case| [case.throughput_bytes_per_s].into_iter().chain(range(case)))
}
