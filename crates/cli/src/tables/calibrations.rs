//! Costs of storage and operators that `probe` and `query calibrate` saved.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sakiyomi_io::page_cache;
use sakiyomi_probe::calibration::{self, Calibration, DeviceCosts};
use sakiyomi_probe::target::Device;
use sakiyomi_query::calibrate::{OperatorCalibration, default_path};
use sakiyomi_query::cost::{OperatorCosts, Storage};
use sakiyomi_query::output::Target;
use sakiyomi_query::statement::Destination;

/// Saved costs of devices and operators.
pub(crate) struct Calibrations {
    devices: Vec<Calibration>,
    operators: OperatorCalibration,
}

impl Calibrations {
    /// Loads the costs from files, or from the default locations.
    pub(crate) fn load(devices: Option<&Path>, operators: Option<&Path>) -> Result<Calibrations> {
        let operators = match operators {
            Some(path) => path.to_owned(),
            None => default_path()
                .context("no costs of operators; measure them with `sakiyomi query calibrate`")?,
        };
        let devices = match devices {
            Some(path) => vec![Calibration::load(path)?],
            None => saved(),
        };
        Ok(Calibrations { devices, operators: OperatorCalibration::load(&operators)? })
    }

    /// Loads the costs from the default locations; none if they are missing or from another machine.
    pub(crate) fn find() -> Option<Calibrations> {
        Calibrations::load(None, None).ok().filter(|found| found.difference().is_none())
    }

    /// The CPU costs of operators.
    pub(crate) fn operators(&self) -> &OperatorCosts {
        &self.operators.operators
    }

    /// A sentence about the first difference between this machine and that of the calibrations.
    pub(crate) fn difference(&self) -> Option<String> {
        let now = calibration::Machine::current();
        let machines = self.devices.iter().map(|found| &found.machine).chain([&self.operators.machine]);
        let differences: Vec<&str> = machines.flat_map(|machine| machine.differences(&now)).collect();
        let first = differences.first()?;
        Some(format!(
            "The calibrations were measured with another {first}: measure again for good predictions."
        ))
    }

    /// The costs of the devices that a job uses.
    pub(crate) fn storage(
        &self,
        inputs: &[&PathBuf],
        spills: &[PathBuf],
        destination: &Destination,
    ) -> Result<Storage<'_>> {
        let output = match destination {
            Destination::File { target: Target::File(path), .. } => {
                let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                Some(self.device(directory.unwrap_or(Path::new(".")))?)
            }
            _ => None,
        };
        Ok(Storage {
            inputs: inputs.iter().map(|path| self.device(path)).collect::<Result<_>>()?,
            spills: spills.iter().map(|path| self.device(path)).collect::<Result<_>>()?,
            output,
        })
    }

    fn device(&self, path: &Path) -> Result<&DeviceCosts> {
        let device = Device::of(path).with_context(|| path.display().to_string())?;
        let known = self.devices.iter().find_map(|calibration| calibration.device(&device));
        known.with_context(|| {
            let directory = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
            let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
            format!(
                "{}: the costs of its device are not known; measure them with `sakiyomi probe {} --op read,write \
                 --method read,pread:4,uring:8 --block 64KiB,256KiB,1MiB --direct --buffered --cached`",
                path.display(),
                directory.display()
            )
        })
    }
}

/// Loadable device calibrations in the default directory, the most recent first.
fn saved() -> Vec<Calibration> {
    let found = calibration::default_directory().map(|directory| calibration::saved(&directory));
    found.into_iter().flatten().filter_map(|(_, loaded)| loaded.ok()).collect()
}

/// Fraction of a file in the page cache, 0 to 1; 0 for a directory or a stream.
pub(crate) fn cached_ratio(path: &Path) -> f64 {
    let Ok(file) = File::open(path) else { return 0.0 };
    let length = file.metadata().map_or(0, |metadata| if metadata.is_file() { metadata.len() } else { 0 });
    let residency = if length > 0 { page_cache::residency(&file, 0..length).ok() } else { None };
    residency.map_or(0.0, |residency| (residency.cached_bytes() as f64 / length as f64).min(1.0))
}
