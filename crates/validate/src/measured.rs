//! A request as a real drive served it.

use std::ops::Range;

use sakiyomi_model::{Extent, Nanos, Op};

/// What a real drive said about a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// Its cache answered.
    Hit,
    /// It went to the medium.
    Miss,
}

/// A request with the time that a real drive took for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// What was asked.
    pub op: Op,
    /// Force unit access.
    pub fua: bool,
    /// Where, in sectors of the simulated drive.
    pub extent: Extent,
    /// When the drive got it, in nanoseconds from the start of the trace. In a closed loop it is
    /// [derived](follow_on).
    pub issued: Nanos,
    /// From then to its end, in nanoseconds.
    pub response: Nanos,
    /// Closed loop: nanoseconds from its end to the next request's issue; else zero.
    pub think: Nanos,
    /// What the real drive said about it; reads only.
    pub label: Option<Label>,
}

impl Measured {
    /// When the real drive was done with it.
    #[must_use]
    pub fn ended(&self) -> Nanos {
        self.issued.saturating_add(self.response)
    }
}

/// Sets the time of issue of every request of a closed loop: a think time after the one before has ended, the first at
/// zero. Times past [`Nanos::MAX`] stay there.
pub fn follow_on(requests: &mut [Measured]) {
    let mut at = Nanos::ZERO;
    for request in requests {
        request.issued = at;
        at = request.ended().saturating_add(request.think);
    }
}

/// Takes the delays of a closed loop for the times *before* their own requests instead of after them, and sets the
/// times of issue anew. In the traces that come with DiskSim they are after in those of the HP drives, before in the
/// others, although the format is one: the phase of the spindle shows it ([`anchored()`](crate::anchored())).
pub fn delays_before(requests: &mut [Measured]) {
    for index in 0..requests.len() {
        requests[index].think = requests.get(index + 1).map_or(Nanos::ZERO, |next| next.think);
    }
    follow_on(requests);
}

/// Puts requests into the order in which the drive got them, those of one instant as they stand. A host that kept a
/// queue of its own may have handed them over in another order than they came to it.
pub fn in_order(requests: &mut [Measured]) {
    requests.sort_by_key(|request| request.issued);
}

/// Which of the requests, [in order](in_order), were issued at `from` or later, and before `until`.
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
