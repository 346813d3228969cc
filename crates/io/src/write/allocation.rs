//! Preallocation of file system blocks ahead of writes.
//!
//! Direct writes that extend a file are serialized by ext4, whatever the depth; over preallocated blocks they are
//! concurrent (Linux 6.18: of 8 writes in flight, the device had 1 and 8).

use std::io;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, getrlimit};

use crate::{Error, IoFile};

/// Bounds of the bytes that are allocated ahead: as much as the file already has, within these bounds.
const AHEAD_MIN_BYTES: u64 = 16 << 20;
const AHEAD_MAX_BYTES: u64 = 256 << 20;

/// At most the free space divided by this number is allocated ahead, or kept after its use, so that other users are
/// not deprived of it.
pub(crate) const FREE_PARTS: u64 = 16;

/// The part of a file that has been allocated ahead.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// End of the allocated range; `None` if no more is to be allocated: space is short, or the file system does not
    /// support it.
    to: Option<u64>,
    /// Whether the file was extended beyond the written bytes.
    extended: bool,
    /// Largest size of a file (`RLIMIT_FSIZE`). A write beyond it would end the process with SIGXFSZ.
    limit: u64,
}

impl Allocation {
    pub(crate) fn none() -> Allocation {
        let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        Allocation { to: Some(0), extended: false, limit }
    }

    /// Allocates the expected bytes.
    pub(crate) fn expecting(file: &IoFile, from: u64, bytes: u64) -> Result<Allocation, Error> {
        let mut allocation = Allocation::none();
        let path = || file.path().to_owned();
        let no_room = |free| Error::NoRoom { path: path(), needed: bytes, free };
        if let Some(free) = file.free_bytes().filter(|&free| free < bytes) {
            return Err(no_room(free));
        }
        let end = from.saturating_add(bytes);
        let result = if end > allocation.limit { Err(Errno::FBIG) } else { allocate(file, from, bytes) };
        match result {
            Ok(()) => (allocation.to, allocation.extended) = (Some(end), true),
            Err(Errno::NOSPC) => return Err(no_room(file.free_bytes().unwrap_or(0))),
            Err(error @ (Errno::FBIG | Errno::DQUOT | Errno::IO)) => {
                let length = usize::try_from(bytes).unwrap_or(usize::MAX);
                return Err(Error::Write { path: path(), offset: from, length, source: error.into() });
            }
            // The file system does not support it, or the file is not on one.
            Err(_) => allocation.to = None,
        }
        Ok(allocation)
    }

    /// Refuses a write beyond the file size limit of the process (`EFBIG`).
    pub(crate) fn check_limit(&self, end: u64) -> io::Result<()> {
        if end > self.limit { Err(io::Error::from_raw_os_error(libc::EFBIG)) } else { Ok(()) }
    }

    /// Returns whether the bytes before `end` are allocated.
    pub(crate) fn covers(&self, end: u64) -> bool {
        self.to.is_some_and(|to| end <= to)
    }

    /// Allocates ahead for writes up to `end`. Only concurrency depends on it: if space is short, the write itself
    /// fails.
    pub(crate) fn ahead_of(&mut self, file: &IoFile, end: u64) {
        let Some(from) = self.to.filter(|&to| end > to) else { return };
        let ahead = end.clamp(AHEAD_MIN_BYTES, AHEAD_MAX_BYTES);
        let from = from.max(file.size());
        let to = end.saturating_add(ahead).min(self.limit);
        let is_plenty = file.free_bytes().is_none_or(|free| free / FREE_PARTS > ahead);
        let is_done = is_plenty && to > from && allocate(file, from, to - from).is_ok();
        self.to = is_done.then_some(to);
        self.extended |= is_done;
    }

    /// Frees the blocks allocated beyond the file's end.
    pub(crate) fn trim(&mut self, file: &IoFile) -> io::Result<()> {
        if !std::mem::take(&mut self.extended) {
            return Ok(());
        }
        file.file().set_len(file.size())
    }
}

fn allocate(file: &IoFile, from: u64, length: u64) -> Result<(), Errno> {
    retry_on_intr(|| fallocate(file.file(), FallocateFlags::empty(), from, length))
}
