//! Where a command's time in the device went, by class.

use sakiyomi_model::Class;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::axis::Axis;
use super::frame::{self, Drawn, Frame, Key, PanelFrame, Plot};
use super::{Chart, Side, palette};
use crate::schema::ClassBreakdown;
use crate::{label, number};

const TITLE: &str = "Where the time in the device goes";
const LABELS: [&str; 5] = ["queue", "overhead", "seek", "rotation", "transfer"];
const ROW_HEIGHT: u32 = 52;
/// Wide enough for the longest name of a class.
const LEFT: u32 = 320;
/// Beyond this a label is cut; classes of our own are shorter.
const LABEL_LENGTH: usize = 22;

/// One bar.
struct Row<'a> {
    side: &'static str,
    class: &'a ClassBreakdown,
}

pub(super) fn chart(sides: &[Side<'_>]) -> Chart {
    let rows = rows(sides);
    let x = Axis::spans(
        "mean time of a command",
        rows.iter().map(|row| row.class.total_ns() as f64).fold(0.0, f64::max),
    );
    let y = Axis::rows(rows.iter().map(Row::label).collect());
    let keys = LABELS.into_iter().zip(palette::PARTS).map(|(label, colour)| Key { label, colour });
    let frame = Frame {
        name: "breakdown",
        title: TITLE,
        keys: keys.collect(),
        panels: vec![PanelFrame {
            name: String::new(),
            x: x.clone(),
            y: y.clone(),
            height: ROW_HEIGHT * rows.len().clamp(1, 40) as u32,
        }],
        left: LEFT,
    };
    let svg = frame.draw(|_, plot| {
        rows.iter().enumerate().try_for_each(|(index, row)| draw_row(index, row.class, &x, &y, plot))
    });
    Chart {
        name: "breakdown",
        title: TITLE,
        caption: "Means by class. A long queue part is time spent behind other commands and read-ahead.",
        svg,
        time: None,
    }
}

/// The classes in the order of reports, those of a comparison next to each other.
fn rows<'a>(sides: &[Side<'a>]) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = (sides.iter())
        .flat_map(|side| side.result.breakdown_mean_ns.iter().map(|class| Row { side: side.name, class }))
        .filter(|row| row.class.commands > 0)
        .collect();
    let position = |row: &Row<'_>| Class::ALL.iter().position(|class| class.name() == row.class.class);
    rows.sort_by_key(|row| position(row).unwrap_or(usize::MAX));
    rows
}

impl Row<'_> {
    fn label(&self) -> String {
        let name =
            label::class_named(&self.class.class).map_or(&*self.class.class, |class| label::class(class));
        let name = frame::short(name, LABEL_LENGTH);
        if self.side.is_empty() { name } else { format!("{name}  {}", self.side) }
    }
}

fn draw_row(index: usize, class: &ClassBreakdown, x: &Axis, y: &Axis, plot: &mut Plot<'_>) -> Drawn {
    let (top, bottom) = (y.place(index as f64 + 0.16), y.place(index as f64 + 0.84));
    let mut end = 0.0;
    let parts = [class.queue, class.overhead, class.seek, class.rotation, class.transfer];
    for (colour, ns) in palette::PARTS.into_iter().zip(parts).filter(|&(_, ns)| ns > 0) {
        let corners = [(x.place(end), top), (x.place(end + ns as f64), bottom)];
        plot.draw_series(std::iter::once(Rectangle::new(corners, colour.filled())))?;
        end += ns as f64;
    }
    let total = number::duration(class.total_ns());
    let style = frame::text(palette::INK, HPos::Left, VPos::Center);
    let place = (x.place(end) + 0.006, (top + bottom) / 2.0);
    plot.draw_series(std::iter::once(Text::new(total, place, style)))?;
    Ok(())
}
