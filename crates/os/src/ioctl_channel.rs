//! Messages to the server of a FUSE file system, and replies: an ioctl(2) on any of its files or directories. The
//! kernel identifies the calling thread, so that neither a socket nor a secret is needed.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, fstatfs, open as open_path};

/// Size of a message and of its reply in bytes: nearly the largest that an ioctl's number can express.
pub const MESSAGE_BYTES: usize = 0x3ff8;

/// The ioctl's number: both directions, [`MESSAGE_BYTES`], and the command.
pub const IOCTL_NUMBER: u32 = 3 << 30 | (MESSAGE_BYTES as u32) << 16 | (b's' as u32) << 8 | 1;

/// Type of a FUSE file system (`FUSE_SUPER_MAGIC`, linux/magic.h).
const FUSE_MAGIC: i64 = 0x6573_5546;

/// Opens a file or directory for a message to its file system's server. Does not wait for the writer of a pipe.
///
/// # Errors
/// If it does not exist or is not readable.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(open_path(path, flags, Mode::empty())?.into())
}

/// Sends `message` to the FUSE server of the file system of `file`, and replaces it by the reply.
///
/// # Errors
/// `ENOTTY` if the file system is not FUSE, or its server does not support these messages.
pub fn exchange(file: impl AsFd, message: &mut [u8; MESSAGE_BYTES]) -> io::Result<()> {
    // Other drivers may interpret the number differently.
    if fstatfs(&file)?.f_type != FUSE_MAGIC {
        return Err(io::Error::from_raw_os_error(libc::ENOTTY));
    }
    // SAFETY: the number encodes that MESSAGE_BYTES bytes are read from and written to the message, which has that
    // size.
    let done = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), IOCTL_NUMBER.into(), message.as_mut_ptr()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_file_systems_are_not_asked() {
        let here = open(Path::new("/proc")).unwrap();
        let error = exchange(here, &mut [0; MESSAGE_BYTES]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }
}
