//! Tests of the public interface.

mod executors;
mod reads;
