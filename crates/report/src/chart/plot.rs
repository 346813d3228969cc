//! Drawing primitives of charts: marks at positions of a plot, each with a text that describes it.
//!
//! Every line, bar and point requires such a text. It becomes the SVG's `<title>`, which a pointer shows and the
//! page's script displays. Marks that only guide the eye, such as a grid or a whisker, are aids and have none.

use std::fmt::Write as _;

use super::layout::{Layout, TEXT_SIZE, escaped, text_width};
use super::mark::Mark;
use super::palette::{Color, INK};
use super::path;
pub(crate) use super::stroke::Stroke;

/// A position: both coordinates range from 0 to 1, from the left and from the bottom.
pub(crate) type Place = (f64, f64);

/// Height of the label above a bar in a narrow chart, in pixels.
const ROW_LABEL: f64 = 34.0;

/// Shape of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Disc,
    Ring,
    /// The mark of a series, filled.
    Mark(Mark),
    /// The same, hollow.
    Outline(Mark),
}

/// Alignment of a text to its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Middle,
    Right,
}

/// The drawing area of a panel.
pub(crate) struct Plot<'a> {
    svg: &'a mut String,
    pub(crate) layout: Layout,
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    /// Number of rows, if the y axis is one of rows.
    rows: Option<usize>,
}

/// Bottom, middle and top of a bar in its row.
#[derive(Clone, Copy)]
pub(crate) struct Bar {
    pub(crate) bottom: f64,
    pub(crate) middle: f64,
    pub(crate) top: f64,
    /// Middle of the text above the bar, in a narrow chart.
    label: f64,
}

impl Plot<'_> {
    /// Creates the plot in a rectangle of the drawing, in pixels.
    pub(crate) fn new(
        svg: &mut String,
        layout: Layout,
        (left, top): (u32, u32),
        (width, height): (u32, u32),
        rows: Option<usize>,
    ) -> Plot<'_> {
        let [left, top, width, height] = [left, top, width, height].map(f64::from);
        Plot { svg, layout, left, top, width, height, rows }
    }

    /// Returns the height of a plot with `rows` rows, in pixels.
    pub(crate) fn height_of_rows(layout: Layout, rows: usize, row_height: u32) -> u32 {
        let label = if layout.is_narrow { ROW_LABEL as u32 } else { 0 };
        (row_height + label).saturating_mul(u32::try_from(rows.max(1)).unwrap_or(u32::MAX))
    }

    /// Draws a line through positions.
    pub(crate) fn line(&mut self, places: impl IntoIterator<Item = Place>, stroke: Stroke, title: &str) {
        let points: Vec<(i64, i64)> = places.into_iter().map(|place| self.pixel(place)).collect();
        self.outline(&points, false, &stroke.attributes(), Some(title));
    }

    /// Draws several lines as one mark: the dashes of one quantity.
    pub(crate) fn lines(&mut self, lines: impl IntoIterator<Item = Vec<Place>>, stroke: Stroke, title: &str) {
        let outlines = lines.into_iter().map(|line| {
            let points = line.into_iter().map(|place| self.pixel(place));
            path::steps(points, false)
        });
        let d: String = outlines.collect();
        self.path(&d, &stroke.attributes(), Some(title));
    }

    /// Draws a filled outline.
    pub(crate) fn area(&mut self, outline: impl IntoIterator<Item = Place>, color: Color, title: &str) {
        let points: Vec<(i64, i64)> = outline.into_iter().map(|place| self.pixel(place)).collect();
        // Areas are adjacent: antialiasing of their edges would let the background shine through.
        let attributes = format!("fill=\"{color}\" shape-rendering=\"crispEdges\"");
        self.outline(&points, true, &attributes, Some(title));
    }

    /// Draws a filled rectangle between two corners.
    pub(crate) fn rectangle(&mut self, corners: [Place; 2], color: Color, title: &str) {
        let [(x1, y1), (x2, y2)] = corners.map(|corner| self.pixel(corner));
        let (x, y, width, height) = (x1.min(x2), y1.min(y2), (x2 - x1).abs(), (y2 - y1).abs());
        let title = escaped(title);
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            self.svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{color}\"><title>{title}</title></rect>"
        );
    }

    /// Draws a point.
    pub(crate) fn point(&mut self, place: Place, shape: Shape, radius: i64, color: Color, title: &str) {
        let (x, y) = self.pixel(place);
        let title_text = escaped(title);
        let _ = match shape {
            Shape::Disc => writeln!(
                self.svg,
                "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{color}\"><title>{title_text}</title></circle>"
            ),
            // Filled with a transparent color, so that the pointer also hits its inside.
            Shape::Ring => writeln!(
                self.svg,
                "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"transparent\" stroke=\"{color}\" stroke-width=\"4\">\
                 <title>{title_text}</title></circle>"
            ),
            Shape::Mark(mark) => writeln!(
                self.svg,
                "<path fill=\"{color}\" d=\"{}\"><title>{title_text}</title></path>",
                mark.path((x, y), radius)
            ),
            Shape::Outline(mark) => writeln!(
                self.svg,
                "<path fill=\"transparent\" stroke=\"{color}\" stroke-width=\"4\" d=\"{}\"><title>{title_text}</title></path>",
                mark.path((x, y), radius)
            ),
        };
    }

    /// Draws a line that only guides the eye.
    pub(crate) fn aid(&mut self, places: impl IntoIterator<Item = Place>, stroke: Stroke) {
        let points: Vec<(i64, i64)> = places.into_iter().map(|place| self.pixel(place)).collect();
        self.outline(&points, false, &stroke.attributes(), None);
    }

    /// Draws a line from the slowest to the fastest run, with a bar across each end.
    pub(crate) fn whisker(&mut self, from: Place, to: Place) {
        /// Half the length of the bar at each end, in pixels.
        const WHISKER_END_LENGTH: i64 = 7;
        let ((x1, y1), (x2, y2)) = (self.pixel(from), self.pixel(to));
        let (dx, dy) = if y1 == y2 { (0, WHISKER_END_LENGTH) } else { (WHISKER_END_LENGTH, 0) };
        let across = |x: i64, y: i64| format!("M{} {}l{} {}", x - dx, y - dy, 2 * dx, 2 * dy);
        let d = format!("{}{}{}", path::steps([(x1, y1), (x2, y2)], false), across(x1, y1), across(x2, y2));
        self.path(&d, &Stroke::new(INK, 3).attributes(), None);
    }

    /// Draws a text, aligned to a position.
    pub(crate) fn text(&mut self, text: &str, (x, y): Place, align: Align) {
        let (x, y) = self.pixel((x, y));
        let anchor = match align {
            Align::Left => "",
            Align::Middle => " text-anchor=\"middle\"",
            Align::Right => " text-anchor=\"end\"",
        };
        let text = escaped(text);
        let _ = writeln!(
            self.svg,
            "<text class=\"name\" x=\"{x}\" y=\"{y}\" dy=\".35em\"{anchor} fill=\"{INK}\">{text}</text>"
        );
    }

    /// Returns the position of the bar of a row.
    pub(crate) fn bar(&self, row: usize) -> Bar {
        let height = self.height / self.rows.unwrap_or(1).max(1) as f64;
        let label = if self.layout.is_narrow { ROW_LABEL } else { 0.0 };
        let place = |pixels: f64| 1.0 - (row as f64 * height + pixels) / self.height;
        let bar = height - label;
        Bar {
            bottom: place(label + 0.83 * bar),
            middle: place(label + 0.5 * bar),
            top: place(label + 0.17 * bar),
            label: place(label * 0.62),
        }
    }

    /// Draws the label of a row. A narrow chart has it above the bar, beside the bar's figure; a wide chart has it at
    /// the axis.
    pub(crate) fn row_label(&mut self, row: usize, label: &str, figure: &str) {
        if !self.layout.is_narrow {
            return;
        }
        let room = (self.width as u32).saturating_sub(text_width(figure) + 24);
        let label = self.layout.fitting(label, room);
        let place = (4.0 / self.width, self.bar(row).label);
        self.text(&label, place, Align::Left);
    }

    /// Draws the figure of a bar: after its end, or in a narrow chart at the right of the line above it.
    pub(crate) fn figure(&mut self, row: usize, end: f64, figure: &str) {
        let bar = self.bar(row);
        if self.layout.is_narrow {
            self.text(figure, (1.0, bar.label), Align::Right);
        } else {
            self.text(figure, (end + 14.0 / self.width, bar.middle), Align::Left);
        }
    }

    /// Returns the approximate width and height of a text, in positions.
    pub(crate) fn extent(&self, text: &str) -> (f64, f64) {
        let width = f64::from(text_width(text));
        (self.width_of(width), self.height_of(f64::from(TEXT_SIZE) * 1.24))
    }

    /// Converts a width in pixels to places.
    pub(crate) fn width_of(&self, pixels: f64) -> f64 {
        pixels / self.width
    }

    /// Converts a height in pixels to places.
    pub(crate) fn height_of(&self, pixels: f64) -> f64 {
        pixels / self.height
    }

    fn pixel(&self, (x, y): Place) -> (i64, i64) {
        let x = self.left + x * self.width;
        let y = self.top + (1.0 - y) * self.height;
        (x.round() as i64, y.round() as i64)
    }

    fn outline(&mut self, points: &[(i64, i64)], closed: bool, attributes: &str, title: Option<&str>) {
        self.path(&path::steps(points.iter().copied(), closed), attributes, title);
    }

    fn path(&mut self, d: &str, attributes: &str, title: Option<&str>) {
        if d.is_empty() {
            return;
        }
        let _ = match title.map(escaped) {
            Some(title) => writeln!(self.svg, "<path {attributes} d=\"{d}\"><title>{title}</title></path>"),
            None => writeln!(self.svg, "<path class=\"aid\" {attributes} d=\"{d}\"/>"),
        };
    }
}
