//! Unmounting by another process, even if the mount's program has ended.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sakiyomi_os::mounts::{self, MountTable};
use sakiyomi_os::rights;

use crate::check::is_of_sakiyomi;
use crate::{Error, fuse_access};

/// Unmounts the mount of sakiyomi on `directory`, whether or not its program is still running; with `lazy` even if it
/// is in use. Follows symbolic links to the directory.
///
/// # Errors
/// [`Error::NotMounted`], [`Error::MountedByOthers`], [`Error::InsideMount`], [`Error::OtherUser`], [`Error::Busy`],
/// [`Error::NoHelper`], [`Error::NotAllowed`], [`Error::Unmount`].
pub fn unmount(directory: &Path, lazy: bool) -> Result<(), Error> {
    let failed = |source| Error::Unmount { path: directory.to_owned(), source };
    let place = place_of(directory).map_err(failed)?;
    let mounts = MountTable::read().map_err(failed)?;
    match mounts.on(&place) {
        Some(mount) if is_of_sakiyomi(&mount) => may_unmount(directory, mount.fuse_user())?,
        Some(mount) => {
            return Err(Error::MountedByOthers { path: directory.to_owned(), kind: mount.kind.to_owned() });
        }
        None => {
            let path = directory.to_owned();
            return Err(match mounts.above(&place).filter(is_of_sakiyomi) {
                Some(above) => Error::InsideMount { path, mount: above.place },
                None => Error::NotMounted(path),
            });
        }
    }
    if !rights::is_root() {
        return match by_helper(&place, lazy).map_err(failed)? {
            Helped::Done => Ok(()),
            Helped::Busy => Err(Error::Busy(directory.to_owned())),
            Helped::Missing => Err(Error::NoHelper),
        };
    }
    mounts::unmount(&place, lazy).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => Error::Busy(directory.to_owned()),
        io::ErrorKind::PermissionDenied => Error::NotAllowed,
        _ => failed(error),
    })
}

/// Aborts all pending requests to the sakiyomi mount at `directory`; their callers get an error. A killed process that
/// waits for its own mount can end only after this, because no thread is left to answer. Users other than root need
/// `/sys/fs/fuse/connections`.
///
/// # Errors
/// [`Error::NotMounted`], [`Error::OtherUser`], [`Error::Unmount`].
pub fn abort(directory: &Path) -> Result<(), Error> {
    let failed = |source| Error::Unmount { path: directory.to_owned(), source };
    let not_mounted = || Error::NotMounted(directory.to_owned());
    // The mount point itself is not looked at: its program would have to answer.
    let (parent, name) = directory.parent().zip(directory.file_name()).ok_or_else(not_mounted)?;
    let place = fs::canonicalize(parent).map_err(failed)?.join(name);
    let mounts = MountTable::read().map_err(failed)?;
    let mount = mounts.on(&place).filter(is_of_sakiyomi).ok_or_else(not_mounted)?;
    may_unmount(directory, mount.fuse_user())?;
    if rights::is_root() {
        return mounts::abort(&place).map_err(failed);
    }
    let number = mount.device.rsplit(':').next().unwrap_or_default();
    fs::write(format!("/sys/fs/fuse/connections/{number}/abort"), "1").map_err(failed)
}

/// Checks the owner: the helper unmounts only mounts of the same user, and reports all others as missing.
fn may_unmount(directory: &Path, owner: Option<u32>) -> Result<(), Error> {
    let user = rights::real_user();
    match owner.filter(|&owner| user != 0 && owner != user) {
        Some(owner) => Err(Error::OtherUser { path: directory.to_owned(), owner }),
        None => Ok(()),
    }
}

/// Returns the path as in the kernel's mount table, with symbolic links resolved. The last component is only checked
/// for being a link, because a mount whose program has ended answers no other request.
fn place_of(directory: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(directory)?;
    // The root and a path that ends in `..` have no last component.
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return fs::canonicalize(absolute);
    };
    let place = fs::canonicalize(parent)?.join(name);
    match fs::symlink_metadata(&place) {
        Ok(metadata) if metadata.is_symlink() => fs::canonicalize(&place),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
        // The directory exists, or its FUSE daemon does not answer.
        Ok(_) | Err(_) => Ok(place),
    }
}

enum Helped {
    Done,
    Busy,
    Missing,
}

fn by_helper(place: &Path, lazy: bool) -> io::Result<Helped> {
    let Some(helper) = fuse_access::helper() else { return Ok(Helped::Missing) };
    let mut command = std::process::Command::new(helper);
    command.arg(if lazy { "-uz" } else { "-u" }).arg("--").arg(place);
    let output = command.output()?;
    if output.status.success() {
        return Ok(Helped::Done);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // Its messages are not translated, and are the only way to learn the reason.
    if said.contains("resource busy") {
        Ok(Helped::Busy)
    } else {
        let words = fuse_access::words_of_helper(&said);
        Err(io::Error::other(words.unwrap_or_else(|| "fusermount3 gives no reason".to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(directory: &str) -> String {
        unmount(Path::new(directory), false).unwrap_err().to_string()
    }

    #[test]
    fn what_sakiyomi_has_not_mounted_is_not_unmounted() {
        assert_eq!(refused("/proc/self"), "sakiyomi has mounted nothing on /proc/self");
        assert!(refused("/proc").starts_with("the proc file system on /proc was not mounted by sakiyomi"));
        assert_eq!(refused("/nowhere"), "cannot unmount /nowhere");
        assert_eq!(refused("/nowhere/deeper"), "cannot unmount /nowhere/deeper");
        for directory in ["/proc", "/", "/proc/self"] {
            assert!(matches!(abort(Path::new(directory)), Err(Error::NotMounted(_))), "{directory}");
        }
    }

    #[test]
    fn a_path_is_resolved_but_for_its_last_part_unless_that_is_a_link() {
        assert_eq!(place_of(Path::new("/proc/self/fd/.")).unwrap().file_name().unwrap(), "fd");
        let itself = fs::canonicalize("/proc/self").unwrap();
        assert_eq!(place_of(Path::new("/proc/self")).unwrap(), itself);
        assert_eq!(place_of(Path::new("/proc/self/fd")).unwrap(), itself.join("fd"));
        assert_eq!(place_of(Path::new("/")).unwrap(), Path::new("/"));
    }
}
