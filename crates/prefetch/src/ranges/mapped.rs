//! A mapped file whose slices are prefetched.

use std::iter;
use std::ops::Range;
use std::path::Path;

use sakiyomi_io::Mapping;

use super::{Error, Prefetch, WAIT_AHEAD_BYTES};

/// A file that is mapped read-only, and prefetched in a given order.
///
/// ```no_run
/// use sakiyomi_prefetch::MappedReader;
/// let reader = MappedReader::open("model.bin")?;
/// let header = reader.slice(0..4096)?;
/// # Ok::<(), sakiyomi_prefetch::ranges::Error>(())
/// ```
///
/// # Files that change
///
/// As with every mapping, a slice shows the present content of the file: **other programs must not write to the file
/// while slices of it are in use**, because bytes that Rust takes to be immutable would change. Files that are replaced by
/// renaming are safe.
///
/// A file that is truncated while it is mapped does not end the program: this library handles SIGBUS, as it does for all
/// its mappings, and the missing bytes read as zeros. [`slice`](MappedReader::slice) then returns
/// [`Error::Shrunk`], and [`is_truncated`](MappedReader::is_truncated) tells whether a slice that is still in use had such
/// bytes. SIGBUS with other causes goes to the handler that was installed before the first mapping.
///
/// # Threads
///
/// Any number of threads can take slices at the same time.
#[derive(Debug)]
pub struct MappedReader {
    prefetch: Prefetch,
    /// `None` for an empty file, which cannot be mapped.
    mapping: Option<Mapping>,
}

impl MappedReader {
    /// Maps a regular file or a block device, which is prefetched whole from its beginning on.
    ///
    /// # Errors
    /// If the file is neither, or cannot be opened or mapped.
    pub fn open(path: impl AsRef<Path>) -> Result<MappedReader, Error> {
        MappedReader::new(Prefetch::open(path, iter::once(0..u64::MAX))?)
    }

    /// Maps the file of `prefetch`, whose ranges and options hold.
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub fn new(prefetch: Prefetch) -> Result<MappedReader, Error> {
        let size = prefetch.size();
        let failed = |source| Error::Map { path: prefetch.file.path().to_owned(), source };
        let length = usize::try_from(size).map_err(|_| failed(std::io::ErrorKind::FileTooLarge.into()))?;
        let mapping = (length > 0).then(|| Mapping::whole(&prefetch.file)).transpose().map_err(failed)?;
        Ok(MappedReader { prefetch, mapping })
    }

    /// Returns the prefetching, by which the consumer can advance and wait, and which has the statistics.
    #[must_use]
    pub fn prefetch(&self) -> &Prefetch {
        &self.prefetch
    }

    /// Returns the size of the file when it was opened, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.prefetch.size()
    }

    /// Returns bytes of the file after waiting until they are cached.
    ///
    /// The window advances to the first of these bytes, if the next 64 ranges contain it; a consumer that uses the ranges
    /// in another order reports its progress by [`Prefetch::advance`].
    ///
    /// # Errors
    /// If the bytes are not all within the file as it was opened, cannot be read, or the file has been truncated.
    pub fn slice(&self, bytes: Range<u64>) -> Result<&[u8], Error> {
        let path = || self.prefetch.file.path().to_owned();
        let size = self.size();
        if bytes.start > bytes.end || bytes.end > size {
            return Err(Error::Outside { path: path(), range: bytes, size });
        }
        let Some(mapping) = self.mapping.as_ref().filter(|_| !bytes.is_empty()) else { return Ok(&[]) };
        self.prefetch.advance_to_byte(bytes.start);
        self.prefetch.wait_for_bytes(&bytes)?;
        let present = mapping.file_size();
        let present = present.map_err(|source| Error::Read { path: path(), range: bytes.clone(), source })?;
        if present < bytes.end || mapping.is_broken() {
            return Err(Error::Shrunk { path: path(), expected: size });
        }
        // The size of the mapping is that of the file, and a `usize`.
        Ok(&mapping[bytes.start as usize..bytes.end as usize])
    }

    /// Waits until bytes of the file are cached, and enters them into the page table of the process. Accesses to slices of
    /// them then cause no page faults. What is only cached can be evicted before it is used, by programs that drop the caches,
    /// or by a kernel that reclaims memory early; what was populated stays, unless memory is short.
    ///
    /// It is for data that is used as a whole, or much later. The window advances as by [`slice`](MappedReader::slice).
    ///
    /// # Errors
    /// The errors of [`slice`](MappedReader::slice). A kernel without population of mappings (before Linux 5.14) leaves the
    /// pages to be mapped when they are accessed.
    pub fn populate(&self, bytes: Range<u64>) -> Result<(), Error> {
        let mut at = bytes.start;
        loop {
            let piece = at..bytes.end.min(at.saturating_add(WAIT_AHEAD_BYTES));
            self.slice(piece.clone())?;
            if let Some(mapping) = self.mapping.as_ref().filter(|_| !piece.is_empty()) {
                // Without it, accesses read what is missing. The size of the mapping is that of the file, and a `usize`.
                let _ = mapping.populate(piece.start as usize..piece.end as usize);
            }
            at = piece.end;
            if at >= bytes.end {
                return Ok(());
            }
        }
    }

    /// Returns the bytes of a range of the order after waiting until they are cached, and advances to this range.
    ///
    /// # Errors
    /// If the range does not exist, and as [`slice`](MappedReader::slice).
    pub fn slice_of(&self, index: usize) -> Result<&[u8], Error> {
        let range = self.prefetch.range(index)?;
        self.prefetch.advance(index);
        self.slice(range)
    }

    /// Returns whether a byte was accessed that the file no longer had, so that a zero was read instead.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.mapping.as_ref().is_some_and(Mapping::is_broken)
    }
}
