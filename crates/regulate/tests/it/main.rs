//! The regulator from outside, in one binary.

mod chaos;
mod promises;
