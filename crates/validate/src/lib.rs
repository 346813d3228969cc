//! How far a simulated drive is from a measured one.
//!
//! A trace whose requests were timed on a real drive ([`Measured`]) is replayed on a simulated one, [freely](free) or
//! [anchored](anchored()) to the measured times; both give one [`Simulated`] for each request. [`judge`] then holds the
//! two against each other: the distance of the distributions (the demerit of Ruemmler & Wilkes 1994), the error of each
//! request, and, where the real drive said so, whether a read was a hit.
//!
//! | to do this | use |
//! |---|---|
//! | put a trace on the time line of its measurement | [`follow_on`], [`delays_before`], [`in_order`] |
//! | replay it | [`free`], [`anchored()`] |
//! | choose the part that is judged | [`part`] |
//! | judge | [`judge`] |
//! | estimate what a datasheet does not tell | [`fit()`] |
//! | only the demerit of two samples | [`Distribution`], [`demerit`], [`binned_demerit`] |
//!
//! The crate is pure: it reads no clock and no file, and starts no thread.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod anchored;
mod bins;
mod demerit;
mod distribution;
mod fit;
mod judge;
mod labels;
mod measured;
mod pairs;
mod replay;
mod spindle;

#[cfg(test)]
mod sample;

pub use anchored::{Anchored, anchored};
pub use bins::binned_demerit;
pub use demerit::demerit;
pub use distribution::Distribution;
pub use fit::{Determined, Fitted, Verdict, fit};
pub use judge::{Accuracy, judge};
pub use labels::{Agreement, Confusion, agreement};
pub use measured::{Label, Measured, delays_before, follow_on, in_order, part};
pub use pairs::{Pairs, pairs};
pub use replay::{Pace, Simulated, free};
