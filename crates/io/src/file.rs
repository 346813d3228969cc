//! A file opened for buffered or direct I/O, with its size and alignment.

pub(crate) mod destination;
mod extent;
mod room;
pub(crate) mod unnamed;

pub use extent::extent_at;
pub use room::{file_size_max, free_bytes, is_tmpfs, lies_in_memory};
pub use unnamed::create_unnamed;

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, OFlags, StatxFlags, fcntl_getfl, fcntl_setfl, fstatvfs, statx};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Error;

/// Returns the limit on open descriptors of this process (`RLIMIT_NOFILE`), including those already open.
#[must_use]
pub fn open_files_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the limit on open files as far as this process may: root to the kernel's maximum, others to the hard limit.
/// On failure the limit is unchanged.
pub fn raise_open_files_max() {
    let of_kernel = std::fs::read_to_string("/proc/sys/fs/nr_open").ok();
    let of_kernel = of_kernel.and_then(|text| text.trim().parse().ok());
    let raised = of_kernel.is_some_and(|max: u64| {
        setrlimit(Resource::Nofile, Rlimit { current: Some(max), maximum: Some(max) }).is_ok()
    });
    if !raised {
        let hard = getrlimit(Resource::Nofile).maximum;
        let _ = setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard });
    }
}

/// Whether transfers go through the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Through the page cache.
    #[default]
    Buffered,
    /// Bypassing the page cache (`O_DIRECT`).
    Direct,
}

/// Alignment in bytes that direct transfers require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// For addresses in memory.
    pub memory: usize,
    /// For offsets in the file, and lengths.
    pub offset: usize,
}

/// The alignment that all current disks accept, for kernels that do not report it (before Linux 6.1).
const USUAL: Alignment = Alignment { memory: 4096, offset: 4096 };

/// An open file.
#[derive(Debug)]
pub struct IoFile {
    file: File,
    path: PathBuf,
    /// Size when it was opened, or the end of the bytes written to it since, in bytes.
    size: AtomicU64,
    access: Access,
    alignment: Alignment,
    /// Where `read(2)` continues, in bytes.
    position: Mutex<u64>,
    /// Capacity of an imaginary file in bytes.
    capacity: Option<u64>,
}

impl IoFile {
    /// Opens a regular file or a block device for reading.
    ///
    /// # Errors
    /// If it is neither, or cannot be opened, or does not support direct I/O.
    pub fn open(path: &Path, access: Access) -> Result<IoFile, Error> {
        IoFile::open_with(path, access, OpenOptions::new().read(true))
    }

    /// Opens a regular file or a block device for reading and writing.
    ///
    /// # Errors
    /// Returns the errors of [`IoFile::open`].
    pub fn open_writable(path: &Path, access: Access) -> Result<IoFile, Error> {
        IoFile::open_with(path, access, OpenOptions::new().read(true).write(true))
    }

    fn open_with(path: &Path, access: Access, options: &mut OpenOptions) -> Result<IoFile, Error> {
        let failed = |source| Error::Open { path: path.to_owned(), source };
        // Opening a FIFO would block until it has a writer.
        refuse_what_has_no_offsets(path, &std::fs::metadata(path).map_err(failed)?)?;
        let file = options.custom_flags(flags_of(access).bits().cast_signed()).open(path);
        let mut file = file.map_err(|source| open_error(path, access, source))?;
        let size = size_of(&mut file).map_err(failed)?;
        IoFile::new(file, path, size, access)
    }

    /// Creates a regular file for reading and writing, or truncates an existing one. Use
    /// [`AtomicFile`](crate::AtomicFile) for a file that other programs must never see half-written.
    ///
    /// # Errors
    /// If it cannot be created, or does not support direct I/O.
    pub fn create(path: &Path, access: Access) -> Result<IoFile, Error> {
        let existed = match std::fs::metadata(path) {
            Ok(metadata) => {
                refuse_what_has_no_offsets(path, &metadata)?;
                true
            }
            Err(_) => false,
        };
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true);
        let opened = options.custom_flags(flags_of(access).bits().cast_signed()).open(path);
        if opened.is_err() && !existed && access == Access::Direct {
            // The kernel refuses direct I/O only after it has created the file.
            let _ = std::fs::remove_file(path);
        }
        let file = opened.map_err(|source| open_error(path, access, source))?;
        IoFile::new(file, path, 0, access)
    }

    /// Takes over an open file, which must have been opened for `access`; `path` is its name in errors.
    ///
    /// # Errors
    /// If it is neither a regular file nor a block device, or does not support direct I/O.
    pub fn from_file(mut file: File, path: &Path, access: Access) -> Result<IoFile, Error> {
        let failed = |source| Error::Open { path: path.to_owned(), source };
        refuse_what_has_no_offsets(path, &file.metadata().map_err(failed)?)?;
        let size = size_of(&mut file).map_err(failed)?;
        IoFile::new(file, path, size, access)
    }

    fn new(file: File, path: &Path, size: u64, access: Access) -> Result<IoFile, Error> {
        let alignment = if access == Access::Direct { direct_alignment(&file) } else { Some(NO_ALIGNMENT) };
        let alignment = alignment.ok_or_else(|| Error::NoDirect { path: path.to_owned() })?;
        let (path, size) = (path.to_owned(), AtomicU64::new(size));
        Ok(IoFile { file, path, size, access, alignment, position: Mutex::new(0), capacity: None })
    }

    /// Creates a file that only [`crate::fake::Fake`] can access, with a chosen size and alignment.
    ///
    /// # Errors
    /// If `/dev/null` cannot be opened.
    pub(crate) fn imaginary(
        path: &Path,
        size: u64,
        alignment: usize,
        capacity: Option<u64>,
    ) -> io::Result<IoFile> {
        let alignment = Alignment { memory: 1, offset: alignment };
        let file = File::open("/dev/null")?;
        Ok(IoFile {
            file,
            path: path.to_owned(),
            size: AtomicU64::new(size),
            access: Access::Buffered,
            alignment,
            position: Mutex::new(0),
            capacity,
        })
    }

    /// Locks and returns the offset at which `read(2)` continues, in bytes.
    pub(crate) fn position(&self) -> MutexGuard<'_, u64> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size in bytes when it was opened, or the end of the bytes that this crate has written since, if
    /// larger.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// Records that bytes up to `end` have been written.
    pub(crate) fn grow_to(&self, end: u64) {
        self.size.fetch_max(end, Ordering::Release);
    }

    /// Returns the capacity of an imaginary file in bytes.
    pub(crate) fn capacity(&self) -> Option<u64> {
        self.capacity
    }

    /// Returns the free bytes of its file system for unprivileged users; `None` if it reports none.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        if let Some(capacity) = self.capacity {
            return Some(capacity.saturating_sub(self.size()));
        }
        room::free_of(&fstatvfs(&self.file).ok()?)
    }

    /// Switches direct I/O of a file that was opened for it off or on.
    pub(crate) fn set_direct(&self, is_direct: bool) -> io::Result<()> {
        if self.access == Access::Buffered {
            return Ok(());
        }
        let flags = fcntl_getfl(&self.file)?;
        let flags = if is_direct { flags | OFlags::DIRECT } else { flags - OFlags::DIRECT };
        Ok(fcntl_setfl(&self.file, flags)?)
    }

    /// Returns the current size in bytes.
    ///
    /// # Errors
    /// Returns the errors of `fstat`.
    pub(crate) fn size_now(&self) -> io::Result<u64> {
        let metadata = self.file.metadata()?;
        Ok(if metadata.file_type().is_block_device() { self.size() } else { metadata.len() })
    }

    /// Returns the access mode that it was opened with.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Returns the alignment of its transfers; one byte through the page cache.
    #[must_use]
    pub fn alignment(&self) -> Alignment {
        self.alignment
    }
}

/// Returns the flags of `open` for an access mode.
pub(crate) fn flags_of(access: Access) -> OFlags {
    if access == Access::Direct { OFlags::DIRECT } else { OFlags::empty() }
}

fn open_error(path: &Path, access: Access, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::EINVAL) if access == Access::Direct => Error::NoDirect { path: path.to_owned() },
        _ => Error::Open { path: path.to_owned(), source },
    }
}

/// Returns the size in bytes; that of a block device is the offset of its end.
fn size_of(file: &mut File) -> io::Result<u64> {
    let size = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    Ok(size)
}

const NO_ALIGNMENT: Alignment = Alignment { memory: 1, offset: 1 };

fn refuse_what_has_no_offsets(path: &Path, metadata: &std::fs::Metadata) -> Result<(), Error> {
    let kind = metadata.file_type();
    let what = match kind {
        _ if kind.is_file() || kind.is_block_device() => return Ok(()),
        _ if kind.is_dir() => "a directory",
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ => "a character device",
    };
    Err(Error::NotAFile { path: path.to_owned(), what })
}

/// Returns the alignment that `O_DIRECT` requires of this file; `None` if it does not support direct I/O.
#[must_use]
pub fn direct_alignment(file: &File) -> Option<Alignment> {
    let Ok(found) = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) else { return Some(USUAL) };
    if found.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return Some(USUAL);
    }
    let (memory, offset) = (found.stx_dio_mem_align as usize, found.stx_dio_offset_align as usize);
    // The kernel reports 0 for both if a file does not support it.
    (memory > 0 && offset > 0).then_some(Alignment { memory, offset })
}
