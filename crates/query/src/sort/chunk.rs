//! Chunks: pieces of memory that hold whole rows, one after the other. A row that is longer than a chunk has one of its
//! own.

use std::sync::Arc;

use sakiyomi_io::buffer::Account;
use sakiyomi_io::{Block, Buffer};

use super::row::RowView;
use crate::{Error, Job};

/// Lengths of chunks on disk are multiples of it: the usual block of a file system.
pub(crate) const UNIT_BYTES: usize = 4096;

/// The bytes of a chunk; clones are the same.
#[derive(Clone, Debug)]
pub(crate) enum Chunk {
    /// As they were written.
    Filled(Arc<Buffer>),
    /// As they were read back.
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

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        match self {
            Chunk::Filled(buffer) => buffer,
            Chunk::Read(block) => block,
        }
    }
}

/// Memory for chunks, guaranteed to a sort.
#[derive(Debug)]
pub(crate) struct ChunkMemory {
    account: Account,
    /// Bytes of a chunk.
    chunk_bytes: usize,
    budget: usize,
}

/// Memory that is guaranteed, before it is divided into chunks.
#[derive(Debug)]
pub(crate) struct Guarantee {
    account: Account,
    /// Bytes that are guaranteed.
    pub(crate) bytes: usize,
    budget: usize,
}

impl Guarantee {
    /// Some bytes of a job's buffers; if others have taken them, most of what they have left.
    ///
    /// # Errors
    /// If the job does not have `min` bytes.
    pub(crate) fn new(job: &Job, bytes: usize, min: usize) -> Result<Guarantee, Error> {
        let pool = job.io().pool();
        let (account, bytes) = match pool.account(bytes) {
            Err(sakiyomi_io::Error::Budget { left, .. }) => {
                let bytes = usize::try_from(left).unwrap_or(usize::MAX) / 8 * 7;
                let bytes = bytes.max(min);
                (pool.account(bytes)?, bytes)
            }
            account => (account?, bytes),
        };
        Ok(Guarantee { account, bytes, budget: pool.budget() })
    }

    /// Its memory in chunks of some bytes.
    pub(crate) fn chunks(self, chunk_bytes: usize) -> ChunkMemory {
        ChunkMemory { account: self.account, chunk_bytes, budget: self.budget }
    }
}

impl ChunkMemory {
    /// Guarantees some bytes of the job's buffers.
    ///
    /// # Errors
    /// If the job does not have as much.
    pub(crate) fn new(job: &Job, bytes: usize, chunk_bytes: usize) -> Result<ChunkMemory, Error> {
        Ok(Guarantee::new(job, bytes, bytes)?.chunks(chunk_bytes))
    }

    /// An empty chunk with room for a row.
    ///
    /// # Errors
    /// [`Error::Memory`] if the row is longer than a chunk, and the job has no memory for it.
    pub(crate) fn chunk(&self, row_bytes: usize) -> Result<Buffer, Error> {
        // Writes are of whole units.
        let bytes = self.chunk_bytes.max(row_bytes.next_multiple_of(UNIT_BYTES));
        let too_large = |_| Error::Memory {
            what: format!("sorting a row of {row_bytes} bytes"),
            needed: bytes as u64,
            available: self.budget.min(bytes - 1) as u64,
        };
        let taken = self.account.take(bytes).map_err(too_large)?;
        let mut chunk = taken
            .map_err(|source| sakiyomi_io::Error::System { what: "get memory for rows".into(), source })?;
        // It is released by whichever thread uses it last.
        chunk.send();
        Ok(chunk)
    }
}

/// Appends a row to a chunk; false, and nothing is appended, if it has no room. A long row's chunk has none for others:
/// the offset of a row is less than `chunk_bytes`.
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
