//! How rates of processes or connections are kept: for `mount` and `serve`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::{Args, ValueEnum};
use sakiyomi_model::Nanos;
use sakiyomi_mount::{Policy, Regulate};
use sakiyomi_realtime::{DeviceProfile, saved_profile};

use crate::console::Common;

/// How rates are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyArg {
    /// A request is admitted unless it would make a regulated one late, by service times that were measured before;
    /// on devices without such a profile as `deadline`
    Profile,
    /// A request is admitted unless it would make a regulated one late, by service times that are measured meanwhile
    #[value(alias = "ours")]
    Deadline,
    /// A fixed number of other requests is admitted: the allowance of the thesis
    Thesis,
}

impl From<PolicyArg> for Policy {
    fn from(policy: PolicyArg) -> Policy {
        match policy {
            PolicyArg::Profile => Policy::Profile,
            PolicyArg::Deadline => Policy::Deadline,
            PolicyArg::Thesis => Policy::Thesis,
        }
    }
}

/// Regulation of a device.
#[derive(Clone, Debug, Args)]
pub(crate) struct RegulateArgs {
    /// Keep I/O times constant by rates (`sakiyomi iorate`); bypasses the page cache
    #[arg(
        long, value_name = "POLICY", num_args = 0..=1, require_equals = true, default_missing_value = "profile"
    )]
    regulate: Option<PolicyArg>,
    /// Profile of the device from `sakiyomi iorate calibrate` [default: the one saved for the device]
    #[arg(long, value_name = "FILE", requires = "regulate", conflicts_with_all = ["drive", "service"])]
    profile: Option<PathBuf>,
    /// Service time of an I/O, such as 12.3ms [default: that of the profile, or measured continuously]
    #[arg(long, value_name = "TIME", requires = "regulate")]
    service: Option<Nanos>,
}

impl RegulateArgs {
    /// Returns whether rates can be set.
    pub(crate) fn is_some(&self) -> bool {
        self.regulate.is_some()
    }

    /// Returns the settings of the regulation; `real` is the directory or the file that is regulated, if no drive is
    /// emulated. Without a profile of its device, notes how to measure it.
    pub(crate) fn settings(&self, real: Option<&Path>, common: &Common) -> Result<Option<Regulate>> {
        let Some(policy) = self.regulate else { return Ok(None) };
        let by_profile = policy == PolicyArg::Profile && self.service.is_none();
        let profile = match real.filter(|_| by_profile) {
            Some(real) => self.profile_of(real, common)?,
            None => None,
        };
        Ok(Some(Regulate { policy: policy.into(), service: self.service, profile: profile.map(Arc::new) }))
    }

    fn profile_of(&self, real: &Path, common: &Common) -> Result<Option<DeviceProfile>> {
        if let Some(file) = &self.profile {
            return Ok(Some(DeviceProfile::load(file)?));
        }
        let saved = saved_profile(real)?;
        if saved.is_none() {
            common.note(&format!(
                "ideal times follow the measured service times of the device; `sakiyomi iorate calibrate {}` makes them \
                 constant",
                real.display()
            ));
        }
        Ok(saved.map(|(_, found)| found))
    }
}
