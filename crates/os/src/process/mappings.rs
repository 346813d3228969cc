//! The files that a process has mapped, which may be closed or deleted.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, makedev, openat};

use super::{Identity, Process, identity, identity_at};

/// A mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The address range, as `/proc` names it.
    pub place: String,
    /// The first address.
    pub start: u64,
    /// The file offset that is mapped there, in bytes.
    pub offset: u64,
    /// The file system's device.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// Whether it is executable: a program or a library.
    pub is_code: bool,
    /// Whether it is readable.
    pub is_readable: bool,
    /// Its size in the address space, in bytes.
    pub length: u64,
    /// The path; ` (deleted)` is appended if the file was deleted.
    pub path: PathBuf,
}

impl Process {
    /// Returns the mappings of files, in address order.
    ///
    /// # Errors
    /// If it has ended, or belongs to another user.
    pub fn mappings(&self) -> io::Result<Vec<Mapped>> {
        let mut text = Vec::new();
        File::from(self.at("maps")?).read_to_end(&mut text)?;
        Ok(text.split(|&byte| byte == b'\n').filter_map(parse).collect())
    }

    /// Returns the identity of a mapped file. As root, this makes no request to the file system; other users look the
    /// file up by its path in the mount namespace of the process.
    ///
    /// # Errors
    /// If the file is no longer mapped there, or has been replaced by another file at its path.
    pub fn identity_mapped(&self, mapped: &Mapped) -> io::Result<Identity> {
        match identity_at(self.directory.as_fd(), Path::new(&mapped.by_place())) {
            Err(error) if is_refused(&error) => {
                mapped.checked(identity_at(self.directory.as_fd(), &mapped.by_path()?)?)
            }
            result => result,
        }
    }

    /// Opens a mapped file for reading. Root can open it even if it has been deleted.
    ///
    /// # Errors
    /// If the file is no longer mapped there, cannot be read, or has been replaced by another file at its path.
    pub fn reopen_mapped(&self, mapped: &Mapped) -> io::Result<File> {
        match self.open_quietly(Path::new(&mapped.by_place())) {
            Err(error) if is_refused(&error) => {
                let file = self.open_quietly(&mapped.by_path()?)?;
                mapped.checked(identity(&file)?)?;
                Ok(file)
            }
            result => result,
        }
    }

    /// Opens a file without changing the time of its last access, if that is permitted.
    fn open_quietly(&self, name: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let quiet = openat(&self.directory, name, flags | OFlags::NOATIME, Mode::empty());
        Ok(File::from(quiet.or_else(|_| openat(&self.directory, name, flags, Mode::empty()))?))
    }
}

impl Mapped {
    fn by_place(&self) -> String {
        format!("map_files/{}", self.place)
    }

    /// Returns the path in the mount namespace of the process, relative to its directory in `/proc`.
    fn by_path(&self) -> io::Result<PathBuf> {
        let inner = self.path.strip_prefix("/").map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(Path::new("root").join(inner))
    }

    /// Returns `found` if it is the mapped file. Devices are not compared: on overlays and subvolumes the device in
    /// `maps` differs from that of `stat`.
    fn checked(&self, found: Identity) -> io::Result<Identity> {
        if found.inode == self.inode { Ok(found) } else { Err(io::Error::from(io::ErrorKind::NotFound)) }
    }
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Returns the PID of the process of a thread; `None` if it has ended.
#[must_use]
pub fn process_of(thread: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// Parses `7f1c-7f1d r--p 00000000 fe:00 9986717    /path`; `None` if the mapping is not of a file.
fn parse(line: &[u8]) -> Option<Mapped> {
    let mut rest = line;
    let mut field = || {
        let begun = rest.iter().position(|&byte| byte != b' ')?;
        let end =
            rest[begun..].iter().position(|&byte| byte == b' ').map_or(rest.len(), |length| begun + length);
        let field = std::str::from_utf8(&rest[begun..end]).ok();
        rest = &rest[end..];
        field
    };
    let (place, rights, offset, device, inode) = (field()?, field()?, field()?, field()?, field()?);
    let inode = inode.parse().ok().filter(|&inode| inode != 0)?;
    let (major, minor) = device.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let (from, to) = place.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (address(from)?, address(to)?);
    Some(Mapped {
        place: place.to_owned(),
        start,
        offset: address(offset)?,
        device: makedev(number(major)?, number(minor)?),
        inode,
        is_code: rights.contains('x'),
        is_readable: rights.starts_with('r'),
        length: end.checked_sub(start)?,
        path: PathBuf::from(OsStr::from_bytes(rest.trim_ascii_start())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_understood_whatever_its_file_is_called() {
        let line = b"7f00-9f00 r-xs 00001000 fe:0a 4711                      /a b (deleted)";
        let mapped = parse(line).unwrap();
        assert_eq!(
            (mapped.place.as_str(), mapped.length, mapped.inode, mapped.is_code),
            ("7f00-9f00", 0x2000, 4711, true)
        );
        assert_eq!((mapped.start, mapped.offset, mapped.is_readable), (0x7f00, 0x1000, true));
        assert_eq!((mapped.device, mapped.path), (makedev(254, 10), PathBuf::from("/a b (deleted)")));
        assert_eq!(parse(b"7f00-9f00 rw-p 00000000 00:00 0      [heap]"), None);
        assert_eq!(parse(b"9f00-7f00 rw-p 00000000 00:01 1 /x"), None);
    }

    #[test]
    fn what_this_process_has_mapped_is_found_and_can_be_opened() {
        let process = Process::open(std::process::id()).unwrap();
        let own = process.mappings().unwrap();
        let program = own.iter().find(|mapped| mapped.is_code).expect("this program is mapped");
        match process.reopen_mapped(program) {
            Ok(file) => {
                let is = super::super::identity(&file).unwrap();
                assert_eq!(is.inode, program.inode);
            }
            Err(error) => {
                sakiyomi_testing::skipped("what_this_process_has_mapped", format_args!("opening it: {error}"))
            }
        }
        assert_eq!(process_of(std::process::id()), Some(std::process::id()));
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(line in prop::collection::vec(any::<u8>(), 0..80), cut in 0..70usize) {
            parse(&line);
            let line = b"7f00-9f00 r-xs 00001000 fe:0a 4711      /a b";
            parse(&line[..cut.min(line.len())]);
        }
    }
}
