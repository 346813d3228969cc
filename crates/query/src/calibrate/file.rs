//! The file of operator costs, stored beside `probe`'s calibrations.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sakiyomi_probe::calibration::default_directory;

use super::{OperatorCalibration, SCHEMA};

/// Maximum bytes read of a file: about a thousand times a complete one.
const FILE_MAX_BYTES: u64 = 16 << 20;

/// Characters of an unknown schema shown in an error.
const SHOWN_CHARS: usize = 60;

/// Errors of loading operator costs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read the operator costs {}; `sakiyomi query calibrate` measures them", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is of another version.
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
    /// The file does not contain complete operator costs.
    #[error("{} does not hold whole operator costs: {fault}; measure again with `sakiyomi query calibrate`", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        fault: String,
    },
}

impl OperatorCalibration {
    /// Returns the contents of the file: JSON with a final newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("strings and numbers can be written");
        text.push('\n');
        text
    }

    /// Loads a file written by [`OperatorCalibration::to_json`].
    ///
    /// # Errors
    /// If the file cannot be read, is of another version, or is damaged.
    pub fn load(path: &Path) -> Result<OperatorCalibration, LoadError> {
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(FILE_MAX_BYTES).read_to_end(&mut text));
        read.map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
        OperatorCalibration::parse(&text, path)
    }

    /// Parses a file's contents; `path` is its name in errors.
    ///
    /// # Errors
    /// If the file is of another version, or is damaged.
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

/// Returns the default file of operator costs: `query/operators.json` in `probe`'s calibration directory, or `None` if
/// that directory is unknown.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    Some(default_directory()?.join("query/operators.json"))
}
