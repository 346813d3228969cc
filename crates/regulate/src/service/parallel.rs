//! Detects whether a device serves requests in parallel.
//!
//! The completion rate does not show it: a disk that chooses among many requests is faster, too. But of two requests in
//! the device, a disk does the second one after the first one: the time from the *previous completion* to its
//! completion is that of one alone, and the time since *its issue* is longer. On a parallel device the time since its
//! issue is that of one alone, and the time since the previous completion is shorter. So the product of the two, each
//! divided by the time of one alone, is 1.5 to 2 on a disk and about 0.5 on a parallel device.
//!
//! Only reads are evaluated: writes end when a cache has them. Neighboring sectors that a disk reads in one operation
//! appear to be read in parallel; while a disk gets little else, it counts as a parallel device.

use sakiyomi_model::Nanos;

use super::mean::Mean;
use super::{Kind, OPERATION_CLASSES, SIZE_CLASSES};

/// Times of requests alone, by kind, and the product over pairs.
#[derive(Clone, Debug)]
pub(super) struct Parallel {
    alone: Vec<Mean>,
    pairs: u32,
    product: f64,
    /// Samples since the last test.
    fresh: Fresh,
}

/// Number of samples of requests alone in the device, and with one other.
#[derive(Clone, Copy, Debug, Default)]
struct Fresh {
    alone: u32,
    pairs: u32,
}

/// Samples over which the product of a pair and the time of a request served alone are averaged.
const MEAN_SAMPLES: u32 = 64;
/// Pairs from which their mean product is relied upon.
const PAIRS_MIN: u32 = 24;
/// Mean product below which a device serves several requests at a time. Up to [`SERIAL_MIN_PRODUCT`] nothing changes.
const PARALLEL_MAX_PRODUCT: f64 = 1.0;
/// Mean product above which a device serves requests one by one.
const SERIAL_MIN_PRODUCT: f64 = 1.4;
/// Larger products come from a request that waited for something else, and count as this.
const PRODUCT_MAX: f64 = 4.0;
/// Samples of requests served alone from which their mean is relied upon.
const ALONE_MIN_SAMPLES: u32 = 16;

impl Parallel {
    pub(super) fn new() -> Parallel {
        let alone = vec![Mean::new(MEAN_SAMPLES); OPERATION_CLASSES * SIZE_CLASSES];
        Parallel { alone, pairs: 0, product: 0.0, fresh: Fresh::default() }
    }

    /// Adds a request that was issued to the empty device and took `stay`.
    pub(super) fn alone(&mut self, kind: Kind, stay: Nanos) {
        self.fresh.alone = (self.fresh.alone + 1).min(ALONE_MIN_SAMPLES);
        self.alone[usize::from(kind.0)].push(stay.0 as f64);
    }

    /// Adds a request that was issued with one other in the device and took `stay`, of which `since` followed the
    /// other's completion.
    pub(super) fn pair(&mut self, kind: Kind, stay: Nanos, since: Nanos) {
        let alone = &self.alone[usize::from(kind.0)];
        if since >= stay || !alone.has(ALONE_MIN_SAMPLES) {
            return;
        }
        self.fresh.pairs = (self.fresh.pairs + 1).min(PAIRS_MIN);
        self.pairs = (self.pairs + 1).min(MEAN_SAMPLES);
        let product = (stay.0 as f64 / alone.get()) * (since.0 as f64 / alone.get());
        self.product += (product.min(PRODUCT_MAX) - self.product) / f64::from(self.pairs);
    }

    /// Returns whether the device serves requests in parallel; `None` while unknown.
    pub(super) fn serves_several(&self) -> Option<bool> {
        let known = self.pairs >= PAIRS_MIN;
        match self.product {
            _ if !known => None,
            product if product < PARALLEL_MAX_PRODUCT => Some(true),
            product if product > SERIAL_MIN_PRODUCT => Some(false),
            _ => None,
        }
    }

    /// Returns the time of a request alone, if known.
    pub(super) fn time_of_one(&self, kind: Kind) -> Option<f64> {
        let alone = &self.alone[usize::from(kind.0)];
        (!alone.is_empty()).then(|| alone.get())
    }

    /// Returns the limit of requests in the device under which the missing samples are obtained; `None` if none are
    /// missing.
    pub(super) fn wants(&self, also_pairs: bool) -> Option<usize> {
        if self.fresh.alone < ALONE_MIN_SAMPLES {
            Some(1)
        } else {
            (also_pairs && self.fresh.pairs < PAIRS_MIN).then_some(2)
        }
    }

    /// Discards the pairs, since the device may have changed.
    pub(super) fn forget_pairs(&mut self) {
        self.pairs = 0;
        self.look_again();
    }

    /// Starts a new test, which needs fresh samples.
    pub(super) fn look_again(&mut self) {
        self.fresh = Fresh::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_model::{Bytes, Op};

    fn kind() -> Kind {
        Kind::of(Op::Read, Bytes(4096))
    }

    fn with_pairs(stay: u64, since: u64) -> Parallel {
        let mut parallel = Parallel::new();
        (0..ALONE_MIN_SAMPLES).for_each(|_| parallel.alone(kind(), Nanos(100)));
        (0..100).for_each(|_| parallel.pair(kind(), Nanos(stay), Nanos(since)));
        parallel
    }

    #[test]
    fn who_waits_for_the_one_before_is_served_alone_and_who_does_not_beside_it() {
        assert_eq!(with_pairs(150, 100).serves_several(), Some(false), "half of the one before was left");
        assert_eq!(with_pairs(200, 90).serves_several(), Some(false), "all of it");
        assert_eq!(with_pairs(100, 50).serves_several(), Some(true));
        assert_eq!(with_pairs(110, 105).serves_several(), None, "it may be either");
        assert_eq!(with_pairs(100, 100).serves_several(), None, "nothing ended meanwhile");
    }

    #[test]
    fn nothing_is_known_without_the_time_of_one_alone() {
        let mut parallel = Parallel::new();
        (0..100).for_each(|_| parallel.pair(kind(), Nanos(150), Nanos(100)));
        assert_eq!(parallel.serves_several(), None);
        assert_eq!(parallel.wants(true), Some(1));
        assert_eq!(with_pairs(150, 100).wants(true), None);
    }
}
