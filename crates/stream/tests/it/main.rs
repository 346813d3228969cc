//! Tests from outside.
#![allow(clippy::print_stderr)] // seeds, and figures of the long test

mod adapt;
mod asynchronous;
mod graph;
mod inputs;
mod joins;
mod leaks;
mod operators;
mod order;
mod overload;
mod panics;
mod placing;
mod random_graph;
mod refused_snapshots;
mod replicas;
mod snapshots;
