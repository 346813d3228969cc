//! The drive that a user names: a built-in one, a TOML file, or DiskSim's files.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use sakiyomi_drive::spec::{DriveSpec, Imported, builtin};

use crate::console::Common;

/// Returns a built-in drive by its name, or one from a file.
pub(crate) fn drive_spec(name: &str, common: &Common) -> Result<DriveSpec> {
    match ending(name) {
        Some("diskspecs" | "parv") => {
            let read = FromDisksim::read(name)?;
            read.emit(common);
            Ok(read.drive)
        }
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

/// Reads the text of a file that a user names; `hint` suggests how to get one.
pub(crate) fn read_text(path: &Path, what: &str, hint: &str) -> Result<String> {
    fs::read_to_string(path).map_err(|error| {
        let problem = match error.kind() {
            io::ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
            _ => error.to_string(),
        };
        anyhow!("cannot read {what} {}: {problem}; {hint}", path.display())
    })
}

fn ending(name: &str) -> Option<&str> {
    Path::new(name).extension().and_then(|ending| ending.to_str())
}

/// A drive read from DiskSim's parameter files.
pub(crate) struct FromDisksim {
    pub(crate) drive: DriveSpec,
    /// Settings in the files that the drive does not support.
    pub(crate) warnings: Vec<String>,
    /// The files that were read, in the order of reading.
    pub(crate) files: Vec<String>,
}

impl FromDisksim {
    /// Reads a `.diskspecs` file, with the `.parv` file of the same name beside it if there is one, or a `.parv`
    /// file. Files that they refer to are looked up in the same directory, whatever the working directory.
    pub(crate) fn read(file: &str) -> Result<FromDisksim> {
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

    /// Reports the files that were read, and the differences of the drive from them.
    pub(crate) fn emit(&self, common: &Common) {
        common.note(&format!("drive: {}", self.files.join(", ")));
        self.warnings.iter().for_each(|warning| common.note(&format!("warning: {warning}")));
    }
}

/// Returns the text and the name of the `.parv` file beside a drive's file, if there is one.
fn beside(file: &str) -> Result<Option<(String, String)>> {
    let path = Path::new(file).with_extension("parv");
    let name = path.display().to_string();
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some((text, name))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {name}, which {file} needs")),
    }
}
