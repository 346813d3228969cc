//! Selection of the processes of a machine to follow: those that wait for I/O. Pure.
//!
//! To poll a process costs about 10 µs a thread, so not all processes are polled all the time:
//!
//! - A process that has just started is polled every period, because slow starts are over within seconds.
//! - All processes are polled together, so rarely that this takes at most a two-hundredth of a core.
//!
//! If the former takes more than a hundredth of a core, it pauses. A process that waits in two of its last polls is selected.

use std::collections::{BTreeMap, BTreeSet};

use sakiyomi_model::Nanos;

/// Time between two polls.
pub const POLL_PERIOD: Nanos = Nanos(50_000_000);

/// Time for which a process counts as just started.
const YOUNG_TIME: Nanos = Nanos(5_000_000_000);
/// Number of young processes that are polled at a time, the latest: a build starts hundreds a second.
const YOUNG_PROCESSES_MAX: usize = 32;
/// The rest after a poll of all processes, in multiples of the CPU time that it took: it uses 0.5 % of a core.
const REST_FACTOR: u64 = 200;
/// The rest after polls of young processes, likewise: they use 1 % of a core.
const YOUNG_REST_FACTOR: u64 = 100;
/// CPU time of polls of young processes that is used before they pause, so that a start is seen without delay.
const YOUNG_BURST_TIME: Nanos = Nanos(100_000_000);
/// Shortest time between two polls of all processes: a wait that is over sooner is not worth following.
const ALL_PERIOD_MIN: Nanos = Nanos(500_000_000);
/// Waits that select a process. A single one proves nothing: nearly every process waits at some time.
const WAITS_MIN: u32 = 2;
/// Successive polls without a wait after which an earlier wait no longer counts.
const OTHER_POLLS_MAX: u32 = 4;

/// The processes to poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Poll {
    /// These.
    These(Vec<u32>),
    /// All of the machine.
    All,
}

/// Selects the processes to follow.
#[derive(Debug, Default)]
pub struct Selection {
    /// The processes that exist, as far as known; `None` at first, when none counts as new.
    present: Option<BTreeSet<u32>>,
    /// Times at which processes were first seen, while they are young.
    young: BTreeMap<u32, Nanos>,
    /// Waits of a process that count, and its polls without one since the last.
    waits: BTreeMap<u32, (u32, u32)>,
    all_at: Nanos,
    /// Time until which the CPU time of polls of young processes is used up.
    young_at: Nanos,
}

impl Selection {
    /// Returns the processes to poll now. `present` lists all processes, if some may have started since the last time.
    pub fn next_poll(&mut self, now: Nanos, present: Option<Vec<u32>>) -> Poll {
        self.young.retain(|_, &mut since| now.saturating_sub(since) < YOUNG_TIME);
        if let Some(present) = present {
            let present: BTreeSet<u32> = present.into_iter().collect();
            if let Some(before) = self.present.take() {
                self.young.extend(present.difference(&before).map(|&number| (number, now)));
            }
            self.young.retain(|number, _| present.contains(number));
            self.waits.retain(|number, _| present.contains(number));
            self.present = Some(present);
        }
        while self.young.len() > YOUNG_PROCESSES_MAX {
            let oldest = self.young.iter().min_by_key(|&(&number, &since)| (since, number));
            let Some(number) = oldest.map(|(&number, _)| number) else { break };
            self.young.remove(&number);
        }
        match () {
            () if now >= self.all_at => Poll::All,
            () if now >= self.young_at => Poll::These(self.young.keys().copied().collect()),
            () => Poll::These(Vec::new()),
        }
    }

    /// Records that the processes were polled, which took `cost` of CPU time.
    pub fn polled(&mut self, now: Nanos, poll: &Poll, cost: Nanos) {
        if matches!(poll, Poll::These(_)) {
            let burst = YOUNG_BURST_TIME.0 * YOUNG_REST_FACTOR;
            let rest = cost.0.saturating_mul(YOUNG_REST_FACTOR);
            // A bucket that holds the burst.
            self.young_at = Nanos(self.young_at.0.max(now.0.saturating_sub(burst)).saturating_add(rest));
            return;
        }
        self.all_at = now + Nanos(cost.0.saturating_mul(REST_FACTOR)).max(ALL_PERIOD_MIN);
    }

    /// Records a poll of a process, and whether it waited for I/O. Returns whether to follow it.
    pub fn saw(&mut self, process: u32, waits: bool) -> bool {
        let is_known = self.waits.contains_key(&process);
        if !waits && !is_known {
            return false;
        }
        let (count, others) = self.waits.entry(process).or_default();
        if !waits {
            *others += 1;
            if *others >= OTHER_POLLS_MAX {
                self.waits.remove(&process);
            }
            return false;
        }
        (*count, *others) = (*count + 1, 0);
        let is_selected = *count >= WAITS_MIN;
        if is_selected {
            self.waits.remove(&process);
        }
        is_selected
    }

    /// Returns whether a process has just started.
    #[must_use]
    pub fn is_young(&self, process: u32) -> bool {
        self.young.contains_key(&process)
    }

    /// Records that a process has ended, or is followed.
    pub fn forget(&mut self, process: u32) {
        self.waits.remove(&process);
        self.young.remove(&process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with processes that start at a time, in milliseconds, and wait in some of the polls.
    struct Machine {
        starts: Vec<(u64, u32)>,
        waits: fn(u32, u64) -> bool,
    }

    impl Machine {
        /// Returns the processes that were selected within this time, and when, in milliseconds; and how many were
        /// polled.
        fn run(&self, milliseconds: u64, cost_per_poll: u64) -> (Vec<(u32, u64)>, u64) {
            let mut selection = Selection::default();
            let (mut selected, mut polls) = (Vec::new(), 0);
            for at in (0..milliseconds).step_by(50) {
                let now = Nanos(at * 1_000_000);
                let there: Vec<u32> =
                    self.starts.iter().filter(|(start, _)| *start <= at).map(|&(_, number)| number).collect();
                let poll = selection.next_poll(now, Some(there.clone()));
                let seen = match &poll {
                    Poll::All => there.clone(),
                    Poll::These(these) => {
                        these.iter().copied().filter(|number| there.contains(number)).collect()
                    }
                };
                polls += seen.len() as u64;
                for number in &seen {
                    if selection.saw(*number, (self.waits)(*number, at)) {
                        selected.push((*number, at));
                    }
                }
                selection.polled(now, &poll, Nanos(cost_per_poll * seen.len() as u64));
            }
            (selected, polls)
        }
    }

    fn many(count: u32) -> Vec<(u64, u32)> {
        (1..=count).map(|number| (0, number)).collect()
    }

    #[test]
    fn a_process_that_starts_and_waits_is_selected_within_three_periods() {
        let mut starts = many(500);
        starts.push((1_000, 501));
        let machine = Machine { starts, waits: |number, _| number == 501 };
        let (selected, _) = machine.run(5_000, 10_000);
        assert!(selected.first().is_some_and(|&(number, at)| number == 501 && at <= 1_150), "{selected:?}");
    }

    #[test]
    fn an_old_process_that_waits_is_selected_at_the_second_poll_of_all() {
        let machine = Machine { starts: many(500), waits: |number, at| number == 7 && at > 3_000 };
        let (selected, _) = machine.run(10_000, 10_000);
        assert!(selected.first().is_some_and(|&(number, at)| number == 7 && at <= 6_000), "{selected:?}");
    }

    #[test]
    fn five_hundred_processes_at_rest_cost_a_two_hundredth_of_a_core() {
        const COST: u64 = 10_000;
        let machine = Machine { starts: many(500), waits: |_, _| false };
        let (selected, polls) = machine.run(60_000, COST);
        assert!(selected.is_empty());
        assert!(polls * COST <= 60_000_000_000 / 200 + 500 * COST, "{polls} polls in a minute");
        assert!(polls >= 500 * 50, "{polls} polls in a minute");
    }

    #[test]
    fn a_single_wait_selects_nobody() {
        let machine = Machine { starts: many(3), waits: |number, at| u64::from(number) * 1_000 == at };
        assert!(machine.run(20_000, 10_000).0.is_empty());
    }

    #[test]
    fn a_build_that_starts_hundreds_of_processes_costs_a_hundredth_of_a_core() {
        const COST: u64 = 500_000;
        let starts: Vec<(u64, u32)> = (1..2_000).map(|number| (u64::from(number) * 5, number)).collect();
        let machine = Machine { starts, waits: |_, _| false };
        let (_, polls) = machine.run(10_000, COST);
        // Two polls of all, and the burst at the start.
        let burst = YOUNG_BURST_TIME.0 + YOUNG_PROCESSES_MAX as u64 * COST;
        assert!(polls * COST <= 10_000_000_000 * 3 / 200 + 2 * 2_000 * COST + burst, "{polls}");
    }

    #[test]
    fn a_number_that_is_reused_is_a_new_process() {
        let mut selection = Selection::default();
        selection.next_poll(Nanos(0), Some(vec![1, 300, 30_000]));
        selection.polled(Nanos(0), &Poll::All, Nanos(0));
        assert_eq!(selection.next_poll(Nanos(1), Some(vec![1, 30_000])), Poll::These(Vec::new()));
        assert_eq!(selection.next_poll(Nanos(2), Some(vec![1, 300, 30_000])), Poll::These(vec![300]));
        assert_eq!(selection.next_poll(Nanos(3), None), Poll::These(vec![300]));
        selection.forget(300);
        assert_eq!(selection.next_poll(Nanos(4), None), Poll::These(Vec::new()));
    }
}
