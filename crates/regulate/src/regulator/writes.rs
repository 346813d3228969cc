//! Writes that a cache in the device takes in: they are let in at the rate at which they reach the medium.
//!
//! Such a write ends at once, and is done later, when nobody can hold it back; once the device has too many of them, it
//! does them before it does what a regulated owner waits for. How many are too many, and when it does them, no completion
//! tells. What does tell is a read that takes far longer than what is known to be ahead of it explains. So there is a
//! least time between two unregulated writes. Such a read makes it longer by half; then it becomes shorter by little and
//! little until it comes near to what was too short. That is tried again seldom, and more seldom each time it fails: a
//! drive that writes what it holds may keep a read waiting for a second.

use sakiyomi_model::Nanos;

/// How unregulated writes are spaced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Writes {
    /// The least time from one to the next; zero: they are not held back.
    space: Nanos,
    /// The one that is known to have been too short.
    too_short: Nanos,
    /// Regulated I/Os in time near it, and after how many less is tried.
    in_time: u32,
    trial: u32,
    last: Nanos,
    taken_in: Option<Nanos>,
    harmed: Option<Nanos>,
    /// When what was measured before is to be forgotten: nothing kept writes back then.
    forget_at: Option<Nanos>,
    measuring: u32,
}

/// So long after a write was taken in it may still be waiting for the medium.
const KEPT: Nanos = Nanos(30_000_000_000);
/// After harm was done it takes so many service times, and no longer than so long, until it shows whether the new space
/// is enough.
const SETTLING: (u64, Nanos) = (256, Nanos(5_000_000_000));
/// After the first harm, when what was measured has been forgotten, so many I/Os measure the service time anew.
const MEASURING: u32 = 32;
/// The longest space.
const LONGEST: Nanos = Nanos(1_000_000_000);
/// By which part the space shrinks with each regulated I/O in time, and by which part what is too short with each trial.
const SHRINKING: (u64, u64) = (256, 8);
/// Regulated I/Os in time until something shorter is tried: at first, and at most. Harm makes them eight times as many.
/// One I/O of a second in so many leaves the CoV at about 0.1.
const TRIAL: (u32, u32) = (16_384, 1 << 20);

impl Writes {
    /// When the next write may go in, if they are held back.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        (!self.space.is_zero()).then(|| self.last.saturating_add(self.space))
    }

    /// An unregulated write has gone in.
    pub(super) fn issued(&mut self, now: Nanos) {
        self.last = now;
    }

    /// A write ended sooner than the medium could have had it.
    pub(super) fn taken_in(&mut self, now: Nanos) {
        self.taken_in = Some(now);
    }

    /// Whether the device may have writes to do that have ended.
    pub(super) fn may_be_left(&self, now: Nanos) -> bool {
        self.taken_in.is_some_and(|at| now.saturating_sub(at) < KEPT)
    }

    /// Something took far longer than what was known to be ahead of it, on a device that needs `service` for one.
    pub(super) fn harm(&mut self, now: Nanos, service: Nanos) {
        let settling = Nanos(service.0.saturating_mul(SETTLING.0)).min(SETTLING.1);
        let measuring = self.forget_at.is_some() || self.measuring > 0;
        if measuring
            || self.harmed.is_some_and(|at| now < at.saturating_add(settling))
            || !self.may_be_left(now)
            // What was let in before does the harm.
            || self.is_far()
        {
            return;
        }
        if self.space.is_zero() {
            self.forget_at = Some(now.saturating_add(settling));
        }
        self.trial = if self.harmed.is_none() { TRIAL.0 } else { (8 * self.trial).min(TRIAL.1) };
        (self.harmed, self.in_time) = (Some(now), 0);
        self.too_short = self.space.max(service);
        self.space = Nanos(self.too_short.0 + self.too_short.0 / 2).min(LONGEST);
    }

    fn is_far(&self) -> bool {
        self.space > self.too_short + self.too_short / 4
    }

    /// Whether what reads were seen to take is to be forgotten now: says so once.
    pub(super) fn is_settled(&mut self, now: Nanos) -> bool {
        let settled = self.forget_at.take_if(|at| now >= *at).is_some();
        if settled {
            self.measuring = MEASURING;
        }
        settled
    }

    /// A regulated I/O was in time, on a device that needs `service` for one.
    pub(super) fn in_time(&mut self, service: Nanos) {
        if self.space.is_zero() {
            return;
        }
        if self.measuring > 0 {
            self.measuring -= 1;
            if self.measuring == 0 {
                // The service time at the harm was that of a device that was full of writes.
                // Writes reach the medium as slowly as reads, and others need some of its time, too.
                self.too_short = self.too_short.min(service + service / 4);
            }
        }
        if self.is_far() {
            self.space.0 -= self.space.0.div_ceil(SHRINKING.0);
            return;
        }
        self.in_time += 1;
        if self.in_time >= self.trial {
            self.in_time = 0;
            self.too_short.0 -= self.too_short.0.div_ceil(SHRINKING.1);
            if self.space < service / 16 {
                *self = Writes { last: self.last, taken_in: self.taken_in, ..Writes::default() };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::MILLISECOND;

    #[test]
    fn without_writes_nothing_is_held_back() {
        let mut writes = Writes::default();
        writes.harm(MS, MS * 10);
        assert_eq!(writes.next_at(), None);
    }

    #[test]
    fn harm_spaces_writes_and_what_is_in_time_lets_them_in_again() {
        let mut writes = Writes::default();
        writes.taken_in(MS);
        writes.issued(MS);
        writes.harm(MS * 2, MS * 10);
        assert_eq!(writes.next_at(), Some(MS * 16));
        writes.harm(MS * 3, MS * 10);
        assert_eq!(writes.next_at(), Some(MS * 16), "it has not shown yet whether that is enough");
        (0..400).for_each(|_| writes.in_time(MS * 10));
        let space = writes.next_at().unwrap() - MS;
        assert!((MS * 12..MS * 13).contains(&space), "a quarter above 10 ms, which was too short: {space:?}");
        (0..100 * TRIAL.0).for_each(|_| writes.in_time(MS * 10));
        assert_eq!(writes.next_at(), None);
    }
}
