//! The points of a sweep: hit rate against mean and worst response.
//!
//! Undominated points are filled and joined in order of hit rate. The line may go up and down, since a point may be on
//! the front for the sake of the other response time.

use std::collections::BTreeMap;

use super::axis::Axis;
use super::frame::{Frame, Key, KeyShape, PanelFrame};
use super::layout::short;
use super::plot::{Align, Place, Plot, Shape, Stroke};
use super::room::Room;
use super::{Chart, palette};
use crate::number::{count, duration, percent};
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

/// Settings that come to the same: one point of the chart.
struct Spot<'a>(Vec<&'a SweepPoint>);

impl Spot<'_> {
    /// The points at their places, in the order of the sweep.
    fn all(points: &[SweepPoint]) -> Vec<Spot<'_>> {
        let figures = |point: &SweepPoint| {
            (point.hit_ratio.to_bits(), point.response_mean_ns, point.response_max_ns, point.undominated)
        };
        let mut number: BTreeMap<_, usize> = BTreeMap::new();
        let mut spots: Vec<Spot<'_>> = Vec::new();
        for point in points {
            let index = *number.entry(figures(point)).or_insert_with(|| {
                spots.push(Spot(Vec::new()));
                spots.len() - 1
            });
            spots[index].0.push(point);
        }
        spots
    }

    /// Everything that the chart says of it.
    fn words(&self) -> String {
        let point = self.0[0];
        let settings: Vec<String> = self.0.iter().map(|point| verdict::settings(point)).collect();
        format!(
            "{}: hit rate {}, mean {}, worst {}",
            settings.join("; "),
            percent(point.hit_ratio),
            duration(point.response_mean_ns),
            duration(point.response_max_ns)
        )
    }

    /// What stands beside it.
    fn label(&self) -> String {
        let first = short(&verdict::settings(self.0[0]), LABEL_LENGTH);
        match self.0.len() {
            1 => first,
            all => format!("{first} and {} more", count(all as u64 - 1)),
        }
    }
}

fn draw_points(points: &[SweepPoint], place: impl Fn(&SweepPoint) -> Place, plot: &mut Plot<'_>) {
    let spots = Spot::all(points);
    let place = |spot: &Spot<'_>| place(spot.0[0]);
    let (mut front, beaten): (Vec<&Spot<'_>>, Vec<&Spot<'_>>) =
        spots.iter().partition(|spot| spot.0[0].undominated);
    front.sort_by(|a, b| a.0[0].hit_ratio.total_cmp(&b.0[0].hit_ratio));
    for spot in beaten {
        plot.point(place(spot), Shape::Ring, 8, palette::BEATEN, &spot.words());
    }
    plot.aid(front.iter().map(|spot| place(spot)), Stroke::new(palette::FRONT, 3));
    for spot in &front {
        plot.point(place(spot), Shape::Disc, 10, palette::FRONT, &spot.words());
    }
    let mut room = Room::beside(spots.iter().map(place), plot);
    // The highest hit rate first: where room is short, the better end keeps its names.
    for spot in front.into_iter().rev() {
        let label = spot.label();
        let Some(middle) = room.take(place(spot), plot.extent(&label)) else { continue };
        plot.text(&label, middle, Align::Middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_come_to_the_same_share_a_point_and_its_words() {
        let point = |value: &str, hit_ratio| SweepPoint {
            values: vec![value.to_owned()],
            hit_ratio,
            undominated: true,
            ..SweepPoint::default()
        };
        let points = [point("1MiB", 0.7), point("64KiB", 0.3), point("2MiB", 0.7)];
        let spots = Spot::all(&points);
        let words: Vec<String> = spots.iter().map(Spot::words).collect();
        assert_eq!(words.len(), 2);
        assert!(words[0].starts_with("1MiB; 2MiB: hit rate 70.0 %"), "{}", words[0]);
        assert_eq!(spots[0].label(), "1MiB and 1 more");
    }
}
