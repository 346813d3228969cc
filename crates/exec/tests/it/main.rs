//! Tests of the public interface.

mod examples;
mod executors;
mod reads;
