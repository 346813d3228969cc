//! Free replay: the times of measured requests depend on the simulated drive's completions.

use sakiyomi_drive::Drive;
use sakiyomi_drive::replay::{Arrival, HostSide, Pace as HostPace, Replay, ReplayObserver};
use sakiyomi_model::{Breakdown, Class, Completion, Detail, Device, Nanos, Request, RequestId, StreamId};

use crate::measured::Measured;

/// Maximum pause that is taken as a think time: after a longer one a request of a [serial](Pace::Serial) replay does
/// not depend on the previous one.
const THINK_TIME_MAX: Nanos = Nanos(1_000_000_000);

/// Timing of requests in a [free](free) replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// One outstanding: each is issued a think time after the end of the previous one.
    Closed,
    /// One outstanding: each is issued at its measured time, or, if the pause before it was shorter than a second, at
    /// the measured pause after the end of the previous one. For a host with a queue of its own, which issued a request
    /// because another had ended, so that the phase of the platters depended on that end. The response time excludes
    /// the wait for the previous request.
    Serial,
    /// Each is issued at its measured time, with any number outstanding. The response time counts from that time.
    Open,
}

/// Result of a request on the simulated drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simulated {
    /// Time from issue to end, in nanoseconds.
    pub response: Nanos,
    /// Cache class.
    pub class: Class,
    /// Parts of the time.
    pub breakdown: Breakdown,
}

impl Simulated {
    /// Converts the completion of a drive, which always contains details.
    pub(crate) fn of(completion: &Completion) -> Simulated {
        let Detail { class, breakdown } = completion.detail.expect("a drive tells how it served a command");
        Simulated { response: completion.response_time(), class, breakdown }
    }
}

/// Replays `measured`, which is [in order](crate::in_order), on a new `drive`; returns the results in the same order.
#[must_use]
pub fn free(drive: Drive, measured: &[Measured], pace: Pace) -> Vec<Simulated> {
    free_while(drive, measured, pace, &mut || true).expect("nothing stops it")
}

/// Like [`free`], while `go_on` returns true, which is called once in some thousand requests; `None` if it returned false.
#[must_use]
pub fn free_while(
    drive: Drive,
    measured: &[Measured],
    pace: Pace,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<Vec<Simulated>> {
    match pace {
        Pace::Closed => replayed(drive, measured, HostPace::Closed { outstanding: 1 }, go_on),
        Pace::Open => replayed(drive, measured, HostPace::Open, go_on),
        Pace::Serial => serial(drive, measured, go_on),
    }
}

/// Returns the requests of a replay, before each of which it is checked whether to go on, once in some thousand.
pub(crate) fn while_going<'a, R>(
    measured: &'a [R],
    go_on: &'a mut dyn FnMut() -> bool,
) -> impl Iterator<Item = Result<&'a R, Stopped>> {
    /// Requests between two checks: some milliseconds of work, beside which a check costs nothing.
    const CHECK_PERIOD_REQUESTS: usize = 1 << 10;
    let checked = move |(number, request): (usize, &'a R)| {
        let is_due = number.is_multiple_of(CHECK_PERIOD_REQUESTS);
        if is_due && !go_on() { Err(Stopped) } else { Ok(request) }
    };
    measured.iter().enumerate().map(checked)
}

/// A replay was not to go on.
#[derive(Debug)]
pub(crate) struct Stopped;

fn replayed(
    mut drive: Drive,
    measured: &[Measured],
    pace: HostPace,
    go_on: &mut dyn FnMut() -> bool,
) -> Option<Vec<Simulated>> {
    /// Capacity of the host's queue. It changes no result, because the queue keeps the order and the times of issue; but
    /// requests are taken from the trace while the drive serves others, so that an overloaded one can be stopped as well.
    const HOST_QUEUE_REQUESTS: usize = 1 << 12;
    let mut ends = Ends { by_id: vec![None; measured.len()] };
    let arrivals = while_going(measured, go_on).map(|request| request.map(arrival));
    let replay = Replay { pace, host_queue: HOST_QUEUE_REQUESTS };
    let HostSide { .. } = replay.run(&mut drive, arrivals, &mut ends).ok()?;
    let ends = ends.by_id.into_iter();
    Some(ends.map(|end| end.expect("a replay ends when all requests have ended")).collect())
}

fn arrival(request: &Measured) -> Arrival {
    let &Measured { op, fua, extent, issued, think, .. } = request;
    Arrival { at: issued, think, stream: StreamId(0), op, fua, extent }
}

/// Results by the requests' index.
struct Ends {
    by_id: Vec<Option<Simulated>>,
}

impl ReplayObserver for Ends {
    fn before(&mut self, _: &Drive, _: Nanos) {}

    fn completed(&mut self, _: &mut Drive, completion: &Completion, _: usize) {
        // The replay numbers requests from zero.
        self.by_id[completion.request.id.0 as usize] = Some(Simulated::of(completion));
    }
}

fn serial(
    mut drive: Drive,
    measured: &[Measured],
    go_on: &mut dyn FnMut() -> bool,
) -> Option<Vec<Simulated>> {
    let (mut free_at, mut ended) = (Nanos::ZERO, Nanos::ZERO);
    let mut serve = |(number, request): (usize, &Measured)| {
        let pause = request.issued.saturating_sub(ended);
        let at =
            if pause < THINK_TIME_MAX { free_at.saturating_add(pause) } else { request.issued.max(free_at) };
        let completion = serve(&mut drive, number as u64, request, at);
        (free_at, ended) = (completion.finish, request.ended());
        Simulated::of(&completion)
    };
    let mut served = Vec::with_capacity(measured.len());
    for (number, request) in while_going(measured, go_on).enumerate() {
        served.push(serve((number, request.ok()?)));
    }
    Some(served)
}

/// Submits one request at `at` to a `drive` without outstanding requests, and runs it to its end.
pub(crate) fn serve(drive: &mut Drive, number: u64, request: &Measured, at: Nanos) -> Completion {
    let &Measured { op, fua, extent, .. } = request;
    let mut done = Vec::with_capacity(1);
    // Events due before the request, such as the end of a read-ahead, are processed first.
    drive.advance(at, &mut done);
    let request = Request { id: RequestId(number), stream: StreamId(0), op, fua, extent, arrival: at };
    drive.submit(at, request).expect("a drive with nothing outstanding has room");
    loop {
        let next = drive.next_event().expect("a drive with a command has an event to come");
        drive.advance(next, &mut done);
        if let Some(completion) = done.pop() {
            return completion;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::follow_on;
    use crate::sample::{any_measured, drive, read};
    use proptest::prelude::*;

    /// Returns the requests as if measured on a drive equal to the simulated one.
    fn as_measured(mut requests: Vec<Measured>) -> Vec<Measured> {
        let simulated = free(drive(), &requests, Pace::Closed);
        requests.iter_mut().zip(simulated).for_each(|(request, own)| request.response = own.response);
        follow_on(&mut requests);
        requests
    }

    /// Replays with a host queue of any length.
    fn unbounded(requests: &[Measured]) -> Vec<Simulated> {
        let (mut drive, mut ends) = (drive(), Ends { by_id: vec![None; requests.len()] });
        let arrivals = requests.iter().map(|request| Ok::<Arrival, Stopped>(arrival(request)));
        let replay = Replay { pace: HostPace::Open, host_queue: usize::MAX };
        replay.run(&mut drive, arrivals, &mut ends).unwrap();
        ends.by_id.into_iter().map(Option::unwrap).collect()
    }

    #[test]
    fn an_overloaded_drive_gives_the_same_times_whatever_the_host_queue() {
        // Twenty thousand requests in a second.
        let at = |number: u64| Measured {
            issued: Nanos(number * 50_000),
            ..read(number * 7_919 % 800 * 16, 8, 0)
        };
        let requests: Vec<Measured> = (0..20_000).map(at).collect();
        assert_eq!(free(drive(), &requests, Pace::Open), unbounded(&requests));
    }

    #[test]
    fn a_replay_is_stopped_soon_at_any_pace() {
        let requests: Vec<Measured> = (0..20_000).map(|number| read(number % 1000 * 16, 8, 0)).collect();
        for pace in [Pace::Closed, Pace::Serial, Pace::Open] {
            let mut checks = 0;
            let mut go_on = || {
                checks += 1;
                checks < 5
            };
            assert_eq!(free_while(drive(), &requests, pace, &mut go_on), None);
            assert_eq!(checks, 5, "{pace:?}");
            let mut all = 0;
            let mut go_on = || {
                all += 1;
                true
            };
            assert!(free_while(drive(), &requests, pace, &mut go_on).is_some() && all >= 19, "{pace:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_drive_measured_with_itself_is_met_exactly_at_any_pace(requests in any_measured()) {
            let requests = as_measured(requests);
            for pace in [Pace::Closed, Pace::Serial, Pace::Open] {
                let simulated = free(drive(), &requests, pace);
                let same = requests.iter().zip(&simulated).all(|(a, b)| a.response == b.response);
                prop_assert!(same, "{pace:?}");
            }
        }

        #[test]
        fn a_short_pause_is_kept_and_after_a_long_one_the_time_is(pause in 0u64..3_000_000_000, late in 0u64..90_000_000) {
            let mut requests = [read(0, 8, 0), read(400_000, 8, 0)];
            requests[0].response = Nanos(late);
            requests[1].issued = Nanos(late + pause);
            let mut served = drive();
            let first = serve(&mut served, 0, &requests[0], Nanos::ZERO).finish;
            let after = if pause < THINK_TIME_MAX.0 { first + Nanos(pause) } else { requests[1].issued.max(first) };
            let second = serve(&mut served, 1, &requests[1], after);
            let replayed = free(drive(), &requests, Pace::Serial);
            prop_assert_eq!(replayed[1].response, second.response_time());
        }

        #[test]
        fn each_request_has_its_own_end(mut requests in any_measured()) {
            crate::in_order(&mut requests);
            for pace in [Pace::Closed, Pace::Serial, Pace::Open] {
                let simulated = free(drive(), &requests, pace);
                prop_assert_eq!(simulated.len(), requests.len());
                for (request, own) in requests.iter().zip(&simulated) {
                    let is_read = matches!(own.class, Class::Read(_));
                    prop_assert_eq!(is_read, request.op == sakiyomi_model::Op::Read);
                }
            }
        }
    }
}
