//! The words that every part of sakiyomi speaks: units, requests, completions, and the [`Device`] interface.
//!
//! A device, simulated or real, regulated or not, is driven from outside. It never asks for the time and never calls
//! back: the caller submits a [`Request`] at an instant, asks when the device wants to be advanced, and advances it.
//! The same device therefore runs in virtual time (tests, experiments) and in real time (a mounted drive).
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
