//! Tuples that arrive at a pipeline.

mod saved;

use serde::{Deserialize, Serialize};

use crate::Error;
use saved::SavedArrivals;

/// The arrival process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SavedArrivals", into = "SavedArrivals")]
pub struct Arrivals {
    rate_per_s: f64,
    dispersion: f64,
}

impl Arrivals {
    /// Creates arrivals by tuples per second, above 0, and the index of dispersion of their number: variance over
    /// mean, in a window that is long compared to a tuple. It is 0 at a constant rate, 1 for Poisson arrivals, and
    /// higher in bursts.
    ///
    /// # Errors
    /// If a figure is out of range.
    pub fn new(rate_per_s: f64, dispersion: f64) -> Result<Arrivals, Error> {
        if !(rate_per_s.is_finite() && rate_per_s > 0.0) {
            let (what, range) = ("arrival rate in tuples/s", "more than 0");
            return Err(Error::Value { what, value: rate_per_s, range });
        }
        if !(dispersion.is_finite() && dispersion >= 0.0) {
            let (what, range) = ("index of dispersion of arrivals", "0 or more");
            return Err(Error::Value { what, value: dispersion, range });
        }
        Ok(Arrivals { rate_per_s, dispersion })
    }

    /// Creates arrivals at equal intervals.
    ///
    /// # Errors
    /// Returns the errors of [`Arrivals::new`].
    pub fn constant(rate_per_s: f64) -> Result<Arrivals, Error> {
        Arrivals::new(rate_per_s, 0.0)
    }

    /// Creates Poisson arrivals.
    ///
    /// # Errors
    /// Returns the errors of [`Arrivals::new`].
    pub fn poisson(rate_per_s: f64) -> Result<Arrivals, Error> {
        Arrivals::new(rate_per_s, 1.0)
    }

    /// Returns the tuples per second.
    #[must_use]
    pub fn rate_per_s(&self) -> f64 {
        self.rate_per_s
    }

    /// Returns the index of dispersion of the number of tuples in a window.
    #[must_use]
    pub fn dispersion(&self) -> f64 {
        self.dispersion
    }

    /// Returns arrivals with the same pattern at another rate, which must be positive.
    pub(crate) fn at(&self, rate_per_s: f64) -> Arrivals {
        debug_assert!(rate_per_s > 0.0 && rate_per_s.is_finite());
        Arrivals { rate_per_s, ..*self }
    }

    /// Returns the tuples per nanosecond.
    pub(crate) fn per_ns(&self) -> f64 {
        self.rate_per_s * 1e-9
    }
}
