//! Quantities with types, so that a sector count cannot be taken for an address nor a time for a size.
//!
//! All are whole numbers in their base unit. Arithmetic that would leave the range panics in every build: such a
//! result is a bug of the caller, never of the input, which is checked where it comes in.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// Nanoseconds: an instant (since the start of the run) or a span.
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

/// Sums and differences of like with like, and products with a count.
macro_rules! quantity {
    ($($unit:ident),*) => {$(
        impl $unit {
            /// Nothing.
            pub const ZERO: $unit = $unit(0);
            /// The largest value that can be held.
            pub const MAX: $unit = $unit(u64::MAX);

            /// The difference, or zero where `other` is larger.
            #[must_use]
            pub fn saturating_sub(self, other: $unit) -> $unit {
                $unit(self.0.saturating_sub(other.0))
            }

            /// The sum, or [`Self::MAX`] where it does not fit.
            #[must_use]
            pub fn saturating_add(self, other: $unit) -> $unit {
                $unit(self.0.saturating_add(other.0))
            }

            /// Whether this is nothing.
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

    /// The nearest whole number of nanoseconds to `seconds`; negative values and NaN become zero.
    #[must_use]
    pub fn from_secs_f64(seconds: f64) -> Nanos {
        // A float-to-integer `as` saturates, and takes NaN to zero.
        Nanos((seconds * 1e9).round() as u64)
    }

    /// Seconds, as a fraction.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Milliseconds, as a fraction.
    #[must_use]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Sectors {
    /// The size of this many sectors of `sector` bytes.
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
