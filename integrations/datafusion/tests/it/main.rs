//! The crate from outside.

mod operators;
mod our_operators;
mod spill;
mod spill_faults;
mod spill_manager;
mod sql;
mod store;
