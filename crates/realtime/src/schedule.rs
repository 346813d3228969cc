//! The device and the host's queue in front of it, on the device's own time line.

use std::collections::VecDeque;

use sakiyomi_model::{Completion, Device, Full, Nanos, Request};

/// Submits requests to a device at the right times, however late the caller is.
#[derive(Debug)]
pub struct Schedule<D> {
    device: D,
    now: Nanos,
    /// Requests that the device has no room for; each is submitted as soon as another one completes.
    waiting: VecDeque<Request>,
    outstanding: usize,
}

impl<D: Device> Schedule<D> {
    /// Makes a schedule for a device at time 0.
    pub fn new(device: D) -> Schedule<D> {
        Schedule { device, now: Nanos::ZERO, waiting: VecDeque::new(), outstanding: 0 }
    }

    /// Returns the device.
    pub fn device(&self) -> &D {
        &self.device
    }

    pub(super) fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Returns the device's time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Returns the number of outstanding requests.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Submits a request at its arrival time, and appends completions until then to `done`. Requests must arrive in
    /// order of time.
    pub fn arrive(&mut self, request: Request, done: &mut Vec<Completion>) {
        self.run_until(request.arrival, done);
        self.outstanding += 1;
        self.waiting.push_back(request);
        self.hand_over();
    }

    /// Returns the time at which the device must be advanced next.
    pub fn next_event(&self) -> Option<Nanos> {
        self.device.next_event()
    }

    /// Processes the events due until `now`, each at its own time.
    pub fn run_until(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some(event) = self.device.next_event().filter(|&event| event <= now) {
            self.advance(event, done);
        }
        self.advance(now, done);
    }

    fn advance(&mut self, to: Nanos, done: &mut Vec<Completion>) {
        self.now = self.now.max(to);
        let before = done.len();
        self.device.advance(self.now, done);
        self.outstanding -= done.len() - before;
        if done.len() > before {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        while let Some(request) = self.waiting.pop_front() {
            if let Err(Full(request)) = self.device.submit(self.now, request) {
                self.waiting.push_front(request);
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sakiyomi_drive::Drive;
    use sakiyomi_drive::replay::{Arrival, Pace, Replay, ReplayObserver};
    use sakiyomi_drive::spec::builtin;
    use sakiyomi_model::{Extent, Lba, Op, RequestId, Sectors, StreamId};

    /// Records the completions of the replay.
    #[derive(Default)]
    struct Ends(Vec<Completion>);

    impl ReplayObserver for Ends {
        fn before(&mut self, _: &Drive, _: Nanos) {}
        fn completed(&mut self, _: &mut Drive, completion: &Completion, _: usize) {
            self.0.push(*completion);
        }
    }

    fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
        let op = prop_oneof![6 => Just(Op::Read), 3 => Just(Op::Write), 1 => Just(Op::Flush)];
        let arrival = (0u64..20_000_000, op, 0u64..300_000_000, 1u64..512);
        proptest::collection::vec(arrival, 1..80).prop_map(|gaps| {
            let mut at = Nanos::ZERO;
            let arrivals = gaps.into_iter().map(|(gap, op, start, sectors)| {
                at += Nanos(gap);
                let sectors = if op == Op::Flush { 0 } else { sectors };
                let extent = Extent::new(Lba(start), Sectors(sectors));
                Arrival { at, think: Nanos::ZERO, stream: StreamId(0), op, fua: false, extent }
            });
            arrivals.collect()
        })
    }

    fn request(id: usize, arrival: &Arrival) -> Request {
        let Arrival { stream, op, fua, extent, at, .. } = *arrival;
        Request { id: RequestId(id as u64), stream, op, fua, extent, arrival: at }
    }

    proptest! {
        // Two drives are made for each case, which takes most of the time.
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn however_late_it_is_woken_the_ends_are_those_of_a_replay(
            arrivals in arrivals(),
            drive in prop_oneof![Just("deskstar-7k250"), Just("barracuda-st2000dm006")],
            late in proptest::collection::vec(0u64..50_000_000, 80),
        ) {
            let spec = builtin(drive).unwrap().spec();
            let replay = Replay { pace: Pace::Open, host_queue: 1 << 20 };
            let mut expected = Ends::default();
            let all = arrivals.iter().map(|arrival| Ok::<_, ()>(*arrival));
            replay.run(&mut Drive::new(&spec).unwrap(), all, &mut expected).unwrap();

            let mut schedule = Schedule::new(Drive::new(&spec).unwrap());
            let mut ends = Vec::new();
            for (id, (arrival, late)) in arrivals.iter().zip(&late).enumerate() {
                // Woken at an arbitrary instant, but never after the next arrival.
                let next = arrivals.get(id + 1).map_or(Nanos::MAX, |next| next.at);
                schedule.arrive(request(id, arrival), &mut ends);
                schedule.run_until(next.min(arrival.at + Nanos(*late)), &mut ends);
            }
            while schedule.outstanding() > 0 {
                let event = schedule.next_event().expect("something is outstanding");
                schedule.run_until(event + Nanos(77_777), &mut ends);
            }
            prop_assert_eq!(ends, expected.0);
        }
    }
}
