//! Sets and removes rates.

use sakiyomi_model::Nanos;

use super::burst::Bursts;
use super::io_times::IoTimeStatistics;
use super::owner_state::RegulatedOwner;
use super::request::State;
use super::{Action, Regulator};
use crate::feasibility::Arrivals;
use crate::rate::{Owner, Rate, Share, Time};

/// Reasons for refusing a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// The device has no regulator.
    #[error("no rate can be set: the device has no regulator")]
    Unregulated,
    /// Its I/Os would have to be faster than the device and the path to it, even without other load.
    #[error(
        "{asked} cannot be kept: it leaves {} for an I/O, of which the device takes {} and the way to it {}; {}",
        Time(*.ideal), Time(*.device), Time(*.path), best_words(*.best, "use another device")
    )]
    TooFast {
        /// The requested rate.
        asked: Rate,
        /// The ideal time of an I/O.
        ideal: Nanos,
        /// The service time of the device.
        device: Nanos,
        /// Time on the path to the device ([`Settings::path`](crate::Settings::path)).
        path: Nanos,
        /// The best possible rate of the same kind, if any.
        best: Option<Rate>,
    },
    /// An I/O would too often be late beside a request that is in progress when it arrives.
    #[error(
        "{asked} cannot be kept{}: each I/O has {}, takes {} itself, and may find another request in progress; {}{}",
        if *.others { " beside the existing rates" } else { "" }, Time(*.ideal), Time(*.device),
        best_words(*.best, if *.others { "clear one of those" } else { "request less" }),
        back_to_back_words(*.back_to_back)
    )]
    Late {
        /// The requested rate.
        asked: Rate,
        /// The ideal time of an I/O.
        ideal: Nanos,
        /// The service time of the device.
        device: Nanos,
        /// Whether others have rates.
        others: bool,
        /// The best possible rate of the same kind, if any.
        best: Option<Rate>,
        /// The best possible rate of an owner whose I/Os follow each other at once, if it is larger.
        back_to_back: Option<Rate>,
    },
    /// The formula of section 4.2 leaves no capacity for unregulated requests.
    #[error(
        "{asked} cannot be kept{}; {}", if *.others { " beside the existing rates" } else { ": no share of the device would remain for others" },
        best_words(*.best, if *.others { "clear one of those" } else { "request less" })
    )]
    NoRoom {
        /// The requested rate.
        asked: Rate,
        /// Whether others have rates.
        others: bool,
        /// The best possible rate of the same kind, if any.
        best: Option<Rate>,
    },
}

fn best_words(best: Option<Rate>, else_do: &str) -> String {
    best.map_or(else_do.to_owned(), |best| format!("{best} can"))
}

fn back_to_back_words(best: Option<Rate>) -> String {
    let words =
        |best| format!(", and {best} if each I/O follows at once after the last one (--back-to-back)");
    best.map(words).unwrap_or_default()
}

/// I/Os between two conversions of rates given by time to shares of the device.
const SHARES_UPDATE_IOS: u64 = 128;

/// A rate as an owner requests it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requested {
    /// The rate.
    pub rate: Rate,
    /// When its I/Os may arrive; considered with a profile only.
    pub arrivals: Arrivals,
}

impl<R: Into<Rate>> From<R> for Requested {
    fn from(rate: R) -> Requested {
        Requested { rate: rate.into(), arrivals: Arrivals::Any }
    }
}

impl Regulator {
    /// Sets the rate of `owner` if all rates can then be kept.
    ///
    /// # Errors
    /// [`RateError`], with the best possible rate; the state is unchanged.
    pub fn set_rate(
        &mut self,
        now: Nanos,
        owner: Owner,
        rate: impl Into<Requested>,
        out: &mut Vec<Action>,
    ) -> Result<(), RateError> {
        let Requested { rate, arrivals } = rate.into();
        if !self.has_room(owner, rate, arrivals) {
            let mean = self.service.mean_of_all();
            let best = self.best(owner, rate, arrivals);
            let (asked, path) = (rate, self.settings.path);
            let (ideal, device) = (rate.ideal(self.service.counted_of_all()), mean);
            let others = self.members.keys().any(|&other| other != owner);
            return Err(if ideal < device.saturating_add(path) {
                RateError::TooFast { asked, ideal, device, path, best }
            } else if self.planned.is_some() {
                let back_to_back = self.best(owner, asked, Arrivals::BackToBack);
                let back_to_back = back_to_back.filter(|_| arrivals == Arrivals::Any && back_to_back != best);
                RateError::Late { asked, ideal, device, others, best, back_to_back }
            } else {
                RateError::NoRoom { asked, others, best }
            });
        }
        self.give(now, owner, Requested { rate, arrivals }, true, out);
        Ok(())
    }

    /// Sets the rate of `owner` as best effort, even if other rates can then not be kept.
    pub fn set_rate_anyway(
        &mut self,
        now: Nanos,
        owner: Owner,
        rate: impl Into<Requested>,
        out: &mut Vec<Action>,
    ) {
        let requested = rate.into();
        let guaranteed = self.planned.is_none() || self.has_room(owner, requested.rate, requested.arrivals);
        self.give(now, owner, requested, guaranteed, out);
    }

    /// Removes the rate of `owner`; its delayed replies are sent.
    pub fn clear_rate(&mut self, now: Nanos, owner: Owner, out: &mut Vec<Action>) {
        self.pass(now);
        self.take_back(owner, out);
        self.issue(out);
    }

    pub(super) fn take_back(&mut self, owner: Owner, out: &mut Vec<Action>) {
        if let Some(member) = self.members.remove(&owner) {
            self.levels.remove(member.share);
            self.timed.remove(&owner);
            self.presence.leave(owner);
            if let Some(planned) = &mut self.planned {
                planned.grant(owner, None);
            }
            self.gate.owners_changed(&self.levels);
            self.stop_reading_ahead(owner, out);
            self.requeue(owner, false);
            self.let_go(owner, out);
        }
    }

    fn give(
        &mut self,
        now: Nanos,
        owner: Owner,
        requested: Requested,
        guaranteed: bool,
        out: &mut Vec<Action>,
    ) {
        let Requested { rate, arrivals } = requested;
        self.pass(now);
        let old = self.members.get(&owner).copied();
        if let Some(old) = old {
            self.levels.remove(old.share);
        }
        let share = rate.share(self.service.mean_of_all());
        self.levels.add(share);
        match rate {
            Rate::Percent(_) => self.timed.remove(&owner),
            Rate::Every(_) => self.timed.insert(owner),
        };
        let new = RegulatedOwner {
            rate,
            share,
            outstanding: 0,
            until: Nanos::ZERO,
            carry: Nanos::ZERO,
            guaranteed,
            in_stream: false,
            service: self.service.counted_of_all(),
            bursts: Bursts::default(),
            kept: IoTimeStatistics::default(),
        };
        // If the device has been caching writes, the measurements include their time and cannot show harm.
        self.writes.harm(self.now, self.service.mean_of_all());
        self.members.insert(
            owner,
            RegulatedOwner {
                rate,
                share,
                guaranteed,
                kept: IoTimeStatistics::default(),
                ..old.unwrap_or(new)
            },
        );
        if let Some(planned) = &mut self.planned {
            planned.grant(owner, guaranteed.then_some((share, arrivals)));
        }
        self.presence.think(owner, share, self.now);
        self.gate.owners_changed(&self.levels);
        self.requeue(owner, true);
        self.issue(out);
    }

    /// Returns the largest rate of the same kind as `asked`, and up to it, for which there is room.
    fn best(&self, owner: Owner, asked: Rate, arrivals: Arrivals) -> Option<Rate> {
        if self.has_room(owner, asked, arrivals) {
            return Some(asked);
        }
        Share::best(asked, self.service.mean_of_all(), |rate| self.has_room(owner, rate, arrivals))
    }

    fn has_room(&self, owner: Owner, rate: Rate, arrivals: Arrivals) -> bool {
        let share = rate.share(self.service.mean_of_all());
        if let Some(planned) = &self.planned {
            return planned.limits_with(owner, share, arrivals).is_some();
        }
        let mut levels = self.levels.clone();
        if let Some(member) = self.members.get(&owner) {
            levels.remove(member.share);
        }
        levels.add(share);
        self.gate.has_room(&levels, &self.service)
    }

    /// Updates periodically the shares that correspond to rates given as times, since they depend on the service time.
    pub(super) fn follow_shares(&mut self) {
        if self.service.seen() >= self.shares_at {
            // Frequent at first, while few measurements exist.
            self.shares_at = self.service.seen() + self.service.seen().clamp(1, SHARES_UPDATE_IOS);
            let owners: Vec<Owner> = self.timed.iter().copied().collect();
            owners.into_iter().for_each(|owner| self.follow_share(owner));
        }
    }

    fn follow_share(&mut self, owner: Owner) {
        let member = self.members.get_mut(&owner).expect("it is regulated");
        let share = member.rate.share(self.service.mean_of_all());
        if !share.is_far_from(member.share) {
            return;
        }
        let before = self.levels.formula();
        self.levels.remove(std::mem::replace(&mut member.share, share));
        self.levels.add(share);
        self.presence.set_share(owner, share);
        if self.levels.formula() != before {
            self.gate.owners_changed(&self.levels);
        }
    }

    /// Applies the new rate to queued requests; requests in the device, or with delayed replies, keep the rate with
    /// which they arrived.
    fn requeue(&mut self, owner: Owner, regulated: bool) {
        for id in self.requests_of(owner) {
            let mut entry = self.requests[&id];
            if entry.state != State::Waiting {
                continue;
            }
            self.wait_no_more(id, &entry);
            if entry.regulated.take().is_some()
                && let Some(member) = self.members.get_mut(&owner)
            {
                // Saturating: the request may have been counted when the owner had another rate.
                member.outstanding = member.outstanding.saturating_sub(1);
            }
            if regulated {
                entry.regulated = Some(self.give_deadline(&entry, self.service_of(&entry)));
            }
            self.requests.insert(id, entry);
            self.wait(id, &entry);
        }
    }

    /// Sends the delayed replies of an owner.
    fn let_go(&mut self, owner: Owner, out: &mut Vec<Action>) {
        for id in self.requests_of(owner) {
            let entry = self.requests[&id];
            if let State::HeldBack { until, outcome } = entry.state {
                self.held_back.remove(&(until, id));
                self.answer(id, &entry, outcome, out);
            }
        }
    }
}
