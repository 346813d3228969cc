//! Commands that wait for the mechanism, and the rule by which the next one is chosen.
//!
//! The queue is in order of arrival. A [`Policy`] looks at the oldest `window` commands, with the arm's position and
//! the platters' angle at that instant, and names one; it is asked anew at every command end. A hard age limit stands
//! above every policy.

mod elevator;
mod fcfs;
mod sptf;
mod sstf;

use sakiyomi_model::Nanos;

use crate::servo::{Arm, Servo, Target};
use crate::spec::{QueuePolicy, QueueSpec};

/// A command, or dirty data that should go to the medium, as the policies see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) work: Work,
    /// Since when it waits.
    pub(crate) since: Nanos,
    /// From when on it can be started: its command processing, or its data's way over the link, is over.
    pub(crate) ready: Nanos,
    /// The first sector to be transferred.
    pub(crate) lba: u64,
    /// The first sector after the last one.
    pub(crate) end: u64,
    pub(crate) target: Target,
    pub(crate) write: bool,
}

impl Waiting {
    /// What reads are let off against writes.
    fn let_off(&self, preference: u64) -> i64 {
        if self.write { 0 } else { preference as i64 }
    }
}

/// What is waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A command, by its slot in the controller.
    Command(usize),
    /// Dirty data, by its first sector.
    Destage(u64),
}

/// What a choice depends on, besides the commands.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) now: Nanos,
    pub(crate) arm: Arm,
    pub(crate) servo: &'a Servo,
}

/// A rule of choice; each lives in a file of its own.
#[derive(Clone, Debug)]
enum Policy {
    Fcfs,
    Sstf,
    Elevator(elevator::Elevator),
    Sptf(sptf::Sptf),
}

/// The rule of choice with what holds for all rules.
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

    /// The index of the next one among `waiting`, which is in order of arrival; `None` if none is ready.
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

    /// Whether a transfer that goes on with a read that came at `since` comes before all of `older`, which came before
    /// that. `view` is how things stand when the transfer would end otherwise.
    pub(crate) fn goes_on_first(&self, since: Nanos, older: &[Waiting], view: View<'_>) -> bool {
        let ready = older.iter().filter(|waiting| waiting.ready <= view.now);
        let preference = self.read_preference.0;
        match &self.policy {
            Policy::Fcfs => fcfs::goes_on_first(since, ready, preference),
            Policy::Sptf(sptf) => sptf.goes_on_first(since, ready, view, preference),
            // The arm need not move for it.
            Policy::Sstf | Policy::Elevator(_) => true,
        }
    }

    /// Whether a command that waits since `since` has passed the age limit.
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

/// The least by `cost`, the earlier one where two are equal; reads are let off `preference`. What goes on where another
/// one ends is not begun with: it is passed on the way.
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

/// The least by `cost` of those that count.
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
        let cost = cost(candidate) - candidate.let_off(preference);
        if cost < best_cost || best.is_none() {
            best = Some(index);
            best_cost = cost;
        }
    }
    best
}

/// Whether the head passes from another one, which is ready as well, to this one without a gap.
fn goes_on(candidate: &Waiting, waiting: &[Waiting], now: Nanos) -> bool {
    waiting.iter().any(|before| {
        // Behind its first sector, up to its end: one comparison, for this is asked of all that wait.
        candidate.lba.wrapping_sub(before.lba + 1) < before.end - before.lba
            && before.write == candidate.write
            && before.ready <= now
    })
}
