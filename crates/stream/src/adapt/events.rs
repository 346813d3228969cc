//! Decisions and their results: a bounded log for live views and reports.

use std::collections::VecDeque;
use std::fmt;

use sakiyomi_placement::{Move, Placement};

use crate::tuple::OperatorId;

/// Events that are kept: some hours of a stream whose load changes each minute.
const EVENTS_MAX: usize = 1_024;

/// Reason of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Enough has been measured for the first plan.
    Started,
    /// The rate exceeds what the plan holds, or is about to.
    RateRose,
    /// Fewer cores hold the rate.
    RateFell,
    /// Service time or input of an operator have changed.
    LoadChanged(OperatorId),
    /// A source fell behind on a plan that should have held the rate.
    FellBehind,
    /// A while has passed since a source fell behind.
    CaughtUp,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Started => f.write_str("first figures"),
            Reason::RateRose => f.write_str("higher rate"),
            Reason::RateFell => f.write_str("lower rate"),
            Reason::LoadChanged(operator) => write!(f, "load of operator {operator} changed"),
            Reason::FellBehind => f.write_str("a source fell behind"),
            Reason::CaughtUp => f.write_str("no source has been behind for a while"),
        }
    }
}

/// A change of a placement, and the time that it took.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedMove {
    /// The change; none if all operators were brought to their cores without an order of changes.
    pub change: Option<Move>,
    /// Time until it had been made, in nanoseconds.
    pub duration_ns: u64,
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// Another plan was adopted and is live.
    PlanChanged {
        /// Reason.
        reason: Reason,
        /// Rate at the time of the decision, in tuples per second.
        rate_per_s: f64,
        /// Placement before.
        from: Placement,
        /// Placement afterwards.
        to: Placement,
        /// Time from the sample that led to the decision until all changes had been made, in nanoseconds.
        duration_ns: u64,
        /// The changes.
        moves: Vec<TimedMove>,
    },
    /// No plan holds the rate: the best one is used. Told once until the rate has been held again.
    Shortfall {
        /// The rate, in tuples per second.
        rate_per_s: f64,
        /// The highest rate that a plan holds.
        held_per_s: f64,
    },
    /// Plans for new figures could not be made; those before are still used.
    NoPlans {
        /// Reason for which the plans were needed.
        reason: Reason,
        /// The fault.
        message: String,
    },
    /// A change could not be made. The placement stays as it is.
    ChangeFailed {
        /// The fault.
        message: String,
    },
    /// The CPU of a worker is used by others: from now on the worker parks without polling.
    CpuShared {
        /// The worker.
        worker: usize,
        /// Share of the time for which the worker, or its whole CPU, was kept waiting.
        waited_ratio: f64,
    },
    /// The CPU of a worker seems to be its own again.
    CpuOwned {
        /// The worker.
        worker: usize,
    },
}

/// An event with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Number, from 0 without gaps.
    pub number: u64,
    /// Time, in nanoseconds since the start of the stream.
    pub at_ns: u64,
    /// The event.
    pub kind: EventKind,
}

/// The latest events.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog {
    events: VecDeque<Event>,
    next: u64,
}

impl EventLog {
    pub(crate) fn add(&mut self, at_ns: u64, kind: EventKind) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(Event { number: self.next, at_ns, kind });
        self.next += 1;
    }

    /// Returns the events from this number on that are still kept.
    pub(crate) fn since(&self, number: u64) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.number >= number)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_latest_events_are_kept_with_their_numbers() {
        let mut log = EventLog::default();
        (0..3_000).for_each(|worker| log.add(worker as u64, EventKind::CpuOwned { worker }));
        let kept: Vec<u64> = log.since(0).map(|event| event.number).collect();
        assert_eq!(kept, (3_000 - EVENTS_MAX as u64..3_000).collect::<Vec<_>>());
        assert_eq!(log.since(2_998).map(|event| event.at_ns).collect::<Vec<_>>(), [2_998, 2_999]);
    }
}
