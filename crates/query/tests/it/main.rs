//! The crate from outside.

mod fuzz_seeds;
