//! Which processes of a machine to follow: those that wait for I/O. Pure.
//!
//! Looking at a process costs about 10 µs a thread, so not all processes are looked at all the time:
//!
//! - A process that has just started is looked at every tick, because slow starts are over within seconds.
//! - All processes are looked at together, so rarely that this takes at most a two-hundredth of a core.
//!
//! A process that waits in two of its last looks is selected.

use std::collections::{BTreeMap, BTreeSet};

use sakiyomi_model::Nanos;

/// Time between two ticks.
pub const TICK: Nanos = Nanos(50_000_000);

/// Time for which a process counts as just started.
const YOUNG_TIME: Nanos = Nanos(5_000_000_000);
/// Number of young processes that are looked at in a tick, the latest: a build starts hundreds a second.
const YOUNG_PROCESSES_MAX: usize = 32;
/// The rest after a look at all processes, in multiples of the CPU time that it took: it uses 0.5 % of a core.
const REST_FACTOR: u64 = 200;
/// Shortest time between two looks at all processes: a wait that is over sooner is not worth following.
const ALL_PERIOD_MIN: Nanos = Nanos(500_000_000);
/// Waits that select a process. A single one is no evidence: nearly every process waits at some time.
const WAITS_MIN: u32 = 2;
/// Time between two looks, in multiples of the shortest, after which an earlier wait no longer counts.
const WAIT_MAX_LOOKS: u32 = 4;

/// The processes to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
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
    /// Waits of a process that count, and its looks without one since the last.
    waits: BTreeMap<u32, (u32, u32)>,
    all_at: Nanos,
}

impl Selection {
    /// Returns whom to look at now. `present` lists all processes, if some have started since the last tick.
    pub fn tick(&mut self, now: Nanos, present: Option<Vec<u32>>) -> Look {
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
        if now >= self.all_at { Look::All } else { Look::These(self.young.keys().copied().collect()) }
    }

    /// Records that all processes were looked at, which took `cost` of CPU time.
    pub fn looked_at_all(&mut self, now: Nanos, cost: Nanos) {
        self.all_at = now + Nanos(cost.0.saturating_mul(REST_FACTOR)).max(ALL_PERIOD_MIN);
    }

    /// Records a look at a process, and whether it waited for I/O. Returns whether to follow it.
    pub fn saw(&mut self, process: u32, waits: bool) -> bool {
        let is_known = self.waits.contains_key(&process);
        if !waits && !is_known {
            return false;
        }
        let (count, others) = self.waits.entry(process).or_default();
        if !waits {
            *others += 1;
            if *others >= WAIT_MAX_LOOKS {
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

    /// A machine with processes that start at a time, in milliseconds, and wait in some of the looks.
    struct Machine {
        starts: Vec<(u64, u32)>,
        waits: fn(u32, u64) -> bool,
    }

    impl Machine {
        /// Returns the processes that were selected within this time, and when, in milliseconds; and how many were
        /// looked at.
        fn run(&self, milliseconds: u64, cost_per_look: u64) -> (Vec<(u32, u64)>, u64) {
            let mut selection = Selection::default();
            let (mut selected, mut looks) = (Vec::new(), 0);
            for at in (0..milliseconds).step_by(50) {
                let now = Nanos(at * 1_000_000);
                let there: Vec<u32> =
                    self.starts.iter().filter(|(start, _)| *start <= at).map(|&(_, number)| number).collect();
                let look = selection.tick(now, Some(there.clone()));
                let seen = match &look {
                    Look::All => there.clone(),
                    Look::These(these) => {
                        these.iter().copied().filter(|number| there.contains(number)).collect()
                    }
                };
                looks += seen.len() as u64;
                for number in &seen {
                    if selection.saw(*number, (self.waits)(*number, at)) {
                        selected.push((*number, at));
                    }
                }
                if look == Look::All {
                    selection.looked_at_all(now, Nanos(cost_per_look * seen.len() as u64));
                }
            }
            (selected, looks)
        }
    }

    fn many(count: u32) -> Vec<(u64, u32)> {
        (1..=count).map(|number| (0, number)).collect()
    }

    #[test]
    fn a_process_that_starts_and_waits_is_selected_within_three_ticks() {
        let mut starts = many(500);
        starts.push((1_000, 501));
        let machine = Machine { starts, waits: |number, _| number == 501 };
        let (selected, _) = machine.run(5_000, 10_000);
        assert!(selected.first().is_some_and(|&(number, at)| number == 501 && at <= 1_150), "{selected:?}");
    }

    #[test]
    fn an_old_process_that_waits_is_selected_at_the_second_look_at_all() {
        let machine = Machine { starts: many(500), waits: |number, at| number == 7 && at > 3_000 };
        let (selected, _) = machine.run(10_000, 10_000);
        assert!(selected.first().is_some_and(|&(number, at)| number == 7 && at <= 6_000), "{selected:?}");
    }

    #[test]
    fn five_hundred_processes_at_rest_cost_a_two_hundredth_of_a_core() {
        const COST: u64 = 10_000;
        let machine = Machine { starts: many(500), waits: |_, _| false };
        let (selected, looks) = machine.run(60_000, COST);
        assert!(selected.is_empty());
        assert!(looks * COST <= 60_000_000_000 / 200 + 500 * COST, "{looks} looks in a minute");
        assert!(looks >= 500 * 50, "{looks} looks in a minute");
    }

    #[test]
    fn a_single_wait_selects_nobody() {
        let machine = Machine { starts: many(3), waits: |number, at| u64::from(number) * 1_000 == at };
        assert!(machine.run(20_000, 10_000).0.is_empty());
    }

    #[test]
    fn a_build_that_starts_hundreds_of_processes_costs_no_more_than_the_latest() {
        let starts: Vec<(u64, u32)> = (1..2_000).map(|number| (u64::from(number) * 2, number)).collect();
        let machine = Machine { starts, waits: |_, _| false };
        let (_, looks) = machine.run(4_000, 2_000_000);
        assert!(looks <= 4_000 / 50 * YOUNG_PROCESSES_MAX as u64 + 2_000, "{looks}");
    }

    #[test]
    fn a_number_that_is_reused_is_a_new_process() {
        let mut selection = Selection::default();
        selection.tick(Nanos(0), Some(vec![1, 300, 30_000]));
        selection.looked_at_all(Nanos(0), Nanos(0));
        assert_eq!(selection.tick(Nanos(1), Some(vec![1, 30_000])), Look::These(Vec::new()));
        assert_eq!(selection.tick(Nanos(2), Some(vec![1, 300, 30_000])), Look::These(vec![300]));
        assert_eq!(selection.tick(Nanos(3), None), Look::These(vec![300]));
        selection.forget(300);
        assert_eq!(selection.tick(Nanos(4), None), Look::These(Vec::new()));
    }
}
