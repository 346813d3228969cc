//! How often loads are sampled and plans requested.

/// Time between two samples of the loads: sorting samples takes 30 µs per operator.
const LOADS_PERIOD_NS: u64 = 40_000_000;

/// Time from one request for plans to the next, at least.
const REQUEST_PERIOD_MIN_NS: u64 = 100_000_000;

/// Time from plans to the next request in relation to the time that they took: planning takes a tenth of a core at most.
const REQUEST_PAUSE_RATIO: u64 = 9;

/// Times of looks and requests.
#[derive(Clone, Debug)]
pub(crate) struct RequestPace {
    /// When the outstanding plans were requested.
    requested_ns: Option<u64>,
    next_request_ns: u64,
    /// Time of the next request for an urgent reason: planning then takes half of a core at most.
    next_urgent_ns: u64,
    next_look_ns: u64,
    /// Tuples that had arrived at the last look.
    tuples: u64,
}

impl RequestPace {
    /// With the first look at `first_ns`.
    pub(crate) fn new(first_ns: u64) -> RequestPace {
        RequestPace {
            requested_ns: None,
            next_request_ns: 0,
            next_urgent_ns: 0,
            next_look_ns: first_ns,
            tuples: 0,
        }
    }

    /// Returns whether requested plans are outstanding.
    pub(crate) fn is_waiting(&self) -> bool {
        self.requested_ns.is_some()
    }

    /// Returns whether to look at the loads, after `tuples` arrivals in all, and ask for plans if they need it. With
    /// an `urgent` reason, as soon as plans may be requested.
    pub(crate) fn is_due(&mut self, now_ns: u64, tuples: u64, urgent: bool) -> bool {
        let due_ns = if urgent { self.next_urgent_ns } else { self.next_request_ns.max(self.next_look_ns) };
        if self.is_waiting() || now_ns < due_ns {
            return false;
        }
        self.next_look_ns = now_ns + LOADS_PERIOD_NS;
        // Without tuples nothing changes.
        let before = std::mem::replace(&mut self.tuples, tuples);
        urgent || tuples != before
    }

    /// Records that plans have been requested.
    pub(crate) fn requested(&mut self, now_ns: u64) {
        self.requested_ns = Some(now_ns);
    }

    /// Records that they have arrived; returns when they were requested.
    pub(crate) fn answered(&mut self, now_ns: u64) -> u64 {
        let requested_ns = self.requested_ns.take().unwrap_or(now_ns);
        let planning_ns = now_ns.saturating_sub(requested_ns);
        self.next_urgent_ns = now_ns + REQUEST_PERIOD_MIN_NS.max(planning_ns);
        self.next_request_ns = now_ns + REQUEST_PERIOD_MIN_NS.max(REQUEST_PAUSE_RATIO * planning_ns);
        requested_ns
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn planning_takes_a_tenth_of_the_time_at_most_and_idle_streams_are_not_looked_at() {
        let mut pace = RequestPace::new(20 * MS);
        assert!(!pace.is_due(10 * MS, 5, false));
        assert!(pace.is_due(20 * MS, 5, false) && !pace.is_due(25 * MS, 9, false));
        assert!(pace.is_due(60 * MS, 9, false) && !pace.is_due(100 * MS, 9, false));
        assert!(pace.is_due(105 * MS, 9, true));
        pace.requested(105 * MS);
        assert!(!pace.is_due(300 * MS, 100, true), "plans are being made");
        assert_eq!(pace.answered(305 * MS), 105 * MS);
        assert!(!pace.is_due(504 * MS, 200, true) && pace.is_due(505 * MS, 200, true));
        assert!(!pace.is_due(2_104 * MS, 300, false) && pace.is_due(2_105 * MS, 300, false));
    }
}
