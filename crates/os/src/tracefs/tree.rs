//! A tracefs, by the descriptor of its root: the mounted one, or a private mount.
//!
//! `fsmount` creates a mount that is not attached to a directory of any namespace. It is used through its descriptor,
//! is invisible to other processes, and vanishes when the descriptor is closed. The kernel has a single tracefs, so
//! both mounts show the same instances.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Dir, Mode, OFlags, accessat, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Usual mount points of tracefs.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Location of the tracefs that is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The tracefs mounted on this directory.
    Mounted(PathBuf),
    /// A private mount, invisible in every namespace.
    Private,
}

/// A writable tracefs.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
    place: Place,
}

impl Tree {
    /// Opens the mounted tracefs if it is writable, otherwise a private mount of it.
    ///
    /// # Errors
    /// The missing precondition and its remedy, as a clause.
    pub(super) fn open() -> Result<Tree, String> {
        let mounted = MOUNTS.iter().find_map(|path| {
            let root = openat(CWD, *path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            let tree = Tree { root: root.ok()?, place: Place::Mounted(PathBuf::from(path)) };
            tree.is_writable().then_some(tree)
        });
        if let Some(tree) = mounted {
            return Ok(tree);
        }
        let root = private_mount().map_err(|error| why_not(error, rustix::process::geteuid().is_root()))?;
        let tree = Tree { root, place: Place::Private };
        if tree.is_writable() { Ok(tree) } else { Err("this kernel's tracefs has no instances".to_owned()) }
    }

    fn is_writable(&self) -> bool {
        accessat(&self.root, "instances", Access::WRITE_OK, AtFlags::EACCESS).is_ok()
    }

    /// Returns the number of cores that have buffers.
    pub(super) fn cores(&self) -> usize {
        names(self.root.as_fd(), Path::new("per_cpu")).len()
    }

    pub(super) fn place(self) -> Place {
        self.place
    }

    pub(super) fn has(&self, path: impl AsRef<Path>) -> bool {
        accessat(&self.root, path.as_ref(), Access::EXISTS, AtFlags::EACCESS).is_ok()
    }

    /// Opens a directory, as a base of relative names.
    pub(super) fn directory(&self, path: impl AsRef<Path>) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(&self.root, path.as_ref(), flags, Mode::empty())?)
    }

    pub(super) fn read(&self, path: impl AsRef<Path>) -> io::Result<String> {
        read_beside(self.root.as_fd(), path)
    }

    /// Returns the names of the instances.
    pub(super) fn instances(&self) -> Vec<CString> {
        names(self.root.as_fd(), Path::new("instances"))
    }
}

/// Returns the names in a directory; empty if it cannot be listed.
pub(super) fn names(beside: BorrowedFd<'_>, path: &Path) -> Vec<CString> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let entries = openat(beside, path, flags, Mode::empty()).and_then(Dir::new);
    let all = entries.into_iter().flatten().flatten().map(|entry| entry.file_name().to_owned());
    all.filter(|name| !name.as_bytes().starts_with(b".")).collect()
}

/// Opens a file of tracefs, by its path relative to a directory.
pub(super) fn open_beside(beside: BorrowedFd<'_>, path: impl AsRef<Path>, how: OFlags) -> io::Result<File> {
    Ok(File::from(openat(beside, path.as_ref(), how | OFlags::CLOEXEC, Mode::empty())?))
}

/// Reads the whole text of a file.
pub(super) fn read_beside(beside: BorrowedFd<'_>, path: impl AsRef<Path>) -> io::Result<String> {
    // Some files must be read by a single call.
    let mut text = vec![0; 16 << 10];
    let mut file = open_beside(beside, path, OFlags::RDONLY)?;
    let mut length = 0;
    loop {
        match file.read(&mut text[length..])? {
            0 => break,
            more => length += more,
        }
    }
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

fn private_mount() -> Result<OwnedFd, Errno> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Describes why tracefs cannot be used, and the remedy.
fn why_not(error: Errno, is_root: bool) -> String {
    match error {
        Errno::NODEV => "this kernel has no tracefs (CONFIG_FTRACE)".to_owned(),
        Errno::PERM | Errno::ACCESS if !is_root => "tracing needs root: run sakiyomi with sudo".to_owned(),
        Errno::PERM | Errno::ACCESS => {
            "tracefs is not mounted in this container, which may not mount it either: \
                                        give it /sys/kernel/tracing of the host, or CAP_SYS_ADMIN"
                .to_owned()
        }
        error => format!(
            "tracefs is not mounted and cannot be mounted privately ({error}): \
             mount -t tracefs tracefs /sys/kernel/tracing"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_what_to_do() {
        assert!(why_not(Errno::PERM, false).contains("sudo"));
        assert!(why_not(Errno::PERM, true).contains("CAP_SYS_ADMIN"));
        assert!(why_not(Errno::NOSYS, true).contains("mount -t tracefs"));
        assert!(why_not(Errno::NODEV, true).contains("CONFIG_FTRACE"));
    }

    #[test]
    fn a_private_tracefs_is_usable_and_visible_to_nobody() {
        let before = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let root = match private_mount() {
            Ok(root) => root,
            Err(error) => return sakiyomi_testing::skipped("a_private_tracefs", error),
        };
        let tree = Tree { root, place: Place::Private };
        assert!(tree.is_writable() && tree.has("events/header_page"));
        assert!(tree.read("events/header_page").unwrap().contains("commit"));
        assert_eq!(std::fs::read_to_string("/proc/self/mountinfo").unwrap(), before);
    }
}
