//! Keeps the I/O time of a process constant (Tani, Kochi University of Technology 2023).
//!
//! A process, or a group of them, is given a *requested performance* P: a percentage of a device. It then observes a
//! device of its own with that speed: each I/O takes its *ideal time*, `100/P` times the service time of the device,
//! however many others use the device. Two mechanisms achieve this: the number of other requests in the device is
//! limited, so that an I/O that arrives at any moment still ends in time; and the reply to an I/O that ends early is
//! delayed.
//!
//! | use | interface |
//! |---|---|
//! | the pure core: events and times in, actions out | [`Regulator`] |
//! | a device with regulation, in virtual or real time | [`RegulatedDevice`] |
//! | the policy: as in the thesis, or deadline admission | [`Settings`], [`Policy`] |
//!
//! `docs/explanation/regulation.md` explains the mechanisms and relates the formulas to sections of the thesis;
//! `docs/results/regulation.md` has the measurements.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod device;
mod feasibility;
mod gate;
mod presence;
mod profile;
mod queue;
mod rate;
mod regulator;
mod service;
mod settings;

pub use device::{RegulatedDevice, Timing};
pub use feasibility::{Arrivals, Limits};
pub use profile::{
    Beside, DISTRIBUTION_QUANTILES, Distribution, Effort, Moments, PROFILE_DEPTHS, PROFILE_SIZES, Profile,
    measure, measure_within,
};
pub use rate::{Owner, Percent, PercentError, Rate};
pub use regulator::{Action, ArrivingRequest, DeviceReport, RateError, Recent, Regulator, Report, Requested};
pub use settings::{Correction, Counted, GateSettings, Margin, Policy, Serves, Settings, Window};
