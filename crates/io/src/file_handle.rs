//! A file identified by its file system's handle (open_by_handle_at(2)), with which it can be opened again without a
//! name and without keeping a descriptor. The handle contains the inode's generation, so that another file with the
//! same inode number is not mistaken for it.
//!
//! Opening requires `CAP_DAC_READ_SEARCH`, and a file system that can export its files.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Largest handle: `MAX_HANDLE_SZ` (linux/exportfs.h).
const HANDLE_MAX_BYTES: usize = 128;

/// `struct file_handle`, with room for the largest handle.
#[repr(C)]
struct Raw {
    bytes: u32,
    kind: i32,
    handle: [u8; HANDLE_MAX_BYTES],
}

/// Names a file of a file system for as long as it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHandle {
    kind: i32,
    handle: Box<[u8]>,
}

impl FileHandle {
    /// Returns the handle of an open file, which may be open with `O_PATH`.
    ///
    /// # Errors
    /// If the file system does not support handles.
    pub fn of(file: impl AsFd) -> io::Result<FileHandle> {
        let mut raw = Raw { bytes: HANDLE_MAX_BYTES as u32, kind: 0, handle: [0; HANDLE_MAX_BYTES] };
        let mut mount = 0;
        // SAFETY: `raw` has the layout of `struct file_handle` and as much room behind it as `bytes` says; the path
        // is an empty string that ends with 0; all of it outlives the call.
        let done = unsafe {
            libc::name_to_handle_at(
                file.as_fd().as_raw_fd(),
                c"".as_ptr(),
                (&raw mut raw).cast(),
                &raw mut mount,
                libc::AT_EMPTY_PATH,
            )
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(FileHandle {
            kind: raw.kind,
            handle: raw.handle[..HANDLE_MAX_BYTES.min(raw.bytes as usize)].into(),
        })
    }

    /// Opens the file with `O_PATH`; `beside` is any other open file of the same file system.
    ///
    /// # Errors
    /// `ESTALE` if the file no longer exists.
    pub fn open_path(&self, beside: impl AsFd) -> io::Result<OwnedFd> {
        let mut raw = Raw { bytes: self.handle.len() as u32, kind: self.kind, handle: [0; HANDLE_MAX_BYTES] };
        raw.handle[..self.handle.len()].copy_from_slice(&self.handle);
        // SAFETY: as above; the call only reads `raw`.
        let file = unsafe {
            libc::open_by_handle_at(
                beside.as_fd().as_raw_fd(),
                (&raw mut raw).cast(),
                libc::O_PATH | libc::O_CLOEXEC,
            )
        };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and this is its only owner.
        Ok(unsafe { OwnedFd::from_raw_fd(file) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_testing::{Scratch, skipped};
    use std::fs::{self, File};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_file_is_opened_again_whatever_its_name_is() {
        let scratch = Scratch::new("file_handle");
        let file = File::create(scratch.path("file")).unwrap();
        let beside = File::open(scratch.root()).unwrap();
        let Ok(handle) = FileHandle::of(&file) else {
            return skipped("a_file_is_opened_again", "the file system has no handles");
        };
        fs::rename(scratch.path("file"), scratch.path("other")).unwrap();
        let again = match handle.open_path(&beside) {
            Ok(again) => File::from(again),
            Err(error) => {
                return skipped("a_file_is_opened_again", format_args!("handles cannot be opened: {error}"));
            }
        };
        assert_eq!(again.metadata().unwrap().ino(), file.metadata().unwrap().ino());
        assert_eq!(FileHandle::of(&again).unwrap(), handle);
        drop((file, again));
        fs::remove_file(scratch.path("other")).unwrap();
        assert_eq!(handle.open_path(&beside).unwrap_err().raw_os_error(), Some(libc::ESTALE));
    }
}
