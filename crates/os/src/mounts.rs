//! The mount table of this process, and unmounting.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::mount::UnmountFlags;

/// The mounts visible to this process, as the kernel lists them.
#[derive(Debug)]
pub struct MountTable(String);

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount<'a> {
    /// The mount point.
    pub place: PathBuf,
    /// The number of its device, unique among the present mounts.
    pub device: &'a str,
    /// The type of the file system.
    pub kind: &'a str,
    /// The source of the mount: a device, or a name that the file system chose.
    pub source: &'a str,
    /// Mount options of the file system.
    pub options: &'a str,
}

impl MountTable {
    /// Reads the table.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn read() -> io::Result<MountTable> {
        fs::read_to_string("/proc/self/mountinfo").map(MountTable)
    }

    /// Returns the mount on a directory; the last one if several are stacked.
    #[must_use]
    pub fn on(&self, directory: &Path) -> Option<Mount<'_>> {
        self.0.lines().filter_map(Mount::of_line).rfind(|mount| mount.place == directory)
    }

    /// Returns the mount that contains a path.
    #[must_use]
    pub fn above(&self, path: &Path) -> Option<Mount<'_>> {
        path.ancestors().skip(1).find_map(|above| self.on(above))
    }
}

impl Mount<'_> {
    /// Parses `36 35 98:0 / /mnt rw,noatime shared:1 - ext3 /dev/root rw`.
    fn of_line(line: &str) -> Option<Mount<'_>> {
        let (of_place, rest) = line.split_once(" - ")?;
        let mut of_place = of_place.split(' ').skip(2);
        let (device, place) = (of_place.next()?, of_place.nth(1)?);
        let mut rest = rest.split(' ');
        let (kind, source, options) = (rest.next()?, rest.next()?, rest.next().unwrap_or_default());
        Some(Mount { place: unescaped(place).into(), device, kind, source, options })
    }

    /// Returns the user ID of a FUSE file system's owner, from its options.
    #[must_use]
    pub fn fuse_user(&self) -> Option<u32> {
        let mut options = self.options.split(',');
        options.find_map(|option| option.strip_prefix("user_id=")).and_then(|user| user.parse().ok())
    }
}

/// Decodes a path: the kernel writes blanks, tabs, line ends and backslashes as `\040` and the like.
fn unescaped(text: &str) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = rest.get(1..4).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()).filter(|_| first == b'\\') {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

/// Unmounts a directory; does not follow a symbolic link. With `lazy` a file system in use is detached, and ends with
/// its last user (`MNT_DETACH`).
///
/// # Errors
/// Returns the errors of umount2(2): `EBUSY`, `EPERM`.
pub fn unmount(place: &Path, lazy: bool) -> io::Result<()> {
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    Ok(rustix::mount::unmount(place, flags | UnmountFlags::NOFOLLOW)?)
}

/// Aborts all pending requests to a file system that is served by a process, such as FUSE (`MNT_FORCE`); their callers
/// get an error. The file system may stay mounted while it is in use.
///
/// # Errors
/// Returns the errors of umount2(2), but for `EBUSY`.
pub fn abort(place: &Path) -> io::Result<()> {
    match rustix::mount::unmount(place, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW) {
        Err(rustix::io::Errno::BUSY) => Ok(()),
        ended => Ok(ended?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_mounts_are_read_whatever_their_names() {
        let line = r"36 35 0:40 / /mnt/a\040b\134c rw shared:1 - fuse.sakiyomi sakiyomi rw,user_id=0";
        let place = PathBuf::from(r"/mnt/a b\c");
        let (source, options) = ("sakiyomi", "rw,user_id=0");
        let expected = Mount { place, device: "0:40", kind: "fuse.sakiyomi", source, options };
        assert_eq!(expected.fuse_user(), Some(0));
        assert_eq!(Mount::of_line(line), Some(expected));
        assert_eq!(Mount::of_line("36 35"), None);
    }

    #[test]
    fn of_stacked_mounts_the_last_counts_and_of_nested_ones_the_nearest() {
        let line = |place: &str, kind: &str| format!("1 2 0:1 / {place} rw - {kind} none rw\n");
        let lines = [line("/", "ext4"), line("/a", "tmpfs"), line("/a", "proc"), line("/a/b", "fuse")];
        let table = MountTable(lines.concat());
        assert_eq!(table.on(Path::new("/a")).unwrap().kind, "proc");
        assert_eq!(table.above(Path::new("/a/b")).unwrap().kind, "proc");
        assert_eq!(table.above(Path::new("/c")).unwrap().kind, "ext4");
        assert!(table.on(Path::new("/c")).is_none());
    }

    #[test]
    fn a_directory_without_a_mount_is_not_unmounted() {
        assert!(unmount(Path::new("/proc/self/fd"), false).is_err());
    }
}
