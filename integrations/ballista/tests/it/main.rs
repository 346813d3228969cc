//! Ballista on our shuffles, spill files and operators: its results, its files, faults.

mod commands;
mod faults;
mod files;
mod operators;
mod results;
mod support;
