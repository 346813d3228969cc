//! The file of operator costs, stored beside `probe`'s calibrations.

use std::path::{Path, PathBuf};

use sakiyomi_probe::calibration::default_directory;
use sakiyomi_probe::calibration::document::{self, Kind, LoadError};

use super::{OperatorCalibration, SCHEMA};

const KIND: Kind =
    Kind { schema: SCHEMA, name: "file of operator costs", command: "sakiyomi query calibrate" };

impl OperatorCalibration {
    /// Returns the text of a file, which ends with a newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        document::to_json(self)
    }

    /// Loads a file of [`OperatorCalibration::to_json`].
    ///
    /// # Errors
    /// If the file cannot be read, is of another version, or is damaged.
    pub fn load(path: &Path) -> Result<OperatorCalibration, LoadError> {
        document::load(KIND, path, OperatorCalibration::fault)
    }

    /// Parses the text of a file; `path` is its name in errors.
    ///
    /// # Errors
    /// If the file is of another version, or is damaged.
    pub fn parse(text: &[u8], path: &Path) -> Result<OperatorCalibration, LoadError> {
        document::parse(KIND, text, path, OperatorCalibration::fault)
    }

    fn fault(&self) -> Option<String> {
        self.operators.fault().map(str::to_owned)
    }
}

/// Returns the default file of operator costs: `query/operators.json` in `probe`'s calibration directory, or `None` if
/// that directory is unknown.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    Some(default_directory()?.join("query/operators.json"))
}
