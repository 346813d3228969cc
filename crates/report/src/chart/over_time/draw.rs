//! Drawing of charts over time: stacks of steps, dashes and lines.

use super::columns::{self, Columns};
use super::{Join, Kind, Span, TimeChart};
use crate::chart::Chart;
use crate::chart::axis::Axis;
use crate::chart::frame::{Frame, Key, PanelFrame};
use crate::chart::layout::short;
use crate::chart::palette;
use crate::chart::plot::{Place, Plot, Stroke};
use crate::number::count;
use crate::value::GOOD_ACCURACY_MAX;

/// Height of a plot, in pixels.
const PLOT_HEIGHT: u32 = 340;
/// Height of each of several plots one above the other, in pixels.
const PLOT_HEIGHT_OF_MANY: u32 = 240;
/// Width of a dash in pixels; its ends are round, so that a very short one is a dot of this size.
const DASH_WIDTH: u32 = 6;
/// Length at which the name of a panel is truncated.
const NAME_LENGTH: usize = 80;

impl TimeChart {
    /// Draws the chart.
    pub(crate) fn draw(self) -> Chart {
        let columns = columns::of(&self.panels, self.range);
        let x = Axis::time(self.x_title, self.range.from_ns, self.range.to_ns);
        let y = self.y_axis(&columns);
        let is_joined = columns.iter().any(|columns| columns.joined > 1);
        let has_highest = self.is_stack_of_values() && is_joined;
        let frame = Frame {
            name: self.name,
            title: self.title,
            keys: self.keys(has_highest),
            panels: self
                .panels
                .iter()
                .map(|panel| PanelFrame {
                    name: short(&panel.name, NAME_LENGTH),
                    x: x.clone(),
                    y: y.clone(),
                    height: if self.panels.len() > 1 { PLOT_HEIGHT_OF_MANY } else { PLOT_HEIGHT },
                })
                .collect(),
            beside: Vec::new(),
        };
        let drawing = frame.draw(|index, plot| {
            for &(from, to) in &self.panels[index].bands {
                let corners = [(x.place(from as f64), 0.0), (x.place(to as f64), 1.0)];
                plot.rectangle(corners, palette::STALL, self.bands_are);
            }
            self.draw_panel(index, &columns[index], has_highest, (&x, &y), plot);
        });
        let caption = format!("{}{}", self.caption, self.how_joined(&columns));
        Chart { time: Some(self), ..Chart::new(&frame, caption, drawing) }
    }

    fn draw_panel(
        &self,
        index: usize,
        columns: &Columns,
        has_highest: bool,
        (x, y): (&Axis, &Axis),
        plot: &mut Plot<'_>,
    ) {
        if has_highest {
            for run in columns.runs(|column| columns.highest[column] > 0.0) {
                let edge = run.map(|column| (columns.spans[column], columns.highest[column]));
                plot.area(grounded(steps(edge, x, y)), palette::HIGHEST, &self.highest_words());
            }
        }
        match self.kind {
            Kind::Times => self.draw_dashes(index, columns, x, y, plot),
            Kind::Bytes | Kind::Ratios | Kind::Accuracies => self.draw_lines(index, columns, x, y, plot),
            _ => self.draw_stack(index, columns, x, y, plot),
        }
    }

    fn highest_words(&self) -> String {
        format!("the highest of the merged {}", self.spans_are)
    }

    /// Returns the legend, from the lowest layer to the highest.
    fn keys(&self, has_highest: bool) -> Vec<Key> {
        let mut keys: Vec<Key> = Vec::new();
        for layer in self.panels.iter().flat_map(|panel| &panel.layers) {
            if !keys.iter().any(|key| key.label == layer.label) {
                keys.push(match self.kind {
                    Kind::Bytes | Kind::Ratios | Kind::Accuracies => Key::line(&*layer.label, layer.color),
                    _ => Key::area(&*layer.label, layer.color),
                });
            }
        }
        keys.extend(has_highest.then(|| Key::area(self.highest_words(), palette::HIGHEST)));
        keys.extend((!self.bands_are.is_empty()).then(|| Key::area(self.bands_are, palette::STALL)));
        keys
    }

    /// Returns whether the height of the stack is a quantity, and not always the whole.
    fn is_stack_of_values(&self) -> bool {
        let is_stack = matches!(self.kind, Kind::Counts | Kind::PerSecond | Kind::BytesPerSecond);
        is_stack && self.layers_join(|join| join != Join::Max)
    }

    fn layers_join(&self, is: impl Fn(Join) -> bool) -> bool {
        self.panels.iter().flat_map(|panel| &panel.layers).all(|layer| is(layer.join))
    }

    /// Returns an addition to the caption if spans are joined.
    fn how_joined(&self, columns: &[Columns]) -> String {
        let most = columns.iter().map(|columns| columns.joined).max().unwrap_or(0);
        if most <= 1 {
            return String::new();
        }
        let how = match self.kind {
            Kind::ShareOfCounts | Kind::ShareOfTime => "counted together",
            Kind::Times => "their mean, and the highest p99 and maximum",
            _ if self.layers_join(|join| join == Join::Max) => "the highest value",
            _ => "their mean",
        };
        let (most, spans) = (count(most as u64), self.spans_are);
        let hint = "The figures under the pointer and the CSV file have each one separately.";
        format!(" Up to {most} {spans} are drawn as one: {how}. {hint}")
    }

    fn y_axis(&self, columns: &[Columns]) -> Axis {
        let values = || columns.iter().flat_map(|columns| columns.values.iter().flatten().flatten().copied());
        let sums = || {
            let sums = columns
                .iter()
                .flat_map(|columns| (0..columns.spans.len()).map(|column| columns.sum(column, usize::MAX)));
            sums.chain(columns.iter().flat_map(|columns| columns.highest.iter().copied()))
        };
        match self.kind {
            Kind::ShareOfCounts | Kind::ShareOfTime | Kind::Ratios => Axis::shares(self.y_title),
            Kind::Counts | Kind::PerSecond => Axis::counts(self.y_title, sums().fold(0.0, f64::max)),
            Kind::BytesPerSecond => Axis::rates(self.y_title, sums()),
            Kind::Times => Axis::log_spans(self.y_title, values()),
            Kind::Bytes => Axis::sizes(self.y_title, values().map(|bytes| bytes as u64)),
            // The axis includes both the exact and the good accuracy.
            Kind::Accuracies => Axis::heights(self.y_title, values().chain([1.0, GOOD_ACCURACY_MAX])),
        }
    }

    /// Paints every layer from the bottom to its top, the highest first, so that the lower ones cover it. That takes
    /// half the points of painting each layer between its two edges.
    fn draw_stack(&self, index: usize, columns: &Columns, x: &Axis, y: &Axis, plot: &mut Plot<'_>) {
        let is_share = matches!(self.kind, Kind::ShareOfCounts | Kind::ShareOfTime);
        let height = |column: usize, layers: usize| {
            let top = columns.sum(column, layers);
            if is_share { top / columns.sum(column, usize::MAX) } else { top }
        };
        let layers = self.panels[index].layers.iter().enumerate().rev();
        for (below, layer) in layers.filter(|&(layer, _)| columns.has(layer)) {
            for run in columns.runs(|column| columns.sum(column, usize::MAX) > 0.0) {
                let edge = run.map(|column| (columns.spans[column], height(column, below + 1)));
                plot.area(grounded(steps(edge, x, y)), layer.color, &layer.label);
            }
        }
    }

    /// Draws dashes: times vary from span to span, and connecting lines would hide everything.
    fn draw_dashes(&self, index: usize, columns: &Columns, x: &Axis, y: &Axis, plot: &mut Plot<'_>) {
        for (layer, values) in self.panels[index].layers.iter().zip(&columns.values) {
            let dashes = values.iter().zip(&columns.spans);
            let dashes =
                dashes.filter_map(|(&value, &span)| Some(steps(std::iter::once((span, value?)), x, y)));
            plot.lines(dashes, Stroke::new(layer.color, DASH_WIDTH), &layer.label);
        }
    }

    fn draw_lines(&self, index: usize, columns: &Columns, x: &Axis, y: &Axis, plot: &mut Plot<'_>) {
        for (layer, values) in self.panels[index].layers.iter().zip(&columns.values) {
            let runs = columns.runs(|column| values[column].is_some());
            let lines = runs.into_iter().map(|run| {
                let values = run.map(|column| (columns.spans[column], values[column].unwrap_or_default()));
                match self.kind {
                    Kind::Bytes => {
                        values.map(|((_, end), value)| (x.place(end as f64), y.place(value))).collect()
                    }
                    _ => steps(values, x, y),
                }
            });
            plot.lines(lines, Stroke::new(layer.color, 4), &layer.label);
        }
    }
}

/// Returns two points for each span: its start and its end, at its value.
fn steps(values: impl Iterator<Item = (Span, f64)>, x: &Axis, y: &Axis) -> Vec<Place> {
    values
        .flat_map(|((start, end), value)| {
            let height = y.place(value);
            [(x.place(start as f64), height), (x.place(end as f64), height)]
        })
        .collect()
}

/// Closes an edge to an area down to the axis.
fn grounded(mut edge: Vec<Place>) -> Vec<Place> {
    if let (Some(&(first, _)), Some(&(last, _))) = (edge.first(), edge.last()) {
        edge.extend([(last, 0.0), (first, 0.0)]);
    }
    edge
}

impl Columns {
    /// Returns whether a layer has any value.
    fn has(&self, layer: usize) -> bool {
        self.values[layer].iter().flatten().any(|&value| value > 0.0)
    }

    /// Returns the sum of the lowest layers of a column.
    fn sum(&self, column: usize, layers: usize) -> f64 {
        self.values.iter().take(layers).map(|values| values[column].unwrap_or(0.0)).sum()
    }

    /// Returns the runs of consecutive columns that have something to show.
    fn runs(&self, shows: impl Fn(usize) -> bool) -> Vec<std::ops::Range<usize>> {
        let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
        for column in (0..self.spans.len()).filter(|&column| shows(column)) {
            match runs.last_mut() {
                Some(run) if run.end == column && self.spans[column - 1].1 == self.spans[column].0 => {
                    run.end += 1;
                }
                _ => runs.push(column..column + 1),
            }
        }
        runs
    }
}
