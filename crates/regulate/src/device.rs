//! A device that regulates who uses it.

use std::collections::BTreeMap;

use sakiyomi_model::{
    Breakdown, Bytes, Class, Completion, Device, Full, Nanos, Outcome, Request, RequestId, StreamId,
};

use crate::rate::{Owner, Rate};
use crate::regulator::{Action, Ask, RateError, Regulator};
use crate::settings::Settings;

/// How a regulated I/O went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Whose it was.
    pub owner: Owner,
    /// T0.
    pub arrived: Nanos,
    /// From its arrival to its answer.
    pub took: Nanos,
    /// How long it was to take.
    pub ideal: Nanos,
}

/// A [`Device`] in front of another, where some streams have rates.
///
/// A stream is an owner of its own until it is put into a group. Completions come when they are answered: `submitted`
/// is when the request came, and `finish` when its end was made known; what it waited for on the way in and on the way
/// out is in `breakdown.queue`.
#[derive(Debug)]
pub struct Regulated<D> {
    device: D,
    regulator: Regulator,
    sector: Bytes,
    now: Nanos,
    groups: BTreeMap<StreamId, Owner>,
    requests: BTreeMap<RequestId, Held>,
    actions: Vec<Action>,
    ended: Vec<Completion>,
    answered: Vec<Completion>,
    timings: Option<Vec<Timing>>,
}

/// A request that has not been answered.
#[derive(Debug)]
struct Held {
    request: Request,
    owner: Owner,
    came: Nanos,
    done: Option<Completion>,
}

impl<D: Device> Regulated<D> {
    /// In front of `device`, whose sectors have the size `sector`.
    pub fn new(device: D, sector: Bytes, settings: Settings) -> Regulated<D> {
        Regulated {
            device,
            regulator: Regulator::new(settings),
            sector,
            now: Nanos::ZERO,
            groups: BTreeMap::new(),
            requests: BTreeMap::new(),
            actions: Vec::new(),
            ended: Vec::new(),
            answered: Vec::new(),
            timings: None,
        }
    }

    /// The device behind.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device behind, to tell it what has nothing to do with its time line.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// What decides.
    pub fn regulator(&self) -> &Regulator {
        &self.regulator
    }

    /// Counts what `stream` asks for as `owner`'s from now on.
    pub fn assign(&mut self, stream: StreamId, owner: Owner) {
        self.groups.insert(stream, owner);
    }

    /// Counts what `stream` asks for as its own again.
    pub fn unassign(&mut self, stream: StreamId) {
        self.groups.remove(&stream);
    }

    /// See [`Regulator::set_rate`].
    ///
    /// # Errors
    /// As there.
    pub fn set_rate(&mut self, now: Nanos, owner: Owner, rate: impl Into<Rate>) -> Result<(), RateError> {
        self.run_until(now);
        let given = self.regulator.set_rate(self.now, owner, rate, &mut self.actions);
        self.carry_out();
        given
    }

    /// See [`Regulator::set_rate_anyway`].
    pub fn set_rate_anyway(&mut self, now: Nanos, owner: Owner, rate: impl Into<Rate>) {
        self.run_until(now);
        self.regulator.set_rate_anyway(self.now, owner, rate, &mut self.actions);
        self.carry_out();
    }

    /// See [`Regulator::clear_rate`].
    pub fn clear_rate(&mut self, now: Nanos, owner: Owner) {
        self.run_until(now);
        self.regulator.clear_rate(self.now, owner, &mut self.actions);
        self.carry_out();
    }

    /// See [`Regulator::answered_late`].
    pub fn answered_late(&mut self, owner: Owner, by: Nanos) -> Option<Nanos> {
        self.regulator.answered_late(owner, by)
    }

    /// Whoever asked for `id` does not want it any more: it ends as [`Outcome::Cancelled`], at once where it waits,
    /// and with the device where that has it. One that has ended, or is unknown, is left alone.
    pub fn cancel(&mut self, now: Nanos, id: RequestId) {
        self.run_until(now);
        self.regulator.cancel(self.now, id, &mut self.actions);
        self.carry_out();
    }

    /// The owner is no more: its rate is free, its streams are their own, and its requests are cancelled.
    pub fn owner_gone(&mut self, now: Nanos, owner: Owner) {
        self.run_until(now);
        self.groups.retain(|_, group| *group != owner);
        self.regulator.owner_gone(self.now, owner, &mut self.actions);
        self.carry_out();
    }

    /// Keeps a timing of every regulated I/O that is done from now on.
    pub fn keep_timings(&mut self) {
        self.timings.get_or_insert_default();
    }

    /// Moves the timings kept so far to `timings`.
    pub fn take_timings(&mut self, timings: &mut Vec<Timing>) {
        if let Some(kept) = &mut self.timings {
            timings.append(kept);
        }
    }

    /// Carries out what is due until `now`, each thing at its own instant.
    fn run_until(&mut self, now: Nanos) {
        while let Some(event) = self.next_due().filter(|&event| event <= now) {
            self.step(event);
        }
        self.now = self.now.max(now);
    }

    fn next_due(&self) -> Option<Nanos> {
        self.device.next_event().into_iter().chain(self.regulator.wake_at()).min()
    }

    fn step(&mut self, event: Nanos) {
        self.now = self.now.max(event);
        let mut ended = std::mem::take(&mut self.ended);
        self.device.advance(self.now, &mut ended);
        for completion in ended.drain(..) {
            let id = completion.request.id;
            let held = self.requests.get_mut(&id).expect("the device ends what it was given");
            held.done = Some(completion);
            self.regulator.device_done(completion.finish, id, completion.outcome, &mut self.actions);
            self.carry_out();
        }
        self.ended = ended;
        if self.regulator.wake_at().is_some_and(|at| at <= self.now) {
            self.regulator.timer(self.now, &mut self.actions);
            self.carry_out();
        }
    }

    fn carry_out(&mut self) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::Issue { id, force } => {
                    let mut request = self.requests[&id].request;
                    request.fua |= force;
                    self.device.submit(self.now, request).expect("it is given no more than its depth");
                }
                Action::Answer { id, outcome, ideal } => self.answer(id, outcome, ideal),
            }
        }
        self.actions = actions;
    }

    fn answer(&mut self, id: RequestId, outcome: Outcome, ideal: Option<Nanos>) {
        let Held { request, owner, came, done } = self.requests.remove(&id).expect("it is answered once");
        let took = self.now - came;
        if let (Some(timings), Some(ideal), Outcome::Done) = (&mut self.timings, ideal, outcome) {
            timings.push(Timing { owner, arrived: came, took, ideal });
        }
        let (class, breakdown) = match done {
            Some(done) => {
                let in_device = done.device_time();
                (done.class, Breakdown { queue: done.breakdown.queue + (took - in_device), ..done.breakdown })
            }
            // Withdrawn before the device was given it.
            None => (Class::Refused, Breakdown { queue: took, ..Breakdown::default() }),
        };
        let end = Completion { request, submitted: came, finish: self.now, outcome, class, breakdown };
        self.answered.push(end);
    }
}

impl<D: Device> Device for Regulated<D> {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        self.run_until(now);
        if !self.regulator.has_capacity() {
            return Err(Full(request));
        }
        let owner = self.groups.get(&request.stream).copied().unwrap_or(Owner(request.stream.0));
        let ask =
            Ask { id: request.id, owner, op: request.op, size: request.extent.sectors.to_bytes(self.sector) };
        self.requests.insert(request.id, Held { request, owner, came: self.now, done: None });
        self.regulator.arrive(self.now, ask, &mut self.actions);
        self.carry_out();
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        let answered = self.answered.first().map(|completion| completion.finish);
        answered.into_iter().chain(self.next_due()).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.run_until(now);
        done.append(&mut self.answered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Percent;
    use proptest::prelude::*;
    use sakiyomi_drive::Drive;
    use sakiyomi_drive::spec::builtin;
    use sakiyomi_model::{Extent, Lba, Op, Sectors};

    fn drive() -> Drive {
        Drive::new(&builtin("scorpio-wd10tpvx").unwrap().spec()).unwrap()
    }

    /// Requests that come in order of time, of four streams.
    fn requests() -> impl Strategy<Value = Vec<Request>> {
        let request = (0u64..15_000_000, 0u32..4, 0u64..100_000_000, any::<bool>());
        proptest::collection::vec(request, 1..30).prop_map(|all| {
            let mut arrival = Nanos::ZERO;
            let numbered = all.into_iter().enumerate().map(|(id, (gap, stream, start, write))| {
                arrival += Nanos(gap);
                let op = if write { Op::Write } else { Op::Read };
                let extent = Extent::new(Lba(start), Sectors(8));
                let (id, stream) = (RequestId(id as u64), StreamId(stream));
                Request { id, stream, op, fua: false, extent, arrival }
            });
            numbered.collect()
        })
    }

    /// Woken at every arrival, and between them as late as is said.
    fn run(mut device: impl Device, requests: &[Request], late: u64) -> Vec<Completion> {
        let mut ends = Vec::new();
        for request in requests {
            device.submit(request.arrival, *request).unwrap();
        }
        let mut now = requests.last().unwrap().arrival;
        while ends.len() < requests.len() {
            now = now.max(device.next_event().expect("something is outstanding") + Nanos(late));
            device.advance(now, &mut ends);
        }
        ends
    }

    #[derive(Clone, Copy)]
    enum Call {
        Submit(Request),
        Cancel(RequestId),
        Gone(Owner),
    }

    fn regulated(rates: &[(u32, u32)]) -> Regulated<Drive> {
        let mut device = Regulated::new(drive(), Bytes(512), Settings::default());
        for &(stream, rate) in rates {
            device.set_rate_anyway(Nanos::ZERO, Owner(stream), Percent::new(rate).unwrap());
        }
        device
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn without_a_rate_it_is_as_if_it_were_not_there(requests in requests(), late in 0u64..50_000_000) {
            prop_assert_eq!(run(regulated(&[]), &requests, late), run(drive(), &requests, 0));
        }

        #[test]
        fn what_is_withdrawn_ends_once_and_nothing_else_is_lost(
            requests in requests(), withdrawn in proptest::collection::vec((0u64..40, 0u64..400_000_000), 0..20),
            gone in proptest::option::of((0u32..4, 0u64..400_000_000)),
        ) {
            let mut device = regulated(&[(0, 10), (1, 20), (2, 30)]);
            let mut calls: Vec<(Nanos, Call)> =
                requests.iter().map(|request| (request.arrival, Call::Submit(*request))).collect();
            calls.extend(withdrawn.iter().map(|&(id, at)| (Nanos(at), Call::Cancel(RequestId(id)))));
            calls.extend(gone.map(|(owner, at)| (Nanos(at), Call::Gone(Owner(owner)))));
            calls.sort_by_key(|(at, _)| *at);
            let (mut ends, mut given_up) = (Vec::new(), BTreeMap::new());
            for (now, call) in calls {
                device.advance(now, &mut ends);
                match call {
                    Call::Submit(request) => device.submit(now, request).unwrap(),
                    Call::Cancel(id) => {
                        given_up.entry(id).or_insert(now);
                        device.cancel(now, id);
                    }
                    Call::Gone(owner) => {
                        let of = requests.iter().filter(|request| request.stream.0 == owner.0);
                        of.for_each(|request| _ = given_up.entry(request.id).or_insert(now));
                        device.owner_gone(now, owner);
                        prop_assert!(device.regulator().report(owner).is_none());
                    }
                }
            }
            while let Some(now) = device.next_event() {
                device.advance(now, &mut ends);
            }
            prop_assert_eq!(ends.len(), requests.len());
            let mut ids: Vec<RequestId> = ends.iter().map(|end| end.request.id).collect();
            ids.sort();
            ids.dedup();
            prop_assert_eq!(ids.len(), requests.len());
            for end in &ends {
                prop_assert!(end.outcome == Outcome::Done || given_up.contains_key(&end.request.id));
                if end.class == Class::Refused {
                    prop_assert_eq!(end.outcome, Outcome::Cancelled, "it never came to the drive");
                }
                let parts = end.breakdown;
                let sum = parts.queue + parts.overhead + parts.seek + parts.rotation + parts.transfer;
                prop_assert_eq!(sum, end.device_time());
            }
        }

        #[test]
        fn a_late_call_shifts_nothing(requests in requests(), late in 0u64..50_000_000) {
            let rates = [(0, 10), (1, 20)];
            prop_assert_eq!(run(regulated(&rates), &requests, late), run(regulated(&rates), &requests, 0));
        }

        #[test]
        fn the_parts_of_an_ends_time_add_up(requests in requests()) {
            for end in run(regulated(&[(0, 10), (1, 20)]), &requests, 0) {
                let parts = end.breakdown;
                let sum = parts.queue + parts.overhead + parts.seek + parts.rotation + parts.transfer;
                prop_assert_eq!(sum, end.device_time());
            }
        }
    }
}
