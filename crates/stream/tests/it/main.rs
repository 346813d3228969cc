//! The planner from outside, in one binary: its model against simulations.

mod certificate;
mod latency;
mod simulation;
