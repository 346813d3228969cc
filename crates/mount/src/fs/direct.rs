//! Backing files that bypass the page cache: for rates on the device itself, each access must reach it.
//!
//! Devices require addresses, offsets and lengths aligned to a power of two, while programs use any: a read is widened
//! to the alignment; an unaligned write goes through the page cache.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::OFlags;
use rustix::io::Errno;
use sakiyomi_io::file::direct_alignment;
use sakiyomi_io::{BufferPool, Memory};
use sakiyomi_iorate::server::RequestCount;

use super::nodes::Node;

/// Size of the largest kernel request (256 pages), with room for alignment.
const BUFFER_BYTES: usize = (1 << 20) + 2 * ALIGNMENT_MAX_BYTES;

/// Largest alignment that is supported; devices do not require more.
const ALIGNMENT_MAX_BYTES: usize = 4096;

/// State that all direct files of a mount share.
#[derive(Debug)]
pub(crate) struct DirectFiles {
    pool: BufferPool,
    issued: Arc<Issued>,
    /// Whether the files exist only in memory.
    in_memory: bool,
}

/// File systems that take `O_DIRECT` and have no device: tmpfs, ramfs (linux/magic.h).
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Upper bound of the number of requests to the device, and how they were made.
#[derive(Debug, Default)]
pub(crate) struct Issued {
    /// Size of the device's largest request in bytes; 0 if unknown.
    most: u64,
    requests: AtomicU64,
    /// Whether some file could not be opened with `O_DIRECT`.
    buffered: AtomicBool,
}

/// A file opened with `O_DIRECT`.
#[derive(Debug)]
pub(super) struct Direct {
    file: File,
    alignment: usize,
}

impl RequestCount for Issued {
    fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Issued {
    /// Counts requests to a device whose largest request is `most` bytes.
    pub(crate) fn new(most: u64) -> Issued {
        Issued { most, ..Issued::default() }
    }

    /// Returns whether some file is served through the page cache.
    pub(crate) fn has_buffered(&self) -> bool {
        self.buffered.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: usize) {
        let requests = (bytes as u64).div_ceil(if self.most == 0 { u64::MAX } else { self.most }).max(1);
        self.requests.fetch_add(requests, Ordering::Relaxed);
    }
}

impl DirectFiles {
    /// Prepares buffers for `threads` concurrent threads in a backing directory.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub(crate) fn new(
        threads: usize,
        root: &OwnedFd,
        issued: Arc<Issued>,
    ) -> Result<DirectFiles, sakiyomi_io::Error> {
        let in_memory = rustix::fs::fstatfs(root).is_ok_and(|found| IN_MEMORY.contains(&found.f_type));
        Ok(DirectFiles {
            pool: BufferPool::fixed(threads, BUFFER_BYTES, Memory::Ordinary)?,
            issued,
            in_memory,
        })
    }

    /// Returns the counts of requests to the device.
    pub(crate) fn issued(&self) -> Arc<Issued> {
        Arc::clone(&self.issued)
    }

    /// Opens a file again with `O_DIRECT`, if its file system supports that and this process may.
    pub(super) fn open(&self, node: &Node, access: OFlags) -> Option<Direct> {
        let opened =
            (!self.in_memory).then(|| node.open(access | OFlags::DIRECT).map(File::from).ok()).flatten();
        let direct = opened.and_then(|file| {
            let alignment = direct_alignment(&file)?;
            let alignment = alignment.offset.max(alignment.memory);
            (alignment <= ALIGNMENT_MAX_BYTES).then_some(Direct { file, alignment })
        });
        if direct.is_none() {
            self.issued.buffered.store(true, Ordering::Relaxed);
        }
        direct
    }

    /// Reads from `offset` into `bytes` and returns the number of bytes read; `None` if the read must go through the
    /// page cache.
    pub(super) fn read(&self, direct: &Direct, offset: u64, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        let alignment = direct.alignment as u64;
        let start = offset / alignment * alignment;
        let before = (offset - start) as usize;
        let length = (before + bytes.len()).next_multiple_of(direct.alignment);
        let Some(mut buffer) = self.pool.take().filter(|buffer| length <= buffer.capacity()) else {
            return Ok(None);
        };
        let space = &mut buffer.space()[..length];
        let mut filled = 0;
        while filled < length {
            match direct.file.read_at(&mut space[filled..], start + filled as u64) {
                Ok(read) => {
                    filled += read;
                    // A read that is not a multiple of the alignment reached the end of the file.
                    if read == 0 || !filled.is_multiple_of(direct.alignment) {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_refused(&error) && filled == 0 => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        self.issued.count(length);
        let read = filled.saturating_sub(before).min(bytes.len());
        bytes[..read].copy_from_slice(&space[before..][..read]);
        Ok(Some(read))
    }

    /// Writes all data. Returns false if it must go through the page cache.
    pub(super) fn write(&self, direct: &Direct, offset: u64, data: &[u8]) -> io::Result<bool> {
        let whole =
            offset.is_multiple_of(direct.alignment as u64) && data.len().is_multiple_of(direct.alignment);
        let buffer = self.pool.take().filter(|buffer| whole && data.len() <= buffer.capacity());
        let Some(mut buffer) = buffer else { return Ok(false) };
        buffer.set_len(0);
        buffer.append(data);
        let written = direct.file.write_all_at(&buffer, offset);
        match written {
            Err(error) if is_refused(&error) => return Ok(false),
            written => written?,
        }
        self.issued.count(data.len());
        Ok(true)
    }

    /// Counts an access that this thread made through the page cache instead.
    pub(super) fn went_around(&self, bytes: usize) {
        self.issued.count(bytes);
    }
}

/// Returns whether the file system supports this access only through the page cache, as for compressed files and data
/// in inodes.
fn is_refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}
