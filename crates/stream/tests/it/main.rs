//! The planner from outside, in one binary: its model against simulations.

mod certificate;
mod inputs;
mod latency;
mod simulation;
