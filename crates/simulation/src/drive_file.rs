//! The drive that a user names: a built-in one, a TOML file, or DiskSim's files.

use std::fs;
use std::io;
use std::path::Path;

use sakiyomi_drive::Geometry;
use sakiyomi_drive::spec::{BUILTIN, DriveSpec, Imported, builtin};
use serde::{Deserialize, Serialize};

use crate::Error;

/// A drive that a user has named.
#[derive(Clone, Debug)]
pub struct NamedDrive {
    /// The drive.
    pub spec: DriveSpec,
    /// The files that were read, and what the simulation does differently, if it is from files of DiskSim.
    pub notes: Vec<String>,
}

impl NamedDrive {
    /// Returns a built-in drive by its name, or one from a TOML, `.diskspecs` or `.parv` file.
    ///
    /// # Errors
    /// If no built-in drive has this name, the file cannot be read, or it describes an impossible drive.
    pub fn open(name: &str) -> Result<NamedDrive, Error> {
        if let Some("diskspecs" | "parv") = ending(name) {
            let read = FromDisksim::read(name)?;
            return Ok(NamedDrive { notes: read.notes(), spec: read.drive });
        }
        Ok(NamedDrive { spec: spec(name)?, notes: Vec::new() })
    }
}

fn spec(name: &str) -> Result<DriveSpec, Error> {
    match ending(name) {
        ending if ending == Some("toml") || name.contains('/') => {
            let text = read_text(
                name.as_ref(),
                "the drive",
                "`sakiyomi drive show NAME` prints one as a starting point",
            )?;
            Ok(DriveSpec::from_toml(&text, name)?)
        }
        _ => Ok(builtin(name)?.spec()),
    }
}

/// Reads the text of a file that a user names; `what` is its purpose, `hint` suggests how to get one.
///
/// # Errors
/// If it cannot be read, or is not UTF-8.
pub fn read_text(path: &Path, what: &str, hint: &str) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|error| {
        let problem = match error.kind() {
            io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
            _ => error.to_string(),
        };
        Error::Text { what: what.to_owned(), path: path.to_owned(), problem, hint: hint.to_owned() }
    })
}

fn ending(name: &str) -> Option<&str> {
    Path::new(name).extension().and_then(|ending| ending.to_str())
}

/// A drive read from DiskSim's parameter files.
#[derive(Clone, Debug)]
pub struct FromDisksim {
    /// The drive.
    pub drive: DriveSpec,
    /// Settings in the files that the drive does not support.
    pub warnings: Vec<String>,
    /// The files that were read, in the order of reading.
    pub files: Vec<String>,
}

impl FromDisksim {
    /// Reads a `.diskspecs` file, with the `.parv` file of the same name beside it if there is one, or a `.parv`
    /// file. Files that they refer to are looked up in the same directory, whatever the working directory.
    ///
    /// # Errors
    /// If one of them cannot be read, or does not describe a drive.
    pub fn read(file: &str) -> Result<FromDisksim, Error> {
        let text = read_text(file.as_ref(), "the drive", "name a .diskspecs or .parv file of DiskSim")?;
        let mut files = vec![file.to_owned()];
        let system = if ending(file) == Some("parv") { None } else { beside(file)? };
        files.extend(system.as_ref().map(|(_, name)| name.clone()));
        let mut source = |name: &str| {
            let path = Path::new(file).with_file_name(name);
            let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    "the file is missing in the directory of the drive's file; put it there".to_owned()
                }
                _ => error.to_string(),
            })?;
            let path = path.display().to_string();
            if !files.contains(&path) {
                files.push(path);
            }
            Ok(text)
        };
        let system = system.as_ref().map(|(text, name)| (text.as_str(), name.as_str()));
        let Imported { spec, warnings } = DriveSpec::from_disksim(&text, file, system, &mut source)?;
        Ok(FromDisksim { drive: spec, warnings, files })
    }

    /// Describes the files that were read, and the differences of the drive from them.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let warnings = self.warnings.iter().map(|warning| format!("warning: {warning}"));
        std::iter::once(format!("drive: {}", self.files.join(", "))).chain(warnings).collect()
    }
}

/// Returns the text and the name of the `.parv` file beside a drive's file, if there is one.
fn beside(file: &str) -> Result<Option<(String, String)>, Error> {
    let path = Path::new(file).with_extension("parv");
    let name = path.display().to_string();
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some((text, name))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Beside { beside: name, file: file.to_owned(), source }),
    }
}

/// A built-in drive as a line of the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveSummary {
    /// The name by which it is used.
    pub id: String,
    /// Maker and model.
    pub name: String,
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// Rotations per minute.
    pub rpm: f64,
    /// Size of the cache in bytes.
    pub cache_bytes: u64,
    /// Maximum commands in the drive's queue.
    pub queue_depth: u32,
}

/// Returns the built-in drives.
#[must_use]
pub fn drives() -> Vec<DriveSummary> {
    BUILTIN.iter().map(|drive| DriveSummary::of(drive.id, &drive.spec())).collect()
}

impl DriveSummary {
    fn of(id: &str, spec: &DriveSpec) -> DriveSummary {
        let geometry = Geometry::new(&spec.geometry, &spec.servo);
        DriveSummary {
            id: id.to_owned(),
            name: spec.name.clone(),
            capacity_bytes: geometry.capacity().to_bytes(geometry.sector()).0,
            rpm: spec.servo.rpm,
            cache_bytes: spec.cache.size.0,
            queue_depth: spec.queue.depth,
        }
    }
}
