//! The storage to emulate or to regulate, started as a device in real time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sakiyomi_drive::fixed::{Fixed, FixedSpec};
use sakiyomi_drive::spec::{DriveSpec, SpecError};
use sakiyomi_model::{Bytes, Device, Nanos};
use sakiyomi_regulate::{Policy, RegulatedDevice, Serves, Settings, measure};

use crate::backing::Backing;
use crate::{BackingPool, DeviceProfile, RealtimeDevice, Timeline};

/// Time from a program to this process and back: that of a read from a device without delay (16 us by
/// `bench/regulate.py`) plus a context switch. It matters on fast devices such as flash.
const REQUEST_PATH_TIME: Nanos = Nanos(25_000);

/// Seed of the random times of the storage on which its profile is measured.
const PROFILE_SEED: u64 = 1;

/// Largest relative error of a profile that is considered; rates of one with a larger error are granted as with this one.
const PROFILE_ERROR_MAX_RATIO: f64 = 0.5;

/// Nice value of the threads that serve an emulated drive. With [`SERVING_TIME_SLICE`], the p99 of lateness on a
/// machine with two busy cores fell from 3 ms to 1.2 ms.
const SERVING_NICE: i32 = -15;
/// Time slice of the threads that serve an emulated drive.
const SERVING_TIME_SLICE: Duration = Duration::from_micros(100);

/// The storage to emulate.
#[derive(Clone, Debug)]
pub enum EmulatedStorage {
    /// A hard disk, or an array of them.
    Drive(Box<DriveSpec>),
    /// Storage whose access time does not depend on the place.
    Fixed(FixedSpec),
}

impl EmulatedStorage {
    /// Makes the device, with `seed` for random times.
    ///
    /// # Errors
    /// If the specification is invalid.
    pub fn device(&self, seed: u64) -> Result<Box<dyn Device + Send>, SpecError> {
        Ok(match self {
            EmulatedStorage::Drive(spec) => Box::new(sakiyomi_drive::Disk::new(spec)?),
            EmulatedStorage::Fixed(spec) => Box::new(Fixed::new(*spec, seed)),
        })
    }

    /// Returns its name for people.
    #[must_use]
    pub fn title(&self) -> String {
        match self {
            EmulatedStorage::Drive(spec) => spec.title(),
            EmulatedStorage::Fixed(_) => "fixed".to_owned(),
        }
    }

    /// Returns whether it serves requests in parallel.
    fn serves(&self) -> Serves {
        match self {
            EmulatedStorage::Fixed(spec) if spec.parallel > 1 => Serves::Several,
            EmulatedStorage::Drive(spec) if spec.array.is_some() => Serves::Several,
            EmulatedStorage::Drive(_) | EmulatedStorage::Fixed(_) => Serves::OneByOne,
        }
    }
}

/// Settings of the regulation.
#[derive(Clone, Debug)]
pub struct Regulate {
    /// Policy of the regulator.
    pub policy: Policy,
    /// Service time of one I/O; `None` to measure it.
    pub service: Option<Nanos>,
    /// Profile of the device of real files; that of an emulated one is measured on a model.
    pub profile: Option<Arc<DeviceProfile>>,
}

impl Default for Regulate {
    fn default() -> Regulate {
        Regulate { policy: Policy::Profile, service: None, profile: None }
    }
}

impl Regulate {
    /// Returns the policy that regulates `storage`, or real files: those without a profile are measured during operation.
    #[must_use]
    pub fn policy_on(&self, storage: Option<&EmulatedStorage>) -> Policy {
        let has_profile = storage.is_some() || self.profile.is_some();
        match self.policy {
            Policy::Profile if !has_profile || self.service.is_some() => Policy::Deadline,
            policy => policy,
        }
    }

    /// Returns the settings of the regulator.
    fn settings(&self) -> Settings {
        Settings { service: self.service, ..self.policy.settings() }
    }
}

/// Raises the priority of this thread and of those that it starts from now on, so that replies are not late on a busy
/// machine: they compute little, but at definite times. Without a drive or rates there are no such times, and ordinary
/// time slices are better.
///
/// # Errors
/// If this process lacks the rights; the priority then stays as it is.
pub fn serve_promptly() -> io::Result<()> {
    sakiyomi_os::priority::latency_nice(SERVING_NICE, SERVING_TIME_SLICE)
}

/// Starts an emulated device, with a regulator if `regulate` is given.
///
/// # Errors
/// If the thread cannot be started.
pub fn start_emulated(
    device: Box<dyn Device + Send>,
    storage: &EmulatedStorage,
    regulate: Option<&Regulate>,
    timeline: &Timeline,
) -> io::Result<RealtimeDevice> {
    let device = match regulate {
        Some(how) if how.policy_on(Some(storage)) == Policy::Profile => {
            let mut model = storage.device(PROFILE_SEED).map_err(io::Error::other)?;
            RegulatedDevice::with_profile(device, how.settings(), Arc::new(measure(&mut model)), 0.0)
        }
        Some(how) => RegulatedDevice::new(device, Settings { serves: storage.serves(), ..how.settings() }),
        None => RegulatedDevice::unregulated(device),
    };
    RealtimeDevice::start(device, timeline.clone())
}

/// Starts files of `capacity` as a device with a regulator; their I/O is performed on `pool`.
///
/// # Errors
/// If the thread cannot be started.
pub fn start_backing(
    capacity: Bytes,
    how: &Regulate,
    timeline: &Timeline,
    pool: &Arc<BackingPool>,
) -> io::Result<RealtimeDevice> {
    RealtimeDevice::start_with(timeline.clone(), |waker| {
        let backing = Backing::new(capacity, timeline.clone(), Arc::clone(pool), waker);
        let jobs = backing.jobs();
        let settings = Settings { path: REQUEST_PATH_TIME, ..how.settings() };
        let profile = how.profile.as_ref().filter(|_| how.policy_on(None) == Policy::Profile);
        let device: Box<dyn Device + Send> = Box::new(backing);
        let device = match profile {
            Some(found) => {
                let error = found.error_ratio.min(PROFILE_ERROR_MAX_RATIO);
                RegulatedDevice::with_profile(device, settings, Arc::new(found.profile()), error)
            }
            None => RegulatedDevice::new(device, settings),
        };
        (device, jobs)
    })
}
