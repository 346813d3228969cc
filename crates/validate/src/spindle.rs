//! Tracking of the phase of a real drive's spindle by the end times of its requests.
//!
//! An access to the medium ends when its last sector has passed the head, so its end time is locked to the angle of the
//! platters, independently of the seek before. The difference between measured and simulated response time, modulo a
//! revolution, is therefore the error of the assumed phase. A second-order tracking loop (an alpha-beta filter) follows
//! the phase and the deviation of the real speed from the nominal one, which is of the order of 1e-4.

use std::f64::consts::TAU;

use sakiyomi_model::Nanos;

/// Share of an error by which the phase is corrected once it is tracked.
const PHASE_GAIN_RATIO: f64 = 0.15;
/// Share of an error by which the speed is corrected.
const SPEED_GAIN_RATIO: f64 = 0.005;
/// Bound of an error in mean errors: a cache hit mistaken for an access carries no information about the phase.
const OUTLIER_MEAN_ERRORS: f64 = 3.0;

/// Phase estimator.
#[derive(Clone, Debug)]
pub(crate) struct Spindle {
    revolution: f64,
    /// Angle at time 0 extrapolated at the nominal speed, in nanoseconds.
    lead: f64,
    /// Change of `lead` per nanosecond.
    drift: f64,
    at: f64,
    seen: u64,
    mean_error: f64,
    resultant: (f64, f64),
}

impl Spindle {
    pub(crate) fn new(revolution: Nanos) -> Spindle {
        let revolution = revolution.0 as f64;
        Spindle {
            revolution,
            lead: 0.0,
            drift: 0.0,
            at: 0.0,
            seen: 0,
            mean_error: revolution / 4.0,
            resultant: (0.0, 0.0),
        }
    }

    /// Returns the lead of the platters at `now`, below one revolution.
    pub(crate) fn lead(&self, now: Nanos) -> Nanos {
        let lead = (self.lead + self.drift * (now.0 as f64 - self.at)).rem_euclid(self.revolution);
        Nanos((lead as u64).min(self.revolution as u64 - 1))
    }

    /// Records an access that ended at `end` and took `late` nanoseconds longer than predicted with the lead of that
    /// time.
    pub(crate) fn observe(&mut self, end: Nanos, late: i64) {
        let half = self.revolution / 2.0;
        let error = (half - late as f64).rem_euclid(self.revolution) - half;
        let end = end.0 as f64;
        let span = (end - self.at).max(1.0);
        self.lead += self.drift * (end - self.at);
        self.at = end;
        self.seen += 1;
        if self.seen == 1 {
            self.lead += error;
            return;
        }
        let (sin, cos) = (TAU * error / self.revolution).sin_cos();
        self.resultant = (self.resultant.0 + cos, self.resultant.1 + sin);
        let bound = OUTLIER_MEAN_ERRORS * self.mean_error;
        let counted = error.clamp(-bound, bound);
        let gain = PHASE_GAIN_RATIO.max(1.0 / self.seen as f64);
        self.lead += gain * counted;
        self.drift += SPEED_GAIN_RATIO * counted / span;
        self.mean_error += 0.02 * (counted.abs() - self.mean_error);
    }

    /// Returns the number of accesses that were recorded.
    pub(crate) fn accesses(&self) -> u64 {
        self.seen
    }

    /// Returns the coherence of the predicted phase: the length of the mean of the errors as unit vectors, 1 if they
    /// are equal, near 0 if random. 0 before the third access.
    pub(crate) fn coherence(&self) -> f64 {
        let (cos, sin) = self.resultant;
        if self.seen < 3 { 0.0 } else { cos.hypot(sin) / (self.seen - 1) as f64 }
    }
}
