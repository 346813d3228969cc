//! Operator costs as a file, beside `probe`'s calibrations.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sakiyomi_probe::calibration::default_directory;

use super::{OperatorCalibration, SCHEMA};

/// Largest file that is read, in bytes: some thousand times a full one.
const FILE_MAX_BYTES: u64 = 16 << 20;

/// Characters of a foreign schema that an error shows.
const SHOWN_CHARS: usize = 60;

/// Why operator costs cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// They cannot be read.
    #[error("cannot read the operator costs {}; `sakiyomi query calibrate` measures them", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// They are of another version.
    #[error(
        "{} has operator costs of another version ({found}, and this program reads {SCHEMA}); measure again with \
         `sakiyomi query calibrate`",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: String,
    },
    /// The file does not hold operator costs, or not whole ones.
    #[error("{} does not hold whole operator costs: {fault}; measure again with `sakiyomi query calibrate`", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        fault: String,
    },
}

impl OperatorCalibration {
    /// As a file, which ends with a newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("strings and numbers can be written");
        text.push('\n');
        text
    }

    /// Loads a file of [`OperatorCalibration::to_json`].
    ///
    /// # Errors
    /// If it cannot be read, is of another version, or damaged.
    pub fn load(path: &Path) -> Result<OperatorCalibration, LoadError> {
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(FILE_MAX_BYTES).read_to_end(&mut text));
        read.map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
        OperatorCalibration::parse(&text, path)
    }

    /// The same of a file's contents; `path` is its name in errors.
    ///
    /// # Errors
    /// If it is of another version, or damaged.
    pub fn parse(text: &[u8], path: &Path) -> Result<OperatorCalibration, LoadError> {
        let damaged = |fault: String| LoadError::Damaged { path: path.to_owned(), fault };
        // The version decides how the rest is read.
        #[derive(serde::Deserialize)]
        struct Head {
            schema: String,
        }
        let Head { schema } = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        if schema != SCHEMA {
            let found = schema.chars().filter(|c| !c.is_control()).take(SHOWN_CHARS).collect();
            return Err(LoadError::Version { path: path.to_owned(), found });
        }
        let calibration: OperatorCalibration =
            serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
        match calibration.operators.fault() {
            Some(fault) => Err(damaged(fault.to_owned())),
            None => Ok(calibration),
        }
    }
}

/// The file that operator costs are saved in unless another one is named: `query/operators.json` in `probe`'s
/// directory of calibrations. None if there is no such directory.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    Some(default_directory()?.join("query/operators.json"))
}
