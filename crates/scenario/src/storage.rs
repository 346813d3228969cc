//! Storage devices of experiments: a hard disk, or storage with position-independent service times.

use std::fmt;

use sakiyomi_drive::fixed::Fixed;
use sakiyomi_drive::{Disk, Simulated, Usage};
use sakiyomi_model::{Device, Nanos};

/// A device with usage statistics of its mechanism.
pub(crate) trait Storage: Device + fmt::Debug {
    /// Returns the usage of the mechanism until `now`; `None` if there is no mechanism.
    fn usage(&self, now: Nanos) -> Option<Usage>;
}

impl Storage for Disk {
    fn usage(&self, now: Nanos) -> Option<Usage> {
        Some(Simulated::usage(self, now))
    }
}

impl Storage for Fixed {
    fn usage(&self, _: Nanos) -> Option<Usage> {
        None
    }
}
