//! Calibrations as files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{Calibration, SCHEMA};

/// Largest file that is read, in bytes: some hundred times a full calibration.
const FILE_MAX_BYTES: u64 = 64 << 20;

/// Why a calibration cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// It cannot be read.
    #[error("cannot read the calibration {}; `sakiyomi probe` measures one", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is of another version.
    #[error(
        "{} is a calibration of another version ({found}, and this program reads {SCHEMA}); measure again with `sakiyomi \
         probe`",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: String,
    },
    /// It is not a calibration, or is not whole any more.
    #[error("{} is not a whole calibration: {fault}; measure again with `sakiyomi probe`", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        fault: String,
    },
}

impl Calibration {
    /// As a file, which ends with a newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("strings and numbers can be written");
        text.push('\n');
        text
    }

    /// Loads what [`Calibration::to_json`] was saved as.
    ///
    /// # Errors
    /// If it cannot be read, is of another version, or damaged.
    pub fn load(path: &Path) -> Result<Calibration, CalibrationError> {
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(FILE_MAX_BYTES).read_to_end(&mut text));
        read.map_err(|source| CalibrationError::Read { path: path.to_owned(), source })?;
        Calibration::parse(&text, path)
    }

    /// The same of a file's contents; `path` is its name in errors.
    ///
    /// # Errors
    /// If it is of another version, or damaged.
    pub fn parse(text: &[u8], path: &Path) -> Result<Calibration, CalibrationError> {
        let damaged = |fault: String| CalibrationError::Damaged { path: path.to_owned(), fault };
        // The version decides how the rest is read.
        #[derive(serde::Deserialize)]
        struct Head {
            schema: String,
        }
        let Head { schema } = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        if schema != SCHEMA {
            let found = schema.chars().filter(|c| !c.is_control()).take(SHOWN_CHARS).collect();
            return Err(CalibrationError::Version { path: path.to_owned(), found });
        }
        let calibration: Calibration =
            serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        match calibration.fault() {
            Some(fault) => Err(damaged(fault)),
            None => Ok(calibration),
        }
    }

    /// The name that its file has in [`default_directory`]: it tells the devices apart.
    #[must_use]
    pub fn file_name(&self) -> String {
        let Some(costs) = self.devices.first() else { return "cores.json".to_owned() };
        let device = &costs.device;
        let kind = if device.file_system.is_empty() { &costs.target } else { &device.file_system };
        let number = if device.number.is_empty() { String::new() } else { format!("-{}", device.number) };
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' };
        format!("{kind}{number}").chars().map(safe).chain(".json".chars()).collect()
    }
}

/// Characters of a foreign schema that an error shows.
const SHOWN_CHARS: usize = 60;

/// Where calibrations are saved unless another file is named: `$XDG_STATE_HOME/sakiyomi/calibration`, or the same
/// below `~/.local/state`. None if neither variable is set, or to a path that is not absolute.
#[must_use]
pub fn default_directory() -> Option<PathBuf> {
    let from = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = from("XDG_STATE_HOME").or_else(|| Some(from("HOME")?.join(".local/state")))?;
    Some(state.join("sakiyomi/calibration"))
}

/// The calibrations of a directory, the last measured one first, those that cannot be loaded at the end.
#[must_use]
pub fn saved(directory: &Path) -> Vec<(PathBuf, Result<Calibration, CalibrationError>)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = entries.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let mut all: Vec<_> = files.map(|path| (path.clone(), Calibration::load(&path))).collect();
    let measured = |loaded: &Result<Calibration, _>| loaded.as_ref().map_or(0, |found| found.measured_unix_s);
    all.sort_by(|a, b| measured(&b.1).cmp(&measured(&a.1)).then_with(|| a.0.cmp(&b.0)));
    all
}
