//! Whether a file that is read again still has what was read of it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use sakiyomi_stream::{Decode, Decoder, Encode, StateError};

/// Bytes at the start of the file, and before a position, that are compared: some lines, which another file has not.
const COMPARED_BYTES: usize = 4 << 10;

/// Checksums of some bytes of a file before a position. A change of other bytes that leaves their number is not noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Bytes at the start, and their CRC-32.
    head: Sum,
    /// Bytes right before the position, and their CRC-32.
    tail: Sum,
    /// Length of the file, if it may not grow, in bytes.
    length: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    bytes: u64,
    crc: u32,
}

impl Sum {
    fn of(bytes: &[u8]) -> Sum {
        Sum { bytes: bytes.len() as u64, crc: crc32fast::hash(bytes) }
    }
}

impl Mark {
    /// Returns the mark of a file that may not grow.
    pub(crate) fn of_length(length: u64) -> Mark {
        Mark { length: Some(length), ..Mark::default() }
    }

    /// Takes the first bytes of the file.
    pub(crate) fn set_head(&mut self, bytes: &[u8]) {
        self.head = Sum::of(&bytes[..bytes.len().min(COMPARED_BYTES)]);
    }

    /// Returns the mark at a position after these bytes.
    pub(crate) fn at(self, before: &[u8]) -> Mark {
        let from = before.len().saturating_sub(COMPARED_BYTES);
        Mark { tail: Sum::of(&before[from..]), ..self }
    }

    /// Returns whether bytes right before the position are compared.
    pub(crate) fn has_tail(&self) -> bool {
        self.tail.bytes > 0
    }

    /// Whether a file still has what was read of it until `position`, in bytes; none of a file that may not grow.
    ///
    /// # Errors
    /// The difference, or why the file cannot be read.
    pub(crate) fn check(&self, path: &Path, position: Option<u64>) -> Result<(), String> {
        let shown = path.display();
        let failed = |error: std::io::Error| format!("cannot read {shown}: {error}");
        let file = File::open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?.len();
        let position = position.unwrap_or(0);
        if found < position {
            return Err(format!("{shown} has {found} bytes, and {position} had been read at the snapshot"));
        }
        if self.length.is_some_and(|length| length != found) {
            return Err(format!("{shown} has another length than at the snapshot"));
        }
        let has = |at: u64, sum: Sum| {
            // A damaged state must not reserve memory.
            let mut bytes = vec![0; (sum.bytes as usize).min(COMPARED_BYTES)];
            file.read_exact_at(&mut bytes, at).is_ok() && Sum::of(&bytes) == sum
        };
        let tail_at = position.checked_sub(self.tail.bytes);
        if has(0, self.head) && tail_at.is_some_and(|at| has(at, self.tail)) {
            return Ok(());
        }
        Err(format!("{shown} has different content than at the snapshot"))
    }
}

impl Encode for Mark {
    fn encode(&self, out: &mut Vec<u8>) {
        let Mark { head, tail, length } = *self;
        (head.bytes, head.crc).encode(out);
        (tail.bytes, tail.crc, length).encode(out);
    }
}

impl Decode for Mark {
    fn decode(from: &mut Decoder<'_>) -> Result<Mark, StateError> {
        let (bytes, crc) = Decode::decode(from)?;
        let head = Sum { bytes, crc };
        let (bytes, crc, length) = Decode::decode(from)?;
        Ok(Mark { head, tail: Sum { bytes, crc }, length })
    }
}

#[cfg(test)]
mod tests {
    use sakiyomi_testing::Scratch;

    use super::*;

    #[test]
    fn growth_is_no_change_and_all_else_near_the_start_and_the_position_is() {
        let scratch = Scratch::new("mark");
        let text: Vec<u8> = (0..30_000_u32).map(|at| (at % 251) as u8).collect();
        let position = 20_000;
        let mut mark = Mark::default();
        mark.set_head(&text[..9_000]);
        let mark = mark.at(&text[8_000..position]);
        let check = |content: &[u8]| mark.check(&scratch.file("file", content), Some(position as u64));
        assert_eq!(check(&text), Ok(()));
        assert_eq!(check(&[&text[..], b"more"].concat()), Ok(()));
        assert_eq!(check(&text[..position]), Ok(()));
        for at in [0, COMPARED_BYTES - 1, position - COMPARED_BYTES, position - 1] {
            let mut other = text.clone();
            other[at] ^= 1;
            assert!(
                check(&other).unwrap_err().ends_with("has different content than at the snapshot"),
                "{at}"
            );
        }
        assert!(check(&text[1..]).unwrap_err().contains("different content"));
        let short = check(&text[..position - 1]).unwrap_err();
        assert!(short.ends_with("has 19999 bytes, and 20000 had been read at the snapshot"), "{short}");
        assert!(mark.check(&scratch.path("none"), Some(1)).unwrap_err().contains("cannot read"));
        let whole = Mark::of_length(30_000);
        assert_eq!(whole.check(&scratch.file("file", &text), None), Ok(()));
        assert!(whole.check(&scratch.file("file", &text[1..]), None).unwrap_err().contains("another length"));
        let mut bytes = Vec::new();
        (mark, whole).encode(&mut bytes);
        assert_eq!(Decode::decode(&mut Decoder::new(&bytes)), Ok((mark, whole)));
    }
}
