//! CPU time for each GB against throughput: where the cheapest case is near the fastest.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::{LABEL_LENGTH, NAME_LENGTH, NAMES, NAMES_FROM, draw_names, height_for, method_keys, rates};
use crate::chart::axis::Axis;
use crate::chart::frame::{self, Drawn, Frame, Key, LEFT, PanelFrame, Plot};
use crate::chart::room::Room;
use crate::chart::{Chart, palette};
use crate::probe::Group;
use crate::schema::ProbeCase;

const TITLE: &str = "CPU time against throughput";
/// What is at least this share of the fastest is nearly as fast.
const NEAR_RATIO: f64 = 0.95;

pub(super) fn chart(groups: &[Group<'_>]) -> Chart {
    let views: Vec<View<'_>> = groups.iter().map(View::of).collect();
    let mut keys = method_keys(groups);
    keys.push(Key { label: "within 5 % of the fastest", colour: palette::IDLE });
    let frame = Frame {
        name: "cpu-against-throughput",
        title: TITLE,
        keys,
        panels: views.iter().map(View::panel).collect(),
        left: LEFT,
    };
    let svg = frame.draw(|index, plot| views[index].draw(plot));
    Chart {
        name: "cpu-against-throughput",
        title: TITLE,
        caption: "Right and down is better. The line joins the cases that no other one beats, which are filled: to go \
                  faster than one of them takes more CPU time. In the grey band the lowest is the one to choose.",
        svg,
        time: None,
    }
}

/// One group in its panel.
struct View<'a> {
    group: &'a Group<'a>,
    /// What no other case beats.
    front: Vec<&'a ProbeCase>,
    /// What is nearly as fast as the fastest, and named at the right.
    near: Vec<&'a ProbeCase>,
    x: Axis,
    y: Axis,
}

impl View<'_> {
    fn of<'a>(group: &'a Group<'a>) -> View<'a> {
        let front = group.front();
        let fastest = front.first().map_or(0.0, |case| case.throughput_bytes_per_s);
        let is_near = |case: &&ProbeCase| case.throughput_bytes_per_s >= fastest * NEAR_RATIO;
        View {
            near: group.cases.iter().copied().filter(is_near).collect(),
            front,
            x: Axis::rates("throughput", rates(group), NAMES),
            y: Axis::log_cpu_per_gb(
                "CPU seconds for a GB, log scale",
                group.cases.iter().map(|case| case.cpu_ns_per_byte),
            ),
            group,
        }
    }

    fn panel(&self) -> PanelFrame {
        PanelFrame {
            name: frame::short(&self.group.name, NAME_LENGTH),
            x: self.x.clone(),
            y: self.y.clone(),
            height: height_for(self.near.len()),
        }
    }

    fn place(&self, case: &ProbeCase) -> (f64, f64) {
        (self.x.place(case.throughput_bytes_per_s), self.y.place(case.cpu_ns_per_byte))
    }

    fn draw(&self, plot: &mut Plot<'_>) -> Drawn {
        if let Some(fastest) = self.front.first().map(|case| case.throughput_bytes_per_s) {
            let corners = [(self.x.place(fastest * NEAR_RATIO), 0.0), (self.x.place(fastest), 1.0)];
            plot.draw_series(std::iter::once(Rectangle::new(corners, palette::IDLE.filled())))?;
        }
        let names = self.near.iter().map(|&case| (self.group.label(case), case));
        draw_names(names, |case| self.place(case), self.panel().height, plot)?;
        let line = self.front.iter().map(|case| self.place(case));
        plot.draw_series(LineSeries::new(line, palette::BEATEN.stroke_width(4)))?;
        plot.draw_series(self.group.cases.iter().map(|case| {
            let colour = palette::method(&case.method);
            let style = if is_among(&self.front, case) { colour.filled() } else { colour.stroke_width(4) };
            Circle::new(self.place(case), 10, style)
        }))?;
        self.draw_other_names(plot)
    }

    /// The front first: where room is short, it keeps its names.
    fn draw_other_names(&self, plot: &mut Plot<'_>) -> Drawn {
        let height = self.panel().height;
        let points = self.group.cases.iter().map(|case| self.place(case));
        let mut room = Room::beside(points, LEFT, height).until(NAMES_FROM - 0.01);
        let beaten = self.group.cases.iter().filter(|case| !is_among(&self.front, case));
        for case in self.front.iter().chain(beaten).filter(|case| !is_among(&self.near, case)) {
            let name = frame::short(&self.group.label(case), LABEL_LENGTH);
            let extent = frame::text_extent(&name, LEFT, height);
            let Some(middle) = room.take(self.place(case), extent) else { continue };
            let style = frame::text(palette::INK, HPos::Center, VPos::Center);
            plot.draw_series(std::iter::once(Text::new(name, middle, style)))?;
        }
        Ok(())
    }
}

fn is_among(cases: &[&ProbeCase], wanted: &ProbeCase) -> bool {
    cases.iter().any(|&case| std::ptr::eq(case, wanted))
}
