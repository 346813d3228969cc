//! Chunks: buffers of consecutive whole rows. A row that is longer than a chunk gets a separate, larger chunk.

use std::sync::Arc;

use sakiyomi_io::buffer::Account;
use sakiyomi_io::{Block, Buffer};

use super::row::RowView;
use crate::{Error, Job};

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

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        match self {
            Chunk::Filled(buffer) => buffer,
            Chunk::Read(block) => block,
        }
    }
}

/// Memory reserved for the chunks of a sort.
#[derive(Debug)]
pub(crate) struct ChunkMemory {
    account: Account,
    /// Bytes of a chunk.
    chunk_bytes: usize,
    budget: usize,
}

/// Reserved memory before it is divided into chunks.
#[derive(Debug)]
pub(crate) struct Guarantee {
    account: Account,
    /// Bytes reserved.
    pub(crate) bytes: usize,
    budget: usize,
}

impl Guarantee {
    /// Reserves `bytes` of a job's buffer budget, or 7/8 of the free budget (at least `min`) if less is free.
    ///
    /// # Errors
    /// If fewer than `min` bytes are free.
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

    /// Divides the memory into chunks of `chunk_bytes`.
    pub(crate) fn chunks(self, chunk_bytes: usize) -> ChunkMemory {
        ChunkMemory { account: self.account, chunk_bytes, budget: self.budget }
    }
}

impl ChunkMemory {
    /// Reserves `bytes` of the job's buffer budget.
    ///
    /// # Errors
    /// If fewer bytes are free.
    pub(crate) fn new(job: &Job, bytes: usize, chunk_bytes: usize) -> Result<ChunkMemory, Error> {
        Ok(Guarantee::new(job, bytes, bytes)?.chunks(chunk_bytes))
    }

    /// Returns an empty chunk with room for a row of `row_bytes`.
    ///
    /// # Errors
    /// [`Error::Memory`] if neither the reservation nor the free budget has room for the chunk.
    pub(crate) fn chunk(&self, row_bytes: usize) -> Result<Buffer, Error> {
        // Writes are multiples of `UNIT_BYTES`.
        let bytes = self.chunk_bytes.max(row_bytes.next_multiple_of(UNIT_BYTES));
        let too_large = |_| Error::Memory {
            what: format!("sorting a row of {row_bytes} bytes"),
            needed: bytes as u64,
            available: self.budget.min(bytes - 1) as u64,
        };
        let taken = self.account.take(bytes).map_err(too_large)?;
        let mut chunk = taken
            .map_err(|source| sakiyomi_io::Error::System { what: "get memory for rows".into(), source })?;
        // The thread that drops the chunk may differ from this one.
        chunk.send();
        Ok(chunk)
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
