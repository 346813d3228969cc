//! Which regulated owners may ask for something, and when.

use std::collections::{BTreeMap, BTreeSet};

use sakiyomi_model::Nanos;

use crate::rate::{Levels, Owner, Share};

/// Regulated owners by when they can ask next.
///
/// To an owner the device seems to be its own and slow. Until that slow device would have done what it was given, the
/// owner is *busy*: what it asks for next need not end before the slow device would have done that, too. Then it is
/// *thinking*, and may ask at any moment. When it has thought for long it is *away*: its next request may take longer,
/// by as much as the regulator says. When it has been away for long, too, it is *gone*, and nothing is kept for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presence {
    release: Option<Nanos>,
    owners: BTreeMap<Owner, (Share, State)>,
    thinking: Levels,
    /// When an owner goes over into the next state by itself.
    until: BTreeSet<(Nanos, Owner)>,
    /// By when the next requests of the busy ones must have ended.
    upcoming: BTreeSet<(Nanos, Share, Owner)>,
    /// How long the next requests of those away may take.
    away: BTreeSet<(Nanos, Share, Owner)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Busy { until: Nanos, next: Nanos },
    Thinking { until: Nanos },
    Away { until: Nanos, allowed: Nanos },
    Gone,
}

/// An owner counts as away for this many release times; then nothing is reserved for it.
const AWAY_RELEASES: u64 = 12;

impl Presence {
    pub(crate) fn new(release: Option<Nanos>) -> Presence {
        Presence { release, ..Presence::default() }
    }

    /// The owner's device is at work until `until`; what comes next must have ended by `next`.
    pub(crate) fn busy(&mut self, owner: Owner, share: Share, until: Nanos, next: Nanos) {
        self.enter(owner, share, State::Busy { until, next });
    }

    /// The owner may ask at any moment, since `now`.
    pub(crate) fn think(&mut self, owner: Owner, share: Share, now: Nanos) {
        let until = self.release.map_or(Nanos::MAX, |release| now.saturating_add(release));
        self.enter(owner, share, State::Thinking { until });
    }

    /// The owner has come to have another share.
    pub(crate) fn set_share(&mut self, owner: Owner, share: Share) {
        if let Some(&(_, state)) = self.owners.get(&owner) {
            self.enter(owner, share, state);
        }
    }

    /// The owner is not regulated any more.
    pub(crate) fn leave(&mut self, owner: Owner) {
        let Some((share, state)) = self.owners.remove(&owner) else { return };
        match state {
            State::Busy { until, next } => {
                self.until.remove(&(until, owner));
                self.upcoming.remove(&(next, share, owner));
            }
            State::Thinking { until } => {
                self.until.remove(&(until, owner));
                self.thinking.remove(share);
            }
            State::Away { until, allowed } => {
                self.until.remove(&(until, owner));
                self.away.remove(&(allowed, share, owner));
            }
            State::Gone => {}
        }
    }

    /// Lets time come to `now`. `allowed` is asked how long the next request of an owner that goes away may take.
    pub(crate) fn advance(&mut self, now: Nanos, mut allowed: impl FnMut(Owner) -> Nanos) {
        while let Some(&(at, owner)) = self.until.first().filter(|(until, _)| *until <= now) {
            let (share, state) = self.owners[&owner];
            match state {
                State::Busy { .. } => self.think(owner, share, at),
                State::Thinking { .. } => {
                    let until = at.saturating_add(Nanos(
                        self.release.map_or(u64::MAX, |release| release.0.saturating_mul(AWAY_RELEASES)),
                    ));
                    self.enter(owner, share, State::Away { until, allowed: allowed(owner) });
                }
                State::Away { .. } | State::Gone => self.enter(owner, share, State::Gone),
            }
        }
    }

    /// When next an owner asks for less to be kept for it.
    pub(crate) fn next_release(&self) -> Option<Nanos> {
        self.until.first().map(|(until, _)| *until).filter(|until| *until < Nanos::MAX)
    }

    /// Whether any regulated owner has asked for something lately.
    pub(crate) fn anybody(&self) -> bool {
        !self.thinking.is_empty() || !self.upcoming.is_empty()
    }

    /// Whether less than everything is kept for the owner.
    pub(crate) fn is_released(&self, owner: Owner) -> bool {
        matches!(self.owners.get(&owner), Some((_, State::Away { .. } | State::Gone)))
    }

    /// The owners that may ask at any moment.
    pub(crate) fn thinking(&self) -> &Levels {
        &self.thinking
    }

    /// By when the next requests of the busy owners must have ended, in order, and what share these have.
    pub(crate) fn upcoming(&self) -> impl Iterator<Item = (Nanos, Share)> {
        self.upcoming.iter().map(|&(next, share, _)| (next, share))
    }

    /// How long the next request of an owner that is away may take, and its share: the shortest. They do not all come at
    /// once.
    pub(crate) fn shortest_away(&self) -> Option<(Nanos, Share)> {
        self.away.first().map(|&(allowed, share, _)| (allowed, share))
    }

    fn enter(&mut self, owner: Owner, share: Share, state: State) {
        self.leave(owner);
        match state {
            State::Busy { until, next } => {
                self.until.insert((until, owner));
                self.upcoming.insert((next, share, owner));
            }
            State::Thinking { until } => {
                self.until.insert((until, owner));
                self.thinking.add(share);
            }
            State::Away { until, allowed } => {
                self.until.insert((until, owner));
                self.away.insert((allowed, share, owner));
            }
            State::Gone => {}
        }
        self.owners.insert(owner, (share, state));
    }
}
