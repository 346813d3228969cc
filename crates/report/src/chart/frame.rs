//! Parts that all charts share: size, margins, title, legend, grid and tick labels.

use std::fmt::Write as _;

use super::axis::Axis;
use super::layout::{
    Layout, NARROW, TEXT_SIZE, TITLE_SIZE, WIDE, bold_width, escaped, lines, short, text_width,
    wide_text_width,
};
use super::mark::Mark;
use super::palette::{Color, FAINT, GRID, INK};
use super::plot::Plot;

/// Left edge of the plot of every chart over time, in pixels.
const PLOT_LEFT: u32 = 150;
/// Room for half a tick label at the left, in pixels, if nothing else is there.
const BARE_LEFT: u32 = 14;
/// Room for half a tick label at the right, in pixels.
const RIGHT_MARGIN: u32 = 44;
/// Maximum width of row labels, and of names at the right, in pixels.
const LABELS_MAX: u32 = 620;

/// Height of a line of the title, in pixels.
const TITLE_LINE_HEIGHT: u32 = 42;
/// Height of a line of the legend, in pixels.
const LEGEND_LINE_HEIGHT: u32 = 40;
/// Height of a panel's title with its gap, in pixels.
const PANEL_TITLE_HEIGHT: u32 = 56;
/// Distance between a panel's title and the plot below it, in pixels.
const PANEL_TITLE_RISE: u32 = 20;
/// Height of a second line above a plot, in pixels, if its name and that of its y axis do not fit in one.
const SECOND_LINE_HEIGHT: u32 = 34;
/// Height of the tick labels below a plot, in pixels.
const X_LABELS_HEIGHT: u32 = 48;
/// Gap below a panel, in pixels.
const PANEL_GAP: u32 = 14;
/// Room below the tick labels for the title of the x axis, in pixels.
const X_TITLE_HEIGHT: u32 = 38;

/// Radius of the mark of a series in the legend, in pixels.
const MARK_RADIUS: i64 = 10;

/// Shape of a legend entry: an area, a line or a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyShape {
    Area,
    Line,
    DashedLine,
    Disc,
    Ring,
    /// A line with the marks of its series.
    Marked(Mark, bool),
}

/// An entry of the legend.
pub(crate) struct Key {
    pub(crate) label: String,
    pub(crate) color: Color,
    pub(crate) shape: KeyShape,
}

impl Key {
    pub(crate) fn new(label: impl Into<String>, color: Color, shape: KeyShape) -> Key {
        Key { label: label.into(), color, shape }
    }

    pub(crate) fn area(label: impl Into<String>, color: Color) -> Key {
        Key::new(label, color, KeyShape::Area)
    }

    pub(crate) fn line(label: impl Into<String>, color: Color) -> Key {
        Key::new(label, color, KeyShape::Line)
    }
}

/// The frame of one of several plots, one above the other.
pub(crate) struct PanelFrame {
    /// The side whose data it shows, such as `A`; may be empty.
    pub(crate) name: String,
    /// If several panels have the same, it is labeled only below the last of them.
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// Height in pixels of the plot, or of each row if the y axis is one of rows.
    pub(crate) height: u32,
}

/// A chart without its data.
pub(crate) struct Frame {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) keys: Vec<Key>,
    pub(crate) panels: Vec<PanelFrame>,
    /// Texts at the right of the plots; a wide chart leaves room for them.
    pub(crate) beside: Vec<String>,
}

/// A chart in its two widths.
pub(crate) struct Drawing {
    pub(crate) wide: String,
    pub(crate) narrow: String,
}

impl Frame {
    /// Draws the frame, and calls `data` to draw the content of each panel.
    pub(crate) fn draw(&self, data: impl Fn(usize, &mut Plot<'_>)) -> Drawing {
        let draw = |layout| Sheet::new(self, layout).draw(&data);
        Drawing { wide: draw(WIDE), narrow: draw(NARROW) }
    }
}

/// A frame in one of the widths.
struct Sheet<'a> {
    frame: &'a Frame,
    layout: Layout,
    left: u32,
    right: u32,
    title: Vec<String>,
}

impl Sheet<'_> {
    fn new(frame: &Frame, layout: Layout) -> Sheet<'_> {
        let widest = |of_rows: bool| {
            let axes = frame.panels.iter().map(|panel| &panel.y);
            let ticks = axes.filter(|y| y.row_count().is_some() == of_rows).flat_map(|y| &y.ticks);
            ticks.map(|tick| text_width(&tick.label)).max().unwrap_or_default().saturating_add(30)
        };
        let axes_of_numbers = frame.panels.iter().any(|panel| panel.y.row_count().is_none());
        let (left, beside) = if layout.is_narrow {
            (if axes_of_numbers { widest(false) } else { BARE_LEFT }, 0)
        } else {
            let beside = frame.beside.iter().map(|text| text_width(text) + 30).max().unwrap_or_default();
            (widest(false).max(widest(true).min(LABELS_MAX)).max(PLOT_LEFT), beside.min(LABELS_MAX))
        };
        Sheet {
            frame,
            layout,
            left,
            right: layout.width - beside.max(RIGHT_MARGIN),
            title: lines(frame.title, layout.title_characters()),
        }
    }

    fn draw(&self, data: &impl Fn(usize, &mut Plot<'_>)) -> String {
        let mut svg = self.opening();
        for (line, text) in (0..).zip(&self.title) {
            let y = 32 + line * TITLE_LINE_HEIGHT;
            let _ = writeln!(
                svg,
                "<text y=\"{y}\" font-size=\"{TITLE_SIZE}\" font-weight=\"bold\" fill=\"{INK}\">{}</text>",
                escaped(text)
            );
        }
        self.draw_legend(&mut svg);
        let mut top = self.header_height();
        for index in 0..self.frame.panels.len() {
            top += self.panel_title_height(index);
            self.draw_panel(&mut svg, index, top, data);
            top += self.plot_height(index) + self.below(index);
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Returns the opening tag of the root element and the chart's name for screen readers.
    fn opening(&self) -> String {
        let Frame { name, title, .. } = self.frame;
        let (width, height, class) = (self.layout.width, self.height(), self.layout.class);
        let id = if self.layout.is_narrow { format!("title-{name}-narrow") } else { format!("title-{name}") };
        let first = self.header_height() + self.panel_title_height(0);
        let last = self.frame.panels.len().saturating_sub(1);
        let bottom = height.saturating_sub(self.below(last));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" viewBox=\"0 0 {width} {height}\" width=\"100%\" \
             role=\"img\" aria-labelledby=\"{id}\" font-family=\"sans-serif\" font-size=\"{TEXT_SIZE}\" \
             stroke-linejoin=\"round\" stroke-linecap=\"round\" data-plot=\"{} {first} {} {bottom}\">\n\
             <title id=\"{id}\">{title}</title>\n",
            self.left, self.right,
        )
    }

    fn draw_panel(&self, svg: &mut String, index: usize, top: u32, data: &impl Fn(usize, &mut Plot<'_>)) {
        let panel = &self.frame.panels[index];
        self.draw_panel_title(svg, panel, top);
        let (width, height) = (self.right - self.left, self.plot_height(index));
        let x_labels = self.x_labels(&panel.x);
        let at_x = |place: f64| f64::from(self.left) + place * f64::from(width);
        let at_y = |place: f64| f64::from(top) + (1.0 - place) * f64::from(height);
        let bottom = top + height;
        let mut grid = String::new();
        for tick in &panel.x.ticks {
            let _ = write!(grid, "M{} {top}v{height}", at_x(tick.place).round());
        }
        for tick in panel.y.ticks.iter().filter(|_| panel.y.row_count().is_none()) {
            let _ = write!(grid, "M{} {}h{width}", self.left, at_y(tick.place).round());
        }
        let _ = writeln!(svg, "<path class=\"aid\" stroke=\"{GRID}\" stroke-width=\"2\" d=\"{grid}\"/>");
        data(index, &mut Plot::new(svg, self.layout, (self.left, top), (width, height), panel.y.row_count()));
        let _ = writeln!(
            svg,
            "<path class=\"aid\" fill=\"none\" stroke=\"{FAINT}\" stroke-width=\"2\" d=\"M{} {top}V{bottom}H{}\"/>",
            self.left, self.right
        );
        if !(self.layout.is_narrow && panel.y.row_count().is_some()) {
            let x = self.left - 12;
            for tick in &panel.y.ticks {
                let y = at_y(tick.place).round();
                let label = escaped(&self.layout.fitting(&tick.label, LABELS_MAX - 30));
                let _ = writeln!(
                    svg,
                    "<text x=\"{x}\" y=\"{y}\" dy=\".35em\" text-anchor=\"end\" fill=\"{INK}\">{label}</text>"
                );
            }
        }
        if self.has_x_labels(index) {
            for (place, label) in x_labels {
                let (x, y, label) = (at_x(place).round(), bottom + 32, escaped(&label));
                let _ = writeln!(
                    svg,
                    "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" fill=\"{INK}\">{label}</text>"
                );
            }
        }
        if self.x_title_height(index) > 0 {
            let (x, y) = ((self.left + self.right) / 2, bottom + X_LABELS_HEIGHT + 22);
            let title = escaped(&self.layout.fitting(&panel.x.title, self.layout.width));
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" fill=\"{FAINT}\">{title}</text>"
            );
        }
    }

    fn draw_panel_title(&self, svg: &mut String, panel: &PanelFrame, top: u32) {
        let left = if self.layout.is_narrow { 0 } else { self.left };
        let room = self.layout.width - left;
        let mut y_title = (left, top - PANEL_TITLE_RISE);
        if !panel.name.is_empty() {
            let name = short(&panel.name, (room / bold_width("M")) as usize);
            let mut y = top - PANEL_TITLE_RISE;
            if self.has_second_line(panel) {
                y -= SECOND_LINE_HEIGHT;
            } else {
                y_title.0 += bold_width(&name) + 24;
            }
            let _ = writeln!(
                svg,
                "<text x=\"{left}\" y=\"{y}\" font-weight=\"bold\" fill=\"{INK}\">{}</text>",
                escaped(&name)
            );
        }
        if !panel.y.title.is_empty() {
            let (x, y) = y_title;
            let title = self.layout.fitting(&panel.y.title, self.layout.width.saturating_sub(x));
            let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" fill=\"{FAINT}\">{}</text>", escaped(&title));
        }
    }

    fn draw_legend(&self, svg: &mut String) {
        let top = self.title_height();
        for (key, (x, line)) in self.frame.keys.iter().zip(self.key_places()) {
            let y = top + line * LEGEND_LINE_HEIGHT + LEGEND_LINE_HEIGHT / 2;
            let color = key.color;
            let line = |more: &str| {
                format!("<path class=\"aid\" stroke=\"{color}\" stroke-width=\"6\"{more} d=\"M{x} {y}h26\"/>")
            };
            let center = x + 13;
            svg.push_str(&match key.shape {
                KeyShape::Area => {
                    format!("<rect class=\"aid\" x=\"{x}\" y=\"{}\" width=\"22\" height=\"22\" fill=\"{color}\"/>", y - 11)
                }
                KeyShape::Line => line(""),
                KeyShape::DashedLine => line(" stroke-dasharray=\"8 10\""),
                KeyShape::Disc => format!("<circle class=\"aid\" cx=\"{center}\" cy=\"{y}\" r=\"9\" fill=\"{color}\"/>"),
                KeyShape::Ring => format!(
                    "<circle class=\"aid\" cx=\"{center}\" cy=\"{y}\" r=\"9\" fill=\"none\" stroke=\"{color}\" stroke-width=\"4\"/>"
                ),
                KeyShape::Marked(mark, is_dashed) => {
                    let dash = if is_dashed { " stroke-dasharray=\"8 10\"" } else { "" };
                    let mark = mark.path((i64::from(center), i64::from(y)), MARK_RADIUS);
                    format!("{}<path class=\"aid\" fill=\"{color}\" d=\"{mark}\"/>", line(dash))
                }
            });
            let label = escaped(&self.layout.fitting(&key.label, self.layout.width - 40));
            let _ =
                writeln!(svg, "<text x=\"{}\" y=\"{y}\" dy=\".35em\" fill=\"{INK}\">{label}</text>", x + 36);
        }
    }

    /// Returns the left edge and the line number of each key of the legend.
    fn key_places(&self) -> Vec<(u32, u32)> {
        let (mut x, mut line) = (0, 0);
        let place = |key: &Key| {
            let width = 36 + wide_text_width(&key.label) + 34;
            if x > 0 && x + width - 22 > self.layout.width {
                (x, line) = (0, line + 1);
            }
            let place = (x, line);
            x += width;
            place
        };
        self.frame.keys.iter().map(place).collect()
    }

    /// Returns the labels below a plot, without those that would overlap the previous one.
    fn x_labels(&self, x: &Axis) -> Vec<(f64, String)> {
        /// Smallest gap between two labels, in pixels.
        const LABEL_GAP: f64 = 20.0;
        let width = f64::from(self.right - self.left);
        let ticks: Vec<(f64, f64)> =
            x.ticks.iter().map(|tick| (tick.place * width, f64::from(text_width(&tick.label)))).collect();
        let fits = |step: usize| {
            let kept: Vec<&(f64, f64)> = ticks.iter().step_by(step).collect();
            kept.windows(2).all(|pair| pair[0].0 + (pair[0].1 + pair[1].1) / 2.0 + LABEL_GAP <= pair[1].0)
        };
        let step = (1..ticks.len()).find(|&step| fits(step)).unwrap_or_else(|| ticks.len().max(1));
        x.ticks.iter().step_by(step).map(|tick| (tick.place, tick.label.clone())).collect()
    }

    fn title_height(&self) -> u32 {
        self.title.len() as u32 * TITLE_LINE_HEIGHT + 4
    }

    fn header_height(&self) -> u32 {
        let lines = self.key_places().last().map_or(0, |&(_, line)| line + 1);
        self.title_height() + lines * LEGEND_LINE_HEIGHT
    }

    fn has_second_line(&self, panel: &PanelFrame) -> bool {
        self.layout.is_narrow && !panel.name.is_empty() && !panel.y.title.is_empty()
    }

    fn panel_title_height(&self, index: usize) -> u32 {
        let panel = self.frame.panels.get(index);
        let second = panel.is_some_and(|panel| self.has_second_line(panel));
        let is_bare = panel.is_some_and(|panel| panel.name.is_empty() && panel.y.title.is_empty());
        if is_bare { PANEL_GAP } else { PANEL_TITLE_HEIGHT + if second { SECOND_LINE_HEIGHT } else { 0 } }
    }

    fn plot_height(&self, index: usize) -> u32 {
        let panel = &self.frame.panels[index];
        match panel.y.row_count() {
            Some(rows) => Plot::height_of_rows(self.layout, rows, panel.height),
            None => panel.height,
        }
    }

    /// Returns whether the panel's x axis is labeled below it, and not below the next panel, which has the same.
    fn has_x_labels(&self, index: usize) -> bool {
        let panels = &self.frame.panels;
        panels.get(index).is_some_and(|panel| panels.get(index + 1).is_none_or(|next| next.x != panel.x))
    }

    fn x_title_height(&self, index: usize) -> u32 {
        let is_drawn = self.has_x_labels(index) && !self.frame.panels[index].x.title.is_empty();
        if is_drawn { X_TITLE_HEIGHT } else { 0 }
    }

    /// Returns the height below a plot, for its labels and the title of its x axis.
    fn below(&self, index: usize) -> u32 {
        let labels = if self.has_x_labels(index) { X_LABELS_HEIGHT } else { PANEL_GAP };
        labels + self.x_title_height(index)
    }

    fn height(&self) -> u32 {
        let panel = |index| self.panel_title_height(index) + self.plot_height(index) + self.below(index);
        self.header_height() + (0..self.frame.panels.len()).map(panel).sum::<u32>()
    }
}
