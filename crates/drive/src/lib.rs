//! A hard disk as a discrete-event model, behind the [`Device`](sakiyomi_model::Device) interface.
//!
//! What a command costs in a drive depends on where the arm stands, on what the buffer holds, and on which other
//! commands wait: misses cost from one to some two hundred times the slowest hit (Hosogi 2013). This crate models just
//! what decides that: [geometry](Geometry), servo, command queue, cache, and the link to the host; integer
//! nanoseconds, no randomness (but the seeded spread of [`fixed`]), the same bytes for the same input.
//!
//! | to do this | use |
//! |---|---|
//! | describe a drive | [`DriveSpec`](spec::DriveSpec), [`spec::BUILTIN`] |
//! | drive it yourself | [`Drive`], through [`Device`](sakiyomi_model::Device) |
//! | replay a trace | [`replay::Replay`] |
//! | count and measure | [`observe::Observation`] |
//! | storage whose time does not depend on places | [`fixed::Fixed`] |
//!
//! The crate is pure: it reads no clock and no file, and starts no thread. How the model works, and what it leaves
//! out, is in `docs/model.md`.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod cache;
mod controller;
pub mod document;
pub mod fixed;
mod geometry;
pub mod log;
mod media;
pub mod observe;
mod queue;
pub mod replay;
mod seek;
mod servo;
pub mod spec;
mod usage;

pub use controller::Drive;
pub use geometry::{Geometry, Run};
pub use usage::{DiskTime, Seeks, Usage};
