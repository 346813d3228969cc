//! A weighted mean over about the last `length` values, which restarts when the values change.

/// Exponentially weighted mean and variance.
#[derive(Clone, Debug)]
pub(super) struct Mean {
    length: u32,
    count: u32,
    mean: f64,
    variance: f64,
    /// Mean over the last few values, to detect a change early.
    lately: f64,
}

/// Values over which the recent mean is taken.
const RECENT_VALUES: u32 = 32;
/// Deviation of the recent mean from the mean, in its own standard deviations, that shows a change.
const CHANGE_DEVIATIONS: f64 = 5.0;

impl Mean {
    pub(super) fn new(length: u32) -> Mean {
        Mean { length, count: 0, mean: 0.0, variance: 0.0, lately: 0.0 }
    }

    /// Restarts with `value`, which soon weighs no more than new values.
    pub(super) fn restart(&mut self, value: f64) {
        *self = Mean { count: RECENT_VALUES / 4, mean: value, lately: value, ..Mean::new(self.length) };
    }

    /// Makes the next value replace the mean.
    pub(super) fn forget(&mut self) {
        self.count = 0;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns whether it is based on at least `count` values.
    pub(super) fn has(&self, count: u32) -> bool {
        self.count >= count
    }

    pub(super) fn get(&self) -> f64 {
        self.mean
    }

    pub(super) fn variance(&self) -> f64 {
        self.variance
    }

    /// Adds a value. Returns whether the values have changed.
    pub(super) fn push(&mut self, value: f64) -> bool {
        self.count = (self.count + 1).min(self.length);
        let weight = 1.0 / f64::from(self.count);
        let off = value - self.mean;
        self.mean += weight * off;
        self.variance = (1.0 - weight) * (self.variance + weight * off * off);
        self.lately += (value - self.lately) / f64::from(self.count.min(RECENT_VALUES));
        // An average with weight 1/n has the variance 1/(2n - 1).
        let deviation = (self.variance / f64::from(2 * RECENT_VALUES - 1)).sqrt();
        let off = (self.lately - self.mean).abs();
        let changed =
            self.count >= 4 * RECENT_VALUES && off > CHANGE_DEVIATIONS * deviation.max(0.01 * self.mean);
        if changed {
            self.count = RECENT_VALUES / 4;
            self.mean = self.lately;
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_becomes_slower_is_followed_soon() {
        let mut mean = Mean::new(256);
        (0..2000).for_each(|n| assert!(!mean.push(if n % 2 == 0 { 8.0 } else { 12.0 })));
        assert!((mean.get() - 10.0).abs() < 0.1);
        let changes = (0..80).filter(|n| mean.push(if n % 2 == 0 { 16.0 } else { 24.0 })).count();
        assert!(changes > 0);
        assert!((mean.get() - 20.0).abs() < 2.0, "{}", mean.get());
    }
}
