//! The NBD protocol without sockets: negotiation as a state machine over bytes, requests and replies as bytes.
//!
//! It follows <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>, whose names the constants have. All
//! numbers are big-endian. The rest of this crate reads as many bytes as [`Negotiation::wants`] says, and sends what it
//! gets back. Whatever a client sends, the result is an error reply or the end of the connection.
//!
//! No library was taken: those of Rust that serve NBD are programs, not maintained, or lack structured replies and
//! multiple connections, and the protocol is small.

mod handshake;
mod transmission;

pub use handshake::{Agreement, Export, GREETING_BYTES, Negotiation, Step, greeting};
pub use transmission::{
    Command, HEADER_BYTES, Head, Header, Refusal, Request, block_status_reply, data_reply, error_reply,
    simple_reply,
};

/// `NBDMAGIC`, the first bytes of a server.
const INIT_MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// `IHAVEOPT`, before each option of a client.
const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// Magic number of replies to options.
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Magic number of requests.
const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Magic number of simple replies.
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Magic number of chunks of structured replies.
const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Largest name of an export (the protocol's limit on strings).
pub const NAME_MAX_BYTES: usize = 4096;

/// Largest data of a read or write, as many clients expect by default.
pub const PAYLOAD_MAX_BYTES: u32 = 32 << 20;

/// Block size that is efficient everywhere: that of pages, and of most file systems.
const PREFERRED_BLOCK_BYTES: u32 = 4096;

/// The metadata context that tells which parts are allocated, the only one.
pub const ALLOCATION_CONTEXT: &str = "base:allocation";

/// Number that stands for [`ALLOCATION_CONTEXT`] in replies, chosen by the server.
const ALLOCATION_CONTEXT_ID: u32 = 1;

/// Errors in replies: a subset of those of Linux, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Errno {
    /// Not permitted: the export is read-only.
    Perm = 1,
    /// The storage has failed.
    Io = 5,
    /// There is not enough memory.
    NoMem = 12,
    /// The request is invalid.
    Inval = 22,
    /// There is no space, or a write ends beyond the export.
    NoSpc = 28,
    /// Not supported.
    NotSup = 95,
    /// The server is being stopped.
    Shutdown = 108,
}

/// Properties of an export that clients are told (transmission flags).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Writes are refused.
    pub read_only: bool,
    /// Accesses take less time in order of place: an emulated hard disk.
    pub rotational: bool,
}

impl Features {
    /// Returns the transmission flags; `structured` is whether structured replies were negotiated.
    fn flags(self, structured: bool) -> u16 {
        /// `HAS_FLAGS`, `SEND_FLUSH`, `SEND_FUA`, `CAN_MULTI_CONN` (a flush of one connection covers all) and
        /// `SEND_CACHE`.
        const ALWAYS_FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 8 | 1 << 10;
        /// `SEND_TRIM`, `SEND_WRITE_ZEROES` and `SEND_FAST_ZERO`.
        const WRITABLE_FLAGS: u16 = 1 << 5 | 1 << 6 | 1 << 11;
        let read_only = if self.read_only { 1 << 1 } else { WRITABLE_FLAGS };
        // `SEND_DF`: reads are never divided into several chunks.
        ALWAYS_FLAGS | read_only | u16::from(self.rotational) << 4 | u16::from(structured) << 7
    }
}

/// Reads big-endian numbers and strings from the front of bytes.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_be_bytes)
    }

    /// Reads a string after its length.
    fn string(&mut self) -> Option<&'a str> {
        let length = self.u32()? as usize;
        std::str::from_utf8(self.take(length)?).ok()
    }
}
