//! Quantities as distinct types, so that a sector count cannot be passed as an address, nor a time as a size.
//!
//! All are unsigned integers in their base unit. Overflow and underflow panic in every build: they are bugs of the
//! caller, since input is range-checked where it is read.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// A time in nanoseconds: an instant (since the start of the run) or a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// Bytes: a size, or an offset from the start of a device or file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// Logical block address: the number of a sector on a drive, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

/// A number of sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sectors(pub u64);

/// Addition and subtraction of equal types, and multiplication and division by a count.
macro_rules! quantity {
    ($($unit:ident),*) => {$(
        impl $unit {
            /// Zero.
            pub const ZERO: $unit = $unit(0);
            /// The largest representable value.
            pub const MAX: $unit = $unit(u64::MAX);

            /// Subtracts, and returns zero if `other` is larger.
            #[must_use]
            pub fn saturating_sub(self, other: $unit) -> $unit {
                $unit(self.0.saturating_sub(other.0))
            }

            /// Adds, and returns [`Self::MAX`] on overflow.
            #[must_use]
            pub fn saturating_add(self, other: $unit) -> $unit {
                $unit(self.0.saturating_add(other.0))
            }

            /// Returns whether the value is zero.
            #[must_use]
            pub fn is_zero(self) -> bool {
                self.0 == 0
            }
        }
        impl Add for $unit {
            type Output = $unit;
            fn add(self, other: $unit) -> $unit {
                $unit(self.0.checked_add(other.0).expect("quantity overflow"))
            }
        }
        impl Sub for $unit {
            type Output = $unit;
            fn sub(self, other: $unit) -> $unit {
                $unit(self.0.checked_sub(other.0).expect("quantity below zero"))
            }
        }
        impl Mul<u64> for $unit {
            type Output = $unit;
            fn mul(self, count: u64) -> $unit {
                $unit(self.0.checked_mul(count).expect("quantity overflow"))
            }
        }
        impl Div<u64> for $unit {
            type Output = $unit;
            fn div(self, count: u64) -> $unit {
                $unit(self.0 / count)
            }
        }
        impl AddAssign for $unit {
            fn add_assign(&mut self, other: $unit) {
                *self = *self + other;
            }
        }
        impl SubAssign for $unit {
            fn sub_assign(&mut self, other: $unit) {
                *self = *self - other;
            }
        }
        impl Sum for $unit {
            fn sum<I: Iterator<Item = $unit>>(items: I) -> $unit {
                items.fold($unit::ZERO, Add::add)
            }
        }
    )*};
}
quantity!(Nanos, Bytes, Sectors);

impl Nanos {
    /// One microsecond.
    pub const MICROSECOND: Nanos = Nanos(1_000);
    /// One millisecond.
    pub const MILLISECOND: Nanos = Nanos(1_000_000);
    /// One second.
    pub const SECOND: Nanos = Nanos(1_000_000_000);

    /// Converts from seconds, rounded to the nearest nanosecond; negative values and NaN become zero.
    #[must_use]
    pub fn from_secs_f64(seconds: f64) -> Nanos {
        // A float-to-integer `as` saturates, and turns NaN into zero.
        Nanos((seconds * 1e9).round() as u64)
    }

    /// Converts to seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Converts to milliseconds.
    #[must_use]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Sectors {
    /// Returns the size of this many sectors of `sector` bytes.
    #[must_use]
    pub fn to_bytes(self, sector: Bytes) -> Bytes {
        sector * self.0
    }
}

impl Lba {
    /// The first sector.
    pub const ZERO: Lba = Lba(0);
}

impl Add<Sectors> for Lba {
    type Output = Lba;
    fn add(self, count: Sectors) -> Lba {
        Lba(self.0.checked_add(count.0).expect("address overflow"))
    }
}

impl Sub<Lba> for Lba {
    type Output = Sectors;
    fn sub(self, earlier: Lba) -> Sectors {
        Sectors(self.0.checked_sub(earlier.0).expect("address below the one subtracted"))
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LBA {}", self.0)
    }
}

impl fmt::Display for Sectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sectors", self.0)
    }
}
