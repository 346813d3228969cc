//! I/O engines, one file each, behind one interface: operations are submitted, and reaped when they have completed.
//!
//! An engine reads, writes and syncs any number of files. It is opened once per job or thread.

mod aio;
mod cpu;
mod mmap;
mod null;
mod pread;
mod read;
mod slots;
mod threads;
mod uring;

pub use cpu::EngineThreads;
pub(crate) use threads::perform;

use std::fmt;
use std::io;
use std::mem;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::buffer::{Buffer, BufferPool, Reservation};
use crate::mapping::Mapping;
use crate::{Error, IoFile};

/// Maximum bytes of a single call. Linux transfers at most 2 GiB less a page; this is the largest multiple of 64 KiB
/// below that, so that a direct transfer that continues after it is aligned on every device.
pub const CALL_MAX: usize = 0x7fff_0000;

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Read into the payload.
    Read,
    /// Write the payload.
    Write,
    /// Make the file's data durable (`fdatasync`).
    Sync,
}

/// One operation on one file.
#[derive(Debug)]
pub struct Op {
    /// Returned with the completion.
    pub tag: u64,
    /// The file.
    pub file: Arc<IoFile>,
    /// The kind of operation.
    pub kind: OpKind,
    /// Offset in the file of the payload's first byte.
    pub offset: u64,
    /// Bytes to transfer in all. A read beyond the file's end is short.
    pub length: usize,
    /// Bytes of `length` that earlier calls of this operation have transferred; the next call continues after them.
    pub done: usize,
    /// Memory of the operation. Engines with their own memory need none.
    pub payload: Payload,
    /// The calls that earlier submissions of this operation have made.
    pub earlier: Calls,
}

/// System calls that an operation has made. Kept small, because operations are moved often.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    /// Number of calls.
    pub count: u32,
    /// Number of most recent consecutive calls that transferred nothing.
    pub fruitless: u32,
    /// Sum of the calls' service times in nanoseconds.
    pub service_ns: u64,
}

impl Calls {
    /// Returns the sum of the calls' service times.
    #[must_use]
    pub fn service(self) -> Duration {
        Duration::from_nanos(self.service_ns)
    }
}

impl Op {
    /// Creates a read of `length` bytes.
    #[must_use]
    pub fn read(tag: u64, file: Arc<IoFile>, offset: u64, length: usize, payload: Payload) -> Op {
        Op::new(tag, file, OpKind::Read, offset, length, payload)
    }

    /// Creates a write of a buffer's content.
    #[must_use]
    pub fn write(tag: u64, file: Arc<IoFile>, offset: u64, buffer: Buffer) -> Op {
        let length = buffer.len();
        Op::new(tag, file, OpKind::Write, offset, length, Payload::Buffer(buffer))
    }

    /// Creates an `fdatasync`. It does not wait for operations in flight.
    #[must_use]
    pub fn sync(tag: u64, file: Arc<IoFile>) -> Op {
        Op::new(tag, file, OpKind::Sync, 0, 0, Payload::Nothing)
    }

    fn new(tag: u64, file: Arc<IoFile>, kind: OpKind, offset: u64, length: usize, payload: Payload) -> Op {
        Op { tag, file, kind, offset, length, done: 0, payload, earlier: Calls::default() }
    }

    /// Returns the range of the payload's buffer that the next call transfers.
    pub(crate) fn next_call(&self) -> Range<usize> {
        self.done..self.length.min(self.done + CALL_MAX)
    }

    /// Records that a call has transferred `count` bytes.
    pub(crate) fn advance(&mut self, count: usize) {
        self.done += count;
        if let (OpKind::Read, Payload::Buffer(buffer)) = (self.kind, &mut self.payload) {
            buffer.set_len(self.done);
        }
    }

    /// Makes the next call of a read continue after the first `done` bytes, repeating any bytes after them.
    pub(crate) fn rewind(&mut self, done: usize) {
        self.done = done;
        self.advance(0);
    }
}

/// Number of queued operations that are submitted without waiting for more, by engines that can submit many in one
/// call. A device that has completed its whole queue then works on the first of them while the others are prepared:
/// with random 4 KiB reads, 32 in flight on a virtual disk, throughput rose from 0.81 to 0.97 of that of 32
/// concurrent system calls, for 0.8 of their CPU time.
const EARLY_SUBMIT_OPS: usize = 4;

/// Memory of an operation, which owns it until completion: the kernel never writes into memory that has another
/// owner.
#[derive(Debug)]
pub enum Payload {
    /// None.
    Nothing,
    /// A buffer that is taken when a thread begins the operation ([`EngineKind::takes_buffers_late`]).
    Reserved(Reservation),
    /// A buffer.
    Buffer(Buffer),
    /// Pages of the file itself.
    Mapping(Mapping),
}

impl Payload {
    /// Returns the buffer.
    ///
    /// # Panics
    /// If the payload is not a buffer: only engines with their own memory are given none.
    pub(crate) fn buffer(&mut self) -> &mut Buffer {
        match self {
            Payload::Buffer(buffer) => buffer,
            _ => unreachable!("an operation without a buffer"),
        }
    }

    /// Takes the reserved buffer.
    ///
    /// # Errors
    /// If the system does not have the memory for it.
    pub(crate) fn take_reserved(&mut self) -> io::Result<()> {
        if let Payload::Reserved(_) = self
            && let Payload::Reserved(reservation) = mem::replace(self, Payload::Nothing)
        {
            *self = Payload::Buffer(reservation.take()?);
        }
        Ok(())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Payload::Nothing | Payload::Reserved(_) => &[],
            Payload::Buffer(buffer) => buffer,
            Payload::Mapping(mapping) => mapping,
        }
    }
}

/// The outcome of one call of an operation.
#[derive(Debug)]
pub struct Completion {
    /// The operation, with its memory.
    pub op: Op,
    /// Bytes that this call transferred; 0 at the file's end, and for [`OpKind::Sync`].
    pub result: io::Result<usize>,
    /// Service time: from the start of the system call, or the submission to the kernel, to its end.
    pub service: Duration,
}

/// Performs operations on any number of files.
///
/// An engine makes one system call for an operation and reports its outcome, short or not. Short transfers are
/// handled above the engines, in the same way for all ([`crate::read`]).
pub trait Engine: Send {
    /// Returns the number of operations that can be submitted now.
    fn free_slots(&self) -> usize;

    /// Submits an operation. It may not begin before [`Engine::reap`] is called.
    ///
    /// # Panics
    /// If no slot is free.
    fn submit(&mut self, op: Op);

    /// Waits until at least `at_least` of the submitted operations, or all if there are fewer, have completed.
    /// Appends these and any others that have completed, in the order of completion. With 0 it does not wait.
    ///
    /// # Errors
    /// If the wait itself fails. A failed operation is reported in its completion.
    fn reap(&mut self, at_least: usize, completions: &mut Vec<Completion>) -> io::Result<()>;

    /// Announces operations on a file, so that the kernel can look it up beforehand (registered files). Reverted by
    /// [`Engine::detach`]; not needed for correctness.
    fn attach(&mut self, _file: &Arc<IoFile>) {}

    /// Ends [`Engine::attach`].
    fn detach(&mut self, _file: &Arc<IoFile>) {}

    /// Returns the threads that belong to the engine, for their CPU time.
    fn threads(&self) -> EngineThreads {
        EngineThreads::default()
    }
}

/// Kind of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EngineKind {
    /// `read(2)` on an I/O thread, concurrent with the caller.
    Read,
    /// `pread(2)` on several threads.
    Pread,
    /// Linux native asynchronous I/O.
    Aio,
    /// io_uring.
    Uring,
    /// io_uring with a kernel thread that polls for submissions (`IORING_SETUP_SQPOLL`).
    UringSqpoll,
    /// Mappings populated by page faults on access.
    Mmap,
    /// Mappings populated by threads before they are handed out (`MAP_POPULATE`).
    Populate,
    /// No transfer, to measure the cost of the harness itself.
    Null,
}

impl EngineKind {
    /// All engines.
    pub const ALL: [EngineKind; 8] = [
        EngineKind::Read,
        EngineKind::Pread,
        EngineKind::Aio,
        EngineKind::Uring,
        EngineKind::UringSqpoll,
        EngineKind::Mmap,
        EngineKind::Populate,
        EngineKind::Null,
    ];

    /// Returns the name as on the command line: `uring-sqpoll`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Read => "read",
            EngineKind::Pread => "pread",
            EngineKind::Aio => "aio",
            EngineKind::Uring => "uring",
            EngineKind::UringSqpoll => "uring-sqpoll",
            EngineKind::Mmap => "mmap",
            EngineKind::Populate => "populate",
            EngineKind::Null => "null",
        }
    }

    /// Returns whether it reads into buffers. The others map the file's own pages, and cannot bypass the page cache.
    #[must_use]
    pub fn uses_buffers(self) -> bool {
        !matches!(self, EngineKind::Mmap | EngineKind::Populate)
    }

    /// Returns whether an operation can take its buffer when a thread begins it, instead of at submission.
    #[must_use]
    pub fn takes_buffers_late(self) -> bool {
        matches!(self, EngineKind::Read | EngineKind::Pread)
    }

    /// Returns whether buffers can be registered with the kernel.
    #[must_use]
    pub fn can_register(self) -> bool {
        matches!(self, EngineKind::Uring | EngineKind::UringSqpoll)
    }
}

/// An engine and its depth: `uring:8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineSpec {
    /// The engine.
    pub kind: EngineKind,
    /// Maximum operations in flight: threads, the queue's depth, or concurrent mappings. 1 for `read`.
    pub depth: usize,
}

/// Largest depth of an engine.
pub const DEPTH_MAX: usize = 1024;

impl EngineSpec {
    /// Returns an engine with its default depth.
    #[must_use]
    pub fn usual(kind: EngineKind) -> EngineSpec {
        let depth = match kind {
            EngineKind::Read | EngineKind::Null => 1,
            EngineKind::Pread | EngineKind::Mmap | EngineKind::Populate => 4,
            EngineKind::Aio | EngineKind::Uring | EngineKind::UringSqpoll => 8,
        };
        EngineSpec { kind, depth }
    }
}

impl EngineSpec {
    /// Returns the slots for operations of `block` bytes: in flight, and queued for a thread.
    #[must_use]
    pub fn ahead(self, block: usize) -> usize {
        match self.kind {
            EngineKind::Read | EngineKind::Pread | EngineKind::Populate => threads::ahead(self.depth, block),
            EngineKind::Aio | EngineKind::Uring | EngineKind::UringSqpoll | EngineKind::Mmap => self.depth,
            EngineKind::Null => null::NULL_DEPTH,
        }
    }
}

impl fmt::Display for EngineSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            EngineKind::Read | EngineKind::Null => f.write_str(self.kind.name()),
            _ => write!(f, "{}:{}", self.kind.name(), self.depth),
        }
    }
}

/// The reason why a text does not name an engine.
#[derive(Debug, thiserror::Error)]
pub enum ParseEngineError {
    /// The name is unknown.
    #[error(
        "`{0}` is not a method; give read, pread:N, aio:N, uring:N, uring-sqpoll:N, mmap:N, populate:N or null"
    )]
    Unknown(String),
    /// The depth is invalid.
    #[error("`{0}`: the depth after the colon must be a whole number from 1 to 1024")]
    Depth(String),
    /// The engine has no depth.
    #[error("`{0}`: this method has one request in flight and takes no depth; pread:N has N")]
    Fixed(String),
}

impl FromStr for EngineSpec {
    type Err = ParseEngineError;

    fn from_str(text: &str) -> Result<EngineSpec, ParseEngineError> {
        let (name, depth) = text.split_once(':').map_or((text, None), |(name, depth)| (name, Some(depth)));
        let kind = EngineKind::ALL.into_iter().find(|kind| kind.name() == name);
        let usual = EngineSpec::usual(kind.ok_or_else(|| ParseEngineError::Unknown(text.to_owned()))?);
        let Some(depth) = depth else { return Ok(usual) };
        let depth = depth.parse().ok().filter(|depth| (1..=DEPTH_MAX).contains(depth));
        let depth = depth.ok_or_else(|| ParseEngineError::Depth(text.to_owned()))?;
        if matches!(usual.kind, EngineKind::Read | EngineKind::Null) && depth != 1 {
            return Err(ParseEngineError::Fixed(text.to_owned()));
        }
        Ok(EngineSpec { depth, ..usual })
    }
}

/// An opened engine.
pub struct Opened {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// Whether the pool's buffers are registered with the kernel.
    pub registered: bool,
}

/// Opens an engine for operations of up to `block` bytes.
///
/// With `registered`, a pool's buffers are registered with the kernel, if the engine can and the system allows it.
///
/// # Errors
/// If the system does not offer the engine.
pub fn open(spec: EngineSpec, block: usize, registered: Option<&BufferPool>) -> Result<Opened, Error> {
    open_with(spec, spec.ahead(block), registered)
}

/// Opens an engine for many streams. Its threads, if it has any, can be given any number of operations at once, so
/// that they stay busy while no caller reaps.
///
/// # Errors
/// Returns the errors of [`open`].
pub(crate) fn open_shared(spec: EngineSpec) -> Result<Opened, Error> {
    open_with(spec, SHARED_QUEUE_OPS, None)
}

/// Slots of a shared engine with threads. The memory of queued operations is bounded by the budget of their streams.
const SHARED_QUEUE_OPS: usize = 4096;

/// Like [`open`], with `ahead` slots of an engine with threads.
fn open_with(spec: EngineSpec, ahead: usize, registered: Option<&BufferPool>) -> Result<Opened, Error> {
    let plain = |engine: Box<dyn Engine>| Opened { engine, registered: false };
    let refused = |hint| {
        let method = spec.to_string();
        move |source| Error::Method { method, hint, source }
    };
    match spec.kind {
        EngineKind::Read => read::open(ahead).map(plain).map_err(refused("a thread could not be started")),
        EngineKind::Pread => {
            pread::open(spec.depth, ahead).map(plain).map_err(refused("threads could not be started"))
        }
        EngineKind::Aio => aio::open(spec.depth)
            .map(plain)
            .map_err(refused("see fs.aio-max-nr, or the kernel is without AIO")),
        EngineKind::Uring | EngineKind::UringSqpoll => {
            let sqpoll = spec.kind == EngineKind::UringSqpoll;
            uring::open(spec.depth, registered, sqpoll)
                .map_err(refused("see kernel.io_uring_disabled, or a sandbox forbids io_uring"))
        }
        EngineKind::Mmap => Ok(plain(mmap::open(spec.depth))),
        EngineKind::Populate => mmap::open_populating(spec.depth, ahead)
            .map(plain)
            .map_err(refused("threads could not be started")),
        EngineKind::Null => Ok(plain(null::open())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_written_with_their_depth() {
        for text in
            ["read", "pread:4", "aio:8", "uring:1024", "uring-sqpoll:2", "mmap:1", "populate:3", "null"]
        {
            assert_eq!(text.parse::<EngineSpec>().unwrap().to_string(), text);
        }
        assert_eq!("uring".parse::<EngineSpec>().unwrap().depth, 8);
        for text in ["", "preads:4", "pread:0", "pread:1025", "pread:-1", "pread:", "read:2", "uring:8:8"] {
            let error = text.parse::<EngineSpec>().unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
