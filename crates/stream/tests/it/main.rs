//! Tests from outside.
#![allow(clippy::print_stderr)] // seeds, and figures of the long test

mod graph;
mod inputs;
mod joins;
mod leaks;
mod order;
mod overload;
mod panics;
mod placing;
