//! The pure core of regulation: events in, actions out.
//!
//! A [`Regulator`] serves one device. It receives requests and completions of the device with their times, and returns
//! which requests to issue ([`Action::Issue`]) and which replies to send ([`Action::Answer`]). Between events it must
//! be called at [`Regulator::wake_at`]. It has no clock, device or thread, and behaves the same in virtual and in real
//! time. Time never runs backwards: an earlier time is treated as that of the last event.
//!
//! The life of a request, with T0, T2 and T3 as in figures 4.1 and 4.2 of the thesis (Tani, Kochi 2023); T1, when the
//! completion is processed, is not distinguished from T3:
//!
//! ```text
//!   arrive (T0) ──► queued ──► Issue (T2) ──► device_done (T3) ──► delayed ──► Answer
//! ```

mod admitted;
mod burst;
mod io_times;
mod issue;
mod owner_state;
mod parallel;
mod planned;
mod rates;
mod read_ahead;
mod report;
mod request;
mod streams;
#[cfg(test)]
mod tests;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use sakiyomi_model::{Bytes, Lba, Nanos, Op, Outcome, RequestId};

use crate::feasibility::Limits;
use crate::gate::{CompletedRequest, Gate};
use crate::presence::Presence;
use crate::profile::Profile;
use crate::queue::{Queue, Turn};
use crate::rate::{Levels, Owner, Share};
use crate::service::{Kind, Sample, Service};
use crate::settings::{Serves, Settings, Window};
pub use io_times::Recent;
use issue::InDevice;
use owner_state::RegulatedOwner;
use planned::Planned;
pub use rates::{RateError, Requested};
pub use report::{DeviceReport, Report};
use request::{DeviceStay, Entry, Promise, State};
use writes::Writes;

/// A regulated I/O that exceeds its ideal time by more than this part of it, a quarter, was delayed by cached writes; a
/// smaller excess may be the scatter of service times.
const HARM_EXCESS_DIVISOR: u64 = 4;

/// A request as it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivingRequest {
    /// An identifier that no other outstanding request has, below half of the largest.
    pub id: RequestId,
    /// Its owner.
    pub owner: Owner,
    /// Its operation.
    pub op: Op,
    /// Its first sector.
    pub start: Lba,
    /// Its size.
    pub size: Bytes,
}

/// An action for the caller to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Issue a request, or a part of it, to the device now. The device has at most one part of a request at a time.
    Issue {
        /// The request.
        id: RequestId,
        /// The part, in bytes from its start: all of it, except by the profile.
        part: Range<u64>,
        /// Whether a write must be on the medium when it ends (FUA), even if the owner did not ask for that.
        force: bool,
    },
    /// Prepare a read of the regulator's own, which is issued later like any request: data read ahead for an owner.
    Fetch {
        /// An identifier above all others.
        id: RequestId,
        /// The owner.
        owner: Owner,
        /// The first sector.
        start: Lba,
        /// The size.
        size: Bytes,
    },
    /// A read of the regulator's own has ended, or will not be issued.
    Fetched {
        /// The read.
        id: RequestId,
    },
    /// Send the reply to the owner. The identifier may be used again.
    Answer {
        /// The request.
        id: RequestId,
        /// Its outcome.
        outcome: Outcome,
        /// Its ideal time, if it was regulated.
        ideal: Option<Nanos>,
    },
}

/// Regulator of the I/O times of owners on one device.
#[derive(Clone, Debug)]
pub struct Regulator {
    settings: Settings,
    now: Nanos,
    requests: BTreeMap<RequestId, Entry>,
    by_owner: BTreeSet<(Owner, RequestId)>,
    members: BTreeMap<Owner, RegulatedOwner>,
    /// Owners whose rate is a time.
    timed: BTreeSet<Owner>,
    /// Number of measured requests at which their shares are next updated.
    shares_at: u64,
    levels: Levels,
    presence: Presence,
    queue: Queue,
    device: InDevice,
    /// Deadlines of regulated requests that are queued or in the device.
    deadlines: BTreeSet<(Nanos, Share, RequestId)>,
    held_back: BTreeSet<(Nanos, RequestId)>,
    service: Service,
    gate: Gate,
    writes: Writes,
    /// Admission by the profile of the device; `None`: by the gate.
    planned: Option<Planned>,
}

impl Regulator {
    /// Makes a regulator without rates, in which requests pass.
    #[must_use]
    pub fn new(settings: Settings) -> Regulator {
        Regulator {
            settings,
            now: Nanos::ZERO,
            requests: BTreeMap::new(),
            by_owner: BTreeSet::new(),
            members: BTreeMap::new(),
            timed: BTreeSet::new(),
            shares_at: 0,
            levels: Levels::default(),
            presence: Presence::new(settings.release),
            queue: Queue::default(),
            device: InDevice::default(),
            deadlines: BTreeSet::new(),
            held_back: BTreeSet::new(),
            service: Service::new(&settings),
            gate: Gate::new(settings.gate),
            writes: Writes::default(),
            planned: None,
        }
    }

    /// Makes a regulator without rates for a device with this profile, from which ideal times and admission follow.
    /// `error` is the relative error of the profile, 0 to 0.5: the larger, the smaller are the rates that are granted.
    #[must_use]
    pub fn with_profile(settings: Settings, profile: Arc<Profile>, error: f64) -> Regulator {
        let mut regulator = Regulator::new(Settings { serves: Serves::OneByOne, ..settings });
        regulator.service.fix(profile.service());
        regulator.planned = Some(Planned::new(profile, error));
        regulator
    }

    /// Returns its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns whether the queue has room for one more request.
    #[must_use]
    pub fn has_capacity(&self) -> bool {
        self.queue.len() < self.settings.capacity
    }

    /// Returns the maximum number of outstanding requests: in the device and in the queue.
    #[must_use]
    pub fn depth(&self) -> u32 {
        let waiting = u32::try_from(self.settings.capacity).unwrap_or(u32::MAX);
        self.settings.depth.saturating_add(waiting)
    }

    /// Processes the arrival of a request (T0).
    ///
    /// # Panics
    /// If a request with this identifier is outstanding.
    pub fn arrive(&mut self, now: Nanos, ask: ArrivingRequest, out: &mut Vec<Action>) {
        self.pass(now);
        let regulated = self.members.contains_key(&ask.owner);
        let mut entry = Entry {
            owner: ask.owner,
            kind: Kind::of(ask.op, ask.size),
            op: ask.op,
            start: ask.start,
            size: ask.size,
            done: Bytes(0),
            arrived: self.now,
            regulated: None,
            state: State::Waiting,
        };
        assert!(!self.requests.contains_key(&ask.id), "request {} is there already", ask.id.0);
        if !regulated || !self.arrive_in_stream(ask.id, &entry, out) {
            if regulated {
                entry.regulated = Some(self.give_deadline(&entry, self.service_of(&entry)));
            }
            self.requests.insert(ask.id, entry);
            self.by_owner.insert((ask.owner, ask.id));
            self.wait(ask.id, &entry);
        }
        if regulated {
            self.read_ahead(ask.owner, out);
        }
        self.issue(out);
    }

    /// Processes the completion of a request by the device at `done` (T3), which may precede the last event.
    ///
    /// # Panics
    /// If this request is not in the device.
    pub fn device_done(&mut self, done: Nanos, id: RequestId, outcome: Outcome, out: &mut Vec<Action>) {
        self.pass(done);
        let mut entry = *self.requests.get(&id).expect("the device ends what it was given");
        let State::InDevice(stay) = entry.state else { panic!("request {} is not in the device", id.0) };
        self.leave_device(&entry, stay);
        let bypassed = match self.planned {
            // The profile is never moved by what is measured later.
            Some(_) => false,
            None => self.learn(&entry, stay, done, outcome),
        };
        if !bypassed {
            self.device.busy_since = done;
        }
        if let Some(regulated) = entry.regulated {
            self.deadlines.remove(&(regulated.deadline, regulated.share, id));
        }
        entry.done = Bytes(entry.done.0 + stay.piece.0);
        let is_fetch = self.is_fetch(id);
        let is_wanted =
            !is_fetch || self.planned.as_ref().is_some_and(|planned| planned.streams.is_wanted(id));
        if outcome == Outcome::Done && !stay.cancelled && entry.done < entry.size && is_wanted {
            entry.state = State::Waiting;
            self.requests.insert(id, entry);
            self.wait(id, &entry);
        } else if is_fetch {
            let is_whole = entry.done >= entry.size;
            self.fetch_ended(id, if is_whole { outcome } else { Outcome::Cancelled }, out);
        } else {
            self.device.ended += 1;
            self.completed(id, entry, if stay.cancelled { Outcome::Cancelled } else { outcome }, out);
        }
        self.follow_shares();
        self.issue(out);
        if !bypassed {
            // Set last: the sample above needs the previous value, and the device chooses its next request among all
            // that it now has, including those just issued.
            self.device.choice = self.device.len();
        }
    }

    /// Learns from a completion; returns whether the device's cache did it beside the mechanism.
    fn learn(&mut self, entry: &Entry, stay: DeviceStay, done: Nanos, outcome: Outcome) -> bool {
        let bypassed = self.bypassed(stay);
        let taken_in = self.taken_in(entry, stay, bypassed);
        let bypassed = bypassed || (taken_in && self.device.len() > 0);
        // An I/O far beyond its known service time, while cached writes may be pending, was delayed by them.
        let held_up =
            self.writes.may_be_left(self.now) && self.service.is_far_beyond(entry.kind, stay.issued, done);
        if taken_in {
            self.writes.taken_in(self.now);
        }
        if self.writes.is_settled(self.now) {
            self.service.forget();
        }
        if held_up {
            self.writes.harm(self.now, self.service.mean_of_all());
        }
        if outcome == Outcome::Done && !taken_in && !held_up {
            let (DeviceStay { issued, beside, .. }, choice) = (stay, self.device.choice);
            self.service.done(Sample { kind: entry.kind, issued, done, choice, beside, bypassed });
        } else if !bypassed {
            self.service.passed(done);
        }
        bypassed
    }

    /// Answers a request that the device has ended, now or at its ideal time.
    fn completed(&mut self, id: RequestId, mut entry: Entry, outcome: Outcome, out: &mut Vec<Action>) {
        match self.held_back_until(&mut entry, outcome) {
            Some(until) if until > self.now => {
                entry.state = State::HeldBack { until, outcome };
                self.requests.insert(id, entry);
                self.held_back.insert((until, id));
            }
            _ => self.answer(id, &entry, outcome, out),
        }
    }

    /// Cancels a request. One that is in the device is answered when the device has completed it.
    pub fn cancel(&mut self, now: Nanos, id: RequestId, out: &mut Vec<Action>) {
        self.pass(now);
        self.withdraw(id, out);
        self.issue(out);
    }

    /// Removes an owner: its rate is freed, and its requests are cancelled.
    pub fn owner_gone(&mut self, now: Nanos, owner: Owner, out: &mut Vec<Action>) {
        self.pass(now);
        self.take_back(owner, out);
        for id in self.requests_of(owner) {
            self.withdraw(id, out);
        }
        self.issue(out);
    }

    /// Advances to `now` and sends the replies that are due.
    pub fn timer(&mut self, now: Nanos, out: &mut Vec<Action>) {
        self.pass(now);
        while let Some(&(until, id)) = self.held_back.first().filter(|(until, _)| *until <= self.now) {
            self.held_back.pop_first();
            let entry = self.requests[&id];
            let State::HeldBack { outcome, .. } = entry.state else { unreachable!("it is held back") };
            self.answered_late(entry.owner, self.now - until);
            self.answer(id, &entry, outcome, out);
        }
        self.issue(out);
    }

    /// Records that a reply reached the owner late by `by`; the following replies are sent earlier by as much (section
    /// 4.3). Returns the ideal time of an I/O of the owner, if it has a rate.
    pub fn answered_late(&mut self, owner: Owner, by: Nanos) -> Option<Nanos> {
        let member = self.members.get_mut(&owner)?;
        member.carry += by;
        Some(member.ended_late(by))
    }

    /// Returns when to call [`timer`](Regulator::timer) if no other event comes first.
    #[must_use]
    pub fn wake_at(&self) -> Option<Nanos> {
        let answer = self.held_back.first().map(|(until, _)| *until);
        let waiting = self.queue.first_other().filter(|_| self.device.len() < self.settings.depth as usize);
        let patience = waiting.filter(|_| self.device.overdue == 0).map(|turn| self.overdue_at(turn));
        let waits = match self.planned {
            // An owner's request may wait for another one that is expected.
            Some(_) => self.queue.len() > 0 && self.device.len() < self.settings.depth as usize,
            None => waiting.is_some(),
        };
        let release = self.presence.next_release().filter(|_| waits);
        answer.into_iter().chain(patience).chain(release).min().map(|at| at.max(self.now))
    }

    /// Returns how many unregulated requests may be in the device when a regulated one arrives now, 1 to 32.
    #[must_use]
    pub fn allowance(&self) -> u32 {
        match &self.planned {
            Some(planned) => planned.limits().depth.clamp(1, self.settings.depth),
            None => self.gate.allowance(&self.presence, &self.service),
        }
    }

    /// Returns the limits of the requests in the device while an owner may send one at any moment; `None` without a
    /// profile.
    #[must_use]
    pub fn limits(&self) -> Option<Limits> {
        self.planned.as_ref().map(Planned::limits)
    }

    /// Returns the mean service time of the device, measured or of its profile.
    #[must_use]
    pub fn service_time(&self) -> Nanos {
        self.service.mean_of_all()
    }

    /// Returns the number of requests in the device.
    #[must_use]
    pub fn in_device(&self) -> usize {
        self.device.len()
    }

    /// Returns the number of outstanding requests of all owners.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.by_owner.len()
    }

    fn pass(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        let (members, path) = (&mut self.members, self.settings.path);
        self.presence.advance(self.now, |owner| {
            let member = members.get_mut(&owner).expect("an active owner is regulated");
            member.bursts.over();
            let ideal = member.rate.ideal(member.service);
            Nanos((ideal.0 as f64 * member.bursts.first_may_take()) as u64).saturating_sub(path)
        });
    }

    /// Assigns the deadline of a regulated request: the time at which a dedicated device of the requested speed would
    /// have completed it.
    fn give_deadline(&mut self, entry: &Entry, service: Nanos) -> Promise {
        let member = self.members.get_mut(&entry.owner).expect("it is regulated");
        member.service = service;
        let ideal = member.rate.ideal(member.service);
        let begin = member.until.max(entry.arrived);
        member.until = begin.saturating_add(ideal);
        let deadline = member.until.saturating_sub(self.settings.path).max(entry.arrived);
        member.outstanding += 1;
        let surprise = self.presence.is_released(entry.owner);
        match &self.planned {
            Some(_) => self.expect_next(entry.owner, deadline),
            None => self.presence.busy(entry.owner, member.share, deadline, deadline.saturating_add(ideal)),
        }
        let member = &self.members[&entry.owner];
        Promise {
            rate: member.rate,
            share: member.share,
            ideal: member.until - entry.arrived,
            deadline,
            surprise,
        }
    }

    /// Returns the service time from which the ideal time of a request is computed that the device serves by itself.
    fn service_of(&self, entry: &Entry) -> Nanos {
        match &self.planned {
            Some(planned) => planned.service(entry.op, entry.size),
            None => self.service.counted(entry.kind),
        }
    }

    fn wait(&mut self, id: RequestId, entry: &Entry) {
        let share = entry.regulated.map(|regulated| regulated.share);
        self.queue.insert(share, Turn { arrived: entry.arrived, id });
        if let Some(regulated) = entry.regulated {
            self.deadlines.insert((regulated.deadline, regulated.share, id));
        }
    }

    fn wait_no_more(&mut self, id: RequestId, entry: &Entry) {
        let share = entry.regulated.map(|regulated| regulated.share);
        self.queue.remove(share, Turn { arrived: entry.arrived, id });
        if let Some(regulated) = entry.regulated {
            self.deadlines.remove(&(regulated.deadline, regulated.share, id));
        }
    }

    fn ids_of(&self, owner: Owner) -> impl Iterator<Item = RequestId> {
        let all = (owner, RequestId(0))..=(owner, RequestId(u64::MAX));
        self.by_owner.range(all).map(|(_, id)| *id)
    }

    fn requests_of(&self, owner: Owner) -> Vec<RequestId> {
        self.ids_of(owner).collect()
    }

    fn withdraw(&mut self, id: RequestId, out: &mut Vec<Action>) {
        let Some(mut entry) = self.requests.get(&id).copied() else { return };
        match entry.state {
            State::Waiting => {
                self.wait_no_more(id, &entry);
                self.answer(id, &entry, Outcome::Cancelled, out);
            }
            State::AwaitsFetch(fetch) => {
                if let Some(planned) = &mut self.planned {
                    planned.streams.no_longer_awaits(fetch, id);
                }
                self.answer(id, &entry, Outcome::Cancelled, out);
            }
            State::InDevice(stay) => {
                entry.state = State::InDevice(DeviceStay { cancelled: true, ..stay });
                self.requests.insert(id, entry);
            }
            State::HeldBack { until, outcome } => {
                self.held_back.remove(&(until, id));
                self.answer(id, &entry, outcome, out);
            }
        }
    }

    /// Returns until when the reply to a completed request is delayed (section 4.3), if at all.
    fn held_back_until(&mut self, entry: &mut Entry, outcome: Outcome) -> Option<Nanos> {
        let member = self.members.get_mut(&entry.owner)?;
        let regulated = entry.regulated.as_mut()?;
        if outcome != Outcome::Done {
            return None;
        }
        if matches!(self.settings.window, Window::Last(_)) {
            // The thesis computes the ideal time at completion, with the service time at that time.
            regulated.ideal = regulated.rate.ideal(self.service.counted(entry.kind));
        }
        let path = self.settings.path;
        let due = entry.arrived.saturating_add(regulated.ideal.saturating_sub(path));
        // Compensate at most half an ideal time per reply, so that one very late timer does not make the next reply
        // immediate.
        let carry = member.carry.min(regulated.ideal / 2);
        let until = due.saturating_sub(carry).max(self.now);
        member.carry = carry - due.saturating_sub(until).min(carry);
        let ended = CompletedRequest {
            share: regulated.share,
            ideal: regulated.ideal,
            took: (until - entry.arrived).saturating_add(path),
            late: self.now > due,
            arrived: entry.arrived,
        };
        member.ended(ended);
        if ended.took.0 > ended.ideal.0 + ended.ideal.0 / HARM_EXCESS_DIVISOR {
            self.writes.harm(self.now, self.service.mean_of_all());
        } else {
            self.writes.in_time();
        }
        if !regulated.surprise {
            self.gate.ended(self.now, ended, &self.service);
        }
        Some(until)
    }

    fn answer(&mut self, id: RequestId, entry: &Entry, outcome: Outcome, out: &mut Vec<Action>) {
        self.requests.remove(&id);
        self.by_owner.remove(&(entry.owner, id));
        if let (Some(_), Some(member)) = (entry.regulated, self.members.get_mut(&entry.owner)) {
            member.outstanding = member.outstanding.saturating_sub(1);
            if member.outstanding == 0 {
                // The owner is idle; its next request starts at its arrival.
                member.until = member.until.min(self.now);
                match self.planned {
                    Some(_) => self.expect_next(entry.owner, self.now),
                    None => self.presence.think(entry.owner, member.share, self.now),
                }
            }
        }
        out.push(Action::Answer { id, outcome, ideal: entry.regulated.map(|regulated| regulated.ideal) });
    }
}
