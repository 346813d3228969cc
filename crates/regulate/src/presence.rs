//! Activity of regulated owners: when each may send its next request.

use std::collections::{BTreeMap, BTreeSet};

use sakiyomi_model::Nanos;

use crate::rate::{Levels, Owner, Share};

/// Regulated owners by the time of their next request.
///
/// To an owner the device appears to be a slow device of its own. Until that virtual device would have done its
/// requests, the owner is *busy*: its next request need not end before the virtual device would have done that one,
/// too. After that it is *thinking* and may send a request at any moment. An owner that has been thinking for the
/// release time is *away*: its next request may take longer, as the regulator determines. An owner that has been away
/// for long is *gone*, and no capacity is reserved for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presence {
    release: Option<Nanos>,
    owners: BTreeMap<Owner, (Share, State)>,
    thinking: Levels,
    /// Times at which owners enter their next state.
    until: BTreeSet<(Nanos, Owner)>,
    /// Deadlines of the next requests of busy owners.
    upcoming: BTreeSet<(Nanos, Share, Owner)>,
    /// Times that the next requests of owners that are away may take.
    away: BTreeSet<(Nanos, Share, Owner)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Busy { until: Nanos, arrival: Nanos, next: Nanos },
    Thinking { until: Nanos },
    Away { until: Nanos, allowed: Nanos },
    Gone,
}

/// Number of release times for which an owner counts as away; after that nothing is reserved for it.
const AWAY_RELEASES: u64 = 12;

impl Presence {
    pub(crate) fn new(release: Option<Nanos>) -> Presence {
        Presence { release, ..Presence::default() }
    }

    /// Marks the owner as busy until `until`; its next request is due by `next`.
    pub(crate) fn busy(&mut self, owner: Owner, share: Share, until: Nanos, next: Nanos) {
        self.enter(owner, share, State::Busy { until, arrival: until, next });
    }

    /// Marks the owner as busy until `until`; its next request arrives at `arrival` at the earliest, and is then due by
    /// `next`.
    pub(crate) fn expect(&mut self, owner: Owner, share: Share, until: Nanos, arrival: Nanos, next: Nanos) {
        self.enter(owner, share, State::Busy { until, arrival, next });
    }

    /// Marks the owner as thinking since `now`.
    pub(crate) fn think(&mut self, owner: Owner, share: Share, now: Nanos) {
        let until = self.release.map_or(Nanos::MAX, |release| now.saturating_add(release));
        self.enter(owner, share, State::Thinking { until });
    }

    /// Changes the share of the owner.
    pub(crate) fn set_share(&mut self, owner: Owner, share: Share) {
        if let Some(&(_, state)) = self.owners.get(&owner) {
            self.enter(owner, share, state);
        }
    }

    /// Removes an owner that is no longer regulated.
    pub(crate) fn leave(&mut self, owner: Owner) {
        let Some((share, state)) = self.owners.remove(&owner) else { return };
        match state {
            State::Busy { until, next, .. } => {
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

    /// Advances to `now`. `allowed` returns how long the next request of an owner that becomes away may take.
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

    /// Returns when an owner next enters a state for which less capacity is reserved.
    pub(crate) fn next_release(&self) -> Option<Nanos> {
        self.until.first().map(|(until, _)| *until).filter(|until| *until < Nanos::MAX)
    }

    /// Returns whether any regulated owner has been active recently.
    pub(crate) fn anybody(&self) -> bool {
        !self.thinking.is_empty() || !self.upcoming.is_empty()
    }

    /// Returns whether capacity is reserved for any owner.
    pub(crate) fn has_reserved(&self) -> bool {
        self.anybody() || !self.away.is_empty()
    }

    /// Returns whether the full capacity is no longer reserved for the owner.
    pub(crate) fn is_released(&self, owner: Owner) -> bool {
        matches!(self.owners.get(&owner), Some((_, State::Away { .. } | State::Gone)))
    }

    /// Returns the owners that may send a request at any moment.
    pub(crate) fn thinking(&self) -> &Levels {
        &self.thinking
    }

    /// Returns the deadlines of the next requests of busy owners, in order, and their shares.
    pub(crate) fn upcoming(&self) -> impl Iterator<Item = (Nanos, Share)> {
        self.upcoming.iter().map(|&(next, share, _)| (next, share))
    }

    /// Returns the earliest arrivals of the next requests of busy owners and their deadlines, in order of deadline.
    pub(crate) fn expected(&self) -> impl Iterator<Item = (Nanos, Nanos)> {
        self.upcoming.iter().map(|&(next, _, owner)| match self.owners[&owner] {
            (_, State::Busy { arrival, .. }) => (arrival, next),
            _ => unreachable!("only busy owners are expected"),
        })
    }

    /// Returns the shortest time that the next request of an owner that is away may take, and the owner's share. Such
    /// owners are assumed not to return all at once.
    pub(crate) fn shortest_away(&self) -> Option<(Nanos, Share)> {
        self.away.first().map(|&(allowed, share, _)| (allowed, share))
    }

    fn enter(&mut self, owner: Owner, share: Share, state: State) {
        self.leave(owner);
        match state {
            State::Busy { until, next, .. } => {
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
