//! Tests from outside.

mod executors;
