//! Trace formats from outside, in one binary.

mod fuzz_seeds;
mod reading;
mod round_trips;
