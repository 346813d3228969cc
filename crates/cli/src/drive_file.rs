//! The drive that a user names, with notes about its files.

use anyhow::Result;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_simulation::NamedDrive;

use crate::console::Common;

/// Returns a built-in drive by its name, or one from a file.
pub(crate) fn drive_spec(name: &str, common: &Common) -> Result<DriveSpec> {
    let NamedDrive { spec, notes } = NamedDrive::open(name)?;
    notes.iter().for_each(|note| common.note(note));
    Ok(spec)
}
