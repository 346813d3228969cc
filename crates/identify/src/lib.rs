//! Identification of a drive from its behavior.
//!
//! [`fit()`] takes a trace whose requests were timed on a real drive, and a drive to begin with: a built-in one, or one
//! from DiskSim's parameter files, whose policies then are hypotheses. It decides the policies by the likelihood of the
//! residuals, estimates the continuous parameters, and states for each an interval, or why the trace does not identify
//! it. What does not explain a part of the trace that it was not identified from is refused.
//!
//! | file | content |
//! |---|---|
//! | `fit.rs` | the steps, and which of them are accepted |
//! | `policy.rs`, `decide.rs` | policies with their alternatives, and the decision among them |
//! | `parameter.rs`, `estimate.rs`, `interval.rs` | parameters, their estimation, and their intervals |
//! | `survey.rs` | timed probes of a device, as a state machine |
//! | `rotation.rs`, `flat.rs` | what the probes say: the period of rotation; latency, parallelism and bandwidth |
//! | `blank.rs` | a drive to begin with, of what a survey shows directly |
//! | `cache.rs` | read-ahead and segments, by what is served without the medium |
//! | `scan.rs`, `tracks.rs` | lengths of tracks, zones, skews and heads, by the angles of sectors |
//! | `skew.rs` | the skew of tracks, by the phase of the spindle |
//! | `likelihood.rs`, `dyadic.rs`, `groups.rs` | how well a drive explains the requests |
//! | `training.rs` | the requests, and replays of them |
//!
//! A [`Survey`] times reads of a live device, or of a simulated one, and collects a trace for [`fit()`].
//!
//! The crate is pure: it reads no clock and no file, and starts no thread.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod blank;
mod cache;
mod decide;
mod dyadic;
mod estimate;
mod fit;
mod flat;
mod groups;
mod interval;
mod likelihood;
mod parameter;
mod policy;
mod rotation;
mod scan;
mod skew;
mod survey;
mod tracks;
mod training;

#[cfg(test)]
mod sample;

pub use cache::ReadCache;
pub use decide::Decision;
pub use fit::{Identified, Step, Trial, fit};
pub use flat::{Flat, flat};
pub use interval::{Estimate, Obstacle};
pub use parameter::Unit;
pub use rotation::{Rotation, rotation};
pub use survey::{Action, OfDepth, OfSize, Phase, Probe, Survey, Surveyed};
pub use tracks::{Tracks, Zone, heads, zones};
