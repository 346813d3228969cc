//! The profile of a real device as a file, for the device that it was measured on.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sakiyomi_model::{Bytes, Nanos, Sectors};
use sakiyomi_probe::calibration::document::{self, Kind, LoadError};
use sakiyomi_probe::target::Device;
use sakiyomi_regulate::{
    Beside, DISTRIBUTION_QUANTILES, Distribution, Moments, Owner, PROFILE_DEPTHS, Percent, Policy, Profile,
    Regulator,
};
use serde::{Deserialize, Serialize};

/// Schema of the file: name and version.
pub const PROFILE_SCHEMA: &str = "sakiyomi.device-profile/1";

const KIND: Kind = Kind { schema: PROFILE_SCHEMA, name: "profile", command: "sakiyomi iorate calibrate" };

/// The profile of a device, with what it is valid for. All times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceProfile {
    /// [`PROFILE_SCHEMA`].
    pub schema: String,
    /// Time of the measurement, in seconds since 1970.
    pub measured_unix_s: u64,
    /// The device.
    pub device: Device,
    /// Size of what was read at random places: the device, or a file on it.
    pub measured_bytes: u64,
    /// Relative error.
    pub error_ratio: f64,
    /// Reads of 4 KiB, 64 KiB, 256 KiB and 1 MiB at random places.
    pub reads: [Time; 4],
    /// Writes of these sizes, on the medium when they end.
    pub writes: [Time; 4],
    /// Batches of 1, 2, 4, 8, … random reads of 4 KiB.
    pub batches: Vec<Time>,
    /// A random read of 4 KiB that arrives behind 1, 2, 4, 8, … others.
    pub behind: Vec<Time>,
    /// Quantiles of reads beside others, of a device that serves several requests at once.
    pub beside: Option<BesideQuantiles>,
}

/// Mean and standard deviation of a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Time {
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub deviation_ns: f64,
}

/// Quantiles of the time of a random read of 4 KiB, ascending.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BesideQuantiles {
    /// Beside 1, 2, 4, 8, … others (inner list) of 4 KiB, 64 KiB, 256 KiB and 1 MiB (outer list).
    pub others_ns: [Vec<Vec<f64>>; 4],
}

impl From<Moments> for Time {
    fn from(moments: Moments) -> Time {
        Time { mean_ns: moments.mean, deviation_ns: moments.deviation() }
    }
}

impl From<Time> for Moments {
    fn from(time: Time) -> Moments {
        Moments { mean: time.mean_ns, variance: time.deviation_ns * time.deviation_ns }
    }
}

impl DeviceProfile {
    /// Makes the file's contents of a profile.
    #[must_use]
    pub fn new(profile: &Profile, error: f64, device: Device, measured_unix_s: u64) -> DeviceProfile {
        let times = |all: &[Moments]| all.iter().copied().map(Time::from).collect();
        let beside = profile.beside.as_ref().map(|beside| BesideQuantiles {
            others_ns: beside
                .others
                .each_ref()
                .map(|by_depth| by_depth.iter().map(|times| times.quantiles.clone()).collect()),
        });
        DeviceProfile {
            schema: PROFILE_SCHEMA.to_owned(),
            measured_unix_s,
            device,
            measured_bytes: profile.capacity.to_bytes(profile.sector).0,
            error_ratio: error,
            reads: profile.reads.map(Time::from),
            writes: profile.writes.map(Time::from),
            batches: times(&profile.batches),
            behind: times(&profile.behind),
            beside,
        }
    }

    /// Returns the profile.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let moments = |all: &[Time]| all.iter().copied().map(Moments::from).collect();
        let distribution = |quantiles: &Vec<f64>| Distribution { quantiles: quantiles.clone() };
        let sector = crate::BACKING_SECTOR;
        let reads = self.reads.map(Moments::from);
        Profile {
            capacity: Sectors(self.measured_bytes / sector.0),
            sector: Bytes(sector.0),
            reads,
            writes: self.writes.map(Moments::from),
            // The requests of a front end have no places on the device.
            continuing: reads[1],
            by_distance: vec![(0.0, reads[0])],
            batches: moments(&self.batches),
            behind: moments(&self.behind),
            beside: self.beside.as_ref().map(|beside| Beside {
                others: beside.others_ns.each_ref().map(|all| all.iter().map(distribution).collect()),
            }),
        }
    }

    /// Returns whether the device serves several requests at once.
    #[must_use]
    pub fn serves_several(&self) -> bool {
        self.beside.is_some()
    }

    /// Returns the largest rate of a single owner that can be kept beside anything, in percent, if any can.
    #[must_use]
    pub fn largest_rate_percent(&self) -> Option<u32> {
        let settings = Policy::Profile.settings();
        let mut regulator = Regulator::with_profile(settings, Arc::new(self.profile()), self.error_ratio);
        (1..=100).rev().find(|&percent| {
            let rate = Percent::new(percent).expect("1 to 100");
            regulator.set_rate(Nanos::ZERO, Owner(1), rate, &mut Vec::new()).is_ok()
        })
    }

    /// Returns the text of the file, which ends with a newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        document::to_json(self)
    }

    /// Loads a file written by [`DeviceProfile::to_json`].
    ///
    /// # Errors
    /// If it cannot be read, is of another version, or is damaged.
    pub fn load(path: &Path) -> Result<DeviceProfile, LoadError> {
        document::load(KIND, path, DeviceProfile::fault)
    }

    /// Returns why the contents are unusable, if they are.
    fn fault(&self) -> Option<String> {
        let is_time = |ns: f64| ns.is_finite() && (0.0..1e13).contains(&ns);
        let lists = [&self.reads[..], &self.writes, &self.batches, &self.behind];
        let is_valid = |time: &Time| is_time(time.mean_ns) && is_time(time.deviation_ns);
        if !lists.iter().copied().flatten().all(is_valid) || self.reads[0].mean_ns < 1.0 {
            return Some("a time is impossible".to_owned());
        }
        if self.batches.is_empty() {
            return Some("the times of several requests are missing".to_owned());
        }
        let depths = [self.batches.len(), self.behind.len()];
        if depths.iter().any(|&depths| depths > PROFILE_DEPTHS.len()) {
            return Some("it has times of more requests than are measured".to_owned());
        }
        if !(0.0..=1.0).contains(&self.error_ratio) {
            return Some(format!("its error is {}", self.error_ratio));
        }
        let quantiles =
            self.beside.iter().flat_map(|beside| beside.others_ns.iter().flatten().map(Vec::as_slice));
        let is_distribution = |all: &[f64]| {
            (1..=DISTRIBUTION_QUANTILES).contains(&all.len())
                && all.is_sorted()
                && all.iter().all(|&ns| is_time(ns))
        };
        (!quantiles.into_iter().all(is_distribution)).then(|| "quantiles are impossible".to_owned())
    }
}

/// Returns the default directory of profiles: `$XDG_STATE_HOME/sakiyomi/profile`, or the same below `~/.local/state`.
/// `None` if neither variable is set, or to a path that is not absolute.
#[must_use]
pub fn profile_directory() -> Option<PathBuf> {
    Some(sakiyomi_probe::calibration::default_directory()?.parent()?.join("profile"))
}

/// Returns the name of a device's file in [`profile_directory`].
#[must_use]
pub fn profile_file_name(device: &Device) -> String {
    let name = if device.name.is_empty() { &device.number } else { &device.name };
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' };
    name.chars().map(safe).chain(".json".chars()).collect()
}

/// Returns the saved profile of the device of a file or directory; `None` if there is none, or it is of another device.
///
/// # Errors
/// If it is of another version, or damaged.
pub fn saved_profile(path: &Path) -> Result<Option<(PathBuf, DeviceProfile)>, LoadError> {
    let Some((directory, device)) = profile_directory().zip(Device::of(path).ok()) else { return Ok(None) };
    let file = directory.join(profile_file_name(&device));
    if !fs::exists(&file).unwrap_or(false) {
        return Ok(None);
    }
    let found = DeviceProfile::load(&file)?;
    Ok((found.device == device).then_some((file, found)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_drive::fixed::{Fixed, FixedSpec};
    use sakiyomi_regulate::measure;
    use sakiyomi_testing::Scratch;

    fn example(spec: &str) -> DeviceProfile {
        let profile = measure(&mut Fixed::new(spec.parse::<FixedSpec>().unwrap(), 1));
        DeviceProfile::new(&profile, 0.02, Device::default(), 7)
    }

    #[test]
    fn a_profile_is_the_same_after_a_file() {
        let scratch = Scratch::new("device-profile");
        let file = scratch.path("profile.json");
        for spec in ["latency=1ms,parallel=8,spread=0.5,size=1GB", "latency=8ms,spread=0.3,size=1GB"] {
            let written = example(spec);
            fs::write(&file, written.to_json()).unwrap();
            let loaded = DeviceProfile::load(&file).unwrap();
            assert_eq!(loaded, written);
            assert_eq!(loaded.serves_several(), spec.contains("parallel"));
            let (profile, again) =
                (loaded.profile(), DeviceProfile::new(&loaded.profile(), 0.02, Device::default(), 7));
            assert_eq!(again.reads[0].mean_ns, profile.reads[0].mean);
            assert_eq!(again.beside, written.beside);
        }
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let scratch = Scratch::new("device-profile-damaged");
        let file = scratch.path("profile.json");
        let good = example("latency=1ms,parallel=8,spread=0.5,size=1GB");
        let changes: [fn(&mut DeviceProfile); 6] = [
            |it| it.reads[0].mean_ns = 0.0,
            |it| it.writes[3].deviation_ns = -1.0,
            |it| it.batches.clear(),
            |it| it.behind = vec![it.reads[0]; 7],
            |it| it.error_ratio = 3.0,
            |it| it.beside.as_mut().unwrap().others_ns[1][2] = vec![2.0, 1.0],
        ];
        for change in changes {
            let mut bad = good.clone();
            change(&mut bad);
            fs::write(&file, bad.to_json()).unwrap();
            let error = DeviceProfile::load(&file).unwrap_err().to_string();
            assert!(error.contains("iorate calibrate") || error.contains("profile"), "{error}");
        }
        fs::write(&file, "{}").unwrap();
        assert!(DeviceProfile::load(&file).is_err());
    }

    #[test]
    fn file_names_are_safe() {
        let of = |name: &str, number: &str| {
            profile_file_name(&Device {
                name: name.to_owned(),
                number: number.to_owned(),
                ..Device::default()
            })
        };
        assert_eq!(of("nvme0n1", "259:0"), "nvme0n1.json");
        assert_eq!(of("", "0:41"), "0-41.json");
        assert_eq!(of("cciss/c0d0", ""), "cciss-c0d0.json");
    }
}
