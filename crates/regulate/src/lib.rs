//! Keeping a process's I/O time constant (Tani, Kochi University of Technology 2023).
//!
//! A process, or a group of them, is given a *requested performance*: so many percent of a device. To it the device
//! seems to be its own and that fast: each I/O takes its *ideal time*, `100/P` times what the device needs for one,
//! however many others use the device. Two things make it so: what the others have in the device is limited, so that
//! an I/O which comes at any moment still ends in time; and an I/O that ends early is answered late.
//!
//! | what | where |
//! |---|---|
//! | events in, actions out; told the time, asks for nothing | [`Regulator`] |
//! | a device that regulates who uses it, in virtual or real time | [`RegulatedDevice`] |
//! | how: the thesis to the letter, or ours | [`Settings`], [`Policy`] |
//!
//! How it works, which formula follows which section, and what it achieves is in `docs/regulation.md`.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod device;
mod gate;
mod presence;
mod queue;
mod rate;
mod regulator;
mod service;
mod settings;

pub use device::{RegulatedDevice, Timing};
pub use rate::{Owner, Percent, PercentError, Rate};
pub use regulator::{Action, Ask, DeviceReport, RateError, Recent, Regulator, Report};
pub use settings::{Correction, Counted, GateSettings, Margin, Policy, Serves, Settings, Window};
