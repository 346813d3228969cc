//! The device's clock and wall-clock time.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use sakiyomi_model::Nanos;

/// The clock of a device that runs at `speed` times real time.
///
/// Time begins with the first access, as that of a trace does; a replay of the trace therefore finds the platters in
/// the same position.
#[derive(Clone, Debug)]
pub struct Timeline {
    origin: Arc<OnceLock<Instant>>,
    speed: f64,
}

impl Timeline {
    /// Makes a clock that has not begun. `speed` must be greater than 0.
    #[must_use]
    pub fn new(speed: f64) -> Timeline {
        Timeline { origin: Arc::default(), speed }
    }

    /// Returns the device's time; begins it if it has not begun.
    #[must_use]
    pub fn begin(&self) -> Nanos {
        self.begin_at(Instant::now())
    }

    /// Returns the device's time at an instant; begins it then if it has not begun.
    pub fn begin_at(&self, now: Instant) -> Nanos {
        self.since(*self.origin.get_or_init(|| now), now)
    }

    /// Returns the device's time; 0 until it begins.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.origin.get().map_or(Nanos::ZERO, |&origin| self.since(origin, Instant::now()))
    }

    /// Returns the device's time at an instant; 0 if it has not begun.
    pub fn at(&self, now: Instant) -> Nanos {
        self.origin.get().map_or(Nanos::ZERO, |&origin| self.since(origin, now))
    }

    fn since(&self, origin: Instant, now: Instant) -> Nanos {
        let elapsed = now.saturating_duration_since(origin);
        if self.speed == 1.0 {
            return Nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        }
        Nanos::from_secs_f64(elapsed.as_secs_f64() * self.speed)
    }

    /// Returns the wall-clock time of a span of the device's time.
    #[must_use]
    pub fn wait(&self, span: Nanos) -> Duration {
        // Bounded, because a device may request a wake-up later than a `Duration` can represent.
        let seconds = (span.as_secs_f64() / self.speed).min(1e6);
        if self.speed == 1.0 { Duration::from_nanos(span.0) } else { Duration::from_secs_f64(seconds) }
    }
}
