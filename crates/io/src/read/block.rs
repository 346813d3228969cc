//! A block of bytes of a file.

use std::io;
use std::ops::{Deref, Range};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Error;
use crate::engine::Payload;
use crate::file::IoFile;

/// Slot for the error of a mapping that lost bytes after it was returned to the caller.
pub(super) type Late = Arc<Mutex<Option<Error>>>;

/// Memory of one block, or shared by several blocks of one read.
#[derive(Debug)]
pub(super) enum Held {
    One(Payload),
    Shared(Arc<Payload>),
}

impl Held {
    fn payload(&self) -> &Payload {
        match self {
            Held::One(payload) => payload,
            Held::Shared(payload) => payload,
        }
    }
}

/// A block of a file. Its memory is released on drop; it may outlive its stream.
#[derive(Debug)]
pub struct Block {
    pub(super) held: Held,
    /// The requested part of the payload.
    pub(super) within: Range<usize>,
    /// Offset of the payload in the file, in bytes.
    pub(super) offset: u64,
    pub(super) service: Duration,
    pub(super) late: Option<Late>,
    pub(super) file: Arc<IoFile>,
}

impl Block {
    /// Returns its offset in the file, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset + self.within.start as u64
    }

    /// Returns the file.
    #[must_use]
    pub fn file(&self) -> &Arc<IoFile> {
        &self.file
    }

    /// Returns the service time: the duration of the system calls, without the time in the stream's queue.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.service
    }

    /// Returns whether its bytes are the file's own pages, not a copy.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.held.payload(), Payload::Mapping(_))
    }

    /// Declares that the block will be released whatever the thread that took it from the stream does next, for
    /// example because it is sent to another thread. Otherwise a stream without memory assumes that this thread holds
    /// the block while it waits ([`Error::AllHeld`]).
    #[must_use]
    pub fn send(mut self) -> Block {
        if let Held::One(Payload::Buffer(buffer)) = &mut self.held {
            buffer.send();
        }
        self
    }

    /// Checks that the bytes are the file's. Only a mapping can lose them after it was returned, if the file shrinks:
    /// then zeros were read, and the stream also returns the error in the place of its next block.
    ///
    /// # Errors
    /// [`Error::Shrunk`], or [`Error::Read`] if a page could not be fetched.
    pub fn intact(&self) -> Result<(), Error> {
        let Payload::Mapping(mapping) = self.held.payload() else { return Ok(()) };
        let (path, offset, length) = (self.file.path(), self.offset(), self.len());
        let failed = |source| Error::Read { path: PathBuf::from(path), offset, length, source };
        let size = mapping.file_size().map_err(failed)?;
        match () {
            () if size < offset + length as u64 => Err(shrunk(&self.file, size)),
            () if mapping.is_broken() => Err(failed(io::Error::from_raw_os_error(libc::EIO))),
            () => Ok(()),
        }
    }
}

/// Creates the error that the file has no data at an offset where it had some when it was opened.
pub(crate) fn shrunk(file: &IoFile, at: u64) -> Error {
    Error::Shrunk { path: file.path().to_owned(), at, expected: file.size() }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.held.payload().bytes()[self.within.clone()]
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(late) = &self.late else { return };
        if let Err(error) = self.intact() {
            late.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}
