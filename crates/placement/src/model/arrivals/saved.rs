//! Serialized form of arrivals; deserialized values are validated like new ones.

use serde::{Deserialize, Serialize};

use super::Arrivals;
use crate::Error;

/// [`Arrivals`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedArrivals {
    rate_per_s: f64,
    dispersion_ratio: f64,
}

impl From<Arrivals> for SavedArrivals {
    fn from(arrivals: Arrivals) -> SavedArrivals {
        SavedArrivals { rate_per_s: arrivals.rate_per_s(), dispersion_ratio: arrivals.dispersion() }
    }
}

impl TryFrom<SavedArrivals> for Arrivals {
    type Error = Error;

    fn try_from(saved: SavedArrivals) -> Result<Arrivals, Error> {
        Arrivals::new(saved.rate_per_s, saved.dispersion_ratio)
    }
}
