//! Whether what is in memory is mapped or copied: which of the two is faster differs from machine to machine.
//!
//! Mapping copies nothing, but its pages are entered into tables that all threads share, and taken out again (Crotty,
//! Leis & Pavlo 2022 on what that comes to on many cores). Copying costs memory bandwidth, and leaves a block in its
//! core's cache. So both are tried on the first pieces of a large file, and the faster one is kept.

use std::time::Duration;

/// How a thread has the bytes that it works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Map,
    Copy,
}

/// Told how long pieces took, from having them until they were worked on; says which way the next is had.
#[derive(Debug)]
pub(super) struct Choice {
    settled: Option<Way>,
    map: Trials,
    copy: Trials,
}

/// How each way is tried, an odd number of times: of what they took, the median counts.
const TRIALS: usize = 5;
/// What a trial is of, in bytes: enough to last longer than making a mapping does.
const TRIAL: u64 = 1 << 20;
/// Trying costs some hundredths of this, in bytes, at most.
const LARGE: u64 = 128 << 20;
/// Copying must take less than this part of the time that mapping takes: a little is chance.
const CLEARLY: f64 = 0.95;

#[derive(Debug, Default)]
struct Trials {
    begun: usize,
    /// Of each that has ended, in nanoseconds a byte.
    took: Vec<f64>,
}

impl Trials {
    fn are_all_begun(&self) -> bool {
        self.begun >= TRIALS
    }

    fn median(&self) -> Option<f64> {
        let mut took = self.took.clone();
        took.sort_unstable_by(f64::total_cmp);
        (took.len() >= TRIALS).then(|| took[took.len() / 2])
    }
}

impl Choice {
    /// For so many bytes: if they are few, they are mapped and nothing is tried.
    pub(super) fn of(bytes: u64) -> Choice {
        let settled = (bytes < LARGE).then_some(Way::Map);
        Choice { settled, map: Trials::default(), copy: Trials::default() }
    }

    /// Always the same.
    pub(super) fn settled(way: Way) -> Choice {
        Choice { settled: Some(way), ..Choice::of(0) }
    }

    /// What is not to be tried any more.
    pub(super) fn settle(&mut self, way: Way) {
        self.settled = Some(way);
    }

    /// Of a piece of `length` bytes: how it is had, and how many bytes of it before this is asked again.
    pub(super) fn next(&mut self, length: u64) -> (Way, u64) {
        if let Some(way) = self.settled {
            return (way, length);
        }
        let is_trial = length >= TRIAL;
        if is_trial && self.copy.begun < self.map.begun {
            self.copy.begun += 1;
            return (Way::Copy, TRIAL);
        }
        self.map.begun += usize::from(is_trial && !self.map.are_all_begun());
        (Way::Map, length)
    }

    /// So many bytes were had so, and worked on.
    pub(super) fn took(&mut self, way: Way, bytes: u64, time: Duration) {
        if self.settled.is_some() || bytes < TRIAL {
            return;
        }
        let trials = if way == Way::Map { &mut self.map } else { &mut self.copy };
        trials.took.push(time.as_nanos() as f64 / bytes as f64);
        if let (Some(map), Some(copy)) = (self.map.median(), self.copy.median()) {
            self.settled = Some(if copy < CLEARLY * map { Way::Copy } else { Way::Map });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PIECE: u64 = 16 << 20;

    /// Works on pieces of a file until there are no more: the bytes that were had either way.
    fn run(choice: &mut Choice, bytes: u64, ns_a_byte: impl Fn(Way, usize) -> f64) -> (u64, u64) {
        let (mut mapped, mut copied, mut calls) = (0, 0, 0);
        let mut left = bytes;
        while left > 0 {
            let (way, part) = choice.next(left.min(PIECE));
            assert!(part > 0 && part <= left.min(PIECE));
            let ns = ns_a_byte(way, calls) * part as f64;
            choice.took(way, part, Duration::from_nanos(ns as u64));
            *(if way == Way::Map { &mut mapped } else { &mut copied }) += part;
            (left, calls) = (left - part, calls + 1);
        }
        (mapped, copied)
    }

    #[test]
    fn the_faster_way_is_kept() {
        let all = 1 << 30;
        let (mapped, copied) =
            run(&mut Choice::of(all), all, |way, _| if way == Way::Map { 0.1 } else { 0.12 });
        assert_eq!((mapped, copied), (all - TRIALS as u64 * TRIAL, TRIALS as u64 * TRIAL));
        let (mapped, _) = run(&mut Choice::of(all), all, |way, _| if way == Way::Map { 0.1 } else { 0.08 });
        assert!(mapped <= TRIALS as u64 * PIECE);
        let (_, copied) = run(&mut Choice::of(all), all, |way, _| if way == Way::Map { 0.1 } else { 0.098 });
        assert_eq!(copied, TRIALS as u64 * TRIAL, "a little is chance");
    }

    #[test]
    fn a_disturbance_decides_nothing() {
        let all = 1 << 30;
        // Two of the five of each way are ten times as long.
        let took = |way, call| {
            let usual = if way == Way::Map { 0.1 } else { 0.12 };
            if call == 0 || call == 4 { 10.0 * usual } else { usual }
        };
        assert_eq!(run(&mut Choice::of(all), all, took).1, TRIALS as u64 * TRIAL);
    }

    #[test]
    fn a_small_file_is_mapped_and_nothing_is_tried() {
        assert_eq!(run(&mut Choice::of(LARGE - 1), LARGE - 1, |_, _| 0.1), (LARGE - 1, 0));
        assert_eq!(run(&mut Choice::settled(Way::Copy), LARGE, |_, _| 0.1), (0, LARGE));
    }

    proptest! {
        #[test]
        fn trials_are_few_whatever_threads_are_at_the_same_time(
            threads in 1usize..64, order in prop::collection::vec(any::<prop::sample::Index>(), 400),
        ) {
            let mut choice = Choice::of(LARGE);
            let (mut under_way, mut copied) = (Vec::new(), 0);
            for which in order {
                while under_way.len() < threads {
                    let (way, part) = choice.next(PIECE);
                    copied += if way == Way::Copy { part } else { 0 };
                    under_way.push((way, part));
                }
                let (way, part) = under_way.swap_remove(which.index(under_way.len()));
                let ns = part * if way == Way::Map { 1 } else { 2 };
                choice.took(way, part, Duration::from_nanos(ns));
            }
            prop_assert_eq!(copied, TRIALS as u64 * TRIAL);
            prop_assert_eq!(choice.settled, Some(Way::Map));
        }
    }
}
