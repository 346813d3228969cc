//! An open file of a process: its offset, its access mode, and its identity.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, OFlags, StatxFlags, makedev, statx};

use super::reread;

/// A descriptor of a process.
///
/// The process may reuse the number for another file: [`Open::inode`] tells them apart.
#[derive(Debug)]
pub struct Descriptor {
    fdinfo: OwnedFd,
}

/// The state of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Offset of the next `read`, in bytes.
    pub position: u64,
    /// Whether `read` is possible.
    pub readable: bool,
    /// Whether `write` is possible.
    pub writable: bool,
    /// Whether it bypasses the page cache (`O_DIRECT`).
    pub direct: bool,
    /// The inode number.
    pub inode: u64,
}

/// Identity, type and size of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Device number of the file system.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// The type of the file.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: u64,
}

/// Kinds of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    Regular,
    /// A block device; `device` is its own number.
    BlockDevice,
    /// A directory.
    Directory,
    /// Anything else.
    Other,
}

impl Identity {
    /// Returns whether both are the same file, even if it was modified.
    #[must_use]
    pub fn is_same(&self, other: &Identity) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

impl Descriptor {
    pub(super) fn new(fdinfo: OwnedFd) -> Descriptor {
        Descriptor { fdinfo }
    }

    /// Reads its present state.
    ///
    /// # Errors
    /// If it is closed, or the process has ended.
    pub fn query(&self) -> io::Result<Open> {
        let mut buffer = [0; 256];
        let text = reread(self.fdinfo.as_fd(), &mut buffer)?;
        parse(text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }
}

/// Parses `fdinfo`. Lines about locks may follow, and may be truncated.
fn parse(text: &str) -> Option<Open> {
    let field =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let flags = OFlags::from_bits_retain(u32::from_str_radix(field("flags")?, 8).ok()?);
    let mode = flags & OFlags::ACCMODE;
    let by_path = flags.contains(OFlags::PATH);
    Some(Open {
        position: field("pos")?.parse().ok()?,
        readable: !by_path && mode != OFlags::WRONLY,
        writable: !by_path && mode != OFlags::RDONLY,
        direct: flags.contains(OFlags::DIRECT),
        inode: field("ino")?.parse().ok()?,
    })
}

/// Returns the identity of the file at a path, relative to a directory, from cached attributes
/// (`AT_STATX_DONT_SYNC`).
///
/// # Errors
/// If there is no such file.
pub fn identity_at(directory: BorrowedFd<'_>, path: &Path) -> io::Result<Identity> {
    stat(directory, path, AtFlags::STATX_DONT_SYNC)
}

/// Returns the identity of an open file, likewise.
///
/// # Errors
/// If the system call fails.
pub fn identity(file: impl AsFd) -> io::Result<Identity> {
    stat(file.as_fd(), Path::new(""), AtFlags::STATX_DONT_SYNC | AtFlags::EMPTY_PATH)
}

fn stat(directory: BorrowedFd<'_>, path: &Path, flags: AtFlags) -> io::Result<Identity> {
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::SIZE;
    let found = statx(directory, path, flags, wanted)?;
    let kind = match FileType::from_raw_mode(u32::from(found.stx_mode)) {
        FileType::RegularFile => Kind::Regular,
        FileType::Directory => Kind::Directory,
        FileType::BlockDevice => Kind::BlockDevice,
        _ => Kind::Other,
    };
    let (device, size) = if kind == Kind::BlockDevice {
        let (major, minor) = (found.stx_rdev_major, found.stx_rdev_minor);
        (makedev(major, minor), size_of_device(major, minor))
    } else {
        (makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_size)
    };
    Ok(Identity { device, inode: found.stx_ino, kind, size })
}

/// Returns the size of a block device in bytes from `/sys`, which counts sectors of 512 bytes, without opening it. 0
/// if it is not reported.
fn size_of_device(major: u32, minor: u32) -> u64 {
    let sectors = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size"));
    sectors
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok())
        .map_or(0, |sectors| sectors.saturating_mul(512))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_known_fields_may_be_cut() {
        let text = "pos:\t65536\nflags:\t0100002\nmnt_id:\t29\nino:\t77\nlock:\t1: POSI";
        let open = parse(text).unwrap();
        assert_eq!(open, Open { position: 65536, readable: true, writable: true, direct: false, inode: 77 });
        assert!(parse("pos:\t65536\nflags:\t01").is_none());
        assert!(parse("").is_none());
    }
}
