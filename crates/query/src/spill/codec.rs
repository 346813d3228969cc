//! Compression and checksums of spilled data.
//!
//! The checksum is CRC-32, which finds every inverted bit and every burst of at most 32 bits. `crc32fast` computes it
//! with carry-less multiplication at more than 10 GB/s, and is in the tree already for Parquet and gzip.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};
use zstd::bulk::{Compressor, Decompressor};

use super::level::Level;
use crate::Error;

/// Returns the checksum of stored bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Memory and contexts to compress and restore data with, for one thread at a time.
#[derive(Default)]
pub(crate) struct Scratch {
    bytes: Vec<u8>,
    zstd: Option<Compressor<'static>>,
    zstd3: Option<Compressor<'static>>,
    restore: Option<Decompressor<'static>>,
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl Scratch {
    /// Compresses data. Returns `None` if the level does not compress, or if the result is not smaller.
    ///
    /// # Errors
    /// If the compressor cannot get memory.
    pub(crate) fn compress(&mut self, level: Level, raw: &[u8]) -> Result<Option<&[u8]>, Error> {
        let space = |bytes: &mut Vec<u8>, needed: usize| bytes.resize(needed.max(bytes.len()), 0);
        let count = match level {
            Level::None => return Ok(None),
            Level::Lz4 => {
                space(&mut self.bytes, get_maximum_output_size(raw.len()));
                compress_into(raw, &mut self.bytes).map_err(failed)?
            }
            Level::Zstd | Level::Zstd3 => {
                space(&mut self.bytes, zstd::zstd_safe::compress_bound(raw.len()));
                let (kept, number) =
                    if level == Level::Zstd { (&mut self.zstd, 1) } else { (&mut self.zstd3, 3) };
                let compressor = match kept {
                    Some(compressor) => compressor,
                    None => kept.insert(Compressor::new(number).map_err(failed)?),
                };
                compressor.compress_to_buffer(raw, &mut self.bytes[..]).map_err(failed)?
            }
        };
        Ok(Some(&self.bytes[..count]).filter(|stored| stored.len() < raw.len()))
    }

    /// Copies the first bytes of the last result of [`Scratch::compress`].
    pub(crate) fn copy_to(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.bytes[..bytes.len()]);
    }

    /// Restores data of a known length. Returns false if the stored bytes are not of that data.
    ///
    /// # Errors
    /// If the decompressor cannot get memory.
    pub(crate) fn restore(&mut self, level: Level, stored: &[u8], raw: &mut [u8]) -> Result<bool, Error> {
        let restored = match level {
            Level::None if stored.len() == raw.len() => {
                raw.copy_from_slice(stored);
                Some(raw.len())
            }
            Level::None => None,
            Level::Lz4 => decompress_into(stored, raw).ok(),
            Level::Zstd | Level::Zstd3 => {
                let restore = match &mut self.restore {
                    Some(restore) => restore,
                    None => self.restore.insert(Decompressor::new().map_err(failed)?),
                };
                restore.decompress_to_buffer(stored, raw).ok()
            }
        };
        Ok(restored == Some(raw.len()))
    }

    /// Restores data into its own memory, and returns it.
    ///
    /// # Errors
    /// If the decompressor cannot get memory.
    pub(crate) fn restored(
        &mut self,
        level: Level,
        stored: &[u8],
        raw_bytes: usize,
    ) -> Result<Option<&[u8]>, Error> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.resize(bytes.len().max(raw_bytes), 0);
        let restored = self.restore(level, stored, &mut bytes[..raw_bytes]);
        self.bytes = bytes;
        Ok(Some(&self.bytes[..raw_bytes]).filter(|_| matches!(restored, Ok(true))))
    }
}

fn failed(error: impl fmt::Display) -> Error {
    Error::Query(format!("spilled data cannot be compressed: {error}"))
}

/// Scratch memory of a job, for a limited number of threads at the same time.
#[derive(Debug)]
pub(crate) struct ScratchPool {
    /// Scratch memory that is not in use.
    free: Mutex<Vec<Scratch>>,
    released: Condvar,
    /// Bytes of all scratch memory.
    bytes: usize,
}

/// Maximum bytes of data that is compressed: its memory is reserved, also for restoring it.
pub const CHUNK_MAX_BYTES: usize = 1 << 20;

/// Bytes of a thread's scratch memory: compressed data may be slightly longer, and Zstandard needs tables.
const SCRATCH_BYTES: usize = CHUNK_MAX_BYTES + CHUNK_MAX_BYTES / 8 + (1 << 20);

/// Divisor of the heap that is reserved for scratch memory at most.
const HEAP_PARTS: usize = 8;

impl ScratchPool {
    /// Creates scratch memory for each of `threads` threads, or for as many as an eighth of `heap` bytes allows.
    pub(crate) fn new(threads: usize, heap: usize) -> ScratchPool {
        let count = threads.min(heap / HEAP_PARTS / SCRATCH_BYTES);
        let free = (0..count).map(|_| Scratch::default()).collect();
        ScratchPool { free: Mutex::new(free), released: Condvar::new(), bytes: count * SCRATCH_BYTES }
    }

    /// Returns the bytes of all scratch memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Calls a function with scratch memory to compress `bytes` bytes; returns `None` if there is none, or not for so
    /// many.
    pub(super) fn try_with<T>(&self, bytes: usize, use_it: impl FnOnce(&mut Scratch) -> T) -> Option<T> {
        if bytes > CHUNK_MAX_BYTES {
            return None;
        }
        let scratch = self.lock().pop()?;
        Some(self.used(scratch, use_it))
    }

    /// Calls a function with scratch memory to restore data; waits for it if other threads use all.
    pub(super) fn with<T>(&self, use_it: impl FnOnce(&mut Scratch) -> T) -> T {
        let mut free = self.lock();
        let scratch = loop {
            match free.pop() {
                Some(scratch) => break scratch,
                // Nothing was compressed.
                None if self.bytes == 0 => break Scratch::default(),
                None => free = self.released.wait(free).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(free);
        self.used(scratch, use_it)
    }

    /// Calls a function, and keeps the scratch memory for the next thread.
    fn used<T>(&self, mut scratch: Scratch, use_it: impl FnOnce(&mut Scratch) -> T) -> T {
        let result = use_it(&mut scratch);
        if self.bytes > 0 {
            self.lock().push(scratch);
            self.released.notify_one();
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Scratch>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
