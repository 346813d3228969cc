//! How much capacity may be released while an owner is idle (chapter 7).
//!
//! The thesis opens the device to all after 5 s without an I/O, and the first I/Os after that find it full: a burst of
//! ten then had an accuracy of 1.15. Here the release is limited such that the mean accuracy of a burst stays good: if
//! the shortest of the last bursts had `m` I/Os, the first one may take `1 + 0.1 m` times its ideal time, and less if
//! that was too much.

/// Highest mean accuracy of a burst that is acceptable: 10 % over the ideal time.
const BURST_ACCURACY_MAX: f64 = 1.1;
/// Mean accuracy of bursts below which more is released.
const RELEASE_MORE_BELOW: f64 = 1.06;
/// Mean accuracy of bursts above which less is released.
const RELEASE_LESS_ABOVE: f64 = 1.08;
/// Bursts over which the accuracy is averaged; that of a single burst varies by chance.
const AVERAGED_BURSTS: f64 = 8.0;
/// Largest multiple of what the bound alone would release. The bound assumes that everything released is ahead of the
/// burst's first I/O, which is rare.
const RELEASE_RATIO_MAX: f64 = 8.0;
/// Bursts whose lengths are remembered.
const REMEMBERED_BURSTS: usize = 4;

/// Bursts of I/Os of one owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bursts {
    lengths: [u32; REMEMBERED_BURSTS],
    count: u32,
    length: u32,
    ratios: f64,
    accuracy: f64,
    /// Fraction of the possible release that is used.
    share: f64,
}

impl Default for Bursts {
    fn default() -> Bursts {
        Bursts {
            lengths: [0; REMEMBERED_BURSTS],
            count: 0,
            length: 0,
            ratios: 0.0,
            accuracy: 1.0,
            share: 0.7,
        }
    }
}

impl Bursts {
    /// Adds an I/O that took `ratio` times its ideal time.
    pub(super) fn add(&mut self, ratio: f64) {
        self.length += 1;
        self.ratios += ratio;
    }

    /// Ends the burst, since the owner has been idle for long.
    pub(super) fn over(&mut self) {
        if self.length == 0 {
            return;
        }
        let accuracy = self.ratios / f64::from(self.length);
        self.accuracy += (accuracy - self.accuracy) / AVERAGED_BURSTS;
        if self.accuracy > RELEASE_LESS_ABOVE {
            self.share *= 0.8;
        } else if self.accuracy < RELEASE_MORE_BELOW {
            self.share = (1.1 * self.share).min(RELEASE_RATIO_MAX);
        }
        self.lengths[self.count as usize % REMEMBERED_BURSTS] = self.length;
        self.count += 1;
        (self.length, self.ratios) = (0, 0.0);
    }

    /// Returns how many times its ideal time the first I/O of the next burst may take.
    pub(super) fn first_may_take(&self) -> f64 {
        let known = &self.lengths[..REMEMBERED_BURSTS.min(self.count as usize)];
        let shortest = known.iter().min().copied().unwrap_or(0);
        1.0 + (BURST_ACCURACY_MAX - 1.0) * f64::from(shortest) * self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_let_go_before_a_burst_has_been_seen() {
        assert_eq!(Bursts::default().first_may_take(), 1.0);
    }

    #[test]
    fn the_shortest_of_the_last_bursts_counts_and_a_bad_one_warns() {
        let mut bursts = Bursts::default();
        let mut burst = |length: u32, ratio: f64| {
            (0..length).for_each(|_| bursts.add(ratio));
            bursts.over();
            bursts.first_may_take()
        };
        let first = burst(100, 1.0);
        assert!(first > 8.0);
        assert!(burst(10, 1.0) < 2.0);
        let good = [(); 4].map(|()| burst(100, 1.0))[3];
        assert!(good > 8.0);
        assert!([(); 8].map(|()| burst(100, 1.2))[7] < good);
    }
}
