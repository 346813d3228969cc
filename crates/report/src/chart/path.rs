//! The `d` attribute of an SVG path: the start, then relative steps, so that a line of hundreds of points stays
//! short.

use std::fmt::Write as _;

/// Returns the points, in pixels, as a path; a single point is a step of length zero, which round ends make a dot.
pub(crate) fn steps(points: impl IntoIterator<Item = (i64, i64)>, closed: bool) -> String {
    let mut points = points.into_iter();
    let Some((mut x, mut y)) = points.next() else { return String::new() };
    let start = format!("M{x} {y}");
    let mut steps = Steps { text: start.clone(), pending: (0, 0) };
    for (next_x, next_y) in points {
        steps.go(next_x - x, next_y - y);
        (x, y) = (next_x, next_y);
    }
    steps.flush();
    if steps.text == start {
        steps.text.push_str("h0");
    }
    if closed {
        steps.text.push('z');
    }
    steps.text
}

/// Relative steps under construction; those in one direction are joined.
struct Steps {
    text: String,
    pending: (i64, i64),
}

impl Steps {
    fn go(&mut self, dx: i64, dy: i64) {
        let (px, py) = self.pending;
        let same_way = |a: i64, b: i64| a.signum() * b.signum() >= 0;
        let joins = (px == 0 && dx == 0 && same_way(py, dy)) || (py == 0 && dy == 0 && same_way(px, dx));
        if !joins {
            self.flush();
        }
        self.pending = (self.pending.0 + dx, self.pending.1 + dy);
    }

    fn flush(&mut self) {
        // Writing to a string cannot fail.
        let _ = match std::mem::take(&mut self.pending) {
            (0, 0) => Ok(()),
            (dx, 0) => write!(self.text, "h{dx}"),
            (0, dy) => write!(self.text, "v{dy}"),
            (dx, dy) => write!(self.text, "l{dx} {dy}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_become_relative_steps_and_those_in_one_direction_are_joined() {
        assert_eq!(steps([(1, 2), (3, 2), (9, 2), (9, 5)], false), "M1 2h8v3");
        assert_eq!(steps([(9, 9), (8, 7)], false), "M9 9l-1 -2");
        assert_eq!(steps([(0, 0), (4, 0), (0, 4)], true), "M0 0h4l-4 4z");
        assert_eq!(steps([(5, 5), (5, 5)], false), "M5 5h0");
        assert_eq!(steps([], false), "");
    }
}
