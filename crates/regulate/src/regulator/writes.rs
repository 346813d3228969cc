//! Writes that a cache in the device takes in: where they do harm, they go through it.
//!
//! Such a write ends at once, and is done later, when nobody can hold it back; once the device has too many of them, it
//! does them before it does what a regulated owner waits for. How many are too many, and when it does them, no completion
//! tells. What does tell is a regulated I/O that is late, or a read that takes far longer than what is known to be ahead
//! of it explains. From then on unregulated writes are *forced* to the medium while a regulated owner is about: they end
//! when they are there, and are weighed like reads before they go in. After many I/Os in time the cache is tried again,
//! and more seldom each time that does harm: a drive that writes what it holds may keep a read waiting for a second.

use sakiyomi_model::Nanos;

/// Whether unregulated writes are forced to the medium.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Writes {
    forced: bool,
    /// Regulated I/Os in time since, and after how many the cache is tried again.
    in_time: u32,
    trial: u32,
    taken_in: Option<Nanos>,
    /// When what was measured before is to be forgotten: the device did writes meanwhile.
    forget_at: Option<Nanos>,
}

/// Time after which a cached write is assumed to be on the medium.
const CACHED_WRITE_MAX_AGE: Nanos = Nanos(30_000_000_000);
/// Service times after the first harm in which the device writes most of its cache to the medium.
const SETTLING_SERVICE_TIMES: u64 = 256;
/// Limit of the time in which the device writes most of its cache to the medium.
const SETTLING_MAX: Nanos = Nanos(5_000_000_000);
/// Regulated I/Os in time until the cache is tried again. Each harm multiplies them by eight. A single I/O of a second
/// among this many leaves the CoV below 0.1.
const RETRY_MIN_IOS: u32 = 1 << 17;
/// Limit of the I/Os until the cache is tried again.
const RETRY_MAX_IOS: u32 = 1 << 23;

impl Writes {
    /// Whether an unregulated write is to be on the medium before it ends.
    pub(super) fn are_forced(&self) -> bool {
        self.forced
    }

    /// A write ended sooner than the medium could have had it.
    pub(super) fn taken_in(&mut self, now: Nanos) {
        self.taken_in = Some(now);
    }

    /// Whether the device may have writes to do that have ended.
    pub(super) fn may_be_left(&self, now: Nanos) -> bool {
        self.taken_in.is_some_and(|at| now.saturating_sub(at) < CACHED_WRITE_MAX_AGE)
    }

    /// Something took far longer than what was known to be ahead of it, on a device that needs `service` for one.
    pub(super) fn harm(&mut self, now: Nanos, service: Nanos) {
        // Once they are forced, what was taken in before does the harm.
        if self.forced || !self.may_be_left(now) {
            return;
        }
        if self.trial == 0 {
            let settling = Nanos(service.0.saturating_mul(SETTLING_SERVICE_TIMES)).min(SETTLING_MAX);
            self.forget_at = Some(now.saturating_add(settling));
        }
        self.trial = self.trial.saturating_mul(8).clamp(RETRY_MIN_IOS, RETRY_MAX_IOS);
        (self.forced, self.in_time) = (true, 0);
    }

    /// Whether what reads were seen to take is to be forgotten now: says so once.
    pub(super) fn is_settled(&mut self, now: Nanos) -> bool {
        self.forget_at.take_if(|at| now >= *at).is_some()
    }

    /// A regulated I/O was in time.
    pub(super) fn in_time(&mut self) {
        if self.forced {
            self.in_time += 1;
            self.forced = self.in_time < self.trial;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::MILLISECOND;

    #[test]
    fn without_writes_that_were_taken_in_nothing_is_forced() {
        let mut writes = Writes::default();
        writes.harm(MS, MS * 10);
        assert!(!writes.are_forced());
        writes.taken_in(MS);
        writes.harm(MS + CACHED_WRITE_MAX_AGE, MS * 10);
        assert!(!writes.are_forced(), "they are on the medium by now");
    }

    #[test]
    fn harm_forces_writes_and_the_cache_is_tried_again_more_and_more_seldom() {
        let mut writes = Writes::default();
        let in_time_until_tried = |writes: &mut Writes| {
            writes.taken_in(MS);
            writes.harm(MS * 2, MS * 10);
            (1..).find(|_| {
                writes.in_time();
                !writes.are_forced()
            })
        };
        assert_eq!(in_time_until_tried(&mut writes), Some(RETRY_MIN_IOS));
        assert_eq!(in_time_until_tried(&mut writes), Some(8 * RETRY_MIN_IOS));
        assert_eq!(in_time_until_tried(&mut writes), Some(RETRY_MAX_IOS));
        assert_eq!(in_time_until_tried(&mut writes), Some(RETRY_MAX_IOS));
    }

    #[test]
    fn what_was_measured_is_forgotten_once_when_the_device_has_done_what_it_held() {
        let mut writes = Writes::default();
        writes.taken_in(MS);
        writes.harm(MS * 2, MS * 10);
        let settled = MS * 2 + MS * 10 * SETTLING_SERVICE_TIMES;
        assert!(!writes.is_settled(settled - Nanos(1)));
        assert!(writes.is_settled(settled) && !writes.is_settled(settled));
    }
}
