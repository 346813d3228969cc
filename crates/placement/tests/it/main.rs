//! The planner from outside, in one binary: its model against simulations.

mod bins;
mod bounded_simulation;
mod certificate;
mod control;
mod graphs;
mod inputs;
mod latency;
mod measure;
mod placement_certificate;
mod saved;
mod simulation;
mod transition;
mod wake_ups;
