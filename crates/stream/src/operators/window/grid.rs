//! Where windows of a fixed size begin and end, in exact arithmetic.
//!
//! ```text
//! size 10, step 4      windows start at multiples of the step
//! 0    4    8    12   16   20
//! ├───────────┤                   ends: size mod step, and each step after that
//!      ├───────────┤
//!           ├───────────┤
//! │ │  │ │  │ │  │ │  │ │  │      panes: from each start or end to the next one
//! ```
//!
//! A step has one pane, or two if the size is not a multiple of it (paired windows: Krishnamurthy, Wu and Franklin, SIGMOD
//! 2006, section 4.1), whatever their greatest common divisor.
//!
//! Times are below 2⁶⁴ and ends may be beyond it, so that ends are `u128`. Windows that would begin before 0 begin at 0.

use std::ops::RangeInclusive;

use super::Window;

/// Sizes of windows, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) size: u64,
    pub(super) step: u64,
    pub(super) lateness: u64,
    /// The size modulo the step, which each value needs.
    rest: u64,
}

impl Grid {
    pub(super) fn new(size: u64, step: u64) -> Grid {
        assert!(
            0 < step && step <= size,
            "a window has a step from 1 ns to its size of {size} ns, not {step}"
        );
        Grid { size, step, lateness: 0, rest: size % step }
    }

    /// Returns the number of the pane with this time.
    pub(super) fn pane_of(&self, time: u64) -> u64 {
        let step = time / self.step;
        // With two panes a step is 2 at least.
        if self.rest == 0 { step } else { 2 * step + u64::from(time % self.step >= self.rest) }
    }

    /// Returns the first time of a pane.
    fn pane_start(&self, pane: u64) -> u128 {
        let (pane, step) = (u128::from(pane), u128::from(self.step));
        match u128::from(self.rest) {
            0 => pane * step,
            rest => pane / 2 * step + pane % 2 * rest,
        }
    }

    /// The first end of a window that is after `time`: of the first window with it, if `time` is that of a value.
    pub(super) fn end_after(&self, time: u128) -> u128 {
        let (first, step) = (u128::from(self.rest), u128::from(self.step));
        if time < first { first } else { first + ((time - first) / step + 1) * step }
    }

    /// The first end of a window with this pane.
    pub(super) fn first_end(&self, pane: u64) -> u128 {
        self.end_after(self.pane_start(pane))
    }

    /// The latest end of a window that the watermark has reached; 0 without one.
    pub(super) fn last_end(&self, watermark: u64) -> u64 {
        let (first, step) = (self.rest, self.step);
        if watermark < first { 0 } else { first + (watermark - first) / step * step }
    }

    /// Returns the first pane of the window that ends at `end`; none if it is beyond all times.
    pub(super) fn first_pane(&self, end: u128) -> Option<u64> {
        let start = end.saturating_sub(u128::from(self.size));
        u64::try_from(start).ok().map(|start| self.pane_of(start))
    }

    /// Returns the panes of the window that ends at `end`, which begins before the end of all times.
    pub(super) fn panes(&self, end: u128) -> RangeInclusive<u64> {
        let last = u64::try_from(end - 1).unwrap_or(u64::MAX);
        self.first_pane(end).unwrap_or(u64::MAX)..=self.pane_of(last)
    }

    /// Returns the window that ends at `end`.
    pub(super) fn window(&self, end: u128) -> Window {
        let time = |time: u128| u64::try_from(time).unwrap_or(u64::MAX);
        Window { start_ns: time(end.saturating_sub(u128::from(self.size))), end_ns: time(end) }
    }

    /// Returns the first time that still has a window: the first start of a window whose end and lateness the
    /// watermark has not reached. Panes before it are not needed.
    pub(super) fn open_from(&self, watermark: u64) -> u64 {
        let after = u128::from(self.size) + u128::from(self.lateness);
        match u128::from(watermark).checked_sub(after) {
            None => 0,
            // The step is not above the size: the product does not exceed the watermark.
            Some(closed) => ((closed / u128::from(self.step) + 1) * u128::from(self.step)) as u64,
        }
    }

    /// Returns the first watermark after this one at which a window ends, or a pane is no longer needed; `u64::MAX`
    /// if it is later.
    pub(super) fn next_event(&self, watermark: u64) -> u64 {
        let closed =
            u128::from(self.open_from(watermark)) + u128::from(self.size) + u128::from(self.lateness);
        u64::try_from(closed.min(self.end_after(u128::from(watermark)))).unwrap_or(u64::MAX)
    }

    /// The first end of a window that late values may still change at this watermark.
    pub(super) fn first_changeable_end(&self, watermark: u64) -> u128 {
        match watermark.checked_sub(self.lateness) {
            None => self.end_after(0),
            Some(closed) => self.end_after(u128::from(closed)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Starts and ends, by counting.
    fn windows(size: u64, step: u64, until: u64) -> Vec<(i128, i128)> {
        let (size, step) = (i128::from(size), i128::from(step));
        let windows = (-size..i128::from(until)).filter(|start| start.rem_euclid(step) == 0);
        windows.map(|start| (start, start + size)).filter(|&(_, end)| end > 0).collect()
    }

    #[test]
    fn a_grid_has_the_windows_that_are_counted() {
        for (size, step) in [(1, 1), (10, 4), (10, 5), (12, 8), (7, 3), (9, 9), (6, 4), (5, 1)] {
            for lateness in [0, 1, 5, 13] {
                let grid = Grid { lateness, ..Grid::new(size, step) };
                let all = windows(size, step, 100);
                for time in 0..60_u64 {
                    let at = i128::from(time);
                    let first = all.iter().map(|window| window.1).find(|&end| end > at).unwrap();
                    assert_eq!(grid.end_after(u128::from(time)) as i128, first);
                    let with = all.iter().filter(|window| window.0 <= at && at < window.1);
                    let ends: Vec<i128> = with.map(|window| window.1).collect();
                    assert_eq!(grid.first_end(grid.pane_of(time)) as i128, ends[0], "{grid:?} {time}");
                    let last = all.iter().map(|window| window.1).filter(|&end| end <= at).max();
                    assert_eq!(i128::from(grid.last_end(time)), last.unwrap_or(0));
                    let start = grid.pane_start(grid.pane_of(time));
                    assert!(start <= u128::from(time));
                    assert!(all.iter().all(|&(from, to)| {
                        [from, to].iter().all(|&bound| bound <= start as i128 || bound > at)
                    }));
                    for &end in &ends {
                        assert!(grid.panes(end as u128).contains(&grid.pane_of(time)));
                        let window = grid.window(end as u128);
                        assert!(window.start_ns <= time && time < window.end_ns);
                    }
                    let open = all.iter().find(|window| window.1 + i128::from(lateness) > at).unwrap();
                    assert_eq!(i128::from(grid.open_from(time)), open.0.max(0), "{grid:?} {time}");
                    // A pane is freed with the last of its windows, which does not begin before 0.
                    let lasts = all.iter().filter(|window| window.0 >= 0);
                    let lasts = lasts.map(|window| window.1 + i128::from(lateness));
                    let events = all.iter().map(|window| window.1).chain(lasts);
                    let next = events.filter(|&event| event > at).min().unwrap();
                    assert_eq!(i128::from(grid.next_event(time)), next);
                    let changeable = all.iter().find(|w| w.1 + i128::from(lateness) > at).unwrap().1;
                    assert_eq!(grid.first_changeable_end(time) as i128, changeable);
                }
            }
        }
    }

    #[test]
    fn the_last_windows_of_all_times_are_exact() {
        for (size, step) in [(1, 1), (10, 5), (1 << 63, 1 << 62), (u64::MAX, u64::MAX), (u64::MAX, 1)] {
            let grid = Grid::new(size, step);
            let end = grid.first_end(grid.pane_of(u64::MAX));
            assert!(end > u128::from(u64::MAX) && end - u128::from(size) <= u128::from(u64::MAX));
            assert!(grid.panes(end).contains(&grid.pane_of(u64::MAX)));
            assert!(grid.open_from(u64::MAX) <= u64::MAX - size.saturating_sub(step));
            assert_eq!(grid.window(end).end_ns, u64::MAX);
        }
    }
}
