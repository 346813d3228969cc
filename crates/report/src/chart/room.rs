//! Placement of the names of points in a plot.

use super::plot::Plot;

/// Width and height of the space occupied by a point, in pixels.
const POINT_SIZE: (f64, f64) = (24.0, 21.0);
/// Horizontal and vertical distance between a point and its name, in pixels.
const NAME_DISTANCE: (f64, f64) = (24.0, 15.0);

/// Occupied rectangles of a plot, in positions from 0 to 1.
pub(crate) struct Room {
    taken: Vec<Rect>,
    distance: (f64, f64),
}

/// A rectangle of positions.
#[derive(Clone, Copy)]
struct Rect {
    from: (f64, f64),
    to: (f64, f64),
}

impl Room {
    /// Returns the space occupied by points in a plot.
    pub(crate) fn beside(points: impl Iterator<Item = (f64, f64)>, plot: &Plot<'_>) -> Room {
        let place = |(x, y): (f64, f64)| (plot.width_of(x), plot.height_of(y));
        let taken = points.map(|point| Rect::around(point, place(POINT_SIZE))).collect();
        Room { taken, distance: place(NAME_DISTANCE) }
    }

    /// Reserves a free place for a name beside its point, and returns the middle of the name; `None` if no place is
    /// free. The table has all names.
    pub(crate) fn take(&mut self, (x, y): (f64, f64), (width, height): (f64, f64)) -> Option<(f64, f64)> {
        let (beside, above) = (width / 2.0 + self.distance.0, height / 2.0 + self.distance.1);
        let candidates = [
            (x, y + above),
            (x, y - above),
            (x + beside, y),
            (x - beside, y),
            (x + beside, y + above),
            (x - beside, y + above),
            (x + beside, y - above),
            (x - beside, y - above),
        ];
        let rect = |middle| Rect::around(middle, (width, height));
        let is_free =
            |label: Rect| label.is_inside() && !self.taken.iter().any(|other| other.overlaps(label));
        let middle = candidates.into_iter().find(|&middle| is_free(rect(middle)))?;
        self.taken.push(rect(middle));
        Some(middle)
    }
}

impl Rect {
    fn around((x, y): (f64, f64), (width, height): (f64, f64)) -> Rect {
        Rect { from: (x - width / 2.0, y - height / 2.0), to: (x + width / 2.0, y + height / 2.0) }
    }

    fn overlaps(self, other: Rect) -> bool {
        self.from.0 < other.to.0
            && other.from.0 < self.to.0
            && self.from.1 < other.to.1
            && other.from.1 < self.to.1
    }

    fn is_inside(self) -> bool {
        self.from.0 >= 0.0 && self.from.1 >= 0.0 && self.to.0 <= 1.0 && self.to.1 <= 1.0
    }
}

/// Returns the middles of names that are stacked at least `height` apart, each as near as possible to its wanted
/// position.
pub(crate) fn stack(wanted: &[f64], height: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut places = vec![0.0; wanted.len()];
    let mut floor = height / 2.0;
    for &index in &order {
        places[index] = wanted[index].max(floor);
        floor = places[index] + height;
    }
    let mut ceiling = 1.0 - height / 2.0;
    for &index in order.iter().rev() {
        places[index] = places[index].min(ceiling);
        ceiling = places[index] - height;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::layout::WIDE;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stacked_names_do_not_overlap(wanted in proptest::collection::vec(0.0..=1.0f64, 0..14)) {
            let height = 1.0 / 14.0;
            let mut places = stack(&wanted, height);
            prop_assert!(places.iter().all(|place| (0.0..=1.0).contains(place)));
            places.sort_by(f64::total_cmp);
            prop_assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= height - 1e-9));
        }

        #[test]
        fn names_beside_points_do_not_overlap(points in proptest::collection::vec((0.0..=1.0f64, 0.0..=1.0f64), 0..14)) {
            let mut svg = String::new();
            let plot = Plot::new(&mut svg, WIDE, (150, 0), (2000, 400), None);
            let mut room = Room::beside(points.iter().copied(), &plot);
            let extent = (0.1, 0.06);
            let names: Vec<Rect> = points
                .iter()
                .filter_map(|&point| room.take(point, extent))
                .map(|middle| Rect::around(middle, extent))
                .collect();
            for (index, name) in names.iter().enumerate() {
                prop_assert!(name.is_inside() && !names[..index].iter().any(|other| other.overlaps(*name)));
            }
        }
    }
}
