//! Requests with the times measured on a real drive.

use std::ops::Range;

use sakiyomi_model::{Extent, Nanos, Op};

/// Cache result of a read as reported by a real drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// Served from the cache.
    Hit,
    /// Read from the medium.
    Miss,
}

/// A request with its measured response time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Operation.
    pub op: Op,
    /// Force unit access.
    pub fua: bool,
    /// Sectors, in units of the simulated drive.
    pub extent: Extent,
    /// Issue time, in nanoseconds from the start of the trace. In a closed loop it is [derived](follow_on).
    pub issued: Nanos,
    /// Time from issue to end, in nanoseconds.
    pub response: Nanos,
    /// Closed loop: nanoseconds from its end to the next request's issue; otherwise zero.
    pub think: Nanos,
    /// Cache result reported by the real drive; reads only.
    pub label: Option<Label>,
}

impl Measured {
    /// Returns when the real drive finished the request.
    #[must_use]
    pub fn ended(&self) -> Nanos {
        self.issued.saturating_add(self.response)
    }
}

/// Sets the issue times of a closed loop: each request is issued a think time after the end of the previous one, the
/// first at zero. Times saturate at [`Nanos::MAX`].
pub fn follow_on(requests: &mut [Measured]) {
    let mut at = Nanos::ZERO;
    for request in requests {
        request.issued = at;
        at = request.ended().saturating_add(request.think);
    }
}

/// Interprets the delays of a closed loop as times *before* their own requests instead of after them, and sets the
/// issue times again. In the traces that come with DiskSim the delays are after the request for the HP drives, and
/// before it for the others, although the format is the same: the phase of the spindle shows it
/// ([`anchored()`](crate::anchored())).
pub fn delays_before(requests: &mut [Measured]) {
    for index in 0..requests.len() {
        requests[index].think = requests.get(index + 1).map_or(Nanos::ZERO, |next| next.think);
    }
    follow_on(requests);
}

/// Sorts requests by issue time, stably. A host with a queue of its own may have issued them in another order than that
/// of their arrival.
pub fn in_order(requests: &mut [Measured]) {
    requests.sort_by_key(|request| request.issued);
}

/// Returns the range of requests, [in order](in_order), issued at `from` or later and before `until`.
#[must_use]
pub fn part(requests: &[Measured], from: Nanos, until: Nanos) -> Range<usize> {
    let first = requests.partition_point(|request| request.issued < from);
    let end = requests.partition_point(|request| request.issued < until);
    first..end.max(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{any_measured, read};
    use proptest::prelude::*;

    #[test]
    fn a_closed_loop_issues_a_think_time_after_the_end() {
        let mut requests = [read(0, 8, 10), read(8, 8, 20), read(16, 8, 30)];
        requests.iter_mut().for_each(|request| request.think = Nanos(5));
        follow_on(&mut requests);
        assert_eq!(requests.map(|request| request.issued.0), [0, 15, 40]);
    }

    #[test]
    fn delays_before_are_those_of_the_next_request() {
        let mut requests = [read(0, 8, 10), read(8, 8, 20), read(16, 8, 30)];
        for (request, think) in requests.iter_mut().zip([1, 2, 3]) {
            request.think = Nanos(think);
        }
        delays_before(&mut requests);
        assert_eq!(requests.map(|request| (request.issued.0, request.think.0)), [(0, 2), (12, 3), (35, 0)]);
    }

    proptest! {
        #[test]
        fn a_part_is_what_a_filter_finds(mut requests in any_measured(), from in 0u64..200_000_000, span: u32) {
            in_order(&mut requests);
            let (from, until) = (Nanos(from), Nanos(from + u64::from(span)));
            let within = |request: &&Measured| (from..until).contains(&request.issued);
            let wanted: Vec<&Measured> = requests.iter().filter(within).collect();
            prop_assert_eq!(requests[part(&requests, from, until)].iter().collect::<Vec<_>>(), wanted);
        }

        #[test]
        fn a_closed_loop_is_in_order(mut requests in any_measured()) {
            follow_on(&mut requests);
            let before = requests.clone();
            in_order(&mut requests);
            prop_assert_eq!(before, requests);
        }
    }
}
