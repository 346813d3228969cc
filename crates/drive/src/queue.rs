//! The command queue, and the policies that choose the next command.
//!
//! The queue is in order of arrival. At every command end a [`Policy`] chooses among the oldest `window` commands,
//! given the arm's position and the platters' angle. An age limit takes precedence over every policy.

mod elevator;
mod fcfs;
mod sptf;
mod sstf;

use sakiyomi_model::Nanos;

use crate::servo::{Arm, Servo, Target};
use crate::spec::{QueuePolicy, QueueSpec};

/// A command, or dirty data to be destaged, as the policies see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) work: Work,
    /// Time since which it waits.
    pub(crate) since: Nanos,
    /// Time from which it can start: its command processing, or the transfer of its data, has finished.
    pub(crate) ready: Nanos,
    /// First sector to transfer.
    pub(crate) lba: u64,
    /// First sector after the last one.
    pub(crate) end: u64,
    pub(crate) target: Target,
    pub(crate) write: bool,
}

impl Waiting {
    /// Returns the bonus of a read over writes.
    fn read_bonus(&self, preference: u64) -> i64 {
        if self.write { 0 } else { preference as i64 }
    }
}

/// Kinds of waiting work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A command, by its slot in the controller.
    Command(usize),
    /// Dirty data, by its first sector.
    Destage(u64),
}

/// State of the drive on which a choice depends.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) now: Nanos,
    pub(crate) arm: Arm,
    pub(crate) servo: &'a Servo,
}

/// Scheduling policies, each in its own file.
#[derive(Clone, Debug)]
enum Policy {
    Fcfs,
    Sstf,
    Elevator(elevator::Elevator),
    Sptf(sptf::Sptf),
}

/// A scheduling policy with the rules common to all policies.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    policy: Policy,
    age_limit: Nanos,
    read_preference: Nanos,
}

impl Chooser {
    pub(crate) fn new(spec: &QueueSpec) -> Chooser {
        let policy = match spec.policy {
            QueuePolicy::Fcfs => Policy::Fcfs,
            QueuePolicy::Sstf => Policy::Sstf,
            QueuePolicy::Look => Policy::Elevator(elevator::Elevator::new(true)),
            QueuePolicy::CLook => Policy::Elevator(elevator::Elevator::new(false)),
            QueuePolicy::Sptf => Policy::Sptf(sptf::Sptf::new(spec)),
        };
        Chooser { policy, age_limit: spec.age_limit, read_preference: spec.read_preference }
    }

    /// Returns the index of the next command in `waiting`, which is in order of arrival; `None` if none is ready.
    pub(crate) fn choose(&mut self, waiting: &[Waiting], view: View<'_>) -> Option<usize> {
        if let Some(aged) = self.overdue(waiting, view.now) {
            return Some(aged);
        }
        let preference = self.read_preference.0;
        match &mut self.policy {
            Policy::Fcfs => fcfs::choose(waiting, view, preference),
            Policy::Sstf => sstf::choose(waiting, view, preference),
            Policy::Elevator(elevator) => elevator.choose(waiting, view, preference),
            Policy::Sptf(sptf) => sptf.choose(waiting, view, preference),
        }
    }

    /// Returns whether continuing the transfer with a read that arrived at `since` precedes all of `older`, which
    /// arrived earlier. `view` is the state at which the transfer would otherwise end.
    pub(crate) fn continues_transfer(&self, since: Nanos, older: &[Waiting], view: View<'_>) -> bool {
        let ready = older.iter().filter(|waiting| waiting.ready <= view.now);
        let preference = self.read_preference.0;
        match &self.policy {
            Policy::Fcfs => fcfs::continues_transfer(since, ready, preference),
            Policy::Sptf(sptf) => sptf.continues_transfer(since, ready, view, preference),
            // Continuing needs no arm movement.
            Policy::Sstf | Policy::Elevator(_) => true,
        }
    }

    /// Returns whether a command that has waited since `since` exceeds the age limit.
    pub(crate) fn is_overdue(&self, since: Nanos, now: Nanos) -> bool {
        !self.age_limit.is_zero() && now.saturating_sub(since) > self.age_limit
    }

    fn overdue(&self, waiting: &[Waiting], now: Nanos) -> Option<usize> {
        if self.age_limit.is_zero() {
            return None;
        }
        let ready =
            waiting.iter().enumerate().filter(|(_, w)| w.ready <= now && self.is_overdue(w.since, now));
        ready.min_by_key(|(_, w)| w.since).map(|(index, _)| index)
    }
}

/// Returns the candidate with the lowest `cost`, the earlier one of equals; reads get a bonus of `preference`. A
/// command that continues another one is not chosen first: the head reaches it after the other.
fn least(
    waiting: &[Waiting],
    view: View<'_>,
    preference: u64,
    cost: impl Fn(&Waiting) -> i64,
) -> Option<usize> {
    let any = cheapest(waiting, view, preference, &cost, |_| true)?;
    if !goes_on(&waiting[any], waiting, view.now) {
        return Some(any);
    }
    cheapest(waiting, view, preference, &cost, |candidate| !goes_on(candidate, waiting, view.now))
}

/// Returns the candidate with the lowest `cost` among those that satisfy `counts`.
fn cheapest(
    waiting: &[Waiting],
    view: View<'_>,
    preference: u64,
    cost: impl Fn(&Waiting) -> i64,
    counts: impl Fn(&Waiting) -> bool,
) -> Option<usize> {
    let mut best = None;
    let mut best_cost = i64::MAX;
    for (index, candidate) in waiting.iter().enumerate() {
        if candidate.ready > view.now || !counts(candidate) {
            continue;
        }
        let cost = cost(candidate) - candidate.read_bonus(preference);
        if cost < best_cost || best.is_none() {
            best = Some(index);
            best_cost = cost;
        }
    }
    best
}

/// Returns whether the command continues another ready one without a gap.
fn goes_on(candidate: &Waiting, waiting: &[Waiting], now: Nanos) -> bool {
    waiting.iter().any(|before| {
        // Its first sector lies after the other's first, up to its end: a single comparison, because all pairs are
        // checked.
        candidate.lba.wrapping_sub(before.lba + 1) < before.end - before.lba
            && before.write == candidate.write
            && before.ready <= now
    })
}
