//! The device's time and the wall's.

use std::time::{Duration, Instant};

use sakiyomi_model::Nanos;

/// Says what time it is for a device that lives `speed` times as fast as we do.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    origin: Instant,
    speed: f64,
}

impl Timeline {
    /// Time 0 is now. `speed` is more than 0.
    #[must_use]
    pub fn new(speed: f64) -> Timeline {
        Timeline { origin: Instant::now(), speed }
    }

    /// The device's time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        let elapsed = self.origin.elapsed();
        if self.speed == 1.0 {
            return Nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        }
        Nanos::from_secs_f64(elapsed.as_secs_f64() * self.speed)
    }

    /// How long a span of the device's time takes on the wall.
    #[must_use]
    pub fn wait(&self, span: Nanos) -> Duration {
        // A device may want to be woken in a very long time: not at all, then, in ours.
        let seconds = (span.as_secs_f64() / self.speed).min(1e6);
        if self.speed == 1.0 { Duration::from_nanos(span.0) } else { Duration::from_secs_f64(seconds) }
    }
}
