//! Tests from outside.

mod executors;
mod reads;
