//! What has been done for a reading, and what the program did: for the report.

use std::collections::BTreeMap;

use sakiyomi_model::Nanos;

use super::program::Spent;
use crate::{Idle, State};

/// Points of one curve at most; then every other one is left out, and half as many are taken from there on.
const POINTS: usize = 800;

/// Where program and prefetcher were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Since the beginning of the run.
    pub at: Nanos,
    /// The program's position, in bytes.
    pub main: u64,
    /// Up to where had been asked for, in bytes.
    pub prefetch: u64,
    /// How long the program had waited for I/O.
    pub waited: Nanos,
}

/// Positions over time, of bounded length.
#[derive(Clone, Debug, Default)]
pub(super) struct Curve {
    pub(super) points: Vec<Point>,
    apart: Nanos,
}

impl Curve {
    pub(super) fn add(&mut self, point: Point) {
        if self.points.last().is_some_and(|last| point.at.saturating_sub(last.at) < self.apart) {
            return;
        }
        self.points.push(point);
        if self.points.len() >= POINTS {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            let span =
                self.points.last().map_or(Nanos::ZERO, |last| last.at.saturating_sub(self.points[0].at));
            self.apart = span / self.points.len() as u64;
        }
    }
}

/// What has been done for a reading.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// Bytes that were not in memory, and have been brought there.
    pub(super) brought: u64,
    /// Bytes that the program went through while it was helped, and while it was alone; and what it waited meanwhile.
    pub(super) helped: Share,
    pub(super) alone: Share,
    /// How long it was in each state.
    pub(super) idle: BTreeMap<Idle, Nanos>,
    pub(super) curve: Curve,
    /// The longest wait on one spot while the program was alone.
    longest_wait: Nanos,
    last: Option<(Nanos, u64, Spent)>,
    /// What it had waited when it last moved.
    moved: Nanos,
}

/// Progress and its price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) bytes: u64,
    pub(super) waited: Nanos,
    pub(super) ran: Nanos,
    pub(super) time: Nanos,
}

impl Account {
    /// Takes down where the program is and what it has spent, in the state that the reading was in since the last time.
    pub(super) fn see(
        &mut self,
        now: Nanos,
        position: u64,
        spent: Spent,
        state: Option<State>,
        prefetch: u64,
    ) {
        if let Some((then, from, before)) = self.last.replace((now, position, spent)) {
            if position == from {
                self.longest_wait = self.longest_wait.max(spent.waited.saturating_sub(self.moved));
            } else {
                self.moved = spent.waited;
            }
            let (time, waited) = (now.saturating_sub(then), spent.waited.saturating_sub(before.waited));
            let share = if state == Some(State::Ahead) || state == Some(State::Idle(Idle::Done)) {
                &mut self.helped
            } else {
                &mut self.alone
            };
            share.bytes += position.saturating_sub(from);
            share.waited += waited;
            share.ran += spent.ran.saturating_sub(before.ran);
            share.time += time;
            if let Some(State::Idle(idle)) = state {
                *self.idle.entry(idle).or_default() += time;
            }
        }
        self.curve.add(Point { at: now, main: position, prefetch, waited: spent.waited });
    }

    /// How long the program would have waited besides; none if nothing was brought, or it was never alone.
    ///
    /// Estimated in two ways, of which the lesser counts: had it waited for each byte that was brought as it did for those
    /// before, which exaggerates, because the kernel's own read-ahead had only begun; and had the kernel kept two windows
    /// of its read-ahead on their way, each for as long as the longest wait.
    pub(super) fn hidden(&self, read_ahead: Option<u64>) -> Option<Nanos> {
        const LEAST: u64 = 16 << 10;
        if self.brought == 0 || self.alone.bytes < LEAST {
            return None;
        }
        let helped = self.helped.bytes.min(self.brought);
        let as_before = share(self.alone.waited, helped, self.alone.bytes);
        let by_windows = read_ahead
            .filter(|&window| window > 0)
            .map(|window| share(self.longest_wait, helped, 2 * window).saturating_sub(self.helped.ran));
        let expected = by_windows.map_or(as_before, |by_windows| by_windows.min(as_before));
        Some(expected.saturating_sub(self.helped.waited))
    }
}

/// So much of a time as `part` is of `whole`, which may be less.
fn share(time: Nanos, part: u64, whole: u64) -> Nanos {
    let nanos = u128::from(time.0) * u128::from(part) / u128::from(whole.max(1));
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_keeps_its_ends_apart_and_stays_short() {
        let mut curve = Curve::default();
        for step in 0..100_000 {
            curve.add(Point { at: Nanos(step * 1000), main: step, ..Point::default() });
        }
        assert!(curve.points.len() < POINTS && curve.points.len() > POINTS / 4);
        assert_eq!(curve.points[0].at, Nanos::ZERO);
        assert!(curve.points.last().unwrap().at.0 > 99_000_000);
        assert!(curve.points.windows(2).all(|pair| pair[0].at < pair[1].at));
    }

    #[test]
    fn what_is_hidden_is_what_would_have_been_waited_besides() {
        let mut account = Account { brought: 900, ..Account::default() };
        let spent = |ran, waited| Spent { ran: Nanos(ran), waited: Nanos(waited), ..Spent::default() };
        account.see(Nanos(0), 0, spent(0, 0), Some(State::Watching), 0);
        account.see(Nanos(200), 1 << 20, spent(100, 100), Some(State::Watching), 0);
        account.brought = 4 << 20;
        account.see(Nanos(700), 5 << 20, spent(500, 120), Some(State::Ahead), 6 << 20);
        assert_eq!(account.hidden(None), Some(Nanos(380)));
        account.longest_wait = Nanos(80);
        // 32 times two windows, less what was computed and waited meanwhile.
        assert_eq!(account.hidden(Some(64 << 10)), Some(Nanos(380)));
        assert_eq!(account.hidden(Some(256 << 10)), Some(Nanos(8 * 80 - 400 - 20)));
    }
}
