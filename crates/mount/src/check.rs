//! Conditions that must hold before a mount, and the mounts of sakiyomi that exist.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sakiyomi_os::mounts::{Mount, MountTable};

use crate::Error;

/// The source of sakiyomi's mounts in the kernel's mount table.
pub(crate) const SOURCE: &str = "sakiyomi";

/// Returns both directories with all symbolic links resolved, if one can be mounted on the other.
pub(crate) fn directories(backing: &Path, directory: &Path) -> Result<(PathBuf, PathBuf), Error> {
    let backing = resolved("backing directory", backing)?;
    let directory = resolved("mount point", directory)?;
    if backing.starts_with(&directory) || directory.starts_with(&backing) {
        return Err(Error::Nested { backing, directory });
    }
    let unusable = |error| unusable("mount point", &directory, error);
    let mut files = fs::read_dir(&directory).map_err(unusable)?;
    if is_ours(&directory).map_err(unusable)? {
        return Err(Error::Mounted(directory));
    }
    if files.next().is_some() {
        return Err(Error::NotEmpty(directory));
    }
    Ok((backing, directory))
}

/// Checks that a file to be written when the mount ends lies outside the mount point.
pub(crate) fn outside(what: &'static str, path: &Path, directory: &Path) -> Result<(), Error> {
    // The file itself need not exist; a dangling link fails later with an error of its own.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let lies = fs::canonicalize(path).or_else(|_| fs::canonicalize(parent));
    if lies.is_ok_and(|lies| lies.starts_with(directory)) {
        return Err(Error::Covered { what, path: path.to_owned(), directory: directory.to_owned() });
    }
    Ok(())
}

fn resolved(role: &'static str, path: &Path) -> Result<PathBuf, Error> {
    let found = fs::canonicalize(path).and_then(|resolved| Ok((fs::metadata(&resolved)?, resolved)));
    match found.map_err(|error| unusable(role, path, error))? {
        (metadata, resolved) if metadata.is_dir() => Ok(resolved),
        _ => Err(unusable(role, path, io::ErrorKind::NotADirectory.into())),
    }
}

fn unusable(role: &'static str, path: &Path, source: io::Error) -> Error {
    // For a while the kernel answers from its cache for a mount whose program has ended.
    if source.kind() == io::ErrorKind::NotConnected {
        return Error::Dead(path.to_owned());
    }
    Error::Directory { role, path: path.to_owned(), source }
}

/// Returns whether the mount on a directory is sakiyomi's; makes no request to it.
pub(crate) fn is_ours(directory: &Path) -> io::Result<bool> {
    Ok(ours_on(directory)?.is_some())
}

/// Returns the device number of sakiyomi's mount on a directory, which no other mount has at the same time; `None`
/// without such a mount.
pub(crate) fn ours_on(directory: &Path) -> io::Result<Option<String>> {
    let mounts = MountTable::read()?;
    Ok(mounts.on(directory).filter(is_of_sakiyomi).map(|ours| ours.device.to_owned()))
}

/// Returns whether a mount is of sakiyomi. The kernel names the subtype only if fusermount3 has mounted it.
pub(crate) fn is_of_sakiyomi(mount: &Mount<'_>) -> bool {
    mount.source == SOURCE && mount.kind.split('.').next() == Some("fuse")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_mounted_is_refused_in_a_sentence() {
        let refused = |backing: &str, directory: &str| {
            directories(Path::new(backing), Path::new(directory)).unwrap_err().to_string()
        };
        assert_eq!(
            refused("/nowhere", "/proc"),
            "/nowhere is not a directory that can be used as the backing directory"
        );
        assert!(refused("/", "/proc").contains("contain each other"));
        assert!(refused("/dev", "/proc").contains("is not empty"));
        assert!(refused("/proc/self/status", "/proc").contains("is not a directory"));
    }
}
