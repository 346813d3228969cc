//! Options of streams that write.

use crate::buffer::Memory;
use crate::engine::{EngineKind, EngineSpec};

/// Options of a stream.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// Maximum bytes of a buffer. Buffers are smaller if little of the budget is left.
    pub block: usize,
    /// Maximum writes in flight.
    pub in_flight: usize,
    /// Offset of the first byte in the file; a multiple of the file's alignment.
    pub from: u64,
    /// Number of bytes that will be written, if known. The actual number may differ.
    pub expected: Option<u64>,
    /// Whether [`finish`](super::WriteStream::finish) makes the data durable.
    pub sync: bool,
}

/// Block size at which direct transfers are fastest on most devices: few requests, but none that must be split.
const DEFAULT_BLOCK_BYTES: usize = 1 << 20;

impl Default for WriteOptions {
    /// Buffers of 1 MiB, 4 in flight, from offset 0, without a sync.
    fn default() -> WriteOptions {
        WriteOptions { block: DEFAULT_BLOCK_BYTES, in_flight: 4, from: 0, expected: None, sync: false }
    }
}

/// An engine for a single stream.
#[derive(Clone, Copy, Debug)]
pub struct OwnEngine {
    /// The engine and its depth, which limits the writes in flight.
    pub spec: EngineSpec,
    /// The memory to write from.
    pub memory: Memory,
    /// Whether the buffers are registered with the kernel, if the engine and the system support it.
    pub register: bool,
    /// Maximum buffers that the caller fills at the same time.
    pub hold: usize,
}

impl Default for OwnEngine {
    /// `pwrite` on 4 threads, from huge pages.
    fn default() -> OwnEngine {
        OwnEngine {
            spec: EngineSpec::usual(EngineKind::Pread),
            memory: Memory::Huge,
            register: true,
            hold: 1,
        }
    }
}
