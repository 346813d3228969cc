//! What the files lie on: a hard disk, or storage whose time does not depend on places.

use std::fmt;

use sakiyomi_drive::fixed::Fixed;
use sakiyomi_drive::{Drive, Usage};
use sakiyomi_model::{Device, Nanos};

/// A device that can tell what its mechanism did.
pub(crate) trait Storage: Device + fmt::Debug {
    /// What the mechanism did until `now`; none where there is no mechanism.
    fn usage(&self, now: Nanos) -> Option<Usage>;
}

impl Storage for Drive {
    fn usage(&self, now: Nanos) -> Option<Usage> {
        Some(Drive::usage(self, now))
    }
}

impl Storage for Fixed {
    fn usage(&self, _: Nanos) -> Option<Usage> {
        None
    }
}
