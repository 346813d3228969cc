//! Whether a device serves several requests beside each other, found out from what it does.
//!
//! How many a device ends in a second does not say: a disk that chooses among many is faster, too. But of two that are in
//! the device, a disk does the second one when it has done the first: its time from *the end before* to its end is that
//! of one alone, and its time from *its issue* is longer. Of a device that serves both beside each other its time from
//! its issue is that of one alone, and the time since the end before is shorter. So the two times, each over the time of
//! one alone, multiplied, are 1.5 to 2 on the one and about 0.5 on the other.
//!
//! Only reads are looked at: writes end when a cache has them. Neighbouring sectors that a disk reads in one go look as if it read them beside each other; while a disk is asked for
//! little else, it counts as a device that serves several.

use sakiyomi_model::Nanos;

use super::mean::Mean;
use super::{Kind, OPERATION_CLASSES, SIZE_CLASSES};

/// The time of one alone, by kind, and what pairs show.
#[derive(Clone, Debug)]
pub(super) struct Parallel {
    alone: Vec<Mean>,
    pairs: u32,
    product: f64,
    /// Samples since the last look at whether there are enough.
    fresh: Fresh,
}

/// Samples of requests that had none, and one, beside them.
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

    /// One was issued when the device was empty, and took `stay`.
    pub(super) fn alone(&mut self, kind: Kind, stay: Nanos) {
        self.fresh.alone = (self.fresh.alone + 1).min(ALONE_MIN_SAMPLES);
        self.alone[usize::from(kind.0)].push(stay.0 as f64);
    }

    /// One was issued beside one other, and took `stay`, the last part of it, `since`, after another had ended.
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

    /// Whether the device serves several, where it is known.
    pub(super) fn serves_several(&self) -> Option<bool> {
        let known = self.pairs >= PAIRS_MIN;
        match self.product {
            _ if !known => None,
            product if product < PARALLEL_MAX_PRODUCT => Some(true),
            product if product > SERIAL_MIN_PRODUCT => Some(false),
            _ => None,
        }
    }

    /// What one alone takes, if that is known.
    pub(super) fn time_of_one(&self, kind: Kind) -> Option<f64> {
        let alone = &self.alone[usize::from(kind.0)];
        (!alone.is_empty()).then(|| alone.get())
    }

    /// How many may be in the device so that the samples that are missing are made; none: nothing is missing.
    pub(super) fn wants(&self, also_pairs: bool) -> Option<usize> {
        if self.fresh.alone < ALONE_MIN_SAMPLES {
            Some(1)
        } else {
            (also_pairs && self.fresh.pairs < PAIRS_MIN).then_some(2)
        }
    }

    /// The device may have become another.
    pub(super) fn forget_pairs(&mut self) {
        self.pairs = 0;
        self.look_again();
    }

    /// From now on samples count as fresh.
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
