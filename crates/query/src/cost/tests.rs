//! Tests of the model: hand-computed examples, properties, and simulated machines.

mod examples;
mod machines;
mod properties;
mod simulated;
