//! Units of formats whose parts tell their sizes, and of those that have to be decoded sequentially.

use std::io::{self, BufReader, Cursor, Read};

use super::{Bytes, Format, Unit, Units};

/// Bytes of the input read in one call.
const INPUT_BYTES: usize = 256 << 10;
/// Bytes of a unit after decoding, about: small enough that threads end together, large enough that a task costs little.
pub(super) const UNIT_BYTES: u64 = 1 << 20;

/// A format whose inputs consist of parts that can be decoded in any order.
pub(super) trait Divisible: Format {
    /// Appends the next part, and returns the number of its bytes after decoding. `None` if they are not stated, or too
    /// many: what was appended is then the beginning of the rest, or nothing at the end of the input.
    fn part(&self, from: &mut dyn Read, packed: &mut Vec<u8>) -> io::Result<Option<u64>>;

    /// Appends the content of a part, which has `length` bytes.
    fn unpack(&self, part: &[u8], length: u64, bytes: &mut Vec<u8>) -> io::Result<()>;
}

/// Divides an input into units of many small parts.
pub(super) fn units<'r>(format: &'static dyn Divisible, from: Bytes<'r>) -> Units<'r> {
    let from = BufReader::with_capacity(INPUT_BYTES, from);
    Box::new(Parts { format, from: Some(from), rest: None, failure: None })
}

/// Divides an input into units after decoding it.
pub(super) fn decoded_units<'r>(mut from: impl Read + Send + 'r) -> Units<'r> {
    let mut failure = None;
    Box::new(std::iter::from_fn(move || {
        let mut bytes = Vec::with_capacity(UNIT_BYTES as usize);
        if failure.is_none() {
            // The bytes that were decoded before an error precede it.
            failure = from.by_ref().take(UNIT_BYTES).read_to_end(&mut bytes).err();
        }
        match bytes.is_empty() {
            true => failure.take().map(Err),
            false => Some(Ok(Unit::new(bytes.len() as u64, || Ok(bytes)))),
        }
    }))
}

struct Parts<'r> {
    format: &'static dyn Divisible,
    /// Not there after the end, an error, or the last part that told its size.
    from: Option<BufReader<Bytes<'r>>>,
    /// The rest, decoded sequentially.
    rest: Option<Units<'r>>,
    failure: Option<io::Error>,
}

impl Parts<'_> {
    /// Reads parts of about [`UNIT_BYTES`]; `None` if there are none.
    fn unit(&mut self) -> Option<Unit> {
        let (mut parts, mut packed, mut length) = (Vec::new(), Vec::new(), 0);
        while let Some(from) = self.from.as_mut().filter(|_| length < UNIT_BYTES) {
            let start = packed.len();
            match self.format.part(from, &mut packed) {
                Ok(Some(content)) => {
                    parts.push((start..packed.len(), content));
                    length += content;
                }
                Ok(None) => self.leave(packed.split_off(start)),
                Err(error) => (self.from, self.failure) = (None, Some(error)),
            }
        }
        let format = self.format;
        let decode = move || {
            let mut bytes = Vec::with_capacity(length as usize);
            for (part, content) in parts {
                format.unpack(&packed[part], content, &mut bytes)?;
            }
            Ok(bytes)
        };
        (length > 0).then(|| Unit::new(length, decode))
    }

    /// Decodes the rest of the input sequentially, if there is one.
    fn leave(&mut self, beginning: Vec<u8>) {
        let from = self.from.take().expect("it was just read");
        if !beginning.is_empty() {
            match self.format.reader(Box::new(Cursor::new(beginning).chain(from))) {
                Ok(reader) => self.rest = Some(decoded_units(reader)),
                Err(error) => self.failure = Some(error),
            }
        }
    }
}

impl Iterator for Parts<'_> {
    type Item = io::Result<Unit>;

    fn next(&mut self) -> Option<io::Result<Unit>> {
        if let Some(unit) = self.unit() {
            return Some(Ok(unit));
        }
        self.failure.take().map(Err).or_else(|| self.rest.as_mut()?.next())
    }
}

/// Appends exactly this many bytes.
pub(super) fn append(from: &mut dyn Read, bytes: usize, to: &mut Vec<u8>) -> io::Result<()> {
    let read = from.take(bytes as u64).read_to_end(to)?;
    if read == bytes { Ok(()) } else { Err(cut_short()) }
}

/// The error of an input that ends in the middle.
pub(super) fn cut_short() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the compressed data ends too early")
}

/// Makes the error of an input that is not as its format demands.
pub(super) fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
