//! The command queue, and the policies that choose the next command.
//!
//! The queue is in order of arrival. At every command end a [`Policy`] chooses among the oldest `window` commands,
//! given the arm's position and the platters' angle. An age limit takes precedence over every policy.

mod command_queue;
mod elevator;
mod fcfs;
mod sptf;
mod sstf;

use sakiyomi_model::Nanos;

use crate::servo::{Arm, Servo, Target};
use crate::spec::{QueuePolicy, QueueSpec};

pub(crate) use command_queue::{CommandQueue, Ticket};

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
    /// Place in the order of arrival, given by the queue.
    pub(crate) ticket: Ticket,
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
    /// The next band of shingled tracks.
    Clean,
}

/// State of the drive on which a choice depends.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) now: Nanos,
    pub(crate) arm: Arm,
    pub(crate) servo: &'a Servo,
}

/// Commands among which a policy chooses: those in the queue's window, and at most one range of dirty data.
#[derive(Clone, Copy)]
pub(crate) struct Candidates<'a> {
    pub(crate) queue: &'a CommandQueue,
    pub(crate) destage: Option<&'a Waiting>,
}

impl<'a> Candidates<'a> {
    /// Returns the candidates in order of arrival, dirty data last.
    fn iter(self) -> impl Iterator<Item = &'a Waiting> {
        self.queue.older(None).chain(self.destage)
    }

    /// Returns whether a candidate continues another ready one without a gap. Dirty data is continued by none.
    fn continues(self, candidate: &Waiting, now: Nanos) -> bool {
        self.queue.continues(candidate, now)
    }
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

    /// Returns the next command; `None` if none is ready.
    pub(crate) fn choose<'a>(&mut self, candidates: Candidates<'a>, view: View<'_>) -> Option<&'a Waiting> {
        if let Some(aged) = self.overdue(candidates, view.now) {
            return Some(aged);
        }
        let preference = self.read_preference.0;
        match &mut self.policy {
            Policy::Fcfs => fcfs::choose(candidates, view, preference),
            Policy::Sstf => sstf::choose(candidates, view, preference),
            Policy::Elevator(elevator) => elevator.choose(candidates, view, preference),
            Policy::Sptf(sptf) => sptf.choose(candidates, view, preference),
        }
    }

    /// Returns whether continuing the transfer with a read that arrived at `since` precedes all of `older`, which
    /// arrived earlier. `view` is the state at which the transfer would otherwise end.
    pub(crate) fn continues_transfer<'a>(
        &self,
        since: Nanos,
        older: impl Iterator<Item = &'a Waiting>,
        view: View<'_>,
    ) -> bool {
        let ready = older.filter(|waiting| waiting.ready <= view.now);
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

    fn overdue<'a>(&self, candidates: Candidates<'a>, now: Nanos) -> Option<&'a Waiting> {
        let overdue = |waiting: &&Waiting| self.is_overdue(waiting.since, now);
        let ready = |waiting: &&Waiting| waiting.ready <= now;
        let command = candidates.queue.older(None).take_while(overdue).find(ready);
        let destage = candidates.destage.filter(overdue).filter(ready);
        command.into_iter().chain(destage).min_by_key(|waiting| waiting.since)
    }
}

/// Chooses the dirty range to be written: by positioning time alone.
#[derive(Clone, Debug)]
pub(crate) struct DestageChooser(sptf::Sptf);

impl DestageChooser {
    /// Creates a chooser with the rotational margin of commands.
    pub(crate) fn new(rpo_margin: Nanos) -> DestageChooser {
        DestageChooser(sptf::Sptf::new(&QueueSpec { rpo_margin, age_weight: 0.0, ..QueueSpec::default() }))
    }

    /// Returns the index of the range to write.
    pub(crate) fn choose(&self, waiting: &[Waiting], view: View<'_>) -> Option<usize> {
        self.0.choose_any(waiting, view)
    }
}

/// Returns the candidate with the lowest `cost`, the earlier one of equals; reads get a bonus of `preference`. A
/// command that continues another one is not chosen first: the head reaches it after the other.
fn least<'a>(
    candidates: Candidates<'a>,
    view: View<'_>,
    preference: u64,
    cost: impl Fn(&Waiting) -> i64,
) -> Option<&'a Waiting> {
    let rank = |waiting: &&Waiting| cost(waiting) - waiting.read_bonus(preference);
    let ready = || candidates.iter().filter(|waiting| waiting.ready <= view.now);
    let any = ready().min_by_key(rank)?;
    if !candidates.continues(any, view.now) {
        return Some(any);
    }
    ready().filter(|waiting| !candidates.continues(waiting, view.now)).min_by_key(rank)
}
