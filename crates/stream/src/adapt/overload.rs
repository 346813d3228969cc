//! Whether the stream falls behind although its plan should hold the rate: then operators take longer than measured.
//!
//! Service times are measured without what the runtime does between operators, without preemptions, and without the
//! cache misses that one operator causes another. Where this matters, a source falls behind on a plan that should hold
//! its rate. The rate at which tuples are processed meanwhile is what the plan does hold, and service times are
//! stretched accordingly. Backlog from before, or from a single stall, does not count, for it becomes less.

/// Delay of a source up to which it is not behind: less than a time slice of another thread on its core.
pub(crate) const LATE_MIN_NS: u64 = 5_000_000;

/// Time for which a source must be behind: half of what a change of the plan may take.
const EVIDENCE_NS: u64 = 50_000_000;

/// A delay that shrinks by this share of the time that passes is being worked off: at a utilization of 0.85 it shrinks
/// by 0.18 of it, and at one of 0.95 by this.
const BACKLOG_SHRINK_RATIO: f64 = 0.05;

/// Change of the slowdown below which plans stay as they are.
const SLOWDOWN_CHANGE_RATIO: f64 = 0.05;

/// Largest slowdown in all. Beyond it nothing can be planned.
const SLOWDOWN_MAX_RATIO: f64 = 16.0;

/// Time within which a change of an operator's load is known: a slowdown that was found so shortly before is that change.
const LOAD_KNOWN_MAX_NS: u64 = 500_000_000;

/// Time after which a slowdown is tried without, at first: long beside the second that an interruption may take.
const RETRIAL_MIN_NS: u64 = 30_000_000_000;

/// Time between trials after several failed ones: a failed trial costs a tenth of a second.
const RETRIAL_MAX_NS: u64 = 3_600_000_000_000;

/// Watches delays.
#[derive(Clone, Debug)]
pub(crate) struct OverloadWatch {
    /// Ratio of service times to those measured.
    slowdown: f64,
    evidence: Option<Evidence>,
    /// When the slowdown was found, and that before.
    found: Option<(u64, f64)>,
    retrial_ns: u64,
    /// When to try without the slowdown.
    retry_at_ns: u64,
}

/// Since when a source is behind.
#[derive(Clone, Copy, Debug)]
struct Evidence {
    since_ns: u64,
    /// The delay at that time.
    late_ns: u64,
    /// Tuples taken since then.
    taken: u64,
}

/// Delays in a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delays {
    pub(crate) now_ns: u64,
    pub(crate) late_ns: u64,
    /// Tuples that the sources have taken since the last sample, and those that they have dropped.
    pub(crate) taken: u64,
    pub(crate) shed: u64,
}

impl OverloadWatch {
    pub(crate) fn new() -> OverloadWatch {
        OverloadWatch {
            slowdown: 1.0,
            evidence: None,
            found: None,
            retrial_ns: RETRIAL_MIN_NS,
            retry_at_ns: 0,
        }
    }

    /// Ratio of service times to those measured, 1 or more.
    pub(crate) fn slowdown(&self) -> f64 {
        self.slowdown
    }

    /// The placement has changed: what was before says nothing about it.
    pub(crate) fn reset(&mut self) {
        self.evidence = None;
    }

    /// Takes a sample. `is_in_doubt` tells whether the plan in use should hold the rate, so that a source that is behind
    /// says something. Returns the tuples per second that are processed if a source has been behind for long enough.
    pub(crate) fn add(&mut self, delays: Delays, is_in_doubt: bool) -> Option<f64> {
        let Delays { now_ns, late_ns, taken, shed } = delays;
        let is_behind = late_ns > LATE_MIN_NS || shed > 0;
        if !is_behind || !is_in_doubt {
            self.evidence = None;
            return None;
        }
        let evidence = self.evidence.get_or_insert(Evidence { since_ns: now_ns, late_ns, taken: 0 });
        let Evidence { since_ns, late_ns: before_ns, .. } = *evidence;
        if now_ns > since_ns {
            evidence.taken += taken.saturating_sub(shed);
        }
        if now_ns - since_ns < EVIDENCE_NS {
            return None;
        }
        let taken = evidence.taken;
        self.evidence = Some(Evidence { since_ns: now_ns, late_ns, taken: 0 });
        let shrunk_ns = before_ns.saturating_sub(late_ns) as f64;
        let is_shrinking = shed == 0 && shrunk_ns >= BACKLOG_SHRINK_RATIO * (now_ns - since_ns) as f64;
        (!is_shrinking && taken > 0).then(|| taken as f64 / (now_ns - since_ns) as f64 * 1e9)
    }

    /// Stretches service times, by which `expected_ratio` times as much should have been processed. Whether the slowdown
    /// has changed.
    pub(crate) fn correct(&mut self, expected_ratio: f64, now_ns: u64) -> bool {
        self.retry_at_ns = now_ns.saturating_add(self.retrial_ns);
        let before = std::mem::replace(&mut self.slowdown, expected_ratio.clamp(1.0, SLOWDOWN_MAX_RATIO));
        self.found = Some((now_ns, before));
        (self.slowdown / before - 1.0).abs() > SLOWDOWN_CHANGE_RATIO
    }

    /// Forgets the slowdown if no source has been behind for long enough. Whether it has.
    pub(crate) fn retry(&mut self, now_ns: u64, late_ns: u64) -> bool {
        if self.slowdown == 1.0 || now_ns < self.retry_at_ns || late_ns > LATE_MIN_NS {
            return false;
        }
        self.forget();
        self.retrial_ns = (self.retrial_ns * 2).min(RETRIAL_MAX_NS);
        true
    }

    /// Takes the slowdown back if it was found a moment ago: the load of an operator has changed, and the slowdown was
    /// derived from what it was before.
    pub(crate) fn explain(&mut self, now_ns: u64) {
        if let Some((found_ns, before)) = self.found.take()
            && now_ns.saturating_sub(found_ns) <= LOAD_KNOWN_MAX_NS
        {
            self.slowdown = before;
        }
    }

    /// Forgets the slowdown, which was derived from guesses.
    pub(crate) fn forget(&mut self) {
        self.slowdown = 1.0;
        self.found = None;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Samples every 5 ms, with a delay and a rate of processing in tuples per millisecond, of a plan that should hold
    /// 1,000; the times of changes.
    fn changes(
        watch: &mut OverloadWatch,
        ms: std::ops::Range<u64>,
        of: impl Fn(u64) -> (u64, u64),
    ) -> Vec<u64> {
        let samples = ms.step_by(5).filter(|&ms| {
            let (late_ns, taken_per_ms) = of(ms);
            let delays = Delays { now_ns: ms * MS, late_ns, taken: 5 * taken_per_ms, shed: 0 };
            match watch.add(delays, true) {
                Some(processed_per_s) => watch.correct(1e6 / processed_per_s, ms * MS),
                None => watch.retry(ms * MS, late_ns),
            }
        });
        samples.collect()
    }

    #[test]
    fn a_backlog_that_grows_stretches_service_times_to_what_is_processed() {
        let mut watch = OverloadWatch::new();
        let at = changes(&mut watch, 0..120, |ms| (6 * MS + ms * MS / 2, 700));
        assert_eq!(at, [50]);
        assert!((watch.slowdown() - 1.0 / 0.7).abs() < 1e-9, "{watch:?}");
    }

    #[test]
    fn a_backlog_that_is_worked_off_and_short_delays_do_not_count() {
        let mut watch = OverloadWatch::new();
        assert_eq!(changes(&mut watch, 0..500, |ms| (80 * MS - ms * MS / 10, 700)), []);
        assert_eq!(changes(&mut watch, 500..1_000, |_| (4 * MS, 700)), []);
        assert_eq!(changes(&mut watch, 1_000..1_045, |ms| (ms * MS, 700)), [], "for a short time");
    }

    #[test]
    fn a_source_that_drops_tuples_is_behind_although_it_is_not_late() {
        let mut watch = OverloadWatch::new();
        let delays = |ms: u64| Delays { now_ns: ms * MS, late_ns: MS, taken: 5_000, shed: 1_500 };
        let processed: Vec<f64> = (0..60).step_by(5).filter_map(|ms| watch.add(delays(ms), true)).collect();
        assert_eq!(processed, [7e5]);
    }

    #[test]
    fn a_slowdown_is_taken_back_after_a_while_which_doubles() {
        let mut watch = OverloadWatch::new();
        let is_late = |ms: u64| if ms < 60 || (40_000..40_060).contains(&ms) { ms.max(6) * MS } else { 0 };
        let at = changes(&mut watch, 0..200_000, |ms| (is_late(ms), 700));
        assert_eq!(at.len(), 4, "{at:?}");
        assert!(at[1] - at[0] < 30_010 && at[3] - at[2] > 59_990, "{at:?}");
    }

    #[test]
    fn a_slowdown_that_a_change_of_the_load_explains_is_taken_back_and_others_are_not() {
        let mut watch = OverloadWatch::new();
        assert!(watch.correct(1.5, 10 * MS));
        watch.explain(700 * MS);
        assert_eq!(watch.slowdown(), 1.5, "the load changed later");
        assert!(watch.correct(3.0, 1_000 * MS));
        watch.explain(1_100 * MS);
        assert_eq!(watch.slowdown(), 1.5);
        watch.explain(1_150 * MS);
        assert_eq!(watch.slowdown(), 1.5, "once");
    }
}
