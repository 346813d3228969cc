//! Tests by an attempt whether a mount is possible.

use std::fs;
use std::path::Path;

use crate::Error;
use crate::fuse_access::can_mount;
use crate::session::{Mounted, Options, mount};

/// Mounts a new empty directory on another one, both in `place`, with these options, and unmounts it.
///
/// # Errors
/// Returns the errors of [`mount()`] and of creating the directories.
pub fn try_mount(place: &Path, options: &Options) -> Result<(), Error> {
    can_mount()?;
    let [backing, directory] = ["backing", "mounted"].map(|name| place.join(name));
    let made = [&backing, &directory].map(|path| {
        let made = fs::create_dir(path);
        made.map_err(|source| Error::Directory { role: "trial directory", path: path.clone(), source })
    });
    let tried = made.into_iter().collect::<Result<Vec<()>, Error>>().and_then(|_| {
        let mounted: Mounted = mount(&backing, &directory, options)?;
        mounted.finish(std::time::Duration::from_secs(1)).map(drop)
    });
    // Removes the directories, but not a mount that may still be on them.
    for path in [backing, directory] {
        let _ = fs::remove_dir(path);
    }
    tried
}
