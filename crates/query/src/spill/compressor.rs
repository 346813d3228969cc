//! Compression of spilled chunks for programs that have spill files of their own, by the rule of this engine.

use std::time::Duration;

use super::codec::{ScratchPool, checksum};
use super::level::{Level, LevelBytes, SpillCompression};
use super::level_chooser::{Handover, LevelChooser, Stored};
use crate::Error;

/// Compresses chunks on many threads, with the level that makes spilling fastest.
#[derive(Debug)]
pub struct ChunkCompressor {
    levels: LevelChooser,
}

/// How a chunk is stored.
#[derive(Clone, Copy, Debug)]
pub struct StoredChunk {
    /// Its compression: none if that did not make it smaller.
    pub level: Level,
    /// Bytes before compression.
    pub raw_bytes: usize,
    /// Bytes after compression.
    pub stored_bytes: usize,
    checksum: u32,
}

/// A chunk that was compressed and is to be handed to the device.
pub struct Compressed {
    /// How it is stored.
    pub chunk: StoredChunk,
    handover: Handover,
    compress: Duration,
}

impl ChunkCompressor {
    /// For `threads` threads at the same time, with at most an eighth of `memory` bytes to compress and restore with: if
    /// that is too little, nothing is compressed.
    #[must_use]
    pub fn new(mode: SpillCompression, threads: usize, memory: usize) -> ChunkCompressor {
        ChunkCompressor { levels: LevelChooser::new(mode, threads, ScratchPool::new(threads, memory)) }
    }

    /// Returns the bytes of its own memory at most.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.levels.scratch.bytes()
    }

    /// Compresses a chunk in place: its first [`StoredChunk::stored_bytes`] bytes are what is to be stored.
    ///
    /// # Errors
    /// If the compressor cannot get memory.
    pub fn compress(&self, bytes: &mut [u8]) -> Result<Compressed, Error> {
        let handover = self.levels.begin();
        let level = handover.level;
        let compressed = match level {
            Level::None => None,
            level => self.levels.scratch.try_with(bytes.len(), |scratch| {
                let stored = scratch.compress(level, bytes)?.map(<[u8]>::len);
                Ok::<_, Error>(stored.inspect(|&count| scratch.copy_to(&mut bytes[..count])))
            }),
        };
        let (level, stored_bytes) = match compressed.transpose()?.flatten() {
            Some(count) => (level, count),
            None => (Level::None, bytes.len()),
        };
        let checksum = checksum(&bytes[..stored_bytes]);
        let chunk = StoredChunk { level, raw_bytes: bytes.len(), stored_bytes, checksum };
        Ok(Compressed { chunk, compress: handover.elapsed(), handover })
    }

    /// Takes into account that a chunk was handed to the device, for which its thread has waited.
    pub fn handed_over(&self, compressed: &Compressed, waited: Duration) {
        let &Compressed { chunk, compress, ref handover } = compressed;
        self.levels.end(
            handover,
            Stored {
                level: chunk.level,
                raw_bytes: chunk.raw_bytes as u64,
                stored_bytes: chunk.stored_bytes as u64,
                compress,
                waited,
                locked: Duration::ZERO,
            },
        );
    }

    /// Checks the stored bytes of a chunk, and restores it into `raw` unless it is stored as it is. Returns false if the
    /// bytes are not those that were stored.
    ///
    /// # Errors
    /// If the decompressor cannot get memory.
    ///
    /// # Panics
    /// If `raw` is not of [`StoredChunk::raw_bytes`] bytes, and the chunk is compressed.
    pub fn restore(&self, chunk: &StoredChunk, stored: &[u8], raw: &mut [u8]) -> Result<bool, Error> {
        if stored.len() != chunk.stored_bytes || checksum(stored) != chunk.checksum {
            return Ok(false);
        }
        if chunk.level == Level::None {
            return Ok(true);
        }
        assert_eq!(raw.len(), chunk.raw_bytes);
        self.levels.scratch.with(|scratch| scratch.restore(chunk.level, stored, raw))
    }

    /// Returns the bytes stored so far with each level that was used.
    #[must_use]
    pub fn bytes(&self) -> Vec<LevelBytes> {
        self.levels.bytes()
    }
}

#[cfg(test)]
mod tests {
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    fn text(length: usize) -> Vec<u8> {
        (0..length).map(|index| b"spilled rows, again and again"[index % 29]).collect()
    }

    #[test]
    fn chunks_are_restored_with_every_level_and_damage_is_noticed() {
        for level in Level::ALL {
            let compressor = ChunkCompressor::new(SpillCompression::Fixed(level), 2, 64 << 20);
            let raw = text(100_000);
            let mut bytes = raw.clone();
            let compressed = compressor.compress(&mut bytes).unwrap();
            compressor.handed_over(&compressed, Duration::ZERO);
            let chunk = compressed.chunk;
            assert_eq!(chunk.level, level);
            assert_eq!(chunk.stored_bytes < 10_000, level != Level::None, "{chunk:?}");
            let mut restored = vec![0; raw.len()];
            let stored = &mut bytes[..chunk.stored_bytes];
            assert!(compressor.restore(&chunk, stored, &mut restored).unwrap());
            assert!(level == Level::None || restored == raw);
            stored[chunk.stored_bytes / 2] ^= 1;
            assert!(!compressor.restore(&chunk, stored, &mut restored).unwrap());
            assert_eq!(compressor.bytes()[0].raw_bytes, 100_000);
        }
    }

    #[test]
    fn what_does_not_become_smaller_is_stored_as_it_is() {
        let compressor = ChunkCompressor::new(SpillCompression::Fixed(Level::Zstd), 1, 64 << 20);
        let mut random = Pcg64::seed_from_u64(1);
        let mut bytes: Vec<u8> = (0..5000).map(|_| random.next_u64() as u8).collect();
        let raw = bytes.clone();
        let chunk = compressor.compress(&mut bytes).unwrap().chunk;
        assert!(chunk.level == Level::None && bytes == raw, "{chunk:?}");
    }
}
