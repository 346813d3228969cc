//! Tests of the public interface of trace formats, in one binary.

mod events;
mod fuzz_seeds;
mod reading;
mod round_trips;
