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

/// How many times each way is tried. The shortest time counts, for whatever disturbs a trial makes it longer.
const TRIALS: usize = 5;
/// What each trial is of, in bytes: enough to last longer than making a mapping does (of 1 MiB copying seemed the faster
/// where it takes half as long again). Both ways are tried on as much, so that both are disturbed as often.
const TRIAL: u64 = 2 << 20;
/// Trying costs a hundredth of this, in bytes, at most.
const LARGE: u64 = 256 << 20;
/// Copying must take less than this part of the time that mapping takes: a little is chance, and the mapping of a trial.
const CLEARLY: f64 = 0.9;

#[derive(Debug, Default)]
struct Trials {
    begun: usize,
    ended: usize,
    /// In nanoseconds a byte.
    least: Option<f64>,
}

impl Trials {
    fn ended(&mut self, ns_a_byte: f64) {
        self.ended += 1;
        self.least = Some(self.least.map_or(ns_a_byte, |least| least.min(ns_a_byte)));
    }

    fn result(&self) -> Option<f64> {
        self.least.filter(|_| self.ended >= TRIALS)
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
        if length < TRIAL || self.copy.begun == TRIALS {
            return (Way::Map, length);
        }
        // In turn, and mapping first.
        let way = if self.map.begun == self.copy.begun { Way::Map } else { Way::Copy };
        self.of_way(way).begun += 1;
        (way, TRIAL)
    }

    /// So many bytes were had so, and worked on.
    pub(super) fn took(&mut self, way: Way, bytes: u64, time: Duration) {
        if self.settled.is_some() || bytes != TRIAL {
            return;
        }
        self.of_way(way).ended(time.as_nanos() as f64 / bytes as f64);
        if let (Some(map), Some(copy)) = (self.map.result(), self.copy.result()) {
            self.settled = Some(if copy < CLEARLY * map { Way::Copy } else { Way::Map });
        }
    }

    fn of_way(&mut self, way: Way) -> &mut Trials {
        match way {
            Way::Map => &mut self.map,
            Way::Copy => &mut self.copy,
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
        assert_eq!(mapped, TRIALS as u64 * TRIAL);
        let (_, copied) = run(&mut Choice::of(all), all, |way, _| if way == Way::Map { 0.1 } else { 0.095 });
        assert_eq!(copied, TRIALS as u64 * TRIAL, "a little is chance");
    }

    #[test]
    fn a_disturbance_decides_nothing() {
        let all = 1 << 30;
        // All of mapping but one, and none of copying, are ten times as long.
        let took = |way, call| {
            let usual = if way == Way::Map { 0.1 } else { 0.12 };
            if way == Way::Map && call != 4 { 10.0 * usual } else { usual }
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
            let time = |way, part| Duration::from_nanos(part * if way == Way::Map { 1 } else { 2 });
            let mut choice = Choice::of(LARGE);
            let (mut under_way, mut copied) = (Vec::new(), 0);
            for which in order {
                while under_way.len() < threads {
                    let (way, part) = choice.next(PIECE);
                    copied += if way == Way::Copy { part } else { 0 };
                    under_way.push((way, part));
                }
                let (way, part) = under_way.swap_remove(which.index(under_way.len()));
                choice.took(way, part, time(way, part));
            }
            under_way.into_iter().for_each(|(way, part)| choice.took(way, part, time(way, part)));
            prop_assert_eq!(copied, TRIALS as u64 * TRIAL);
            prop_assert_eq!(choice.settled, Some(Way::Map));
        }
    }
}
