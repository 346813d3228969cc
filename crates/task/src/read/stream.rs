//! Bytes of a block, wherever they come from, and blocks of what has no offsets.

use std::io::{self, Read};
use std::ops::Deref;

use sakiyomi_linux::{Block, Buffer};

/// A block's bytes.
pub(super) enum Bytes {
    /// Of a file.
    Block(Block),
    /// Of a stream.
    Buffer(Buffer),
    /// Of a file so small that it is one.
    Small(Vec<u8>),
}

impl Bytes {
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
            Bytes::Small(bytes) => bytes,
        }
    }
}

/// Reads until the buffer is full or there is no more.
pub(super) fn fill(from: &mut (impl Read + ?Sized), buffer: &mut Buffer) -> io::Result<()> {
    buffer.set_len(0);
    while buffer.len() < buffer.capacity() {
        let filled = buffer.len();
        match from.read(&mut buffer.space()[filled..]) {
            Ok(0) => return Ok(()),
            Ok(count) => buffer.set_len(filled + count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
