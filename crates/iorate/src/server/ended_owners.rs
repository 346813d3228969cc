//! Statistics of owners whose processes have ended. A caller that waited for the exit finds them here, because the
//! mount has removed the owner by then.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::protocol::{Owner, Refusal, Target, View};

use super::RateServer;
use super::rates::Stopped;

/// Number of ended owners that are remembered.
const ENDED_OWNERS_MAX: usize = 64;

/// Last state of the owners that most recently ended with a rate of their own.
#[derive(Debug, Default)]
pub(super) struct EndedOwners(Mutex<VecDeque<Owner>>);

impl EndedOwners {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Owner>> {
        // The queue is consistent after each step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, owners: Vec<Owner>) {
        let mut ended = self.lock();
        ended.extend(owners);
        let excess = ended.len().saturating_sub(ENDED_OWNERS_MAX);
        ended.drain(..excess);
    }

    fn last(&self, target: &Target) -> Option<Owner> {
        self.lock().iter().rev().find(|owner| owner.target == *target).cloned()
    }
}

impl RateServer {
    /// Returns the owner of a target that has a rate, or had one until its process ended.
    pub(super) fn find(&self, target: &Target) -> Result<Result<View, Refusal>, Stopped> {
        let rated = self.held(target).ok().and_then(|held| self.owners.rated(&held));
        let mut view = self.only(rated.map_or(u32::MAX, |(number, _)| number))?;
        if view.owners.is_empty() {
            view.owners.extend(self.ended.last(target));
        }
        let found = !view.owners.is_empty();
        Ok(if found { Ok(view) } else { Err(Refusal::NoRate { what: target.to_string() }) })
    }

    /// Stores the statistics of an owner. Must be called before the owner is removed, so that it can be found at any
    /// time.
    pub(super) fn remember(&self, number: u32) -> Result<(), Stopped> {
        self.ended.add(self.only(number)?.owners);
        Ok(())
    }

    /// Returns a view with only this owner, if it has a rate.
    fn only(&self, number: u32) -> Result<View, Stopped> {
        let mut view = self.view(u64::from(number).saturating_sub(1), false)?;
        view.owners.retain(|owner| owner.number == u64::from(number));
        view.more = false;
        Ok(view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered_and_of_a_number_that_was_given_again_the_later() {
        let ended = EndedOwners::default();
        let owner = |number: u64, pid| Owner {
            number,
            target: Target::Process { pid },
            name: String::new(),
            rate: None,
            best_effort: false,
            ideal_ns: None,
            ios: 0,
            late: 0,
            mean_ns: 0,
            accuracy_ratio: None,
            cov_ratio: 0.0,
            unanswered: 0,
        };
        for number in 0..1000 {
            ended.add(vec![owner(number, number as u32 % 500)]);
        }
        assert_eq!(ended.lock().len(), ENDED_OWNERS_MAX);
        assert_eq!(ended.last(&Target::Process { pid: 499 }).unwrap().number, 999);
        assert!(ended.last(&Target::Process { pid: 3 }).is_none());
        ended.add(Vec::new());
        ended.add(vec![owner(1000, 499)]);
        assert_eq!(ended.last(&Target::Process { pid: 499 }).unwrap().number, 1000);
        assert!(ended.last(&Target::Tree { pid: 499 }).is_none());
    }
}
