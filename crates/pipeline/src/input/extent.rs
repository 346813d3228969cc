//! Which bytes of which file the bytes of a tail are.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// A position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilePosition {
    /// Number of the file in its file system.
    pub(crate) inode: u64,
    /// Offset in bytes.
    pub(crate) offset: u64,
    /// Bytes before it that are this file's as well, of those that were read.
    pub(crate) read: u64,
}

/// The files that a tail has read, by the offset in all that it gave. Shared by its thread and its source.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExtentMap(Arc<Mutex<VecDeque<Extent>>>);

#[derive(Clone, Copy, Debug)]
struct Extent {
    /// Offset of its first byte in what the tail gave.
    start: u64,
    inode: u64,
    /// Offset of its first byte in the file.
    offset: u64,
}

impl ExtentMap {
    /// From `start` on, the bytes are those of a file from `offset` on.
    pub(super) fn begin(&self, start: u64, inode: u64, offset: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(Extent { start, inode, offset });
    }

    /// Returns the position in its file of a byte that the tail gave, or of the next one; none before there is a
    /// file. Earlier bytes will not be read again.
    pub(crate) fn position(&self, at: u64) -> Option<FilePosition> {
        let mut extents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while extents.get(1).is_some_and(|next| next.start <= at) {
            extents.pop_front();
        }
        let Extent { start, inode, offset } = *extents.front()?;
        let read = at.checked_sub(start)?;
        Some(FilePosition { inode, offset: offset + read, read })
    }
}
