//! Costs of storage and operators that `probe` and `query calibrate` saved.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sakiyomi_probe::calibration::{self, Calibration, DeviceCosts};
use sakiyomi_probe::setting::{CacheState, Operation};
use sakiyomi_probe::target::Device;
use sakiyomi_query::calibrate::{OperatorCalibration, default_path};
use sakiyomi_query::cost::{OperatorCosts, Storage};
use sakiyomi_query::output::Target;
use sakiyomi_query::statement::Destination;

use crate::Error;

/// Saved costs of devices.
#[derive(Debug)]
pub struct DeviceCalibrations(Vec<Calibration>);

impl DeviceCalibrations {
    /// Returns the calibrations in the default directory that can be loaded, the most recent first.
    #[must_use]
    pub fn saved() -> DeviceCalibrations {
        let found = calibration::default_directory().map(|directory| calibration::saved(&directory));
        DeviceCalibrations(found.into_iter().flatten().filter_map(|(_, loaded)| loaded.ok()).collect())
    }

    /// The costs of the device of a file or directory.
    ///
    /// # Errors
    /// If it was not measured; says how to.
    pub fn device(&self, path: &Path) -> Result<&DeviceCosts, Error> {
        let device = Device::of(path).map_err(|source| Error::Device { path: path.to_owned(), source })?;
        let known = self.0.iter().find_map(|calibration| calibration.device(&device));
        known.ok_or_else(|| {
            let directory = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
            let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
            Error::Uncalibrated(format!(
                "{}: the costs of its device are not known; measure them with `sakiyomi probe {} --op read,write \
                 --method read,pread:4,uring:8 --block 64KiB,256KiB,1MiB --direct --buffered --cached`",
                path.display(),
                directory.display()
            ))
        })
    }
}

/// Saved costs of devices and operators.
#[derive(Debug)]
pub struct Calibrations {
    devices: DeviceCalibrations,
    operators: OperatorCalibration,
}

impl Calibrations {
    /// Loads the costs from files, or from the default locations.
    ///
    /// # Errors
    /// If there are none, or a file cannot be loaded.
    pub fn load(devices: Option<&Path>, operators: Option<&Path>) -> Result<Calibrations, Error> {
        let operators = match operators {
            Some(path) => path.to_owned(),
            None => {
                let path = default_path().ok_or_else(|| {
                    uncalibrated(
                        "no directory for the costs of operators: neither XDG_STATE_HOME nor HOME is set; name their \
                         file with --operators",
                    )
                })?;
                if !path.try_exists().unwrap_or(true) {
                    return Err(uncalibrated(
                        "no costs of operators; measure them with `sakiyomi query calibrate`",
                    ));
                }
                path
            }
        };
        let devices = match devices {
            Some(path) => DeviceCalibrations(vec![Calibration::load(path)?]),
            None => DeviceCalibrations::saved(),
        };
        Ok(Calibrations { devices, operators: OperatorCalibration::load(&operators)? })
    }

    /// Loads the costs from the default locations; `None` if they are missing or from another machine.
    #[must_use]
    pub fn find() -> Option<Calibrations> {
        Calibrations::load(None, None).ok().filter(|found| found.difference().is_none())
    }

    /// Returns the CPU costs of operators.
    #[must_use]
    pub fn operators(&self) -> &OperatorCosts {
        &self.operators.operators
    }

    /// Describes the first difference between this machine and that of the calibrations in a sentence.
    #[must_use]
    pub fn difference(&self) -> Option<String> {
        let now = calibration::Machine::current();
        let machines = self.devices.0.iter().map(|found| &found.machine).chain([&self.operators.machine]);
        let differences: Vec<&str> = machines.flat_map(|machine| machine.differences(&now)).collect();
        let first = differences.first()?;
        Some(format!(
            "The calibrations were measured with another {first}: measure again for good predictions."
        ))
    }

    /// Returns the costs of the devices that a job uses. A table on several devices counts as one on the device with
    /// the slowest reads: its files are read together, and end with it.
    pub(crate) fn storage(
        &self,
        tables: &[Vec<PathBuf>],
        spills: &[PathBuf],
        destination: &Destination,
    ) -> Result<Storage<'_>, Error> {
        let output = match destination {
            Destination::File { target: Target::File(path), .. } => {
                let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                Some(self.device(directory.unwrap_or(Path::new(".")))?)
            }
            _ => None,
        };
        Ok(Storage {
            inputs: tables.iter().map(|files| self.slowest(files)).collect::<Result<_, _>>()?,
            spills: spills.iter().map(|path| self.device(path)).collect::<Result<_, _>>()?,
            output,
        })
    }

    fn slowest(&self, files: &[PathBuf]) -> Result<&DeviceCosts, Error> {
        let mut devices = BTreeSet::new();
        let mut slowest: Option<&DeviceCosts> = None;
        for path in files {
            // One file of each device suffices.
            if path.metadata().is_ok_and(|found| !devices.insert(found.dev())) {
                continue;
            }
            let device = self.device(path)?;
            if slowest.is_none_or(|known| best_read(device) < best_read(known)) {
                slowest = Some(device);
            }
        }
        slowest.ok_or_else(|| Error::Unplannable("a table without a file".to_owned()))
    }

    fn device(&self, path: &Path) -> Result<&DeviceCosts, Error> {
        self.devices.device(path)
    }
}

fn uncalibrated(problem: &str) -> Error {
    Error::Uncalibrated(problem.to_owned())
}

/// Returns the highest read throughput of a device, in bytes per second.
fn best_read(costs: &DeviceCosts) -> f64 {
    let reads =
        costs.costs.iter().filter(|cost| cost.op == Operation::Read && cost.cache != CacheState::Cached);
    let points = reads.flat_map(|cost| &cost.depths).flat_map(|depth| &depth.points);
    points.map(|point| point.throughput_bytes_per_s).fold(0.0, f64::max)
}
