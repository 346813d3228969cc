//! Calibrations as files.

use std::fs;
use std::path::{Path, PathBuf};

use super::document::{self, Kind, LoadError};
use super::{Calibration, SCHEMA};

const KIND: Kind = Kind { schema: SCHEMA, name: "calibration", command: "sakiyomi probe" };

impl Calibration {
    /// Returns the text of the file, which ends with a newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        document::to_json(self)
    }

    /// Loads a file written by [`Calibration::to_json`].
    ///
    /// # Errors
    /// If it cannot be read, is of another version, or is damaged.
    pub fn load(path: &Path) -> Result<Calibration, LoadError> {
        document::load(KIND, path, Calibration::fault)
    }

    /// Parses the contents of a file; `path` is its name in errors.
    ///
    /// # Errors
    /// If it is of another version, or is damaged.
    pub fn parse(text: &[u8], path: &Path) -> Result<Calibration, LoadError> {
        document::parse(KIND, text, path, Calibration::fault)
    }

    /// Returns the name of its file in [`default_directory`], unique for its devices.
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

/// Returns the default directory of calibrations: `$XDG_STATE_HOME/sakiyomi/calibration`, or the same below
/// `~/.local/state`. `None` if neither variable is set, or to a path that is not absolute.
#[must_use]
pub fn default_directory() -> Option<PathBuf> {
    let from = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = from("XDG_STATE_HOME").or_else(|| Some(from("HOME")?.join(".local/state")))?;
    Some(state.join("sakiyomi/calibration"))
}

/// Returns the calibrations in a directory, the most recent first, those that cannot be loaded last.
#[must_use]
pub fn saved(directory: &Path) -> Vec<(PathBuf, Result<Calibration, LoadError>)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = entries.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let mut all: Vec<_> = files.map(|path| (path.clone(), Calibration::load(&path))).collect();
    let measured = |loaded: &Result<Calibration, _>| loaded.as_ref().map_or(0, |found| found.measured_unix_s);
    all.sort_by(|a, b| measured(&b.1).cmp(&measured(&a.1)).then_with(|| a.0.cmp(&b.0)));
    all
}
