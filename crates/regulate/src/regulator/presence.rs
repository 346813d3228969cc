//! Which regulated owners may ask for something, and when.

use std::collections::{BTreeMap, BTreeSet};

use sakiyomi_model::Nanos;

use super::Owner;
use crate::rate::{Levels, Percent};

/// Regulated owners by when they can ask next.
///
/// To an owner the device seems to be its own and slow. Until that slow device would have done what it was given, the
/// owner is *busy*: what it asks for next need not end before the slow device would have done that, too. Then it is
/// *thinking*, and may ask at any moment. When it has thought for long it is *away*, and nothing is held back for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presence {
    release: Option<Nanos>,
    owners: BTreeMap<Owner, (Percent, State)>,
    thinking: Levels,
    thinking_since: BTreeSet<(Nanos, Owner)>,
    busy_until: BTreeSet<(Nanos, Owner)>,
    upcoming: BTreeSet<(Nanos, Owner)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Busy { until: Nanos, next: Nanos },
    Thinking { since: Nanos },
    Away,
}

impl Presence {
    pub(super) fn new(release: Option<Nanos>) -> Presence {
        Presence { release, ..Presence::default() }
    }

    /// The owner's device is at work until `until`; what comes next must have ended by `next`.
    pub(super) fn busy(&mut self, owner: Owner, rate: Percent, until: Nanos, next: Nanos) {
        self.leave(owner);
        self.enter(owner, rate, State::Busy { until, next });
    }

    /// The owner may ask at any moment.
    pub(super) fn think(&mut self, owner: Owner, rate: Percent, now: Nanos) {
        self.leave(owner);
        self.enter(owner, rate, State::Thinking { since: now });
    }

    /// The owner is not regulated any more.
    pub(super) fn leave(&mut self, owner: Owner) {
        match self.owners.remove(&owner) {
            Some((_, State::Busy { until, next })) => {
                self.busy_until.remove(&(until, owner));
                self.upcoming.remove(&(next, owner));
            }
            Some((rate, State::Thinking { since })) => {
                self.thinking.remove(rate);
                self.thinking_since.remove(&(since, owner));
            }
            Some((_, State::Away)) | None => {}
        }
    }

    /// Who has been busy until now thinks; who has thought for long is away.
    pub(super) fn advance(&mut self, now: Nanos) {
        while let Some(&(until, owner)) = self.busy_until.first().filter(|(until, _)| *until <= now) {
            let rate = self.owners[&owner].0;
            self.think(owner, rate, until);
        }
        while let Some(&(_, owner)) =
            self.thinking_since.first().filter(|(since, _)| self.is_over(*since, now))
        {
            let rate = self.owners[&owner].0;
            self.leave(owner);
            self.enter(owner, rate, State::Away);
        }
    }

    /// When the next owner will have thought for long.
    pub(super) fn next_release(&self) -> Option<Nanos> {
        let (first, release) = (self.thinking_since.first()?, self.release?);
        Some(first.0.saturating_add(release))
    }

    /// Whether any regulated owner is not away.
    pub(crate) fn anybody(&self) -> bool {
        !self.thinking.is_empty() || !self.busy_until.is_empty()
    }

    /// The owners that may ask at any moment.
    pub(crate) fn thinking(&self) -> &Levels {
        &self.thinking
    }

    /// By when the next requests of the busy owners must have ended, in order.
    pub(crate) fn upcoming(&self) -> impl Iterator<Item = Nanos> {
        self.upcoming.iter().map(|(next, _)| *next)
    }

    fn is_over(&self, since: Nanos, now: Nanos) -> bool {
        self.release.is_some_and(|release| since.saturating_add(release) <= now)
    }

    fn enter(&mut self, owner: Owner, rate: Percent, state: State) {
        match state {
            State::Busy { until, next } => {
                self.busy_until.insert((until, owner));
                self.upcoming.insert((next, owner));
            }
            State::Thinking { since } => {
                self.thinking.add(rate);
                self.thinking_since.insert((since, owner));
            }
            State::Away => {}
        }
        self.owners.insert(owner, (rate, state));
    }
}
