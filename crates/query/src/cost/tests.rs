//! The model against hand-computed examples, as a function with properties, and against simulated machines.

mod examples;
mod machines;
mod properties;
mod simulated;
