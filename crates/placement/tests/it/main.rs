//! The planner's public interface, and its model compared with simulations.

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
