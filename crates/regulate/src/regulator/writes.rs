//! Writes that the device caches: where they do harm, they are forced to the medium.
//!
//! A cached write ends immediately and is done later, when the regulator cannot delay it. Once the device holds too
//! many of them, it does them before requests of regulated owners. Completions show neither how many are too many nor
//! when the device does them. The signs are a regulated I/O that is late, or a read that takes far longer than the
//! requests ahead of it explain. From then on unregulated writes are *forced* to the medium while a regulated owner is
//! active: they end when they are on the medium, and are subject to admission like reads. After many I/Os in time the
//! cache is tried again, and less often after each harm: a drive that empties its cache may keep a read waiting for a
//! second.

use sakiyomi_model::Nanos;

/// State of the decision whether unregulated writes are forced to the medium.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Writes {
    forced: bool,
    /// Regulated I/Os in time since writes were last forced.
    in_time: u32,
    /// Number of them after which the cache is tried again.
    trial: u32,
    taken_in: Option<Nanos>,
    /// Time at which earlier measurements are discarded, since the device was doing cached writes meanwhile.
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
    /// Returns whether an unregulated write must be on the medium before it ends.
    pub(super) fn are_forced(&self) -> bool {
        self.forced
    }

    /// Records a write that ended sooner than the medium could have done it.
    pub(super) fn taken_in(&mut self, now: Nanos) {
        self.taken_in = Some(now);
    }

    /// Returns whether the device may still hold cached writes.
    pub(super) fn may_be_left(&self, now: Nanos) -> bool {
        self.taken_in.is_some_and(|at| now.saturating_sub(at) < CACHED_WRITE_MAX_AGE)
    }

    /// Records that an I/O took far longer than the requests ahead of it explain, on a device with service time
    /// `service`.
    pub(super) fn harm(&mut self, now: Nanos, service: Nanos) {
        // Once writes are forced, the harm comes from those cached before.
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

    /// Returns true once, when the measured read times are to be discarded.
    pub(super) fn is_settled(&mut self, now: Nanos) -> bool {
        self.forget_at.take_if(|at| now >= *at).is_some()
    }

    /// Records a regulated I/O in time.
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
