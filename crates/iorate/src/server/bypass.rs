//! I/O that bypasses a mount: requests to its disk that did not come through it. Pure.

use crate::protocol::Bypass;

/// Foreign requests per second from which they are reported.
const FOREIGN_RATE_MIN: f64 = 20.0;
/// Fraction of foreign requests among all from which they are reported.
const FOREIGN_RATIO_MIN: f64 = 0.1;

/// Number of consecutive samples that must agree before the report changes.
const SAMPLES_MIN: u32 = 2;

/// A sample of the disk's counters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CounterSample {
    /// Seconds since an arbitrary instant.
    pub(super) at: f64,
    /// Requests completed by the disk.
    pub(super) done: u64,
    /// Requests completed through the mount.
    pub(super) ours: u64,
}

/// Detects foreign I/O on the disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    last: Option<CounterSample>,
    /// Consecutive samples that contradict the current finding.
    against: u32,
    seen: Option<(f64, f64)>,
}

impl Watch {
    /// Adds a sample; returns the current finding.
    pub(super) fn sample(&mut self, look: CounterSample, disk: &str) -> Option<Bypass> {
        if let Some(last) = self.last.replace(look) {
            self.compare(last, look);
        }
        let bypass =
            |(requests_per_s, share_ratio)| Bypass { device: disk.to_owned(), requests_per_s, share_ratio };
        self.seen.map(bypass)
    }

    fn compare(&mut self, last: CounterSample, look: CounterSample) {
        let (done, ours) = (look.done.saturating_sub(last.done), look.ours.saturating_sub(last.ours));
        let seconds = look.at - last.at;
        if seconds <= 0.0 {
            return;
        }
        let others = done.saturating_sub(ours) as f64;
        let (rate, share) = (others / seconds, others / done.max(1) as f64);
        let now = (rate > FOREIGN_RATE_MIN && share > FOREIGN_RATIO_MIN).then_some((rate, share));
        if now.is_some() == self.seen.is_some() {
            (self.against, self.seen) = (0, now);
            return;
        }
        self.against += 1;
        if self.against == SAMPLES_MIN {
            (self.against, self.seen) = (0, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the detector on samples a second apart: requests to the disk in that second, and those of the mount among
    /// them.
    fn seen(seconds: &[(u64, u64)]) -> Vec<bool> {
        let mut watch = Watch::default();
        let mut look = CounterSample { at: 0.0, done: 1000, ours: 0 };
        watch.sample(look, "vda");
        let step = |&(done, ours): &(u64, u64)| {
            look = CounterSample { at: look.at + 1.0, done: look.done + done, ours: look.ours + ours };
            watch.sample(look, "vda").is_some()
        };
        seconds.iter().map(step).collect()
    }

    #[test]
    fn others_are_noticed_after_two_looks_and_missed_after_two() {
        let looks = [(500, 400), (500, 400), (500, 400), (400, 400), (500, 400), (0, 0), (30, 30), (9, 9)];
        assert_eq!(seen(&looks), [false, true, true, true, true, true, false, false]);
    }

    #[test]
    fn a_few_of_others_and_a_small_share_are_nothing() {
        assert_eq!(seen(&[(20, 0), (20, 0), (20, 0)]), [false; 3], "20 a second");
        assert_eq!(seen(&[(5000, 4600), (5000, 4600), (5000, 4600)]), [false; 3], "8 %");
        assert_eq!(seen(&[(10, 400), (10, 400), (10, 400)]), [false; 3], "merged, or from a cache");
    }

    #[test]
    fn how_much_it_is_is_told() {
        let mut watch = Watch::default();
        for second in 0..4u32 {
            let look = CounterSample {
                at: second.into(),
                done: u64::from(second) * 200,
                ours: u64::from(second) * 50,
            };
            let found = watch.sample(look, "sda");
            if second >= 2 {
                let expected = Bypass { device: "sda".to_owned(), requests_per_s: 150.0, share_ratio: 0.75 };
                assert_eq!(found, Some(expected));
            }
        }
    }
}
