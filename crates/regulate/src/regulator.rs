//! The core: events in, actions out.
//!
//! A [`Regulator`] has one device in its charge. It is told what is asked and what the device has done, each time with
//! the time, and says what to hand to the device ([`Action::Issue`]) and what to answer ([`Action::Answer`]); between
//! events it wants to be called at [`Regulator::wake_at`]. It has no clock, no device and no thread, and is the same in
//! virtual and in real time. A time that runs backwards is taken to stand still.
//!
//! The life of a request (figures 4.1 and 4.2; T0 … T3 as there):
//!
//! ```text
//!   arrive (T0) ──► waits ──► Issue (T2) ──► device_done (T3) ──► held back ──► Answer
//! ```

mod burst;
mod presence;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use sakiyomi_model::{Bytes, Nanos, Op, Outcome, RequestId};

use crate::gate::{Ended, Gate, View};
use crate::queue::{Queue, Turn};
use crate::rate::{Levels, Percent};
use crate::service::{Kind, Sample, Service};
use crate::settings::{Serves, Settings, Window};
use burst::Bursts;
pub(crate) use presence::Presence;

/// Whose I/O it is: a process, or a group of them that share one rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u32);

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// A name that no unanswered request has.
    pub id: RequestId,
    /// Who asks.
    pub owner: Owner,
    /// What is asked.
    pub op: Op,
    /// How much.
    pub size: Bytes,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Hand it to the device, now.
    Issue(RequestId),
    /// Tell who asked that it has ended. The name is free again.
    Answer {
        /// Which request.
        id: RequestId,
        /// How it ended.
        outcome: Outcome,
        /// How long it was to take, where it was regulated.
        ideal: Option<Nanos>,
    },
}

/// Why a rate is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// The formula of section 4.2 leaves no room for anybody else, or the ideal time is less than what one I/O takes.
    #[error("{asked} % cannot be kept beside the rates given already; {}", best_words(*.best))]
    NoRoom {
        /// What was asked for, in percent.
        asked: u32,
        /// The most that can be kept, if any.
        best: Option<u32>,
    },
}

fn best_words(best: Option<u32>) -> String {
    best.map_or("take back one of those".to_owned(), |best| format!("{best} % can"))
}

/// How well an owner's rate has been kept since it was set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// What it has asked for.
    pub rate: Percent,
    /// Whether there was no room for it, so that it is kept as well as can be.
    pub best_effort: bool,
    /// I/Os that have ended.
    pub ios: u64,
    /// Those that the device had not done in time.
    pub late: u64,
    /// Mean of the time that they took, against the ideal: 1 is exact, up to 1.1 is good (section 6.2).
    pub accuracy: f64,
}

/// Keeps the I/O time of owners on one device.
#[derive(Clone, Debug)]
pub struct Regulator {
    settings: Settings,
    now: Nanos,
    requests: BTreeMap<RequestId, Entry>,
    by_owner: BTreeSet<(Owner, RequestId)>,
    members: BTreeMap<Owner, Member>,
    levels: Levels,
    presence: Presence,
    queue: Queue,
    device: InDevice,
    /// By when regulated requests that wait, or are in the device, must have ended.
    deadlines: BTreeSet<(Nanos, RequestId)>,
    held_back: BTreeSet<(Nanos, RequestId)>,
    service: Service,
    gate: Gate,
    /// From so many measured requests on, one is to be alone in the device.
    calm_at: u64,
}

/// A device that serves several is to be seen with one alone so often, in requests; else it would not be known what
/// one takes.
const CALM_EVERY: u64 = 4096;

/// A request that has not been answered.
#[derive(Clone, Copy, Debug)]
struct Entry {
    owner: Owner,
    kind: Kind,
    /// T0.
    arrived: Nanos,
    regulated: Option<Regulated>,
    state: State,
}

/// What a request must keep to.
#[derive(Clone, Copy, Debug)]
struct Regulated {
    rate: Percent,
    ideal: Nanos,
    deadline: Nanos,
    /// Nothing was kept free for it: it says nothing about the gate.
    surprise: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    InDevice(Stay),
    HeldBack { until: Nanos, outcome: Outcome },
}

/// A request's time in the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stay {
    issued: Nanos,
    /// How many there were, with it, when it was issued.
    beside: usize,
    /// What one of its kind was known to take then.
    work: Nanos,
    overdue: bool,
    cancelled: bool,
}

/// A regulated owner.
#[derive(Clone, Copy, Debug)]
struct Member {
    rate: Percent,
    outstanding: u32,
    /// When a device of its own, as fast as it has asked for, would have done all that it has been given.
    until: Nanos,
    /// By how much its answers have come too late because the timer did (section 4.3); the next one comes earlier.
    carry: Nanos,
    /// What one I/O of the kind last asked for takes the device.
    service: Nanos,
    bursts: Bursts,
    report: Report,
}

/// What the device has.
#[derive(Clone, Copy, Debug, Default)]
struct InDevice {
    regulated: usize,
    others: usize,
    overdue: usize,
    /// Since when it has been at what it is at.
    busy_since: Nanos,
    /// How many it could choose from then.
    choice: usize,
    /// What it would take for all, one by one.
    work: Nanos,
}

impl InDevice {
    fn len(&self) -> usize {
        self.regulated + self.others
    }
}

impl Member {
    fn ended(&mut self, ended: Ended) {
        if ended.ideal.is_zero() {
            return;
        }
        let ratio = ended.took.0 as f64 / ended.ideal.0 as f64;
        self.bursts.add(ratio);
        self.report.ios += 1;
        self.report.late += u64::from(ended.late);
        self.report.accuracy += (ratio - self.report.accuracy) / self.report.ios as f64;
    }
}

impl Regulator {
    /// Without any rate: requests pass through.
    #[must_use]
    pub fn new(settings: Settings) -> Regulator {
        Regulator {
            settings,
            now: Nanos::ZERO,
            requests: BTreeMap::new(),
            by_owner: BTreeSet::new(),
            members: BTreeMap::new(),
            levels: Levels::default(),
            presence: Presence::new(settings.release),
            queue: Queue::default(),
            device: InDevice::default(),
            deadlines: BTreeSet::new(),
            held_back: BTreeSet::new(),
            service: Service::new(&settings),
            gate: Gate::new(settings.gate),
            calm_at: 0,
        }
    }

    /// Gives `owner` so many percent of the device from now on, if all that have a rate can then be kept to theirs.
    ///
    /// # Errors
    /// [`RateError`], with the most that can be given; nothing has changed.
    pub fn set_rate(
        &mut self,
        now: Nanos,
        owner: Owner,
        rate: Percent,
        out: &mut Vec<Action>,
    ) -> Result<(), RateError> {
        if !self.has_room(owner, rate) {
            let best = (1..rate.get()).rev().map(|percent| Percent::new(percent).expect("it is 1 to 99"));
            let best = best.into_iter().find(|&rate| self.has_room(owner, rate)).map(Percent::get);
            return Err(RateError::NoRoom { asked: rate.get(), best });
        }
        self.give(now, owner, rate, false, out);
        Ok(())
    }

    /// Gives `owner` so many percent of the device as well as can be, and may make others miss theirs.
    pub fn set_rate_anyway(&mut self, now: Nanos, owner: Owner, rate: Percent, out: &mut Vec<Action>) {
        let best_effort = !self.has_room(owner, rate);
        self.give(now, owner, rate, best_effort, out);
    }

    fn give(&mut self, now: Nanos, owner: Owner, rate: Percent, best_effort: bool, out: &mut Vec<Action>) {
        self.pass(now);
        let old = self.members.get(&owner).copied();
        if let Some(old) = old {
            self.levels.remove(old.rate);
        }
        self.levels.add(rate);
        let report = Report { rate, best_effort, ios: 0, late: 0, accuracy: 1.0 };
        let new = Member {
            rate,
            outstanding: 0,
            until: Nanos::ZERO,
            carry: Nanos::ZERO,
            service: self.service.mean_of_all(),
            bursts: Bursts::default(),
            report,
        };
        self.members.insert(owner, Member { rate, report, ..old.unwrap_or(new) });
        self.presence.think(owner, rate, self.now);
        self.gate.owners_changed(&self.levels);
        self.requeue(owner, Some(rate));
        self.issue(out);
    }

    /// Lets `owner` take its chance with the others again; what is held back is answered.
    pub fn clear_rate(&mut self, now: Nanos, owner: Owner, out: &mut Vec<Action>) {
        self.pass(now);
        if let Some(member) = self.members.remove(&owner) {
            self.levels.remove(member.rate);
            self.presence.leave(owner);
            self.gate.owners_changed(&self.levels);
            self.requeue(owner, None);
            self.let_go(owner, out);
        }
        self.issue(out);
    }

    /// Whether one more request may come: no more wait than is bounded.
    #[must_use]
    pub fn has_capacity(&self) -> bool {
        self.queue.len() < self.settings.capacity
    }

    /// Somebody asks for something.
    ///
    /// # Panics
    /// If a request of that name has not been answered yet.
    pub fn arrive(&mut self, now: Nanos, ask: Ask, out: &mut Vec<Action>) {
        self.pass(now);
        let regulated = self.members.contains_key(&ask.owner);
        let mut entry = Entry {
            owner: ask.owner,
            kind: Kind::of(ask.op, ask.size),
            arrived: self.now,
            regulated: None,
            state: State::Waiting,
        };
        if regulated {
            entry.regulated = Some(self.give_deadline(&entry));
        }
        assert!(self.requests.insert(ask.id, entry).is_none(), "request {} is there already", ask.id.0);
        self.by_owner.insert((ask.owner, ask.id));
        self.wait(ask.id, &entry);
        self.issue(out);
    }

    /// The device has done a request, at `done` (T3), which may lie before the last event.
    ///
    /// # Panics
    /// If the device has no such request.
    pub fn device_done(&mut self, done: Nanos, id: RequestId, outcome: Outcome, out: &mut Vec<Action>) {
        self.pass(done);
        let mut entry = *self.requests.get(&id).expect("the device ends what it was given");
        let State::InDevice(stay) = entry.state else { panic!("request {} is not in the device", id.0) };
        self.leave_device(&entry, stay);
        let bypassed = self.bypassed(stay);
        if outcome == Outcome::Done {
            let (Stay { issued, beside, .. }, choice) = (stay, self.device.choice);
            self.service.done(Sample { kind: entry.kind, issued, done, choice, beside, bypassed });
        } else if !bypassed {
            self.service.passed(done);
        }
        if let Some(regulated) = entry.regulated {
            self.deadlines.remove(&(regulated.deadline, id));
        }
        if !bypassed {
            self.device.busy_since = done;
        }
        let outcome = if stay.cancelled { Outcome::Cancelled } else { outcome };
        match self.held_back_until(&mut entry, outcome) {
            Some(until) if until > self.now => {
                entry.state = State::HeldBack { until, outcome };
                self.requests.insert(id, entry);
                self.held_back.insert((until, id));
            }
            _ => self.answer(id, &entry, outcome, out),
        }
        self.issue(out);
        if !bypassed {
            self.device.choice = self.device.len();
        }
    }

    /// Whoever asked does not want it any more. What is in the device is answered when the device has done it.
    pub fn cancel(&mut self, now: Nanos, id: RequestId, out: &mut Vec<Action>) {
        self.pass(now);
        self.withdraw(id, out);
        self.issue(out);
    }

    /// The owner is no more: its rate is free, and its requests are cancelled.
    pub fn owner_gone(&mut self, now: Nanos, owner: Owner, out: &mut Vec<Action>) {
        self.clear_rate(now, owner, out);
        for id in self.requests_of(owner) {
            self.withdraw(id, out);
        }
        self.issue(out);
    }

    /// Time has come to `now`.
    pub fn timer(&mut self, now: Nanos, out: &mut Vec<Action>) {
        self.pass(now);
        while let Some(&(until, id)) = self.held_back.first().filter(|(until, _)| *until <= self.now) {
            self.held_back.pop_first();
            let entry = self.requests[&id];
            let State::HeldBack { outcome, .. } = entry.state else { unreachable!("it is held back") };
            if let Some(member) = self.members.get_mut(&entry.owner) {
                member.carry += self.now - until;
            }
            self.answer(id, &entry, outcome, out);
        }
        self.issue(out);
    }

    /// When to call [`timer`](Regulator::timer), if nothing else comes before.
    #[must_use]
    pub fn wake_at(&self) -> Option<Nanos> {
        let answer = self.held_back.first().map(|(until, _)| *until);
        let waiting = self.queue.first_other().filter(|_| self.device.len() < self.settings.depth as usize);
        let patience = waiting.filter(|_| self.device.overdue == 0).map(|turn| self.overdue_at(turn));
        let release = waiting.and_then(|_| self.presence.next_release());
        answer.into_iter().chain(patience).chain(release).min().map(|at| at.max(self.now))
    }

    /// How many unregulated requests may be in the device when a regulated one comes now, 1 to 32.
    #[must_use]
    pub fn allowance(&self) -> u32 {
        self.gate.allowance(&self.presence, &self.service)
    }

    /// How well an owner's rate is kept, if it has one.
    #[must_use]
    pub fn report(&self, owner: Owner) -> Option<Report> {
        self.members.get(&owner).map(|member| member.report)
    }

    /// The device's mean service time, as measured.
    #[must_use]
    pub fn service_time(&self) -> Nanos {
        self.service.mean_of_all()
    }

    /// Requests in the device.
    #[must_use]
    pub fn in_device(&self) -> usize {
        self.device.len()
    }

    /// Requests that have not been answered.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.requests.len()
    }

    fn pass(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        let members = &mut self.members;
        self.presence.advance(self.now, |owner| {
            let member = members.get_mut(&owner).expect("who is present is regulated");
            member.bursts.over();
            let ideal = member.rate.ideal(member.service);
            Nanos((ideal.0 as f64 * member.bursts.first_may_take()) as u64)
        });
    }

    fn has_room(&self, owner: Owner, rate: Percent) -> bool {
        let mut levels = self.levels.clone();
        if let Some(member) = self.members.get(&owner) {
            levels.remove(member.rate);
        }
        levels.add(rate);
        self.gate.has_room(&levels, &self.service)
    }

    /// By when a request of a regulated owner must end: when a device of its own would have done it.
    fn give_deadline(&mut self, entry: &Entry) -> Regulated {
        let member = self.members.get_mut(&entry.owner).expect("it is regulated");
        member.service = self.service.mean(entry.kind);
        let ideal = member.rate.ideal(member.service);
        let begin = member.until.max(entry.arrived);
        let deadline = begin.saturating_add(ideal);
        member.until = deadline;
        member.outstanding += 1;
        let next = deadline.saturating_add(ideal);
        let surprise = self.presence.is_released(entry.owner);
        self.presence.busy(entry.owner, member.rate, deadline, next);
        Regulated { rate: member.rate, ideal: deadline - entry.arrived, deadline, surprise }
    }

    fn wait(&mut self, id: RequestId, entry: &Entry) {
        let rate = entry.regulated.map(|regulated| regulated.rate);
        self.queue.insert(rate, Turn { arrived: entry.arrived, id });
        if let Some(regulated) = entry.regulated {
            self.deadlines.insert((regulated.deadline, id));
        }
    }

    fn wait_no_more(&mut self, id: RequestId, entry: &Entry) {
        let rate = entry.regulated.map(|regulated| regulated.rate);
        self.queue.remove(rate, Turn { arrived: entry.arrived, id });
        if let Some(regulated) = entry.regulated {
            self.deadlines.remove(&(regulated.deadline, id));
        }
    }

    fn requests_of(&self, owner: Owner) -> Vec<RequestId> {
        let all = (owner, RequestId(0))..=(owner, RequestId(u64::MAX));
        self.by_owner.range(all).map(|(_, id)| *id).collect()
    }

    /// What waits is treated by the new rate; what is in the device, or held back, by the one that it came with.
    fn requeue(&mut self, owner: Owner, rate: Option<Percent>) {
        for id in self.requests_of(owner) {
            let mut entry = self.requests[&id];
            if entry.state != State::Waiting {
                continue;
            }
            self.wait_no_more(id, &entry);
            if entry.regulated.take().is_some()
                && let Some(member) = self.members.get_mut(&owner)
            {
                member.outstanding -= 1;
            }
            if rate.is_some() {
                entry.regulated = Some(self.give_deadline(&entry));
            }
            self.requests.insert(id, entry);
            self.wait(id, &entry);
        }
    }

    /// Answers what is held back.
    fn let_go(&mut self, owner: Owner, out: &mut Vec<Action>) {
        for id in self.requests_of(owner) {
            let entry = self.requests[&id];
            if let State::HeldBack { until, outcome } = entry.state {
                self.held_back.remove(&(until, id));
                self.answer(id, &entry, outcome, out);
            }
        }
    }

    fn withdraw(&mut self, id: RequestId, out: &mut Vec<Action>) {
        let Some(mut entry) = self.requests.get(&id).copied() else { return };
        match entry.state {
            State::Waiting => {
                self.wait_no_more(id, &entry);
                self.answer(id, &entry, Outcome::Cancelled, out);
            }
            State::InDevice(stay) => {
                entry.state = State::InDevice(Stay { cancelled: true, ..stay });
                self.requests.insert(id, entry);
            }
            State::HeldBack { until, outcome } => {
                self.held_back.remove(&(until, id));
                self.answer(id, &entry, outcome, out);
            }
        }
    }

    /// Hands to the device what may go in: first who has waited beyond all patience, then the regulated ones, then
    /// as many others as the gate lets in.
    fn issue(&mut self, out: &mut Vec<Action>) {
        while self.device.len() < self.settings.depth as usize {
            let other = self.queue.first_other();
            let overdue = other.filter(|turn| self.device.overdue == 0 && self.overdue_at(*turn) <= self.now);
            if let Some(turn) = overdue {
                self.hand_over(turn.id, true, out);
            } else if let Some(id) = self.queue.first_regulated() {
                if !self.gate.admits_regulated(&self.view()) {
                    break;
                }
                self.hand_over(id, false, out);
            } else if let Some(turn) = other.filter(|turn| self.admits(*turn)) {
                self.hand_over(turn.id, false, out);
            } else {
                break;
            }
        }
    }

    fn admits(&self, turn: Turn) -> bool {
        let calm = self.settings.serves == Serves::Several && self.service.seen() >= self.calm_at;
        if calm && self.device.len() > 0 {
            return false;
        }
        let mut view = self.view();
        view.work += self.service.mean(self.requests[&turn.id].kind);
        self.gate.admits(&view)
    }

    fn overdue_at(&self, turn: Turn) -> Nanos {
        turn.arrived.saturating_add(self.settings.patience)
    }

    fn view(&self) -> View<'_> {
        View {
            now: self.now,
            busy_since: if self.device.len() == 0 { self.now } else { self.device.busy_since },
            in_device: self.device.len(),
            others_in_device: self.device.others,
            work: self.device.work,
            deadlines: &self.deadlines,
            presence: &self.presence,
            service: &self.service,
        }
    }

    fn hand_over(&mut self, id: RequestId, overdue: bool, out: &mut Vec<Action>) {
        let entry = self.requests[&id];
        let rate = entry.regulated.map(|regulated| regulated.rate);
        self.queue.remove(rate, Turn { arrived: entry.arrived, id });
        if self.device.len() == 0 {
            (self.device.busy_since, self.device.choice) = (self.now, 1);
        }
        match rate {
            Some(_) => self.device.regulated += 1,
            None => self.device.others += 1,
        }
        self.device.overdue += usize::from(overdue);
        let work = self.service.mean(entry.kind);
        self.device.work += work;
        let stay = Stay { issued: self.now, beside: self.device.len(), work, overdue, cancelled: false };
        let state = State::InDevice(stay);
        self.requests.insert(id, Entry { state, ..entry });
        out.push(Action::Issue(id));
    }

    fn leave_device(&mut self, entry: &Entry, stay: Stay) {
        match entry.regulated {
            Some(_) => self.device.regulated -= 1,
            None => self.device.others -= 1,
        }
        self.device.overdue -= usize::from(stay.overdue);
        self.device.work -= stay.work;
        if stay.beside == 1 && self.service.seen() >= self.calm_at {
            self.calm_at = self.service.seen() + CALM_EVERY;
        }
    }

    /// Whether a request was done while the device was at another: from its cache, or into it. It came when the
    /// mechanism was at work, and nothing else has ended since.
    fn bypassed(&self, stay: Stay) -> bool {
        let serial = self.settings.serves == Serves::OneByOne;
        serial && stay.beside > 1 && stay.issued > self.device.busy_since && self.device.len() > 0
    }

    /// Until when what the device has done is held back (section 4.3), if at all.
    fn held_back_until(&mut self, entry: &mut Entry, outcome: Outcome) -> Option<Nanos> {
        let member = self.members.get_mut(&entry.owner)?;
        let regulated = entry.regulated.as_mut()?;
        if outcome != Outcome::Done {
            return None;
        }
        if matches!(self.settings.window, Window::Last(_)) {
            // The thesis decides when the device is done, with the service time as it is then.
            regulated.ideal = regulated.rate.ideal(self.service.mean(entry.kind));
        }
        let due = entry.arrived.saturating_add(regulated.ideal);
        // A timer that was very late is not made up for by an answer without any delay.
        let carry = member.carry.min(regulated.ideal / 2);
        let until = due.saturating_sub(carry).max(self.now);
        member.carry = carry - due.saturating_sub(until).min(carry);
        let ended = Ended {
            ideal: regulated.ideal,
            took: until - entry.arrived,
            late: self.now > due,
            arrived: entry.arrived,
        };
        member.ended(ended);
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
                // It has nothing any more; what it asks for next begins when it asks.
                member.until = member.until.min(self.now);
                self.presence.think(entry.owner, member.rate, self.now);
            }
        }
        out.push(Action::Answer { id, outcome, ideal: entry.regulated.map(|regulated| regulated.ideal) });
    }
}
