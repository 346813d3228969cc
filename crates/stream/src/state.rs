//! State of operators as bytes, for snapshots that outlive the process.
//!
//! ```text
//! operator ── save ──► u16 version │ kind │ u64 length of the body │ body │ u32 CRC-32 of all before it
//!          ◄── load ──
//! ```
//!
//! All numbers are little-endian, all lengths are `u64` and are checked against the bytes that are left before memory is
//! reserved. Equal states have equal bytes: what is kept in a hash map is written in the order of its keys. Damaged
//! bytes are errors, never a panic, and leave the operator as it was.

mod values;

use thiserror::Error;

/// An operator, join, sink or source whose state can be written and read back.
///
/// Parameters that the application passes to the operator (functions, sizes of windows) are not part of the state;
/// figures that decide what the state means are saved to be compared.
pub trait SaveState {
    /// Appends the state to `out`.
    fn save(&self, out: &mut Vec<u8>);

    /// Replaces the state by what [`SaveState::save`] wrote.
    ///
    /// # Errors
    /// If the bytes are damaged, of another kind of operator, of a newer version, or of an operator with other
    /// settings. The state is then unchanged.
    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError>;
}

/// A value with a stable encoding.
pub trait Encode {
    /// Appends the encoding to `out`: at least one byte, so that a length bounds the number of values.
    fn encode(&self, out: &mut Vec<u8>);

    /// Appends values without their number. Bytes are copied at once.
    fn encode_all(values: &[Self], out: &mut Vec<u8>)
    where
        Self: Sized,
    {
        values.iter().for_each(|value| value.encode(out));
    }
}

/// A value that is read from its encoding.
pub trait Decode: Sized {
    /// Reads one value.
    ///
    /// # Errors
    /// If the bytes end within the value, or are not the encoding of one.
    fn decode(from: &mut Decoder<'_>) -> Result<Self, StateError>;

    /// Reads `count` values.
    ///
    /// # Errors
    /// Returns the errors of [`Decode::decode`].
    fn decode_all(count: usize, from: &mut Decoder<'_>) -> Result<Vec<Self>, StateError> {
        let mut values = Vec::with_capacity(count.min(from.reserve_max::<Self>()));
        for _ in 0..count {
            values.push(Self::decode(from)?);
        }
        Ok(values)
    }
}

/// Reasons why a state is not loaded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StateError {
    /// The bytes end too early.
    #[error("the saved state is cut off: {needed} more bytes were expected, and {left} are left")]
    Short {
        /// Bytes of the next value.
        needed: u64,
        /// Bytes that are left.
        left: usize,
    },
    /// Bytes follow the state.
    #[error("{0} bytes follow the saved state")]
    Long(usize),
    /// The checksum does not match.
    #[error("the saved state is damaged: its checksum does not match")]
    Checksum,
    /// Not the encoding of any value.
    #[error("the saved state has a value that is not {0}")]
    Value(&'static str),
    /// The state of another kind of operator.
    #[error("the saved state is that of {found}, and the operator is {expected}")]
    Kind {
        /// Kind in the bytes.
        found: String,
        /// Kind of the operator.
        expected: &'static str,
    },
    /// A layout that this version does not know.
    #[error("the saved state has version {found}, and this program reads version {expected}")]
    Version {
        /// Version in the bytes.
        found: u16,
        /// Version that is read.
        expected: u16,
    },
    /// The operator has other settings than the one that saved the state.
    #[error(
        "the saved state has {what} {found}, and the operator has {expected}: resume with the same settings"
    )]
    Settings {
        /// The setting.
        what: &'static str,
        /// Value in the bytes.
        found: String,
        /// Value of the operator.
        expected: String,
    },
    /// A file that the state refers to cannot be continued: it is missing, shorter, or has other content.
    #[error("{0}")]
    Stale(String),
}

/// Bytes that are read from their begin to their end.
#[derive(Debug)]
pub struct Decoder<'a> {
    left: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Reads these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { left: bytes }
    }

    /// Returns the next `count` bytes.
    ///
    /// # Errors
    /// If fewer are left.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], StateError> {
        let left = self.left.len();
        let (taken, rest) =
            self.left.split_at_checked(count).ok_or(StateError::Short { needed: count as u64, left })?;
        self.left = rest;
        Ok(taken)
    }

    /// Returns the next `N` bytes.
    ///
    /// # Errors
    /// If fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Returns a number of values or bytes that follow, each of at least one byte.
    ///
    /// # Errors
    /// If fewer bytes are left.
    pub fn length(&mut self) -> Result<usize, StateError> {
        let needed = u64::decode(self)?;
        let left = self.left.len();
        usize::try_from(needed)
            .ok()
            .filter(|&length| length <= left)
            .ok_or(StateError::Short { needed, left })
    }

    /// A setting, which is to be `expected`.
    ///
    /// # Errors
    /// If it is another one, or the bytes are damaged.
    pub fn setting<T: Decode + PartialEq + std::fmt::Display>(
        &mut self,
        what: &'static str,
        expected: &T,
    ) -> Result<(), StateError> {
        let found = T::decode(self)?;
        if found == *expected {
            return Ok(());
        }
        Err(StateError::Settings { what, found: found.to_string(), expected: expected.to_string() })
    }

    /// Returns the number of bytes that are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.left.len()
    }

    /// The end of the state.
    ///
    /// # Errors
    /// If bytes are left.
    pub fn finish(self) -> Result<(), StateError> {
        if self.left.is_empty() { Ok(()) } else { Err(StateError::Long(self.left.len())) }
    }

    /// Returns the values for which memory may be reserved before they are read: no more memory than four times the
    /// bytes that are left, however wide a value is in memory and however narrow in its encoding.
    fn reserve_max<T>(&self) -> usize {
        self.left.len().saturating_mul(4) / size_of::<T>().max(1)
    }
}

/// Kind and version of a state: its frame with a checksum.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The kind of operator, as it reads in an error: "a tumbling window".
    pub kind: &'static str,
    /// Version of the body's layout.
    pub version: u16,
}

/// Bytes of the checksum at the end of a frame.
const CHECKSUM_BYTES: usize = 4;

impl Frame {
    /// Appends a frame with the body that `write` appends.
    pub fn save(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let begin = out.len();
        self.version.encode(out);
        (self.kind.len() as u64).encode(out);
        out.extend_from_slice(self.kind.as_bytes());
        let length_at = out.len();
        0_u64.encode(out);
        let body_at = out.len();
        write(out);
        let length = (out.len() - body_at) as u64;
        out[length_at..body_at].copy_from_slice(&length.to_le_bytes());
        crc32fast::hash(&out[begin..]).encode(out);
    }

    /// Reads the body by `read`, if kind, version and checksum are right. All bytes are to be read.
    ///
    /// # Errors
    /// If they are not right, or `read` fails.
    pub fn load<T>(
        &self,
        bytes: &[u8],
        read: impl FnOnce(&mut Decoder<'_>) -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        let mut frame = Decoder::new(bytes);
        let found = u16::decode(&mut frame)?;
        let length = frame.length()?;
        let kind = frame.take(length)?;
        let length = frame.length()?;
        let body = frame.take(length)?;
        let checksum = u32::decode(&mut frame)?;
        frame.finish()?;
        if crc32fast::hash(&bytes[..bytes.len() - CHECKSUM_BYTES]) != checksum {
            return Err(StateError::Checksum);
        }
        if kind != self.kind.as_bytes() {
            let found = String::from_utf8_lossy(kind).into_owned();
            return Err(StateError::Kind { found, expected: self.kind });
        }
        if found != self.version {
            return Err(StateError::Version { found, expected: self.version });
        }
        let mut body = Decoder::new(body);
        let read = read(&mut body)?;
        body.finish()?;
        Ok(read)
    }
}
