//! Basic types shared by every crate of sakiyomi: units, requests, completions, and the [`Device`] interface.
//!
//! A device, simulated or real, regulated or not, is driven by its caller. It reads no clock and makes no callbacks:
//! the caller submits a [`Request`] at an instant, asks for the time of the next event, and advances the device to it.
//! A device therefore runs both in virtual time (tests, experiments) and in real time (a mounted drive).
//!
//! This crate is pure: no clock, no file, no thread, no hash map.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod device;
mod parse;
mod request;
pub mod suggest;
mod units;

pub use device::{Device, Full, UNLIMITED_DEPTH};
pub use parse::ParseUnitError;
pub use request::{
    Breakdown, Class, Completion, Detail, Extent, Op, Outcome, ReadClass, Request, RequestId, StreamId,
    WriteClass,
};
pub use units::{Bytes, Lba, Nanos, Sectors};
