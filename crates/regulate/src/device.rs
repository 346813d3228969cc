//! A device with regulation in front of another device.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use sakiyomi_model::{
    Bytes, Completion, Detail, Device, Extent, Full, Lba, Nanos, Op, Outcome, Request, RequestId, Sectors,
    StreamId,
};

use crate::profile::Profile;
use crate::rate::Owner;
use crate::regulator::{Action, ArrivingRequest, RateError, Regulator, Requested};
use crate::settings::Settings;

/// Timing of a regulated I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Its owner.
    pub owner: Owner,
    /// Arrival, T0.
    pub arrived: Nanos,
    /// Time from arrival to reply.
    pub took: Nanos,
    /// Ideal time.
    pub ideal: Nanos,
}

/// A [`Device`] in front of another one, in which some streams have rates.
///
/// A stream is an owner of its own until it is assigned to a group. Completions are delivered at the time of the reply:
/// `submitted` is the arrival of the request and `finish` the time of the reply. `breakdown.queue` contains the delays
/// before issue and before the reply, if the device reports a breakdown.
///
/// Without rates, requests pass in order of arrival while the regulator measures the device, so that its service time
/// is known when a rate is set. If [`unregulated`](Self::unregulated), nothing is measured: the device behaves as the
/// bare one.
#[derive(Debug)]
pub struct RegulatedDevice<D> {
    device: D,
    /// `None` if unregulated.
    regulation: Option<Box<Regulation>>,
}

/// The regulator and the requests in its care.
#[derive(Debug)]
struct Regulation {
    regulator: Regulator,
    sector: Bytes,
    now: Nanos,
    groups: BTreeMap<StreamId, Owner>,
    requests: BTreeMap<RequestId, Unanswered>,
    actions: Vec<Action>,
    ended: Vec<Completion>,
    answered: Vec<Completion>,
    timings: Option<Vec<Timing>>,
}

/// A request without a reply yet.
#[derive(Debug)]
struct Unanswered {
    request: Request,
    owner: Owner,
    came: Nanos,
    done: Option<Completion>,
}

impl Unanswered {
    /// Returns the request for a part of it, in bytes from its start.
    fn part(&self, part: Range<u64>, sector: Bytes) -> Request {
        let Extent { start, .. } = self.request.extent;
        let sectors = |bytes: u64| bytes / sector.0;
        let extent = Extent::new(Lba(start.0 + sectors(part.start)), Sectors(sectors(part.end - part.start)));
        Request { extent, ..self.request }
    }

    /// Records the completion of a part. The request spends in the mechanism what its parts spend there, and is as
    /// cached as its first part.
    fn part_ended(&mut self, completion: Completion) {
        let Some(before) = self.done.replace(completion) else { return };
        let done = self.done.as_mut().expect("it was replaced");
        done.submitted = before.submitted;
        if let (Some(detail), Some(Detail { class, breakdown })) = (&mut done.detail, before.detail) {
            let between = completion.submitted - before.finish;
            detail.class = class;
            detail.breakdown.queue += breakdown.queue + between;
            detail.breakdown.overhead += breakdown.overhead;
            detail.breakdown.seek += breakdown.seek;
            detail.breakdown.rotation += breakdown.rotation;
            detail.breakdown.transfer += breakdown.transfer;
        }
    }
}

impl<D: Device> RegulatedDevice<D> {
    /// Regulates `device`. Never issues more requests at a time than its depth.
    pub fn new(device: D, settings: Settings) -> RegulatedDevice<D> {
        let settings = Settings { depth: settings.depth.min(device.depth()), ..settings };
        RegulatedDevice::with(device, Regulator::new(settings))
    }

    /// Regulates `device` by its profile, as [`Regulator::with_profile`] does. Requests are issued in parts.
    pub fn with_profile(
        device: D,
        settings: Settings,
        profile: Arc<Profile>,
        error: f64,
    ) -> RegulatedDevice<D> {
        let settings = Settings { depth: settings.depth.min(device.depth()), ..settings };
        RegulatedDevice::with(device, Regulator::with_profile(settings, profile, error))
    }

    fn with(device: D, regulator: Regulator) -> RegulatedDevice<D> {
        let regulation = Regulation {
            regulator,
            sector: device.sector(),
            now: Nanos::ZERO,
            groups: BTreeMap::new(),
            requests: BTreeMap::new(),
            actions: Vec::new(),
            ended: Vec::new(),
            answered: Vec::new(),
            timings: None,
        };
        RegulatedDevice { device, regulation: Some(Box::new(regulation)) }
    }

    /// Wraps `device` without regulation: no owner can have a rate.
    pub fn unregulated(device: D) -> RegulatedDevice<D> {
        RegulatedDevice { device, regulation: None }
    }

    /// Returns the device behind.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Returns the regulator; `None` if [`unregulated`](Self::unregulated).
    pub fn regulator(&self) -> Option<&Regulator> {
        self.regulation.as_ref().map(|regulation| &regulation.regulator)
    }

    /// Attributes future requests of `stream` to `owner`.
    pub fn assign(&mut self, stream: StreamId, owner: Owner) {
        if let Some(regulation) = &mut self.regulation {
            regulation.groups.insert(stream, owner);
        }
    }

    /// Sets a rate as [`Regulator::set_rate`] does.
    ///
    /// # Errors
    /// Returns the errors of that function, and [`RateError::Unregulated`].
    pub fn set_rate(
        &mut self,
        now: Nanos,
        owner: Owner,
        rate: impl Into<Requested>,
    ) -> Result<(), RateError> {
        let given = self.change(now, |regulation| {
            regulation.regulator.set_rate(regulation.now, owner, rate, &mut regulation.actions)
        });
        given.unwrap_or(Err(RateError::Unregulated))
    }

    /// Sets a rate as [`Regulator::set_rate_anyway`] does.
    ///
    /// # Errors
    /// [`RateError::Unregulated`].
    pub fn set_rate_anyway(
        &mut self,
        now: Nanos,
        owner: Owner,
        rate: impl Into<Requested>,
    ) -> Result<(), RateError> {
        let given = self.change(now, |regulation| {
            regulation.regulator.set_rate_anyway(regulation.now, owner, rate, &mut regulation.actions);
        });
        given.ok_or(RateError::Unregulated)
    }

    /// Removes a rate as [`Regulator::clear_rate`] does.
    pub fn clear_rate(&mut self, now: Nanos, owner: Owner) {
        self.change(now, |regulation| {
            regulation.regulator.clear_rate(regulation.now, owner, &mut regulation.actions);
        });
    }

    /// Records a late reply as [`Regulator::answered_late`] does.
    pub fn answered_late(&mut self, owner: Owner, by: Nanos) -> Option<Nanos> {
        self.regulation.as_mut()?.regulator.answered_late(owner, by)
    }

    /// Cancels request `id`, which ends as [`Outcome::Cancelled`]: immediately while it is queued in the regulator,
    /// with its completion if the device has it. Ignored if the request has ended, is unknown, or was issued
    /// unregulated.
    pub fn cancel(&mut self, now: Nanos, id: RequestId) {
        self.change(now, |regulation| {
            regulation.regulator.cancel(regulation.now, id, &mut regulation.actions);
        });
    }

    /// Removes an owner: its rate is freed, its streams become owners of their own, and its requests are cancelled.
    pub fn owner_gone(&mut self, now: Nanos, owner: Owner) {
        self.change(now, |regulation| {
            regulation.groups.retain(|_, group| *group != owner);
            regulation.regulator.owner_gone(regulation.now, owner, &mut regulation.actions);
        });
    }

    /// Records the timing of every regulated I/O from now on.
    pub fn keep_timings(&mut self) {
        if let Some(regulation) = &mut self.regulation {
            regulation.timings.get_or_insert_default();
        }
    }

    /// Moves the timings recorded so far to `timings`.
    pub fn take_timings(&mut self, timings: &mut Vec<Timing>) {
        if let Some(kept) = self.regulation.as_mut().and_then(|regulation| regulation.timings.as_mut()) {
            timings.append(kept);
        }
    }

    /// Applies `change` at `now` and carries out the resulting actions. `None` without a regulator.
    fn change<T>(&mut self, now: Nanos, change: impl FnOnce(&mut Regulation) -> T) -> Option<T> {
        let regulation = self.regulation.as_mut()?;
        regulation.run_until(&mut self.device, now);
        let changed = change(regulation);
        regulation.carry_out(&mut self.device);
        Some(changed)
    }
}

impl Regulation {
    fn submit(&mut self, device: &mut impl Device, now: Nanos, request: Request) -> Result<(), Full> {
        self.run_until(device, now);
        if !self.regulator.has_capacity() {
            return Err(Full(request));
        }
        let owner = self.groups.get(&request.stream).copied().unwrap_or(Owner(request.stream.0));
        let ask = ArrivingRequest {
            id: request.id,
            owner,
            op: request.op,
            start: request.extent.start,
            size: request.extent.sectors.to_bytes(self.sector),
        };
        self.requests.insert(request.id, Unanswered { request, owner, came: self.now, done: None });
        self.regulator.arrive(self.now, ask, &mut self.actions);
        self.carry_out(device);
        Ok(())
    }

    fn next_event(&self, device: &impl Device) -> Option<Nanos> {
        let answered = self.answered.first().map(|completion| completion.finish);
        answered.into_iter().chain(self.next_due(device)).min()
    }

    /// Processes all events due until `now`, each at its own time.
    fn run_until(&mut self, device: &mut impl Device, now: Nanos) {
        while let Some(event) = self.next_due(device).filter(|&event| event <= now) {
            self.step(device, event);
        }
        self.now = self.now.max(now);
    }

    fn next_due(&self, device: &impl Device) -> Option<Nanos> {
        device.next_event().into_iter().chain(self.regulator.wake_at()).min()
    }

    fn step(&mut self, device: &mut impl Device, event: Nanos) {
        self.now = self.now.max(event);
        let mut ended = std::mem::take(&mut self.ended);
        device.advance(self.now, &mut ended);
        for completion in ended.drain(..) {
            let id = completion.request.id;
            let unanswered = self.requests.get_mut(&id).expect("the device ends what it was given");
            unanswered.part_ended(completion);
            self.regulator.device_done(completion.finish, id, completion.outcome, &mut self.actions);
            self.carry_out(device);
        }
        self.ended = ended;
        if self.regulator.wake_at().is_some_and(|at| at <= self.now) {
            self.regulator.timer(self.now, &mut self.actions);
            self.carry_out(device);
        }
    }

    fn carry_out(&mut self, device: &mut impl Device) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::Issue { id, part, force } => {
                    let mut request = self.requests[&id].part(part, self.sector);
                    request.fua |= force;
                    device.submit(self.now, request).expect("it is given no more than its depth");
                }
                Action::Fetch { id, owner, start, size } => {
                    let extent = Extent::new(start, Sectors(size.0 / self.sector.0));
                    let stream = StreamId(owner.0);
                    let request = Request { id, stream, op: Op::Read, fua: false, extent, arrival: self.now };
                    self.requests.insert(id, Unanswered { request, owner, came: self.now, done: None });
                }
                Action::Fetched { id } => _ = self.requests.remove(&id),
                Action::Answer { id, outcome, ideal } => self.answer(id, outcome, ideal),
            }
        }
        self.actions = actions;
    }

    fn answer(&mut self, id: RequestId, outcome: Outcome, ideal: Option<Nanos>) {
        let Unanswered { request, owner, came, done } =
            self.requests.remove(&id).expect("it is answered once");
        let took = self.now - came;
        if let (Some(timings), Some(ideal), Outcome::Done) = (&mut self.timings, ideal, outcome) {
            timings.push(Timing { owner, arrived: came, took, ideal });
        }
        // `None` also for a request cancelled before it was issued.
        let detail = done.and_then(|done| {
            let Detail { class, mut breakdown } = done.detail?;
            breakdown.queue += took - done.device_time();
            Some(Detail { class, breakdown })
        });
        self.answered.push(Completion { request, submitted: came, finish: self.now, outcome, detail });
    }
}

impl<D: Device> Device for RegulatedDevice<D> {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        match &mut self.regulation {
            Some(regulation) => regulation.submit(&mut self.device, now, request),
            None => self.device.submit(now, request),
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        match &self.regulation {
            Some(regulation) => regulation.next_event(&self.device),
            None => self.device.next_event(),
        }
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        match &mut self.regulation {
            Some(regulation) => {
                regulation.run_until(&mut self.device, now);
                done.append(&mut regulation.answered);
            }
            None => self.device.advance(now, done),
        }
    }

    fn capacity(&self) -> Sectors {
        self.device.capacity()
    }

    fn sector(&self) -> Bytes {
        self.device.sector()
    }

    /// With a regulator: the requests in the device and those queued for it.
    fn depth(&self) -> u32 {
        self.regulator().map_or(self.device.depth(), Regulator::depth)
    }

    fn busy(&self, now: Nanos) -> Nanos {
        self.device.busy(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Percent;
    use proptest::prelude::*;
    use sakiyomi_drive::Drive;
    use sakiyomi_drive::fixed::{Fixed, FixedSpec};
    use sakiyomi_drive::spec::builtin;

    use std::collections::VecDeque;

    fn drive() -> Drive {
        Drive::new(&builtin("scorpio-wd10tpvx").unwrap().spec()).unwrap()
    }

    /// Requests of four streams, in order of arrival.
    fn requests() -> impl Strategy<Value = Vec<Request>> {
        let request = (0u64..15_000_000, 0u32..4, 0u64..100_000_000, any::<bool>());
        proptest::collection::vec(request, 1..60).prop_map(|all| {
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

    /// Runs requests on a device that is woken at every arrival, and between arrivals `late` nanoseconds late.
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

    fn regulated(rates: &[(u32, u32)]) -> RegulatedDevice<Drive> {
        let mut device = RegulatedDevice::new(drive(), Settings::default());
        for &(stream, rate) in rates {
            device.set_rate_anyway(Nanos::ZERO, Owner(stream), Percent::new(rate).unwrap()).unwrap();
        }
        device
    }

    /// Runs `requests` on `device` behind a host that queues in order what the device has no room for, woken `late`
    /// nanoseconds late. Also returns the times at which the device was full, and its busy time at each completion.
    fn host(
        mut device: impl Device,
        requests: &[Request],
        late: u64,
    ) -> (Vec<Completion>, Vec<(Nanos, RequestId)>, Vec<Nanos>) {
        let (mut ends, mut full, mut busy) = (Vec::new(), Vec::new(), Vec::new());
        let mut arriving = requests.iter().peekable();
        let mut queue = VecDeque::new();
        let mut now = Nanos::ZERO;
        while ends.len() < requests.len() {
            let event = device.next_event();
            let due = event.map(|event| if queue.is_empty() { event + Nanos(late) } else { event });
            let arrival = arriving.peek().map(|request| request.arrival);
            // Not late while a request is queued: it is submitted at the instant at which another one completes.
            now = arrival.into_iter().chain(due).min().expect("something is outstanding").max(now);
            device.advance(now, &mut ends);
            busy.push(device.busy(now));
            queue.extend(arriving.next_if(|request| request.arrival <= now).copied());
            while let Some(request) = queue.pop_front() {
                if let Err(Full(request)) = device.submit(now, request) {
                    full.push((now, request.id));
                    queue.push_front(request);
                    break;
                }
            }
        }
        (ends, full, busy)
    }

    /// The results that owners observe, wherever the queue is.
    fn met(ends: &[Completion]) -> Vec<(RequestId, Nanos, Outcome, Option<sakiyomi_model::Class>)> {
        ends.iter().map(|end| (end.request.id, end.finish, end.outcome, end.class())).collect()
    }

    /// Checks that the regulator changes nothing but the place of the queue.
    fn is_transparent<D: Device>(device: impl Fn() -> D, requests: &[Request], late: u64) {
        let bare = host(device(), requests, late);
        assert_eq!(host(RegulatedDevice::unregulated(device()), requests, late), bare);
        let regulated = host(RegulatedDevice::new(device(), Settings::default()), requests, late);
        assert_eq!(met(&regulated.0), met(&bare.0));
        assert!(regulated.1.is_empty(), "the regulator's queue is longer than that of any device here");
        let waited = |end: &Completion| end.submitted - end.request.arrival;
        for (own, bare) in regulated.0.iter().zip(&bare.0) {
            let queued = |end: &Completion| end.detail.map(|detail| waited(end) + detail.breakdown.queue);
            assert_eq!((waited(own), queued(own)), (Nanos::ZERO, queued(bare)));
        }
    }

    #[test]
    fn a_device_without_a_regulator_refuses_rates() {
        let mut device = RegulatedDevice::unregulated(drive());
        let rate = Percent::new(10).unwrap();
        assert_eq!(device.set_rate(Nanos::ZERO, Owner(0), rate), Err(RateError::Unregulated));
        assert_eq!(device.set_rate_anyway(Nanos::ZERO, Owner(0), rate), Err(RateError::Unregulated));
        device.clear_rate(Nanos::ZERO, Owner(0));
        assert!(device.regulator().is_none());
        assert_eq!(device.depth(), drive().depth());
    }

    #[test]
    fn a_device_is_given_no_more_than_it_takes() {
        let spec: FixedSpec = "latency=1ms,parallel=2".parse().unwrap();
        let mut device = RegulatedDevice::new(Fixed::new(spec, 0), Settings::default());
        let extent = Extent::new(Lba(0), Sectors(8));
        for id in 0..10 {
            let (id, stream, arrival) = (RequestId(id), StreamId(0), Nanos::ZERO);
            device
                .submit(arrival, Request { id, stream, op: Op::Read, fua: false, extent, arrival })
                .unwrap();
        }
        assert_eq!(device.regulator().unwrap().in_device(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn without_a_rate_a_drive_is_as_if_it_were_alone(
            requests in requests(), late in 0u64..50_000_000, depth in prop_oneof![Just(1u32), 2u32..8, Just(32)],
        ) {
            let mut spec = builtin("scorpio-wd10tpvx").unwrap().spec();
            spec.queue.depth = depth;
            is_transparent(|| Drive::new(&spec).unwrap(), &requests, late);
        }

        #[test]
        fn without_a_rate_a_fixed_device_is_as_if_it_were_alone(
            requests in requests(), late in 0u64..50_000_000, parallel in 1u32..=32, spread in 0.0..1.0,
        ) {
            let latency = Nanos::MILLISECOND * 40;
            let spec = FixedSpec { latency, spread, parallel, bandwidth: Some(Bytes(2_000_000)), ..FixedSpec::default() };
            is_transparent(|| Fixed::new(spec, 7), &requests, late);
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
                        prop_assert!(device.regulator().unwrap().report(owner).is_none());
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
                let Some(Detail { breakdown: parts, .. }) = end.detail else {
                    prop_assert_eq!(end.outcome, Outcome::Cancelled, "it never came to the drive");
                    continue;
                };
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
                let parts = end.detail.expect("a drive tells where the time went").breakdown;
                let sum = parts.queue + parts.overhead + parts.seek + parts.rotation + parts.transfer;
                prop_assert_eq!(sum, end.device_time());
            }
        }
    }
}
