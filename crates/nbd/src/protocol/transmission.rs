//! Requests and replies after the negotiation.

use super::{
    ALLOCATION_CONTEXT_ID, Agreement, Errno, Export, Fields, PAYLOAD_MAX_BYTES, REQUEST_MAGIC,
    SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC,
};

/// Size of the header of a request.
pub const HEADER_BYTES: usize = 28;

/// Size of the header of a chunk, and of the offset or the error that follows.
const HEAD_MAX_BYTES: usize = 20 + 8;

// Flags of requests.
const FLAG_FUA: u16 = 1; // durable when it is answered
const FLAG_NO_HOLE: u16 = 1 << 1; // zeros keep their blocks
const FLAG_DF: u16 = 1 << 2; // a read in one chunk
const FLAG_REQ_ONE: u16 = 1 << 3; // the status of the first part only
const FLAG_FAST_ZERO: u16 = 1 << 4; // zeros without writing them, or none

// Types of chunks.
const CHUNK_NONE: u16 = 0; // no data
const CHUNK_OFFSET_DATA: u16 = 1; // data at an offset
const CHUNK_BLOCK_STATUS: u16 = 5; // parts of the block status
const CHUNK_ERROR: u16 = 1 << 15 | 1; // an error

/// Flag of the last chunk of a reply.
const CHUNK_DONE_FLAG: u16 = 1;

/// `HOLE` and `ZERO`: status of a part without blocks, which reads as zeros.
const HOLE_STATUS: u32 = 0b11;

/// The header of a request, as it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Flags of the command.
    pub flags: u16,
    /// Number of the command.
    pub kind: u16,
    /// The client's name for the request, which its reply repeats.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Returns data.
    Read,
    /// Writes data.
    Write,
    /// Ends the connection when all requests have been answered; it has no reply.
    Disconnect,
    /// Makes all writes that were answered before durable, those of other connections as well.
    Flush,
    /// The content of the range is not needed any more.
    Trim,
    /// The range will be read soon.
    Cache,
    /// Writes zeros.
    WriteZeroes {
        /// Whether the range may lose its blocks.
        may_punch: bool,
        /// Whether to fail rather than to write the zeros one by one.
        only_fast: bool,
    },
    /// Returns which parts are allocated.
    BlockStatus {
        /// Whether to describe the first part only.
        one: bool,
    },
}

/// A valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The operation.
    pub command: Command,
    /// The client's name for it.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Number of bytes; `offset + length` is within the export.
    pub length: u32,
    /// Force unit access: what it writes is durable when it is answered.
    pub fua: bool,
}

/// An invalid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The client's name for it.
    pub cookie: u64,
    /// Whether it expects a structured reply.
    pub structured: bool,
    /// The error to reply.
    pub error: Errno,
    /// Bytes of data that follow the request, and are to be passed over.
    pub skip: u32,
}

impl Header {
    /// Decodes a header; `None` if it is not one, after which the position in the stream is unknown.
    #[must_use]
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let mut fields = Fields(bytes);
        let magic = fields.u32()?;
        let header = Header {
            flags: fields.u16()?,
            kind: fields.u16()?,
            cookie: fields.u64()?,
            offset: fields.u64()?,
            length: fields.u32()?,
        };
        (magic == REQUEST_MAGIC).then_some(header)
    }

    /// Encodes it.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Checks the request against the export and what was negotiated.
    ///
    /// # Errors
    /// The reply to an invalid one.
    pub fn check(&self, export: &Export, agreement: Agreement) -> Result<Request, Refusal> {
        let Header { flags, kind, cookie, offset, length } = *self;
        let (command, allowed) = match kind {
            0 => (Command::Read, if agreement.structured { FLAG_DF } else { 0 }),
            1 => (Command::Write, 0),
            2 => (Command::Disconnect, u16::MAX),
            3 => (Command::Flush, 0),
            4 => (Command::Trim, 0),
            5 => (Command::Cache, 0),
            6 => {
                let (may_punch, only_fast) = (flags & FLAG_NO_HOLE == 0, flags & FLAG_FAST_ZERO != 0);
                (Command::WriteZeroes { may_punch, only_fast }, FLAG_NO_HOLE | FLAG_FAST_ZERO)
            }
            7 => (Command::BlockStatus { one: flags & FLAG_REQ_ONE != 0 }, FLAG_REQ_ONE),
            _ => return Err(self.refused(Errno::Inval, agreement)),
        };
        if flags & !(allowed | FLAG_FUA) != 0 {
            return Err(self.refused(Errno::Inval, agreement));
        }
        let writes = matches!(command, Command::Write | Command::Trim | Command::WriteZeroes { .. });
        let within = offset.checked_add(length.into()).is_some_and(|end| end <= export.size);
        let error = match command {
            Command::Disconnect => None,
            Command::Flush => (offset != 0 || length != 0).then_some(Errno::Inval),
            _ if writes && export.features.read_only => Some(Errno::Perm),
            Command::Write | Command::WriteZeroes { .. } if !within => Some(Errno::NoSpc),
            _ if !within => Some(Errno::Inval),
            Command::Read | Command::Write if length > PAYLOAD_MAX_BYTES => Some(Errno::Inval),
            Command::BlockStatus { .. } if !agreement.allocation || length == 0 => Some(Errno::Inval),
            _ => None,
        };
        match error {
            Some(error) => Err(self.refused(error, agreement)),
            None => Ok(Request { command, cookie, offset, length, fua: flags & FLAG_FUA != 0 }),
        }
    }

    /// Returns how many bytes of data follow the header.
    #[must_use]
    pub fn data_length(&self) -> u32 {
        if self.kind == 1 { self.length } else { 0 }
    }

    /// Returns what to reply instead of serving the request.
    #[must_use]
    pub fn refused(&self, error: Errno, agreement: Agreement) -> Refusal {
        Refusal {
            cookie: self.cookie,
            // Reads and block status have structured replies only, once negotiated.
            structured: agreement.structured && matches!(self.kind, 0 | 7),
            error,
            skip: self.data_length(),
        }
    }
}

/// The first bytes of a reply, before its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    bytes: [u8; HEAD_MAX_BYTES],
    length: usize,
}

impl Head {
    fn put(mut self, bytes: &[u8]) -> Head {
        self.bytes[self.length..][..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
        self
    }

    fn chunk(kind: u16, cookie: u64, length: u32) -> Head {
        Head::default()
            .put(&STRUCTURED_REPLY_MAGIC.to_be_bytes())
            .put(&CHUNK_DONE_FLAG.to_be_bytes())
            .put(&kind.to_be_bytes())
            .put(&cookie.to_be_bytes())
            .put(&length.to_be_bytes())
    }

    /// Returns its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Returns a reply without data: success, or an error.
#[must_use]
pub fn simple_reply(cookie: u64, error: Option<Errno>) -> Head {
    Head::default()
        .put(&SIMPLE_REPLY_MAGIC.to_be_bytes())
        .put(&error.map_or(0, |error| error as u32).to_be_bytes())
        .put(&cookie.to_be_bytes())
}

/// Returns the reply to a request that failed.
#[must_use]
pub fn error_reply(cookie: u64, structured: bool, error: Errno) -> Head {
    if !structured {
        return simple_reply(cookie, Some(error));
    }
    // The error, and the length of its message, which is empty.
    Head::chunk(CHUNK_ERROR, cookie, 6).put(&(error as u32).to_be_bytes()).put(&[0; 2])
}

/// Returns the head of a reply to a read, before `length` bytes of data.
#[must_use]
pub fn data_reply(request: &Request, structured: bool) -> Head {
    let Request { cookie, offset, length, .. } = *request;
    match (structured, length) {
        (false, _) => simple_reply(cookie, None),
        (true, 0) => Head::chunk(CHUNK_NONE, cookie, 0),
        (true, _) => Head::chunk(CHUNK_OFFSET_DATA, cookie, 8 + length).put(&offset.to_be_bytes()),
    }
}

/// Returns a reply to a question for the block status: its head, and its data. The parts follow each other from the
/// offset of the request on, each with its length and whether it is data rather than a hole.
#[must_use]
pub fn block_status_reply(cookie: u64, parts: &[(u32, bool)]) -> (Head, Vec<u8>) {
    let mut data = ALLOCATION_CONTEXT_ID.to_be_bytes().to_vec();
    for &(length, is_data) in parts {
        data.extend(length.to_be_bytes());
        data.extend((if is_data { 0 } else { HOLE_STATUS }).to_be_bytes());
    }
    (Head::chunk(CHUNK_BLOCK_STATUS, cookie, data.len() as u32), data)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Features;
    use super::*;

    const SIZE: u64 = 1 << 20;

    fn export(read_only: bool) -> Export {
        let features = Features { read_only, rotational: false };
        Export { name: String::new(), description: String::new(), size: SIZE, features }
    }

    const OLD: Agreement = Agreement { export: 0, structured: false, allocation: false };
    const MODERN: Agreement = Agreement { export: 0, structured: true, allocation: true };

    fn header(kind: u16, flags: u16, offset: u64, length: u32) -> Header {
        Header { flags, kind, cookie: 7, offset, length }
    }

    fn error(header: &Header, agreement: Agreement) -> Errno {
        header.check(&export(false), agreement).unwrap_err().error
    }

    #[test]
    fn ranges_beyond_the_end_are_refused_with_the_errors_of_the_protocol() {
        for (kind, expected) in [(0, Errno::Inval), (1, Errno::NoSpc), (4, Errno::Inval), (6, Errno::NoSpc)] {
            assert!(header(kind, 0, SIZE - 8, 8).check(&export(false), OLD).is_ok());
            assert_eq!(error(&header(kind, 0, SIZE - 8, 9), OLD), expected);
            assert_eq!(error(&header(kind, 0, u64::MAX, 9), OLD), expected);
        }
    }

    #[test]
    fn a_refused_write_tells_how_much_data_follows() {
        let refusal = header(1, 0, SIZE, 5).check(&export(false), MODERN).unwrap_err();
        assert_eq!((refusal.skip, refusal.structured), (5, false));
        let refusal = header(1, 0, 0, 5).check(&export(true), MODERN).unwrap_err();
        assert_eq!((refusal.error, refusal.skip), (Errno::Perm, 5));
        let refusal = header(0, 0, SIZE, 5).check(&export(false), MODERN).unwrap_err();
        assert_eq!((refusal.skip, refusal.structured), (0, true));
    }

    #[test]
    fn flags_and_commands_that_were_not_negotiated_are_refused() {
        assert!(header(0, FLAG_DF, 0, 1).check(&export(false), MODERN).is_ok());
        assert_eq!(error(&header(0, FLAG_DF, 0, 1), OLD), Errno::Inval);
        assert_eq!(error(&header(7, 0, 0, 1), OLD), Errno::Inval);
        assert_eq!(error(&header(8, 0, 0, 1), MODERN), Errno::Inval);
        assert_eq!(error(&header(1, FLAG_REQ_ONE, 0, 1), MODERN), Errno::Inval);
        assert_eq!(error(&header(3, 0, 0, 1), MODERN), Errno::Inval);
        let zeroes = header(6, FLAG_FUA | FLAG_FAST_ZERO | FLAG_NO_HOLE, 0, 1);
        let request = zeroes.check(&export(false), MODERN).unwrap();
        assert!(request.fua);
        assert_eq!(request.command, Command::WriteZeroes { may_punch: false, only_fast: true });
    }

    #[test]
    fn replies_have_the_bytes_of_the_protocol() {
        let reply = simple_reply(0x0102_0304_0506_0708, Some(Errno::NoSpc));
        assert_eq!(reply.bytes(), [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 28, 1, 2, 3, 4, 5, 6, 7, 8]);
        let request = Request { command: Command::Read, cookie: 1, offset: 0x200, length: 3, fua: false };
        assert_eq!(
            data_reply(&request, true).bytes(),
            [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 2, 0]
        );
        assert_eq!(data_reply(&Request { length: 0, ..request }, true).bytes()[6..8], [0, 0]);
        assert_eq!(error_reply(1, true, Errno::Io).bytes()[6..8], [0x80, 1]);
        let (head, data) = block_status_reply(1, &[(8, true), (9, false)]);
        assert_eq!((head.bytes().len(), data.len(), head.bytes()[19]), (20, 20, 20));
        assert_eq!(data[16..], [0, 0, 0, 3]);
    }

    proptest! {
        #[test]
        fn any_header_is_served_within_the_export_or_refused(
            bytes: [u8; HEADER_BYTES], kind in 0u16..10, flags in 0u16..64, offset in 0..2 * SIZE, length: u32,
            read_only: bool, structured: bool,
        ) {
            if let Some(header) = Header::decode(&bytes) {
                prop_assert_eq!(header.encode(), bytes);
            }
            let agreement = if structured { MODERN } else { OLD };
            let header = header(kind, flags, offset, length);
            prop_assert_eq!(Header::decode(&header.encode()), Some(header));
            match header.check(&export(read_only), agreement) {
                Ok(request) => {
                    prop_assert!(request.command == Command::Disconnect || offset + u64::from(length) <= SIZE);
                    prop_assert!(!read_only || !matches!(request.command, Command::Write | Command::Trim));
                }
                Err(refusal) => {
                    let reply = error_reply(refusal.cookie, refusal.structured, refusal.error);
                    prop_assert_eq!(reply.bytes().len(), if refusal.structured { 26 } else { 16 });
                }
            }
        }
    }
}
