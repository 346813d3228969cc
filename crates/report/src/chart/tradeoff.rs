//! The points of a sweep: hit rate against mean and worst response.
//!
//! Undominated points are filled and joined in order of hit rate. The line may go up and down, since a point may be on
//! the front for the sake of the other response time.

use super::axis::Axis;
use super::frame::{Frame, Key, KeyShape, PanelFrame};
use super::layout::short;
use super::plot::{Align, Place, Plot, Shape, Stroke};
use super::room::Room;
use super::{Chart, palette};
use crate::number::{duration, percent};
use crate::schema::{SweepPoint, SweepResult};
use crate::verdict;

const PLOT_HEIGHT: u32 = 440;
/// Beyond this a label is cut; the point's own words and the table have the whole of it.
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
        title: "Hit rate against response",
        keys: vec![
            Key::new("undominated", palette::FRONT, KeyShape::Disc),
            Key::new("beaten by another point", palette::BEATEN, KeyShape::Ring),
        ],
        panels: y.iter().map(panel).collect(),
        beside: Vec::new(),
    };
    let drawing = frame.draw(|index, plot| {
        let place =
            |point: &SweepPoint| (x.place(point.hit_ratio), y[index].place((VIEWS[index].ns)(point) as f64));
        draw_points(points, place, plot);
    });
    Chart::new(
        &frame,
        "Right and down is better. A higher hit rate may be paid for with a longer worst response. Points without a name \
         say theirs under the pointer.",
        drawing,
    )
}

/// Everything that the chart says of a point.
fn words(point: &SweepPoint) -> String {
    format!(
        "{}: hit rate {}, mean {}, worst {}",
        verdict::settings(point),
        percent(point.hit_ratio),
        duration(point.response_mean_ns),
        duration(point.response_max_ns)
    )
}

fn draw_points(points: &[SweepPoint], place: impl Fn(&SweepPoint) -> Place, plot: &mut Plot<'_>) {
    let (mut front, beaten): (Vec<&SweepPoint>, Vec<&SweepPoint>) =
        points.iter().partition(|point| point.undominated);
    front.sort_by(|a, b| a.hit_ratio.total_cmp(&b.hit_ratio));
    for point in beaten {
        plot.point(place(point), Shape::Ring, 8, palette::BEATEN, &words(point));
    }
    plot.aid(front.iter().map(|point| place(point)), Stroke::new(palette::FRONT, 3));
    for point in &front {
        plot.point(place(point), Shape::Disc, 10, palette::FRONT, &words(point));
    }
    let mut room = Room::beside(points.iter().map(&place), plot);
    // The highest hit rate first: where room is short, the better end keeps its names.
    for point in front.into_iter().rev() {
        let label = short(&verdict::settings(point), LABEL_LENGTH);
        let Some(middle) = room.take(place(point), plot.extent(&label)) else { continue };
        plot.text(&label, middle, Align::Middle);
    }
}
