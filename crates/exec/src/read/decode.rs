//! Decoding of compressed inputs: in units that compute threads decode in parallel, where the format allows it, or
//! sequentially by the I/O thread, while they process what it has decoded.

#[cfg(feature = "compression")]
mod gzip;
#[cfg(feature = "compression")]
mod index;
#[cfg(feature = "compression")]
mod magic;
#[cfg(feature = "compression")]
mod parts;
#[cfg(feature = "compression")]
mod zstd;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

#[cfg(feature = "compression")]
pub(super) use magic::ByMagic;

/// A compressed or a decoded input.
pub(super) type Bytes<'r> = Box<dyn Read + Send + 'r>;
/// Units of an input, in their order.
pub(super) type Units<'r> = Box<dyn Iterator<Item = io::Result<Unit>> + Send + 'r>;

/// Recognizes the formats of inputs by their beginning.
pub(super) trait Decoder: fmt::Debug + Send + Sync {
    /// Returns the format of an input that begins so; `None` if it is not compressed.
    fn format(&self, beginning: &[u8]) -> Option<&'static dyn Format>;
}

/// Bytes that tell the format of an input.
pub(super) const BEGINNING_BYTES: usize = 18;

/// A format of compressed inputs.
pub(super) trait Format: Sync {
    /// Decodes an input sequentially.
    fn reader<'r>(&self, from: Bytes<'r>) -> io::Result<Bytes<'r>>;

    /// Divides an input into units.
    fn units<'r>(&self, from: Bytes<'r>) -> io::Result<Units<'r>>;

    /// Moves to a part of a file that begins at the offset `at` of the content or before, if an index tells one. Returns
    /// the offset of its content.
    fn seek(&self, _file: &mut File, _path: &Path, _at: u64) -> io::Result<u64> {
        Ok(0)
    }
}

/// A part of an input that can be decoded without those before it.
pub(super) struct Unit {
    /// Number of bytes after decoding.
    pub(super) length: u64,
    decode: Box<dyn FnOnce() -> io::Result<Vec<u8>> + Send>,
}

impl Unit {
    /// Makes a unit that `decode` decodes into `length` bytes.
    #[cfg_attr(not(feature = "compression"), expect(dead_code, reason = "for the formats"))]
    fn new(length: u64, decode: impl FnOnce() -> io::Result<Vec<u8>> + Send + 'static) -> Unit {
        Unit { length, decode: Box::new(decode) }
    }

    /// Decodes it, and returns this part of its content.
    pub(super) fn decoded(self, part: Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = (self.decode)()?;
        if bytes.len() as u64 != self.length {
            let what = "a compressed part has another size than it states";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        bytes.truncate(part.end as usize);
        bytes.drain(..part.start as usize);
        Ok(bytes)
    }
}
