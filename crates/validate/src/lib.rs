//! Accuracy of a simulated drive, relative to a measured one.
//!
//! A trace whose requests were timed on a real drive ([`Measured`]) is replayed on a simulated one, [freely](free) or
//! [anchored](anchored()) to the measured times; both return one [`Simulated`] per request. [`judge`] compares the two:
//! the distance of the distributions (the demerit figure of Ruemmler & Wilkes 1994), the error of each request, and, if
//! the real drive reported them, cache hits.
//!
//! | task | use |
//! |---|---|
//! | determine issue times and order | [`follow_on`], [`delays_before`], [`in_order`] |
//! | replay | [`free`], [`anchored()`] |
//! | select the part to compare | [`part`] |
//! | compare | [`judge`] |
//! | compute the demerit of two samples | [`Distribution`], [`demerit`], [`binned_demerit`] |
//!
//! The crate is pure: it reads no clock and no file, and starts no thread.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod anchored;
mod bins;
mod demerit;
mod distribution;
mod judge;
mod labels;
mod measured;
mod pairs;
mod replay;
mod spindle;

#[cfg(test)]
mod sample;

pub use anchored::{Anchored, anchored, anchored_while};
pub use bins::binned_demerit;
pub use demerit::demerit;
pub use distribution::Distribution;
pub use judge::{Accuracy, judge};
pub use labels::{Agreement, Confusion, agreement};
pub use measured::{Label, Measured, delays_before, follow_on, in_order, part};
pub use pairs::{Pairs, pairs};
pub use replay::{Pace, Simulated, free, free_while};
