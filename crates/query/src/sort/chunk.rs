//! Chunks: buffers of consecutive whole rows. A row that is longer than a chunk gets a separate, larger chunk.

use std::sync::Arc;

use sakiyomi_io::buffer::class_size;
use sakiyomi_io::{Block, Buffer};

use super::row::RowView;

/// Alignment of chunk lengths on disk: the usual file system block size.
pub(crate) const UNIT_BYTES: usize = 4096;

/// The bytes of a chunk; clones share them.
#[derive(Clone, Debug)]
pub(crate) enum Chunk {
    /// A buffer that was filled with rows.
    Filled(Arc<Buffer>),
    /// A block that was read from a spill file.
    Read(Arc<Block>),
}

impl From<Buffer> for Chunk {
    fn from(buffer: Buffer) -> Chunk {
        Chunk::Filled(Arc::new(buffer))
    }
}

impl From<Block> for Chunk {
    fn from(block: Block) -> Chunk {
        Chunk::Read(Arc::new(block.send()))
    }
}

impl Chunk {
    /// Returns the bytes of the memory that it was given.
    pub(crate) fn resident_bytes(&self) -> usize {
        match self {
            Chunk::Filled(buffer) => class_size(buffer.capacity()),
            Chunk::Read(_) => 0,
        }
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        match self {
            Chunk::Filled(buffer) => buffer,
            Chunk::Read(block) => block,
        }
    }
}

/// Appends a row to a chunk. Returns false and appends nothing if the chunk has no room, or if the row's offset would
/// not be below `chunk_bytes`, as after a long row.
pub(crate) fn append(chunk: &mut Buffer, chunk_bytes: usize, row: RowView<'_>) -> bool {
    let at = chunk.len();
    let (middle, end) = (at + row.fixed.len(), at + row.fixed.len() + row.variable.len());
    if end > chunk.capacity() || at >= chunk_bytes {
        return false;
    }
    let space = chunk.space();
    space[at..middle].copy_from_slice(row.fixed);
    space[middle..end].copy_from_slice(row.variable);
    chunk.set_len(end);
    true
}
