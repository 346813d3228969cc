//! Charts of the points of a sweep: hit rate against mean and worst response.
//!
//! Undominated points are filled and joined in order of hit rate. The line may go up and down, since a point may be
//! on the front because of the other response time.

use std::collections::BTreeMap;

use crate::chart::axis::Axis;
use crate::chart::frame::{Frame, Key, KeyShape, PanelFrame};
use crate::chart::layout::short;
use crate::chart::plot::{Align, Place, Plot, Shape, Stroke};
use crate::chart::room::Room;
use crate::chart::{Chart, palette};
use crate::number::{count, duration, percent};
use crate::result::{SweepPoint, SweepResult, point_name};

/// Height of the plot, in pixels.
const PLOT_HEIGHT: u32 = 440;
/// Length at which a label is truncated; the point's description and the table have the whole label.
const LABEL_LENGTH: usize = 36;

/// Maximum dominated points that are drawn: a page has to stay small.
const BEATEN_MAX: usize = 1000;

/// A panel, identified by the quantity of its y axis.
struct View {
    title: &'static str,
    ns: fn(&SweepPoint) -> u64,
}

const VIEWS: [View; 2] = [
    View { title: "mean response, log scale", ns: |point| point.response_mean_ns },
    View { title: "worst response, log scale", ns: |point| point.response_max_ns },
];

pub(crate) fn chart(result: &SweepResult) -> Chart {
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
            Key::new("dominated by another point", palette::BEATEN, KeyShape::Ring),
        ],
        panels: y.iter().map(panel).collect(),
        beside: Vec::new(),
    };
    let (front, beaten) = spots(points);
    let step = beaten.len().div_ceil(BEATEN_MAX).max(1);
    let drawn: Vec<&Spot<'_>> = beaten.iter().step_by(step).collect();
    let drawing = frame.draw(|index, plot| {
        let place =
            |point: &SweepPoint| (x.place(point.hit_ratio), y[index].place((VIEWS[index].ns)(point) as f64));
        draw_points(&front, &drawn, place, plot);
    });
    let mut caption =
        "Right and down is better. A higher hit rate may cost a longer worst response. Points without a \
                       label show their name under the pointer."
            .to_owned();
    if step > 1 {
        let (some, all) = (count(drawn.len() as u64), count(beaten.len() as u64));
        caption.push_str(&format!(" {some} of the {all} dominated points are drawn; the table has all."));
    }
    Chart::new(&frame, caption, drawing)
}

/// Settings with the same result: one point of the chart.
struct Spot<'a>(Vec<&'a SweepPoint>);

impl Spot<'_> {
    /// Returns the points at their positions, in the order of the sweep.
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

    /// Returns its description.
    fn words(&self) -> String {
        let point = self.0[0];
        let settings: Vec<String> = self.0.iter().map(|point| point_name(point)).collect();
        format!(
            "{}: hit rate {}, mean {}, worst {}",
            settings.join("; "),
            percent(point.hit_ratio),
            duration(point.response_mean_ns),
            duration(point.response_max_ns)
        )
    }

    /// Returns the label beside the mark.
    fn label(&self) -> String {
        let first = short(&point_name(self.0[0]), LABEL_LENGTH);
        match self.0.len() {
            1 => first,
            all => format!("{first} and {} more", count(all as u64 - 1)),
        }
    }
}

/// Returns the undominated ones in ascending order of hit rate, and the others.
fn spots(points: &[SweepPoint]) -> (Vec<Spot<'_>>, Vec<Spot<'_>>) {
    let (mut front, beaten): (Vec<Spot<'_>>, Vec<Spot<'_>>) =
        Spot::all(points).into_iter().partition(|spot| spot.0[0].undominated);
    front.sort_by(|a, b| a.0[0].hit_ratio.total_cmp(&b.0[0].hit_ratio));
    (front, beaten)
}

fn draw_points(
    front: &[Spot<'_>],
    beaten: &[&Spot<'_>],
    place: impl Fn(&SweepPoint) -> Place,
    plot: &mut Plot<'_>,
) {
    let place = |spot: &Spot<'_>| place(spot.0[0]);
    for spot in beaten {
        plot.point(place(spot), Shape::Ring, 8, palette::BEATEN, &spot.words());
    }
    plot.aid(front.iter().map(place), Stroke::new(palette::FRONT, 3));
    for spot in front {
        plot.point(place(spot), Shape::Disc, 10, palette::FRONT, &spot.words());
    }
    let mut room = Room::beside(front.iter().chain(beaten.iter().copied()).map(place), plot);
    // In descending order of hit rate: if space is short, the better end keeps its names.
    for spot in front.iter().rev() {
        let label = spot.label();
        let Some(middle) = room.take(place(spot), plot.extent(&label)) else { continue };
        plot.text(&label, middle, Align::Middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_points_some_are_drawn_and_the_caption_says_how_many() {
        let beaten = (0..5000).map(|index| SweepPoint {
            hit_ratio: f64::from(index) / 10_000.0,
            response_mean_ns: 9_000_000,
            ..SweepPoint::default()
        });
        let best = SweepPoint { hit_ratio: 0.9, undominated: true, ..SweepPoint::default() };
        let points = beaten.chain([best]).collect();
        let chart = chart(&SweepResult { points, ..SweepResult::default() });
        assert!(chart.caption.contains("1,000 of the 5,000"), "{}", chart.caption);
        assert!(chart.svg.matches("<circle").count() < 2100 && chart.svg.contains("hit rate 90.0 %"));
    }

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
