//! Options of streams of blocks.

use std::ops::Range;

use crate::buffer::Memory;
use crate::engine::{EngineKind, EngineSpec};
use crate::file::Access;

/// The order in which a stream returns blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// In the order of the requests.
    #[default]
    File,
    /// In the order of completion.
    Arrival,
}

/// Options of a stream with an engine of its own.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The engine and its depth.
    pub engine: EngineSpec,
    /// Buffered or direct.
    pub access: Access,
    /// Bytes of a block; the last one may be shorter.
    pub block: usize,
    /// The memory to read into.
    pub memory: Memory,
    /// Whether the buffers are registered with the kernel, if the engine and the system support it.
    pub register: bool,
    /// Order in which blocks are returned.
    pub order: Order,
    /// Range of the file to read, in bytes; all of it if `None`.
    pub range: Option<Range<u64>>,
    /// Maximum blocks that the caller holds at the same time.
    pub hold: usize,
}

/// Block size at which direct transfers are fastest on most devices: few requests, but none that must be split.
const DEFAULT_BLOCK_BYTES: usize = 1 << 20;

impl Default for ReadOptions {
    /// `read` on an I/O thread, through the page cache, 1 MiB at a time, in file order.
    fn default() -> ReadOptions {
        ReadOptions {
            engine: EngineSpec::usual(EngineKind::Read),
            access: Access::Buffered,
            block: DEFAULT_BLOCK_BYTES,
            memory: Memory::Huge,
            register: true,
            order: Order::File,
            range: None,
            hold: 1,
        }
    }
}

/// Options of a stream that shares an [`Io`](crate::Io).
#[derive(Clone, Copy, Debug)]
pub struct SharedOptions {
    /// Maximum bytes of a block. Blocks are smaller while many streams share the budget.
    pub block: usize,
    /// Maximum blocks that are read ahead of the caller.
    pub ahead: usize,
    /// Order in which blocks are returned.
    pub order: Order,
    /// Ranges of a file are read in one operation if at most this many bytes lie between them.
    pub gap: u64,
}

/// Gap in bytes that most devices read faster than they serve another request.
const DEFAULT_GAP_BYTES: u64 = 64 << 10;

impl Default for SharedOptions {
    /// Blocks of 1 MiB, 4 ahead of the caller, in order; gaps of up to 64 KiB are read.
    fn default() -> SharedOptions {
        SharedOptions { block: DEFAULT_BLOCK_BYTES, ahead: 4, order: Order::File, gap: DEFAULT_GAP_BYTES }
    }
}
