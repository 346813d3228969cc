//! What all charts share: size, margins, title, legend, grid and tick labels.
//!
//! Plotters places everything on whole pixels. The drawing is therefore twice as large as it is meant to be looked at,
//! and the browser scales it down.

use std::io;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::palette::{FAINT, GRID, INK};
use super::svg;

/// Width of every chart.
pub(crate) const WIDTH: u32 = 2200;
/// Left edge of the plot of every chart over time.
pub(crate) const LEFT: u32 = 150;
/// Right edge of every plot.
pub(crate) const RIGHT: u32 = WIDTH - 40;

const TITLE_HEIGHT: i32 = 48;
const LEGEND_LINE_HEIGHT: i32 = 42;
const PANEL_TITLE_HEIGHT: u32 = 56;
const X_LABELS_HEIGHT: u32 = 48;
const PANEL_GAP: u32 = 14;
/// Room below the tick labels for the title of the x axis.
const X_TITLE_HEIGHT: u32 = 38;

/// Top of the first plot of every chart over time, whose legend takes one line.
pub(crate) const TOP: u32 = TITLE_HEIGHT as u32 + LEGEND_LINE_HEIGHT as u32 + PANEL_TITLE_HEIGHT;
/// What is below the last plot of every chart over time.
pub(crate) const BELOW: u32 = X_LABELS_HEIGHT + X_TITLE_HEIGHT;

/// Plotters' sizes are those of SVG times this.
const FONT_UNIT: f64 = 1.24;
const TITLE_SIZE: f64 = 31.0 * FONT_UNIT;
const PANEL_NAME_SIZE: f64 = 25.0 * FONT_UNIT;
const TEXT_SIZE: f64 = 24.0 * FONT_UNIT;
/// Mean width of a character at `TEXT_SIZE`; without fonts it can only be estimated.
const CHARACTER_WIDTH: i32 = 12;
/// The same of the bold name of a panel, which may be in capitals.
const NAME_CHARACTER_WIDTH: i32 = 17;

/// Where a panel's data is drawn; both coordinates go from 0 to 1.
pub(super) type Plot<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Places, Places>>;
/// How drawing ends.
pub(super) type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

/// A colour and what it stands for.
pub(super) struct Key {
    pub(super) label: &'static str,
    pub(super) colour: RGBColor,
}

/// One plot among those that stand one above the other.
pub(super) struct PanelFrame {
    /// Whose data it shows, such as `A`; may be empty.
    pub(super) name: String,
    /// Labelled once below the last of several panels that have the same.
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// Height of the plot.
    pub(super) height: u32,
}

/// A chart without its data.
pub(super) struct Frame {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) keys: Vec<Key>,
    pub(super) panels: Vec<PanelFrame>,
    /// Left edge of the plots.
    pub(super) left: u32,
}

impl Frame {
    /// Draws the frame, and into each panel what `data` draws there.
    ///
    /// # Panics
    /// Where drawing into a string fails, which would be a bug: margins are fixed and places lie between 0 and 1.
    pub(super) fn draw(&self, data: impl Fn(usize, &mut Plot<'_>) -> Drawn) -> String {
        let mut drawing = String::new();
        let size = (WIDTH, self.height());
        self.draw_on(&SVGBackend::with_string(&mut drawing, size).into_drawing_area(), data)
            .expect("drawing into a string cannot fail");
        svg::finish(&drawing, self.name, self.title, size)
    }

    fn draw_on(
        &self,
        root: &DrawingArea<SVGBackend<'_>, Shift>,
        data: impl Fn(usize, &mut Plot<'_>) -> Drawn,
    ) -> Drawn {
        root.draw(&Text::new(
            self.title,
            (0, 6),
            ("sans-serif", TITLE_SIZE, FontStyle::Bold).into_font().color(&INK),
        ))?;
        let (_, mut rest) = root.split_vertically(self.header_height());
        self.draw_legend(root)?;
        for (index, panel) in self.panels.iter().enumerate() {
            let (area, below) = rest.split_vertically(self.panel_height(index));
            self.draw_panel(&area, panel, self.has_x_labels(index), |plot| data(index, plot))?;
            let (title_area, below) = below.split_vertically(self.x_title_height(index));
            if self.x_title_height(index) > 0 {
                let middle = ((self.left + RIGHT) / 2) as i32;
                let style = text(FAINT, HPos::Center, VPos::Top);
                title_area.draw(&Text::new(panel.x.title.as_str(), (middle, 4), style))?;
            }
            rest = below;
        }
        root.present()
    }

    fn draw_panel(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        panel: &PanelFrame,
        has_x_labels: bool,
        data: impl FnOnce(&mut Plot<'_>) -> Drawn,
    ) -> Drawn {
        let baseline = PANEL_TITLE_HEIGHT as i32 - 10;
        let mut name_width = 0;
        if !panel.name.is_empty() {
            let bold = ("sans-serif", PANEL_NAME_SIZE, FontStyle::Bold).into_font().color(&INK);
            area.draw(&Text::new(
                panel.name.as_str(),
                (self.left as i32, baseline),
                bold.pos(Pos::new(HPos::Left, VPos::Bottom)),
            ))?;
            name_width = panel.name.chars().count() as i32 * NAME_CHARACTER_WIDTH + 24;
        }
        let y_title = text(FAINT, HPos::Left, VPos::Bottom);
        area.draw(&Text::new(panel.y.title.as_str(), (self.left as i32 + name_width, baseline), y_title))?;

        let mut plot = ChartBuilder::on(area)
            .margin_top(PANEL_TITLE_HEIGHT)
            .margin_right(WIDTH - RIGHT)
            .y_label_area_size(self.left)
            .x_label_area_size(if has_x_labels { X_LABELS_HEIGHT } else { PANEL_GAP })
            .build_cartesian_2d(Places::of(&panel.x), Places::of(&panel.y))?;
        plot.configure_mesh()
            .bold_line_style(GRID.stroke_width(2))
            .light_line_style(TRANSPARENT)
            .axis_style(FAINT.stroke_width(2))
            .set_all_tick_mark_size(7)
            .label_style(("sans-serif", TEXT_SIZE).into_font().color(&INK))
            .x_label_formatter(&|&place| if has_x_labels { panel.x.label_at(place) } else { String::new() })
            .y_label_formatter(&|&place| panel.y.label_at(place))
            .draw()?;
        data(&mut plot)
    }

    fn draw_legend(&self, root: &DrawingArea<SVGBackend<'_>, Shift>) -> Drawn {
        for (key, (x, line)) in self.keys.iter().zip(self.key_places()) {
            let y = TITLE_HEIGHT + line * LEGEND_LINE_HEIGHT + LEGEND_LINE_HEIGHT / 2;
            root.draw(&Rectangle::new([(x, y - 11), (x + 22, y + 11)], key.colour.filled()))?;
            root.draw(&Text::new(key.label, (x + 32, y), text(INK, HPos::Left, VPos::Center)))?;
        }
        Ok(())
    }

    /// The left edge and the line of each key of the legend.
    fn key_places(&self) -> Vec<(i32, i32)> {
        let (mut x, mut line) = (0, 0);
        let mut places = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            let width = 32 + key.label.chars().count() as i32 * CHARACTER_WIDTH + 40;
            if x > 0 && x + width > RIGHT as i32 {
                (x, line) = (0, line + 1);
            }
            places.push((x, line));
            x += width;
        }
        places
    }

    fn header_height(&self) -> u32 {
        let lines = self.key_places().last().map_or(0, |&(_, line)| line + 1);
        (TITLE_HEIGHT + lines * LEGEND_LINE_HEIGHT) as u32
    }

    /// Whether the panel's x axis is labelled below it, not below the next panel, which has the same.
    fn has_x_labels(&self, index: usize) -> bool {
        self.panels.get(index + 1).is_none_or(|next| next.x != self.panels[index].x)
    }

    fn panel_height(&self, index: usize) -> u32 {
        let below = if self.has_x_labels(index) { X_LABELS_HEIGHT } else { PANEL_GAP };
        PANEL_TITLE_HEIGHT + self.panels[index].height + below
    }

    fn x_title_height(&self, index: usize) -> u32 {
        let is_drawn = self.has_x_labels(index) && !self.panels[index].x.title.is_empty();
        if is_drawn { X_TITLE_HEIGHT } else { 0 }
    }

    fn height(&self) -> u32 {
        let panels =
            (0..self.panels.len()).map(|index| self.panel_height(index) + self.x_title_height(index));
        self.header_height() + panels.sum::<u32>()
    }
}

/// The style of ordinary text at an anchor.
pub(super) fn text(colour: RGBColor, horizontal: HPos, vertical: VPos) -> TextStyle<'static> {
    ("sans-serif", TEXT_SIZE).into_font().color(&colour).pos(Pos::new(horizontal, vertical))
}

/// The beginning of a name, without control characters.
pub(super) fn short(name: &str, length: usize) -> String {
    name.chars().filter(|c| !c.is_control()).take(length).collect()
}

/// About how wide a text is, in pixels.
pub(super) fn text_width(text: &str) -> u32 {
    text.chars().count() as u32 * CHARACTER_WIDTH as u32
}

/// About how wide and high a text is, in places of a plot of the given height.
pub(super) fn text_extent(text: &str, left: u32, plot_height: u32) -> (f64, f64) {
    (f64::from(text_width(text)) / f64::from(RIGHT - left), TEXT_SIZE / f64::from(plot_height))
}

/// Places from 0 to 1 with the ticks of an axis.
pub(super) struct Places {
    ticks: Vec<f64>,
}

impl Places {
    fn of(axis: &Axis) -> Places {
        Places { ticks: axis.ticks.iter().map(|tick| tick.place).collect() }
    }
}

impl Ranged for Places {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (start, end): (i32, i32)) -> i32 {
        start + (place * f64::from(end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> std::ops::Range<f64> {
        0.0..1.0
    }
}
