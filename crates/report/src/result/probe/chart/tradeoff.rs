//! CPU time per GB against throughput, which shows whether the cheapest case is near the fastest.

use super::{LABEL_LENGTH, NAME_LENGTH, height_for, method_keys, rates, words};
use crate::chart::axis::Axis;
use crate::chart::ends::{self, End};
use crate::chart::frame::{Frame, Key, KeyShape, PanelFrame};
use crate::chart::layout::short;
use crate::chart::plot::{Align, Place, Plot, Shape, Stroke};
use crate::chart::room::Room;
use crate::chart::{Chart, palette};
use crate::result::Group;
use crate::result::ProbeCase;

/// A case with at least this share of the highest throughput counts as nearly as fast.
const NEAR_RATIO: f64 = 0.95;
const NEAR: &str = "within 5 % of the fastest";

pub(super) fn chart(groups: &[Group<'_>]) -> Chart {
    let views: Vec<View<'_>> = groups.iter().map(View::of).collect();
    let mut keys = method_keys(groups, KeyShape::Disc);
    keys.push(Key::new("dominated by another", palette::BEATEN, KeyShape::Ring));
    keys.push(Key::area(NEAR, palette::IDLE));
    let frame = Frame {
        name: "cpu-against-throughput",
        title: "CPU time against throughput",
        keys,
        panels: views.iter().map(View::panel).collect(),
        beside: views.iter().flat_map(View::beside).collect(),
    };
    let drawing = frame.draw(|index, plot| views[index].draw(plot));
    Chart::new(
        &frame,
        "Right and down is better. The line joins the Pareto-optimal cases, which are filled: a higher \
         throughput costs more CPU time. In the gray band, the lowest case is the best choice. Points \
         without a label show their name under the pointer.",
        drawing,
    )
}

/// One group in its panel.
struct View<'a> {
    group: &'a Group<'a>,
    /// The undominated cases.
    front: Vec<&'a ProbeCase>,
    /// The cases nearly as fast as the fastest, which are named at the right.
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
            x: Axis::rates("throughput", rates(group)),
            y: Axis::log_cpu_per_gb(
                "CPU seconds per GB, log scale",
                group.cases.iter().map(|case| case.cpu_ns_per_byte),
            ),
            group,
        }
    }

    fn panel(&self) -> PanelFrame {
        PanelFrame {
            name: short(&self.group.name, NAME_LENGTH),
            x: self.x.clone(),
            y: self.y.clone(),
            height: height_for(self.near.len()),
        }
    }

    fn beside(&self) -> Vec<String> {
        let labels: Vec<String> = self.near.iter().map(|case| self.group.label(case)).collect();
        ends::beside(labels.iter().map(String::as_str))
    }

    fn place(&self, case: &ProbeCase) -> Place {
        (self.x.place(case.throughput_bytes_per_s), self.y.place(case.cpu_ns_per_byte))
    }

    fn draw(&self, plot: &mut Plot<'_>) {
        if let Some(fastest) = self.front.first().map(|case| case.throughput_bytes_per_s) {
            let corners = [(self.x.place(fastest * NEAR_RATIO), 0.0), (self.x.place(fastest), 1.0)];
            plot.rectangle(corners, palette::IDLE, NEAR);
        }
        let ends = self.near.iter().map(|case| End {
            at: self.place(case),
            label: self.group.label(case),
            color: palette::method(&case.method),
        });
        ends::draw(&ends.collect::<Vec<_>>(), plot);
        plot.aid(self.front.iter().map(|case| self.place(case)), Stroke::new(palette::BEATEN, 4));
        for case in &self.group.cases {
            let shape = if is_among(&self.front, case) { Shape::Disc } else { Shape::Ring };
            plot.point(self.place(case), shape, 10, palette::method(&case.method), &words(self.group, case));
        }
        self.draw_other_names(plot);
    }

    /// Draws the names of the front first, so that they are kept if space is short.
    fn draw_other_names(&self, plot: &mut Plot<'_>) {
        let points = self.group.cases.iter().map(|case| self.place(case));
        let mut room = Room::beside(points, plot);
        let beaten = self.group.cases.iter().filter(|case| !is_among(&self.front, case));
        let is_named = |case: &&&ProbeCase| !plot.layout.is_narrow && is_among(&self.near, case);
        let others: Vec<&&ProbeCase> =
            self.front.iter().chain(beaten).filter(|case| !is_named(case)).collect();
        for case in others {
            let name = short(&self.group.label(case), LABEL_LENGTH);
            let Some(middle) = room.take(self.place(case), plot.extent(&name)) else { continue };
            plot.text(&name, middle, Align::Middle);
        }
    }
}

fn is_among(cases: &[&ProbeCase], wanted: &ProbeCase) -> bool {
    cases.iter().any(|&case| std::ptr::eq(case, wanted))
}
