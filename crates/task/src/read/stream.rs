//! Bytes of a block, wherever they come from, and blocks of what is read from its beginning to its end.

use std::io::{self, Read};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use sakiyomi_linux::{Block, Buffer};

/// A block's bytes.
pub(super) enum Bytes {
    /// Of a file.
    Block(Block),
    /// Of a stream.
    Buffer(Buffer),
    /// Of a small file.
    Small(Small),
}

impl Bytes {
    /// Whether they are the file's own pages.
    pub(super) fn are_mapped(&self) -> bool {
        matches!(self, Bytes::Block(block) if block.is_mapped())
    }

    /// Whether they are the file's; only a mapping can lose some after it was made.
    pub(super) fn intact(&self) -> Result<(), sakiyomi_linux::Error> {
        match self {
            Bytes::Block(block) => block.intact(),
            Bytes::Buffer(_) | Bytes::Small(_) => Ok(()),
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Block(block) => block,
            Bytes::Buffer(buffer) => buffer,
            Bytes::Small(small) => &small.bytes[..small.filled],
        }
    }
}

/// Memory for small files, used again: one for each thread that works on one.
#[derive(Clone, Default)]
pub(super) struct Kept(Arc<Mutex<Vec<Box<[u8]>>>>);

/// What was read of a small file. Its memory is used again when it is dropped.
pub(super) struct Small {
    bytes: Box<[u8]>,
    filled: usize,
    home: Kept,
}

impl Kept {
    /// Reads as much as there is, up to `most` bytes, which are the same each time; and says what ended it before
    /// that, if an error did.
    pub(super) fn read(&self, from: &mut (impl Read + ?Sized), most: usize) -> (Small, io::Result<()>) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let bytes = kept.unwrap_or_else(|| vec![0; most].into_boxed_slice());
        let mut small = Small { bytes, filled: 0, home: self.clone() };
        let (filled, outcome) = fill(from, &mut small.bytes);
        small.filled = filled;
        (small, outcome)
    }
}

impl Small {
    pub(super) fn len(&self) -> usize {
        self.filled
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.home.0.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }
}

/// Reads until the buffer is full or there is no more. After an error the buffer holds what was read before it.
pub(super) fn fill_buffer(from: &mut (impl Read + ?Sized), buffer: &mut Buffer) -> io::Result<()> {
    buffer.set_len(0);
    let (filled, outcome) = fill(from, buffer.space());
    buffer.set_len(filled);
    outcome
}

fn fill(from: &mut (impl Read + ?Sized), space: &mut [u8]) -> (usize, io::Result<()>) {
    let mut filled = 0;
    while filled < space.len() {
        match from.read(&mut space[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Err(error)),
        }
    }
    (filled, Ok(()))
}
