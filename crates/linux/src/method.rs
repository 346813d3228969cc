//! Ways of reading, one file each, all driven alike: reads are started, and asked for when they have ended.
//!
//! A read owns the memory that it goes to until it has ended, so that the kernel never writes into memory that is
//! another's. A method does one system call for a read and tells what came of it, short or not; what follows from a short
//! read is the same for all and lies above ([`crate::blocks`]).

mod aio;
mod mmap;
mod null;
mod pread;
mod read;
mod slots;
mod threads;
mod uring;

use std::fmt;
use std::io;
use std::mem;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::buffer::{Buffer, Pool, Promise};
use crate::mapping::Mapping;
use crate::{Error, Source};

/// What is asked for in one call at most, in bytes. Linux transfers 2 GiB less a page; this is what of it is a multiple of
/// any page and of any sector (64 KiB), so that a direct transfer that goes on behind it is still aligned.
pub const CALL_MAX: usize = 0x7fff_0000;

/// A read to be done.
#[derive(Debug)]
pub struct Read {
    /// Whose it is; comes back with it.
    pub id: u64,
    /// Where in the file the read begins, in bytes.
    pub offset: u64,
    /// How many bytes it wants in all. Beyond the file's end there are none, which makes it short.
    pub length: usize,
    /// Where they go. Methods that bring their own memory need none.
    pub content: Content,
}

/// Memory of a read.
#[derive(Debug)]
pub enum Content {
    /// None.
    Nothing,
    /// A buffer that the method takes when it comes to the read.
    Promised(Promise),
    /// A buffer; what it already holds stays, and the read goes on behind it.
    Buffer(Buffer),
    /// The file itself.
    Mapping(Mapping),
}

impl Content {
    /// How many bytes are there.
    pub(crate) fn len(&self) -> usize {
        self.bytes().len()
    }

    /// The buffer to read into.
    ///
    /// # Panics
    /// If there is none: only methods that bring their own memory are given none.
    pub(crate) fn buffer(&mut self) -> &mut Buffer {
        *self = match mem::replace(self, Content::Nothing) {
            Content::Promised(promise) => Content::Buffer(promise.keep()),
            other => other,
        };
        match self {
            Content::Buffer(buffer) => buffer,
            _ => unreachable!("a read without a buffer"),
        }
    }

    /// `count` more bytes were put behind what is there.
    fn grow(&mut self, count: usize) {
        if let Content::Buffer(buffer) = self {
            let filled = buffer.len();
            buffer.set_len(filled + count);
        }
    }

    /// Only the first `count` bytes stay.
    pub(crate) fn cut(&mut self, count: usize) {
        if let Content::Buffer(buffer) = self {
            buffer.set_len(count);
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Content::Nothing | Content::Promised(_) => &[],
            Content::Buffer(buffer) => buffer,
            Content::Mapping(mapping) => mapping,
        }
    }
}

/// A read that has ended, well or not.
#[derive(Debug)]
pub struct Done {
    /// The read, with its memory.
    pub read: Read,
    /// How many bytes came with this call, 0 at the file's end.
    pub result: io::Result<usize>,
    /// From the start of its system call, or its hand-over to the kernel, to its end.
    pub took: Duration,
}

/// A way of reading a file.
pub trait Method: Send {
    /// How many reads it takes on now.
    fn room(&self) -> usize;

    /// Begins a read, at the latest when [`Method::finish`] waits.
    ///
    /// # Panics
    /// If there is no room.
    fn start(&mut self, read: Read);

    /// Waits until at least `at_least` reads have ended, or all that were begun, and gives them and any others that
    /// have ended; in the order of their ends. With 0 the caller leaves, to go about its own work meanwhile.
    ///
    /// # Errors
    /// If the system refuses to wait. Reads that fail are not errors here.
    fn finish(&mut self, at_least: usize, done: &mut Vec<Done>) -> io::Result<()>;
}

/// The methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MethodKind {
    /// `read(2)` on one I/O thread beside the caller.
    Read,
    /// `pread(2)` on some threads.
    Pread,
    /// Linux native asynchronous I/O.
    Aio,
    /// io_uring.
    Uring,
    /// io_uring with a thread of the kernel that looks for work (`IORING_SETUP_SQPOLL`).
    UringSqpoll,
    /// Mappings whose pages come when they are touched.
    Mmap,
    /// Mappings whose pages are fetched by threads before they are handed out (`MAP_POPULATE`).
    Populate,
    /// Nothing is read at all: what the harness itself costs.
    Null,
}

impl MethodKind {
    /// All of them.
    pub const ALL: [MethodKind; 8] = [
        MethodKind::Read,
        MethodKind::Pread,
        MethodKind::Aio,
        MethodKind::Uring,
        MethodKind::UringSqpoll,
        MethodKind::Mmap,
        MethodKind::Populate,
        MethodKind::Null,
    ];

    /// As it is written: `uring-sqpoll`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MethodKind::Read => "read",
            MethodKind::Pread => "pread",
            MethodKind::Aio => "aio",
            MethodKind::Uring => "uring",
            MethodKind::UringSqpoll => "uring-sqpoll",
            MethodKind::Mmap => "mmap",
            MethodKind::Populate => "populate",
            MethodKind::Null => "null",
        }
    }

    /// Whether it reads into buffers; the others bring the file's own pages, and cannot go around the page cache.
    #[must_use]
    pub fn uses_buffers(self) -> bool {
        !matches!(self, MethodKind::Mmap | MethodKind::Populate)
    }

    /// Whether the kernel can know its buffers beforehand.
    #[must_use]
    pub fn can_register(self) -> bool {
        matches!(self, MethodKind::Uring | MethodKind::UringSqpoll)
    }
}

/// A method and how many reads it has in flight: `uring:8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodSpec {
    /// The method.
    pub kind: MethodKind,
    /// Reads in flight: threads, the queue's depth, or mappings side by side. 1 for `read`.
    pub depth: usize,
}

/// The deepest that a method goes.
pub const DEPTH_MAX: usize = 1024;

impl MethodSpec {
    /// A method with its usual depth.
    #[must_use]
    pub fn usual(kind: MethodKind) -> MethodSpec {
        let depth = match kind {
            MethodKind::Read | MethodKind::Null => 1,
            MethodKind::Pread | MethodKind::Mmap | MethodKind::Populate => 4,
            MethodKind::Aio | MethodKind::Uring | MethodKind::UringSqpoll => 8,
        };
        MethodSpec { kind, depth }
    }
}

impl MethodSpec {
    /// How many reads of `block` bytes it takes on at a time, some of which may wait for a thread.
    #[must_use]
    pub fn ahead(self, block: usize) -> usize {
        match self.kind {
            MethodKind::Read | MethodKind::Pread | MethodKind::Populate => threads::ahead(self.depth, block),
            MethodKind::Aio | MethodKind::Uring | MethodKind::UringSqpoll | MethodKind::Mmap => self.depth,
            MethodKind::Null => null::AHEAD,
        }
    }
}

impl fmt::Display for MethodSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            MethodKind::Read | MethodKind::Null => f.write_str(self.kind.name()),
            _ => write!(f, "{}:{}", self.kind.name(), self.depth),
        }
    }
}

/// Why a text is no method.
#[derive(Debug, thiserror::Error)]
pub enum ParseMethodError {
    /// There is none of that name.
    #[error(
        "`{0}` is no method; there are read, pread:N, aio:N, uring:N, uring-sqpoll:N, mmap:N, populate:N and null"
    )]
    Unknown(String),
    /// The depth is none.
    #[error("`{0}`: the depth behind the colon must be a whole number from 1 to 1024")]
    Depth(String),
    /// It has no depth.
    #[error("`{0}`: this method has one request in flight and takes no depth; pread:N has N")]
    Fixed(String),
}

impl FromStr for MethodSpec {
    type Err = ParseMethodError;

    fn from_str(text: &str) -> Result<MethodSpec, ParseMethodError> {
        let (name, depth) = text.split_once(':').map_or((text, None), |(name, depth)| (name, Some(depth)));
        let kind = MethodKind::ALL.into_iter().find(|kind| kind.name() == name);
        let usual = MethodSpec::usual(kind.ok_or_else(|| ParseMethodError::Unknown(text.to_owned()))?);
        let Some(depth) = depth else { return Ok(usual) };
        let depth = depth.parse().ok().filter(|depth| (1..=DEPTH_MAX).contains(depth));
        let depth = depth.ok_or_else(|| ParseMethodError::Depth(text.to_owned()))?;
        if matches!(usual.kind, MethodKind::Read | MethodKind::Null) && depth != 1 {
            return Err(ParseMethodError::Fixed(text.to_owned()));
        }
        Ok(MethodSpec { depth, ..usual })
    }
}

/// A method ready to be used, and what was granted.
pub struct Opened {
    /// The method.
    pub method: Box<dyn Method>,
    /// Whether the kernel knows the buffers beforehand.
    pub registered: bool,
}

/// Makes a method ready to read a file in blocks of `block` bytes.
///
/// # Errors
/// If the system does not offer the method.
pub fn open(
    spec: MethodSpec,
    source: &Arc<Source>,
    block: usize,
    pool: Option<&Pool>,
    register: bool,
) -> Result<Opened, Error> {
    let ahead = spec.ahead(block);
    let plain = |method: Box<dyn Method>| Opened { method, registered: false };
    let refused = |hint| {
        let method = spec.to_string();
        move |source| Error::Method { method, hint, source }
    };
    match spec.kind {
        MethodKind::Read => {
            read::open(source, ahead).map(plain).map_err(refused("a thread could not be started"))
        }
        MethodKind::Pread => {
            pread::open(source, spec.depth, ahead).map(plain).map_err(refused("threads could not be started"))
        }
        MethodKind::Aio => aio::open(source, spec.depth)
            .map(plain)
            .map_err(refused("see fs.aio-max-nr, or the kernel is without AIO")),
        MethodKind::Uring | MethodKind::UringSqpoll => {
            let pool = pool.filter(|_| register);
            let sqpoll = spec.kind == MethodKind::UringSqpoll;
            uring::open(source, spec.depth, pool, sqpoll)
                .map_err(refused("see kernel.io_uring_disabled, or a sandbox forbids io_uring"))
        }
        MethodKind::Mmap => Ok(plain(mmap::open(source, spec.depth))),
        MethodKind::Populate => mmap::open_populating(source, spec.depth, ahead)
            .map(plain)
            .map_err(refused("threads could not be started")),
        MethodKind::Null => Ok(plain(null::open(source))),
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
            assert_eq!(text.parse::<MethodSpec>().unwrap().to_string(), text);
        }
        assert_eq!("uring".parse::<MethodSpec>().unwrap().depth, 8);
        for text in ["", "preads:4", "pread:0", "pread:1025", "pread:-1", "pread:", "read:2", "uring:8:8"] {
            let error = text.parse::<MethodSpec>().unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
