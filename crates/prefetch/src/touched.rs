//! Which parts of a file to fetch ahead of a program that does not read it in one sequence: pure.
//!
//! A program that reads a mapping moves no file position, but each page that it touched is present in its page table; one
//! that seeks is seen at one place after the other. [`TouchedFile`] is told these touches, and derives *frontiers* from
//! them: places at which the touched part grows, upwards or downwards. Each frontier learns the pattern of its own path, such as every second 128 KiB, and is
//! continued by it. A frontier that begins elsewhere in a densely read file starts with the pattern of the last one.
//!
//! # How far
//!
//! A fault that waits is not visible before its page has arrived, and a program may stop anywhere. Therefore the
//! distance is earned: what is fetched and not yet touched is limited by what was fetched and then touched, so that at
//! most a constant factor of the program's own bytes is wasted. Near a frontier that moves, 4 MiB more are
//! allowed, so that data far ahead cannot hold up the data that is needed next. The window that the caller gives bounds
//! both.
//!
//! # Units
//!
//! All positions are *granules* of 64 KiB from the beginning of the file or mapping. The kernel's fault-around maps
//! the cached pages of an aligned 64 KiB at one touch, so smaller parts cannot be told apart, and a part that counts as
//! touched may have been touched only at one page.

mod frontier;
#[cfg(test)]
mod tests;

use std::ops::Range;

use frontier::{Direction, Frontier, Pattern, REACH_GRANULES};

/// Bytes of a granule.
pub const GRANULE_BYTES: u64 = 64 << 10;

/// Granules whose pages have their entries in one page table. Where all are touched, no scan is needed any more.
const TABLE_GRANULES: usize = 32;

/// Granules of one fetch: 256 KiB.
const FETCH_GRANULES: usize = 4;

/// Granules that may be fetched near a frontier before any of them was touched: 4 MiB.
const FIRST_CREDIT_GRANULES: usize = 64;

/// Credit of a program that jumps about in a densely read file, as a multiple of what was fetched and then touched.
const JUMPING_CREDIT_FACTOR: usize = 3;

/// The credit near a frontier grows by one part in this many of all that the program touched.
const WRONG_GUESSES_DIVISOR: usize = 16;

/// Frontiers that are followed at a time; the one that rested longest makes room for a new one.
const FRONTIERS_MAX: usize = 16;

/// Frontiers that began away from the others, from which a program counts as jumping: it may come back to any part.
const JUMPS_MIN: u64 = 3;

/// Polls without a move after which a frontier does not count as moving.
const MOVING_POLLS: u64 = 4;
/// Polls without a move after which the surroundings of a frontier are not scanned at each poll: one with and one
/// without a pattern.
const SCANNED_POLLS: (u64, u64) = (64, 4);

/// The parts of a file that a program has touched, and what was requested ahead.
#[derive(Debug)]
pub struct TouchedFile {
    touched: Vec<bool>,
    requested: Vec<bool>,
    /// Touched granules by page table.
    in_table: Vec<u8>,
    frontiers: Vec<Frontier>,
    poll: u64,
    jumps: u64,
    counts: Counts,
}

/// Numbers of granules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Touched by the program.
    pub touched: usize,
    /// Requested ahead of the program.
    pub requested: usize,
    /// Of these, touched since.
    pub used: usize,
    /// Page tables of which any granule is touched.
    tables: usize,
}

impl Counts {
    /// Returns the granules that are requested and not yet touched.
    #[must_use]
    pub fn ahead(&self) -> usize {
        self.requested - self.used
    }

    /// Returns whether at least three eighths of the visited page tables are touched. A random reader leaves them
    /// sparse.
    fn is_dense(&self) -> bool {
        8 * self.touched >= 3 * TABLE_GRANULES * self.tables
    }
}

impl TouchedFile {
    /// A file of `granules` granules of which nothing is known.
    #[must_use]
    pub fn new(granules: usize) -> TouchedFile {
        TouchedFile {
            touched: vec![false; granules],
            requested: vec![false; granules],
            in_table: vec![0; granules.div_ceil(TABLE_GRANULES)],
            frontiers: Vec::new(),
            poll: 0,
            jumps: 0,
            counts: Counts::default(),
        }
    }

    /// Returns the numbers of granules touched, requested and used.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of runs of used granules: places where a granule was requested and touched, and the one below
    /// was not.
    #[must_use]
    pub fn used_runs(&self) -> usize {
        let is_used = |granule: usize| self.touched[granule] && self.requested[granule];
        (0..self.touched.len())
            .filter(|&granule| is_used(granule) && (granule == 0 || !is_used(granule - 1)))
            .count()
    }

    /// Begins a poll. Returns the parts that are to be scanned for new touches: those around frontiers or, if
    /// `everywhere`, all that are not known to be touched. Each part consists of whole page tables, except at the
    /// mapping's end.
    pub fn begin_poll(&mut self, everywhere: bool) -> Vec<Range<usize>> {
        self.poll += 1;
        let length = self.touched.len();
        let mut wanted = vec![everywhere; self.in_table.len()];
        if !everywhere {
            for frontier in &self.frontiers {
                let rested = self.poll - frontier.moved_at;
                let scanned = if frontier.pattern.is_some() { SCANNED_POLLS.0 } else { SCANNED_POLLS.1 };
                if rested < scanned {
                    let around = frontier.surroundings(length);
                    let tables = around.start / TABLE_GRANULES..around.end.div_ceil(TABLE_GRANULES);
                    wanted[tables].fill(true);
                }
            }
        }
        let mut parts: Vec<Range<usize>> = Vec::new();
        for (table, _) in wanted.iter().enumerate().filter(|(_, wanted)| **wanted) {
            let start = table * TABLE_GRANULES;
            let end = (start + TABLE_GRANULES).min(length);
            if usize::from(self.in_table[table]) == end - start {
                continue;
            }
            match parts.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => parts.push(start..end),
            }
        }
        parts
    }

    /// Records that the program has touched these granules, in ascending order within a poll. Returns whether any
    /// touch is new.
    pub fn touch(&mut self, granules: Range<usize>) -> bool {
        let before = self.counts.touched;
        for granule in granules.start..granules.end.min(self.touched.len()) {
            if !self.touched[granule] {
                self.touch_first(granule);
            }
        }
        self.counts.touched > before
    }

    /// Records that the program was seen at a granule. If a frontier's pattern leads there, the granules of the pattern on
    /// the way count as touched: polls see only some places of a program that does not wait. Returns whether any touch is
    /// new.
    pub fn reach(&mut self, granule: usize) -> bool {
        let length = self.touched.len();
        let passed = self.frontiers.iter().filter_map(|frontier| frontier.passed_by(granule, length));
        let passed = passed.min_by_key(Vec::len).unwrap_or_else(|| vec![granule]);
        let before = self.counts.touched;
        passed.into_iter().filter(|&granule| granule < length).for_each(|granule| {
            self.touch(granule..granule + 1);
        });
        self.counts.touched > before
    }

    /// Ends a poll: the frontiers that moved learn. Returns whether any of them has a pattern, so that more can be
    /// fetched.
    pub fn end_poll(&mut self) -> bool {
        // Scattered touches look periodic by accident.
        let repetitions = if self.counts.is_dense() { 1 } else { 2 };
        let mut knows = false;
        for frontier in &mut self.frontiers {
            if frontier.moved_at == self.poll {
                frontier.learn(&self.touched, repetitions);
                knows |= frontier.pattern.is_some();
            }
        }
        knows
    }

    /// Counts a touch of an untouched granule, and moves the nearest frontier there, or starts one.
    fn touch_first(&mut self, granule: usize) {
        let (length, poll) = (self.touched.len(), self.poll);
        self.touched[granule] = true;
        self.counts.touched += 1;
        self.counts.used += usize::from(self.requested[granule]);
        let in_table = &mut self.in_table[granule / TABLE_GRANULES];
        self.counts.tables += usize::from(*in_table == 0);
        *in_table += 1;
        if self.frontiers.iter().any(|frontier| frontier.has_passed(granule, length)) {
            return;
        }
        let distance = |frontier: &Frontier| frontier.distance(granule, length);
        let nearest = (0..self.frontiers.len())
            .filter_map(|index| Some((distance(&self.frontiers[index])?, index)))
            .min();
        if let Some((distance, index)) = nearest {
            let is_jump = distance > REACH_GRANULES;
            self.jumps += u64::from(is_jump);
            return self.frontiers[index].advance(granule, length, poll, is_jump);
        }
        if let Some(turned) = self.turned(granule) {
            let index = self.latest().expect("a frontier that turns is followed");
            self.frontiers[index] = turned;
            return;
        }
        self.begin_frontier(granule);
    }

    /// Returns the frontier that moved last.
    fn latest(&self) -> Option<usize> {
        (0..self.frontiers.len())
            .max_by_key(|&index| (self.frontiers[index].moved_at, self.frontiers[index].number))
    }

    /// Returns the downward frontier of a program that now touches `granule`, if the last frontiers are parts of one:
    /// either single steps, or pieces each of which is read upwards and lies just below the one before.
    fn turned(&self, granule: usize) -> Option<Frontier> {
        let length = self.touched.len();
        let last = &self.frontiers[self.latest()?];
        let is_below = |below: usize, frontier: &Frontier| {
            frontier.direction == Direction::Up
                && below < frontier.start
                && frontier.start - below <= REACH_GRANULES
        };
        if !is_below(granule, last) {
            return None;
        }
        // It grew in the poll in which it began only: its touches may have come in descending order.
        let is_step = last.moved_at == last.begun_at && last.position - granule <= FETCH_GRANULES * 2;
        let before = self.frontiers.iter().find(|other| is_below(last.start, other));
        let top = match before {
            Some(before) => before.position,
            None if is_step => last.position,
            None => return None,
        };
        Some(Frontier::downwards(top, last.start, granule, length, self.poll, last.number))
    }

    fn begin_frontier(&mut self, granule: usize) {
        self.jumps += 1;
        let patterned = |frontier: &&Frontier| frontier.pattern.is_some();
        let last = self.frontiers.iter().filter(patterned).max_by_key(|frontier| frontier.moved_at);
        // A dense file: this place is expected to be read as the last one was.
        let is_trusted =
            self.counts.used >= FIRST_CREDIT_GRANULES && 2 * self.counts.used >= self.counts.requested;
        let pattern: Option<Pattern> = last.filter(|_| is_trusted).and_then(|last| last.upward_pattern());
        let frontier = Frontier::upwards(granule, self.poll, self.jumps, pattern);
        if self.frontiers.len() < FRONTIERS_MAX {
            return self.frontiers.push(frontier);
        }
        let oldest = self.frontiers.iter_mut().min_by_key(|frontier| frontier.moved_at);
        *oldest.expect("there are frontiers") = frontier;
    }

    /// Returns the next part to fetch, which counts as requested from now on; `None` if no more is earned. To be asked
    /// only when it can be fetched at once, so that data needed next does not queue behind data that may be needed later.
    /// `window` limits the granules that are requested and not yet touched.
    pub fn next_fetch(&mut self, window: usize) -> Option<Range<usize>> {
        let (near, far) = self.credits(window);
        let ahead = self.counts.ahead();
        if ahead < near
            && let Some(found) = self.next_of(true)
        {
            return Some(found);
        }
        if ahead < far { self.next_of(false) } else { None }
    }

    /// Returns the next part of a range that the program has requested, so that no credit is needed; it counts as
    /// requested from now on. `None` if all of it is, or the `window` is full.
    pub fn next_requested(&mut self, range: Range<usize>, window: usize) -> Option<Range<usize>> {
        let room = window.saturating_sub(self.counts.ahead()).min(FETCH_GRANULES);
        let mut wanted =
            range.filter(|&granule| self.touched.get(granule) == Some(&false) && !self.requested[granule]);
        let start = wanted.next().filter(|_| room > 0)?;
        let length =
            1 + (start + 1..start + room).zip(wanted).take_while(|(next, found)| next == found).count();
        let part = start..start + length;
        self.requested[part.clone()].fill(true);
        self.counts.requested += length;
        Some(part)
    }

    /// Returns the limits of granules ahead: near frontiers that move, and elsewhere.
    fn credits(&self, window: usize) -> (usize, usize) {
        let used = self.counts.used;
        let far = match () {
            // Most of what lies ahead of a sparse reader is not wanted.
            () if !self.counts.is_dense() => used / 2,
            // When it stops, at most half of what was fetched is wasted.
            () if self.jumps < JUMPS_MIN => used,
            // The next place of a program that jumps cannot be known, but it will want it all.
            () => JUMPING_CREDIT_FACTOR * used,
        };
        // Guesses that were wrong, such as a direction, must not use up the credit for ever.
        let wrong = self.counts.touched / WRONG_GUESSES_DIVISOR;
        let near = far + FIRST_CREDIT_GRANULES + used / 2 + wrong;
        (near.min(window), far.min(window))
    }

    /// Takes the next part from the frontier that has least ahead of it; moving ones first.
    fn next_of(&mut self, near: bool) -> Option<Range<usize>> {
        let is_moving = |frontier: &Frontier| self.poll - frontier.moved_at < MOVING_POLLS;
        let mut order: Vec<(bool, usize, usize)> = (0..self.frontiers.len())
            .filter_map(|index| {
                let frontier = &self.frontiers[index];
                frontier.pattern.as_ref()?;
                let (moves, ahead) = (is_moving(frontier), frontier.ahead());
                let rests = usize::try_from(self.poll - frontier.moved_at).unwrap_or(usize::MAX);
                (!near || moves && ahead <= REACH_GRANULES).then_some((
                    !moves,
                    if moves { ahead } else { rests },
                    index,
                ))
            })
            .collect();
        order.sort_unstable();
        let may_return = self.jumps >= JUMPS_MIN;
        for (.., index) in order {
            let is_wanted = |granule: usize| !self.touched[granule] && !self.requested[granule];
            if let Some(part) =
                self.frontiers[index].take(self.touched.len(), FETCH_GRANULES, may_return, is_wanted)
            {
                self.requested[part.clone()].fill(true);
                self.counts.requested += part.len();
                return Some(part);
            }
        }
        None
    }
}
