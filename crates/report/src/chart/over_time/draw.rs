//! Drawing stacks of steps, and dashes.

use plotters::prelude::*;

use super::{Kind, Layer, Panel, TimeChart};
use crate::chart::Chart;
use crate::chart::axis::Axis;
use crate::chart::frame::{Drawn, Frame, Key, LEFT, PanelFrame, Plot};

const PLOT_HEIGHT: u32 = 340;
/// Height of a plot where two stand one above the other.
const PLOT_HEIGHT_OF_TWO: u32 = 240;
/// The ends of a dash are round, so that a very short one is a dot of this size.
const DASH_WIDTH: u32 = 6;

impl TimeChart {
    /// The picture, on a time axis that is shared with others.
    pub(super) fn draw(self, x: &Axis) -> Chart {
        let y = self.y_axis();
        let panel = |panel: &Panel| PanelFrame {
            name: panel.run.to_owned(),
            x: x.clone(),
            y: y.clone(),
            height: if self.panels.len() > 1 { PLOT_HEIGHT_OF_TWO } else { PLOT_HEIGHT },
        };
        let frame = Frame {
            name: self.name,
            title: self.title,
            keys: self.keys(),
            panels: self.panels.iter().map(panel).collect(),
            left: LEFT,
        };
        let svg = frame.draw(|index, plot| {
            let panel = &self.panels[index];
            match self.kind {
                Kind::Times => draw_dashes(panel, x, &y, plot),
                Kind::Counts | Kind::ShareOfCounts | Kind::ShareOfTime => self.draw_stack(panel, x, &y, plot),
            }
        });
        Chart { name: self.name, title: self.title, caption: self.caption, svg, time: Some(self) }
    }

    /// The legend, from the lowest layer to the highest.
    fn keys(&self) -> Vec<Key> {
        let layers = self.panels.first().map_or(&[][..], |panel| &panel.layers);
        layers.iter().map(|layer| Key { label: layer.label, colour: layer.colour }).collect()
    }

    fn y_axis(&self) -> Axis {
        match self.kind {
            Kind::ShareOfCounts | Kind::ShareOfTime => Axis::shares(self.y_title),
            Kind::Counts => {
                let sums =
                    self.panels.iter().flat_map(|panel| (0..panel.spans.len()).map(|chunk| panel.sum(chunk)));
                Axis::counts(self.y_title, sums.fold(0.0, f64::max))
            }
            Kind::Times => {
                let layers = self.panels.iter().flat_map(|panel| &panel.layers);
                Axis::log_spans(
                    self.y_title,
                    layers.flat_map(|layer| layer.values.iter().flatten()).map(|&ns| ns as f64),
                )
            }
        }
    }

    /// Every layer is painted from the ground to its top, the highest first, so that the lower ones cover it. That
    /// takes half the points of painting each layer between its two edges.
    fn draw_stack(&self, panel: &Panel, x: &Axis, y: &Axis, plot: &mut Plot<'_>) -> Drawn {
        let height = |chunk: usize, layers: usize| {
            let top = panel.sum_of(chunk, layers);
            if self.kind == Kind::Counts { top } else { top / panel.sum(chunk) }
        };
        for (below, layer) in panel.layers.iter().enumerate().rev().filter(|(_, layer)| !layer.is_empty()) {
            for run in panel.runs(|chunk| panel.sum(chunk) > 0.0) {
                let edge = run.clone().map(|chunk| (panel.spans[chunk], height(chunk, below + 1)));
                let mut outline = steps(edge, x, y);
                if let (Some(&(first, _)), Some(&(last, _))) = (outline.first(), outline.last()) {
                    outline.extend([(last, 0.0), (first, 0.0)]);
                    plot.draw_series(std::iter::once(Polygon::new(outline, layer.colour.filled())))?;
                }
            }
        }
        Ok(())
    }
}

/// Times jump from chunk to chunk: lines up and down between them would hide everything.
fn draw_dashes(panel: &Panel, x: &Axis, y: &Axis, plot: &mut Plot<'_>) -> Drawn {
    for layer in &panel.layers {
        let dashes = layer.values.iter().zip(&panel.spans).filter_map(|(&value, &span)| {
            let dash = steps(std::iter::once((span, value? as f64)), x, y);
            Some(PathElement::new(dash, layer.colour.stroke_width(DASH_WIDTH)))
        });
        plot.draw_series(dashes)?;
    }
    Ok(())
}

/// Two points for each chunk: where it begins and where it ends, at its value.
fn steps(values: impl Iterator<Item = ((u64, u64), f64)>, x: &Axis, y: &Axis) -> Vec<(f64, f64)> {
    values
        .flat_map(|((start, end), value)| {
            let height = y.place(value);
            [(x.place(start as f64), height), (x.place(end as f64), height)]
        })
        .collect()
}

impl Layer {
    fn is_empty(&self) -> bool {
        self.values.iter().all(|value| value.unwrap_or(0) == 0)
    }
}

impl Panel {
    /// The sum of all layers of a chunk.
    fn sum(&self, chunk: usize) -> f64 {
        self.sum_of(chunk, self.layers.len())
    }

    /// The sum of the lowest layers of a chunk.
    fn sum_of(&self, chunk: usize, layers: usize) -> f64 {
        self.layers[..layers].iter().map(|layer| layer.values[chunk].unwrap_or(0) as f64).sum()
    }

    /// The runs of chunks that follow on each other and have something to show.
    fn runs(&self, shows: impl Fn(usize) -> bool) -> Vec<std::ops::Range<usize>> {
        let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
        for chunk in (0..self.spans.len()).filter(|&chunk| shows(chunk)) {
            match runs.last_mut() {
                Some(run) if run.end == chunk && self.spans[chunk - 1].1 == self.spans[chunk].0 => {
                    run.end += 1
                }
                _ => runs.push(chunk..chunk + 1),
            }
        }
        runs
    }
}
