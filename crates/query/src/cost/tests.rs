//! Tests of the model: hand-computed examples, properties, and simulated machines.

mod corrections;
mod examples;
pub(crate) mod machines;
mod properties;
mod simulated;
