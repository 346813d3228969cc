//! Virtual time of streams in picoseconds: costs of hops are fractions of a nanosecond, and a rounding error in each of
//! them would add up. 64 bits hold 213 days.

use sakiyomi_model::Nanos;

/// Never.
pub(super) const NEVER_PS: u64 = u64::MAX;

/// Picoseconds of a nanosecond.
const NANOSECOND_PS: u64 = 1000;

/// Returns the nearest number of picoseconds to `ns`; negative values and NaN become zero.
pub(super) fn ps(ns: f64) -> u64 {
    (ns * NANOSECOND_PS as f64).round() as u64
}

/// Returns a time in picoseconds; the latest that there is if it is later.
pub(super) fn of_nanos(time: Nanos) -> u64 {
    time.0.saturating_mul(NANOSECOND_PS)
}

/// Returns the first nanosecond that is not before a time in picoseconds.
pub(super) fn to_nanos(ps: u64) -> Nanos {
    Nanos(ps.div_ceil(NANOSECOND_PS))
}

/// Nanoseconds, as a fraction.
pub(super) fn ns(ps: u64) -> f64 {
    ps as f64 / NANOSECOND_PS as f64
}
