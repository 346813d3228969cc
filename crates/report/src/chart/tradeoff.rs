//! The points of a sweep: hit rate against mean and worst response.
//!
//! Undominated points are filled and joined in order of hit rate. The line may go up and down, since a point may be on
//! the front for the sake of the other response time.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::axis::Axis;
use super::frame::{self, Drawn, Frame, Key, LEFT, PanelFrame, Plot};
use super::room::Room;
use super::{Chart, palette};
use crate::schema::{SweepPoint, SweepResult};
use crate::verdict;

const TITLE: &str = "Hit rate against response";
const PLOT_HEIGHT: u32 = 520;
/// Beyond this a label is cut; the table has the whole of it.
const LABEL_LENGTH: usize = 36;

/// One panel: what is on its y axis.
struct View {
    title: &'static str,
    ns: fn(&SweepPoint) -> u64,
}

const VIEWS: [View; 2] = [
    View { title: "mean response, log scale", ns: |point| point.response_mean_ns },
    View { title: "worst response, log scale", ns: |point| point.response_max_ns },
];

pub(super) fn chart(result: &SweepResult) -> Chart {
    let points = &result.points;
    let x = Axis::shares_around("hit rate", points.iter().map(|point| point.hit_ratio));
    let y = VIEWS.map(|view| Axis::log_spans(view.title, points.iter().map(|point| (view.ns)(point) as f64)));
    let panel =
        |y: &Axis| PanelFrame { name: String::new(), x: x.clone(), y: y.clone(), height: PLOT_HEIGHT };
    let frame = Frame {
        name: "trade-off",
        title: TITLE,
        keys: vec![
            Key { label: "undominated", colour: palette::FRONT },
            Key { label: "beaten by another point", colour: palette::BEATEN },
        ],
        panels: y.iter().map(panel).collect(),
        left: LEFT,
    };
    let svg = frame.draw(|index, plot| {
        let place =
            |point: &SweepPoint| (x.place(point.hit_ratio), y[index].place((VIEWS[index].ns)(point) as f64));
        draw_points(points, place, plot)
    });
    Chart {
        name: "trade-off",
        title: TITLE,
        caption: "Right and down is better. A higher hit rate may be paid for with a longer worst response.",
        svg,
        time: None,
    }
}

fn draw_points(
    points: &[SweepPoint],
    place: impl Fn(&SweepPoint) -> (f64, f64),
    plot: &mut Plot<'_>,
) -> Drawn {
    let (mut front, beaten): (Vec<&SweepPoint>, Vec<&SweepPoint>) =
        points.iter().partition(|point| point.undominated);
    front.sort_by(|a, b| a.hit_ratio.total_cmp(&b.hit_ratio));
    plot.draw_series(
        beaten.iter().map(|point| Circle::new(place(point), 8, palette::BEATEN.stroke_width(3))),
    )?;
    plot.draw_series(LineSeries::new(
        front.iter().map(|point| place(point)),
        palette::FRONT.stroke_width(3),
    ))?;
    plot.draw_series(front.iter().map(|point| Circle::new(place(point), 10, palette::FRONT.filled())))?;

    let mut room = Room::beside(points.iter().map(&place), LEFT, PLOT_HEIGHT);
    // The highest hit rate first: where room is short, the better end keeps its names.
    for point in front.into_iter().rev() {
        let label = frame::short(&verdict::settings(point), LABEL_LENGTH);
        let extent = frame::text_extent(&label, LEFT, PLOT_HEIGHT);
        let Some(middle) = room.take(place(point), extent) else { continue };
        let style = frame::text(palette::INK, HPos::Center, VPos::Center);
        plot.draw_series(std::iter::once(Text::new(label, middle, style)))?;
    }
    Ok(())
}
