//! A place at which the touched part of a mapping grows, and the pattern in which it does.

use std::ops::Range;

/// A touch at most this many granules ahead of a frontier belongs to it: 4 MiB.
pub(super) const REACH_GRANULES: usize = 64;

/// Granules behind an upward frontier whose first touch fills a gap rather than starting another frontier: 1 MiB.
const GAP_GRANULES: usize = 16;

/// Granules of the longest period that is recognized: 8 MiB.
const PERIOD_MAX: usize = 128;

/// Granules over which a period is compared: 32 MiB, and enough for the required repetitions.
const HISTORY_GRANULES: usize = 512;

const _: () = assert!(HISTORY_GRANULES >= 3 * PERIOD_MAX);

/// The order in which a frontier moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

/// Which granules of a period are touched; indexed by step modulo the period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    touched: Vec<bool>,
}

impl Pattern {
    fn has(&self, step: usize) -> bool {
        self.touched[step % self.touched.len()]
    }
}

/// A frontier. Its positions are *steps*, counted from the mapping's beginning, or for a downward frontier from its end.
#[derive(Clone, Debug)]
pub(super) struct Frontier {
    pub(super) direction: Direction,
    /// Step at which its path began, and its last touched one.
    pub(super) start: usize,
    pub(super) position: usize,
    /// Last step behind which no gap is expected to be filled.
    settled: usize,
    /// Next step that may be fetched.
    next: usize,
    /// Whether fetching has continued at the mapping's other end.
    has_wrapped: bool,
    pub(super) pattern: Option<Pattern>,
    /// Polls in which it began and last moved.
    pub(super) begun_at: u64,
    pub(super) moved_at: u64,
    /// Numbers frontiers in order of their beginning.
    pub(super) number: u64,
}

impl Frontier {
    pub(super) fn upwards(granule: usize, poll: u64, number: u64, pattern: Option<Pattern>) -> Frontier {
        Frontier {
            direction: Direction::Up,
            start: granule,
            position: granule,
            settled: granule,
            next: granule + 1,
            has_wrapped: false,
            pattern,
            begun_at: poll,
            moved_at: poll,
            number,
        }
    }

    /// A frontier that came down from granule `top`, has completed the part from `settled` up, and is at `granule`.
    pub(super) fn downwards(
        top: usize,
        settled: usize,
        granule: usize,
        length: usize,
        poll: u64,
        number: u64,
    ) -> Frontier {
        let step = |granule: usize| length - 1 - granule;
        Frontier {
            direction: Direction::Down,
            start: step(top),
            position: step(granule),
            settled: step(settled),
            next: step(granule) + 1,
            has_wrapped: false,
            pattern: None,
            begun_at: poll,
            moved_at: poll,
            number,
        }
    }

    fn step(&self, granule: usize, length: usize) -> usize {
        match self.direction {
            Direction::Up => granule,
            Direction::Down => length - 1 - granule,
        }
    }

    /// Returns the granule at a step; the conversion is its own inverse.
    fn granule(&self, step: usize, length: usize) -> usize {
        self.step(step, length)
    }

    /// Returns the steps ahead of it that have been considered for fetching.
    pub(super) fn ahead(&self) -> usize {
        self.next.saturating_sub(self.position)
    }

    /// Returns whether a first touch of `granule` fills a gap behind it.
    pub(super) fn has_passed(&self, granule: usize, length: usize) -> bool {
        let step = self.step(granule, length);
        let oldest = match self.direction {
            Direction::Up => self.start.max((self.position + 1).saturating_sub(GAP_GRANULES)),
            // A piece that is read upwards while the pieces follow each other downwards, at the longest period.
            Direction::Down => self.start.max(self.position.saturating_sub(PERIOD_MAX)),
        };
        (oldest..self.position).contains(&step)
    }

    /// Returns how many steps ahead of it `granule` is; `None` if it does not belong to it.
    pub(super) fn distance(&self, granule: usize, length: usize) -> Option<usize> {
        let distance = self.step(granule, length).checked_sub(self.position)?;
        (1..=self.ahead().max(REACH_GRANULES)).contains(&distance).then_some(distance)
    }

    /// Returns the granules of its pattern from it to `granule`, in ascending order, if that is one of them.
    pub(super) fn passed_by(&self, granule: usize, length: usize) -> Option<Vec<usize>> {
        let pattern = self.pattern.as_ref()?;
        let distance = self.distance(granule, length).filter(|distance| *distance <= REACH_GRANULES)?;
        let steps = self.position + 1..=self.position + distance;
        if !pattern.has(*steps.end()) {
            return None;
        }
        let mut passed: Vec<usize> =
            steps.filter(|&step| pattern.has(step)).map(|step| self.granule(step, length)).collect();
        passed.sort_unstable();
        Some(passed)
    }

    /// Moves to `granule`. After a jump its path begins there.
    pub(super) fn advance(&mut self, granule: usize, length: usize, poll: u64, is_jump: bool) {
        let step = self.step(granule, length);
        self.settled = match self.direction {
            Direction::Up => step,
            Direction::Down => self.position,
        };
        if is_jump {
            (self.start, self.settled, self.next, self.has_wrapped) = (step, step, step + 1, false);
        }
        self.position = step;
        self.moved_at = poll;
        self.next = self.next.max(step + 1);
    }

    /// Returns the granules around it in which it is expected to move.
    pub(super) fn surroundings(&self, length: usize) -> Range<usize> {
        let behind = match self.direction {
            Direction::Up => self.position.saturating_sub(REACH_GRANULES / 2),
            Direction::Down => self.settled.min(self.position).saturating_sub(REACH_GRANULES / 2),
        };
        let steps = behind..(self.position + REACH_GRANULES + 1).min(length);
        match self.direction {
            Direction::Up => steps,
            Direction::Down => length - steps.end..length - steps.start,
        }
    }

    /// Derives its pattern: the period that explains the longest part of its own path. A period must have been seen to
    /// repeat as a whole `repetitions` times, with three touched granules each, and reading in order once. Touches outside of its path do not count: pieces touched in
    /// any order look periodic by accident.
    pub(super) fn learn(&mut self, touched: &[bool], repetitions: usize) {
        let length = touched.len();
        let is_touched = |step: usize| match self.direction {
            Direction::Up => touched[step],
            Direction::Down => touched[length - 1 - step],
        };
        let path = self.settled.max(self.start) - self.start;
        let mut best: Option<(usize, usize)> = None;
        for period in 1..=PERIOD_MAX.min(path) {
            let (mut same, mut count) = (0, 0);
            for step in (self.start + period..=self.settled).rev().take(HISTORY_GRANULES) {
                if is_touched(step) != is_touched(step - period) {
                    break;
                }
                same += 1;
                count += usize::from(is_touched(step));
            }
            // In order, the first granule of the path has none before it.
            let (repetitions, count_min) = if period == 1 { (1, 2) } else { (repetitions, 3) };
            if same >= repetitions * period
                && count >= repetitions * count_min
                && best.is_none_or(|(longest, _)| same > longest)
            {
                best = Some((same, period));
            }
        }
        let Some((_, period)) = best else { return };
        let mut pattern = Pattern { touched: vec![false; period] };
        for step in self.settled + 1 - period..=self.settled {
            pattern.touched[step % period] = is_touched(step);
        }
        if self.pattern.as_ref() != Some(&pattern) {
            (self.next, self.has_wrapped) = (self.position + 1, false);
            self.pattern = Some(pattern);
        }
    }

    /// Returns its pattern for a frontier that moves upwards: a downward one passes it on only if it has no gaps.
    pub(super) fn upward_pattern(&self) -> Option<Pattern> {
        let pattern = self.pattern.as_ref()?;
        let is_same = self.direction == Direction::Up || pattern.touched.iter().all(|&touched| touched);
        is_same.then(|| pattern.clone())
    }

    /// Returns the next part of its pattern that is wanted, of at most `most` granules; `None` at the end. If the
    /// program `may_return`, it continues at the mapping's other end.
    pub(super) fn take(
        &mut self,
        length: usize,
        most: usize,
        may_return: bool,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Option<Range<usize>> {
        let direction = self.direction;
        let granule = |step: usize| match direction {
            Direction::Up => step,
            Direction::Down => length - 1 - step,
        };
        let pattern = self.pattern.as_ref()?;
        loop {
            if self.next >= length {
                if self.has_wrapped || !may_return {
                    return None;
                }
                (self.has_wrapped, self.next) = (true, 0);
            }
            if self.has_wrapped && self.next > self.position {
                return None;
            }
            if pattern.has(self.next) && is_wanted(granule(self.next)) {
                break;
            }
            self.next += 1;
        }
        let first = self.next;
        while self.next < length
            && self.next - first < most
            && pattern.has(self.next)
            && is_wanted(granule(self.next))
        {
            self.next += 1;
        }
        Some(match direction {
            Direction::Up => first..self.next,
            Direction::Down => length - self.next..length - first,
        })
    }
}
