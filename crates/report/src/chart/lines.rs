//! Line charts in panels, one above the other: the same name has the same color and mark in every panel.

use super::axis::Axis;
use super::ends::{self, End};
use super::frame::{Frame, Key, KeyShape, PanelFrame};
use super::layout::short;
use super::mark::Mark;
use super::plot::{Shape, Stroke};
use super::{Chart, palette};

/// Length at which the name of a panel is truncated; the table has the whole name.
const PANEL_NAME_LENGTH: usize = 80;

/// Radius of a marked point, in pixels.
const POINT_RADIUS: i64 = 8;
/// Radius of a published point, in pixels: around the marked point if both are equal.
const PUBLISHED_RADIUS: i64 = 13;

/// A point in the units of the axes, and its description.
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) words: String,
}

/// A line of a panel.
pub(crate) struct Line {
    pub(crate) label: String,
    pub(crate) points: Vec<Point>,
    /// Published values for comparison with the simulated ones, if any.
    pub(crate) published: Vec<Point>,
}

/// A plot of a chart.
pub(crate) struct Panel {
    pub(crate) name: String,
    pub(crate) lines: Vec<Line>,
}

/// The panels of a chart under construction.
#[derive(Default)]
pub(crate) struct Panels(pub(crate) Vec<Panel>);

impl Panels {
    /// Returns the line with this name, created if it does not exist.
    pub(crate) fn line(&mut self, panel: String, label: String) -> &mut Line {
        let Panels(panels) = self;
        let index = panels.iter().position(|known| known.name == panel).unwrap_or_else(|| {
            panels.push(Panel { name: panel, lines: Vec::new() });
            panels.len() - 1
        });
        let lines = &mut panels[index].lines;
        let index = lines.iter().position(|line| line.label == label).unwrap_or_else(|| {
            lines.push(Line { label, points: Vec::new(), published: Vec::new() });
            lines.len() - 1
        });
        &mut lines[index]
    }

    /// Drops panels and lines beyond a maximum; returns whether some were dropped.
    pub(crate) fn limit(&mut self, panels: usize, lines: usize) -> bool {
        let Panels(all) = self;
        let is_cut = all.len() > panels || all.iter().any(|panel| panel.lines.len() > lines);
        all.truncate(panels);
        all.iter_mut().for_each(|panel| panel.lines.truncate(lines));
        is_cut
    }

    /// Returns all points of all lines.
    pub(crate) fn points(&self) -> impl Iterator<Item = &Point> {
        let lines = self.0.iter().flat_map(|panel| &panel.lines);
        lines.flat_map(|line| line.points.iter().chain(&line.published))
    }

    fn labels(&self) -> Vec<&str> {
        let mut labels: Vec<&str> = Vec::new();
        for line in self.0.iter().flat_map(|panel| &panel.lines) {
            if !labels.contains(&&*line.label) {
                labels.push(&line.label);
            }
        }
        labels
    }
}

/// A horizontal reference line, and its meaning.
pub(crate) type Level = (f64, &'static str);

/// Titles, axes and style of a line chart.
pub(crate) struct Look {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) caption: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) levels: &'static [Level],
    /// Whether each point is marked.
    pub(crate) is_dotted: bool,
    pub(crate) height: u32,
}

/// Draws the chart.
pub(crate) fn chart(panels: &Panels, look: Look) -> Chart {
    let labels = panels.labels();
    let index = |label: &str| labels.iter().position(|known| *known == label).unwrap_or_default();
    let stroke = |index: usize| Stroke::of_series(index, 4);
    let Look { name, title, caption, x, y, levels, is_dotted, height } = look;
    let frame = Frame {
        name,
        title,
        keys: keys(panels, &labels, levels, is_dotted),
        panels: panels
            .0
            .iter()
            .map(|panel| PanelFrame {
                name: short(&panel.name, PANEL_NAME_LENGTH),
                x: x.clone(),
                y: y.clone(),
                height,
            })
            .collect(),
        beside: if labels.len() > 1 { ends::beside(labels.iter().copied()) } else { Vec::new() },
    };
    let drawing = frame.draw(|panel, plot| {
        for (index, &(level, meaning)) in levels.iter().enumerate() {
            let ends = [(0.0, y.place(level)), (1.0, y.place(level))];
            plot.line(ends, Stroke::new(palette::FAINT, 3).dashed(index % 2 == 1), meaning);
        }
        let place = |point: &Point| (x.place(point.x), y.place(point.y));
        let lines = &panels.0[panel].lines;
        for line in lines {
            let (stroke, mark) = (stroke(index(&line.label)), Mark::of_series(index(&line.label)));
            plot.line(line.points.iter().map(place), stroke, words(&line.label, title));
            if is_dotted {
                for point in &line.points {
                    plot.point(place(point), Shape::Mark(mark), POINT_RADIUS, stroke.color, &point.words);
                }
            }
            for point in &line.published {
                plot.point(place(point), Shape::Outline(mark), PUBLISHED_RADIUS, stroke.color, &point.words);
            }
        }
        if labels.len() > 1 {
            let end = |line: &Line| {
                let color = stroke(index(&line.label)).color;
                Some(End { at: place(line.points.last()?), label: line.label.clone(), color })
            };
            ends::draw(&lines.iter().filter_map(end).collect::<Vec<_>>(), plot);
        }
    });
    Chart::new(&frame, caption, drawing)
}

/// Returns the description of a line; a line without a label has the chart's title.
fn words<'a>(label: &'a str, title: &'a str) -> &'a str {
    if label.is_empty() { title } else { label }
}

fn keys(panels: &Panels, labels: &[&str], levels: &[Level], is_dotted: bool) -> Vec<Key> {
    let named = labels.iter().enumerate().filter(|(_, label)| !label.is_empty());
    let mut keys: Vec<Key> = named
        .map(|(index, label)| {
            let stroke = Stroke::of_series(index, 4);
            let shape = match (is_dotted, stroke.is_dashed) {
                (true, is_dashed) => KeyShape::Marked(Mark::of_series(index), is_dashed),
                (false, true) => KeyShape::DashedLine,
                (false, false) => KeyShape::Line,
            };
            Key::new(short(label, 46), stroke.color, shape)
        })
        .collect();
    if panels.0.iter().flat_map(|panel| &panel.lines).any(|line| !line.published.is_empty()) {
        keys.push(Key::new("hollow: published", palette::INK, KeyShape::Ring));
    }
    keys.extend(levels.iter().enumerate().map(|(index, (_, meaning))| {
        let shape = if index % 2 == 1 { KeyShape::DashedLine } else { KeyShape::Line };
        Key::new(*meaning, palette::FAINT, shape)
    }));
    keys
}
