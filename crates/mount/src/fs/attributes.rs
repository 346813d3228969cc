//! Attributes of files: converted for the kernel, and changed on its request.

use std::ffi::OsStr;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use rustix::fs::{AtFlags, Mode, Stat, Timespec, Timestamps, XattrFlags};
use rustix::fs::{UTIME_NOW, UTIME_OMIT};

use super::nodes::Node;

/// Converts the attributes of a file for the kernel.
pub(super) fn attributes(number: u64, stat: &Stat) -> FileAttr {
    // The types of these fields depend on the architecture.
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
    FileAttr {
        ino: INodeNo(number),
        size: stat.st_size.max(0) as u64,
        blocks: stat.st_blocks.max(0) as u64,
        atime: time(stat.st_atime as i64, stat.st_atime_nsec as u32),
        mtime: time(stat.st_mtime as i64, stat.st_mtime_nsec as u32),
        ctime: time(stat.st_ctime as i64, stat.st_ctime_nsec as u32),
        crtime: UNIX_EPOCH,
        kind: kind(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

pub(super) fn kind(kind: rustix::fs::FileType) -> FileType {
    use rustix::fs::FileType as Backing;
    match kind {
        Backing::Directory => FileType::Directory,
        Backing::Symlink => FileType::Symlink,
        Backing::Fifo => FileType::NamedPipe,
        Backing::Socket => FileType::Socket,
        Backing::CharacterDevice => FileType::CharDevice,
        Backing::BlockDevice => FileType::BlockDevice,
        Backing::RegularFile | Backing::Unknown => FileType::RegularFile,
    }
}

fn time(seconds: i64, nanos: u32) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    second.and_then(|second| second.checked_add(Duration::from_nanos(nanos.into()))).unwrap_or(UNIX_EPOCH)
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let special = |what| Timespec { tv_sec: 0, tv_nsec: what };
    match time {
        None => special(UTIME_OMIT),
        Some(TimeOrNow::Now) => special(UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timespec { tv_sec: after.as_secs() as i64, tv_nsec: after.subsec_nanos().into() },
            Err(before) => {
                let before = before.duration();
                // The fraction counts upwards from the preceding whole second.
                let borrow = i64::from(before.subsec_nanos() > 0);
                let nanos = (1_000_000_000 - i64::from(before.subsec_nanos())) % 1_000_000_000;
                Timespec { tv_sec: -(before.as_secs() as i64) - borrow, tv_nsec: nanos }
            }
        },
    }
}

/// A change of a file's attributes other than its size.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) mode: Option<u32>,
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
    pub(super) accessed: Option<TimeOrNow>,
    pub(super) modified: Option<TimeOrNow>,
}

impl Change {
    pub(super) fn apply(self, node: &Node) -> io::Result<()> {
        // Before the mode: changing the owner clears set-user-ID.
        if self.user.is_some() || self.group.is_some() {
            let user = self.user.map(rustix::fs::Uid::from_raw);
            let group = self.group.map(rustix::fs::Gid::from_raw);
            rustix::fs::chownat(node.place()?, c"", user, group, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = self.mode {
            node.by_path(|path| rustix::fs::chmod(path, Mode::from_raw_mode(mode & 0o7777)))?;
        }
        if self.accessed.is_some() || self.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(self.accessed),
                last_modification: timespec(self.modified),
            };
            node.retimed(|| Ok(rustix::fs::utimensat(node.place()?, c"", &times, AtFlags::EMPTY_PATH)?))?;
        }
        Ok(())
    }
}

/// Largest value of an extended attribute in Linux (`XATTR_SIZE_MAX`).
const XATTR_MAX_BYTES: usize = 64 * 1024;

pub(super) fn get_xattr(node: &Node, name: &OsStr) -> io::Result<Vec<u8>> {
    let mut value = Vec::with_capacity(XATTR_MAX_BYTES);
    node.by_path(|path| rustix::fs::getxattr(path, name, rustix::buffer::spare_capacity(&mut value)))?;
    Ok(value)
}

/// Returns the names of extended attributes, each NUL-terminated; without `all`, omits those that only root may see.
pub(super) fn list_xattrs(node: &Node, all: bool) -> io::Result<Vec<u8>> {
    let mut names = Vec::with_capacity(XATTR_MAX_BYTES);
    node.by_path(|path| rustix::fs::listxattr(path, rustix::buffer::spare_capacity(&mut names)))?;
    Ok(if all { names } else { seen_by_all(&names) })
}

fn seen_by_all(names: &[u8]) -> Vec<u8> {
    let seen = names.split_inclusive(|&byte| byte == 0).filter(|name| !name.starts_with(b"trusted."));
    seen.flatten().copied().collect()
}

/// Returns the default access control list of a directory, if any.
pub(super) fn default_acl(node: &Node) -> Option<Vec<u8>> {
    get_xattr(node, OsStr::new("system.posix_acl_default")).ok()
}

pub(super) fn set_xattr(node: &Node, name: &OsStr, value: &[u8], flags: i32) -> io::Result<()> {
    let flags = XattrFlags::from_bits_retain(flags as u32);
    node.by_path(|path| rustix::fs::setxattr(path, name, value, flags))
}

pub(super) fn remove_xattr(node: &Node, name: &OsStr) -> io::Result<()> {
    node.by_path(|path| rustix::fs::removexattr(path, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_are_roots_are_not_named_to_others() {
        let names = b"trusted.a\0user.b\0trusted.\0security.capability\0user.trusted.\0";
        assert_eq!(seen_by_all(names), b"user.b\0security.capability\0user.trusted.\0");
        assert!(seen_by_all(b"").is_empty());
    }

    #[test]
    fn times_before_1970_go_there_and_back() {
        for (seconds, nanos) in [(0, 0), (5, 7), (-1, 0), (-1, 999_999_999), (-86_400, 1)] {
            let there = time(seconds, nanos);
            let back = timespec(Some(TimeOrNow::SpecificTime(there)));
            assert_eq!((back.tv_sec, back.tv_nsec), (seconds, i64::from(nanos)));
        }
    }
}
