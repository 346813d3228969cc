//! Bytes cut into blocks of whole records.

use std::io::{ErrorKind, Read};
use std::sync::Arc;

use memchr::{memchr2_iter, memrchr};

use super::{Records, Sender};
use crate::Error;
use crate::control::Control;
use crate::input::Named;
use crate::row::{Block, Pool};

/// The longest record: more than any log has, and small beside the memory of a machine.
const RECORD_MAX_BYTES: usize = 64 << 20;

/// Records that are copied to memory of their own, at most: a block of this size or less is copied in the time of a system
/// call, and a row of it does not keep the memory of a whole one.
const COPIED_MAX_BYTES: usize = 8 << 10;

/// After which bytes a block may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Line ends.
    Lines,
    /// Line ends that are not within quotes, as in CSV.
    Unquoted,
}

impl Cut {
    /// Length of the whole records at the start of some bytes, which begin with a record.
    fn whole(self, bytes: &[u8]) -> usize {
        match self {
            Cut::Lines => memrchr(b'\n', bytes).map_or(0, |at| at + 1),
            Cut::Unquoted => {
                let (mut is_quoted, mut whole) = (false, 0);
                for at in memchr2_iter(b'\n', b'"', bytes) {
                    match bytes[at] {
                        b'"' => is_quoted = !is_quoted,
                        _ if !is_quoted => whole = at + 1,
                        _ => {}
                    }
                }
                whole
            }
        }
    }
}

/// Reads an input, whose first byte has this offset, to its end, and sends its records in blocks as soon as they are whole. A last line without a line end is
/// a record.
///
/// # Errors
/// Returns the errors of reading, and an error if a record is too long.
pub(super) fn read(
    mut input: impl Read,
    cut: Cut,
    mut offset: u64,
    sender: &Sender,
    control: &Control,
    named: &Named,
) -> Result<(), Error> {
    let pool = Arc::new(Pool::default());
    let mut bytes = pool.take();
    let mut filled = 0;
    loop {
        if filled == bytes.len() {
            if filled >= RECORD_MAX_BYTES {
                let reason = format!("a record is longer than {RECORD_MAX_BYTES} bytes");
                return Err(named.error("read", std::io::Error::new(ErrorKind::InvalidData, reason)));
            }
            bytes.resize(2 * filled, 0);
        }
        let read = match input.read(&mut bytes[filled..]) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // A socket that looks whether it is to end.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if control.is_stopped() {
                    return Ok(());
                }
                continue;
            }
            Err(error) => return Err(named.error("read", error)),
        };
        filled += read;
        let whole = if read == 0 { filled } else { cut.whole(&bytes[..filled]) };
        if whole > 0 && whole <= COPIED_MAX_BYTES {
            let block = Block::of_lines(bytes[..whole].to_vec(), offset, &pool);
            bytes.copy_within(whole..filled, 0);
            offset += whole as u64;
            filled -= whole;
            if !sender.send(Records::Lines(block)) {
                return Ok(());
            }
        } else if whole > 0 {
            let mut next = pool.take();
            let rest = filled - whole;
            next.resize(next.len().max(rest), 0);
            next[..rest].copy_from_slice(&bytes[whole..filled]);
            bytes.truncate(whole);
            let block = Block::of_lines(std::mem::replace(&mut bytes, next), offset, &pool);
            offset += whole as u64;
            filled = rest;
            if !sender.send(Records::Lines(block)) {
                return Ok(());
            }
        }
        if read == 0 || control.is_stopped() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use sakiyomi_stream::Wakeup;

    use super::*;
    use crate::input::{Queue, Taken, queue};

    /// Gives the bytes in pieces of these lengths, in turn.
    struct Pieces<'a> {
        bytes: &'a [u8],
        lengths: std::iter::Cycle<std::slice::Iter<'a, usize>>,
    }

    impl Read for Pieces<'_> {
        fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
            let length = self.lengths.next().copied().unwrap_or(1).min(space.len()).min(self.bytes.len());
            let (piece, rest) = self.bytes.split_at(length);
            space[..length].copy_from_slice(piece);
            self.bytes = rest;
            Ok(length)
        }
    }

    fn blocks(bytes: &[u8], lengths: &[usize], cut: Cut) -> Vec<(u64, String)> {
        let (sender, mut queue): (Sender, Queue) = queue(&Named::new("test", "bytes"), &Wakeup::new());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let pieces = Pieces { bytes, lengths: lengths.iter().cycle() };
                let read = read(pieces, cut, 0, &sender, &Control::default(), &Named::new("test", "bytes"));
                sender.end(read);
            });
            let mut blocks = Vec::new();
            loop {
                match queue.take() {
                    Taken::Batch(batch) => {
                        let Records::Lines(block) = batch.records else { panic!() };
                        blocks.push((block.offset(), block.text().to_owned()));
                    }
                    Taken::Empty => std::thread::yield_now(),
                    Taken::End(error) => {
                        assert!(error.is_none(), "{error:?}");
                        return blocks;
                    }
                }
            }
        })
    }

    #[test]
    fn blocks_end_with_whole_records_wherever_reads_end() {
        let text = "one\n\"two\nlines\",x\n\nlast";
        for lengths in [&[1_usize][..], &[3, 1, 7], &[1000]] {
            for cut in [Cut::Lines, Cut::Unquoted] {
                let blocks = blocks(text.as_bytes(), lengths, cut);
                let mut offset = 0;
                for (index, (at, block)) in blocks.iter().enumerate() {
                    assert_eq!(*at, offset);
                    offset += block.len() as u64;
                    assert!(block.ends_with('\n') || index + 1 == blocks.len());
                    let quotes = block.bytes().filter(|&byte| byte == b'"').count();
                    assert!(cut == Cut::Lines || quotes % 2 == 0, "{block}");
                }
                assert_eq!(blocks.concat_texts(), text);
            }
        }
    }

    trait Texts {
        fn concat_texts(&self) -> String;
    }

    impl Texts for Vec<(u64, String)> {
        fn concat_texts(&self) -> String {
            self.iter().map(|(_, text)| text.as_str()).collect()
        }
    }

    #[test]
    fn a_record_longer_than_a_block_is_read_whole() {
        let mut bytes = vec![b'x'; 3 * crate::row::BLOCK_BYTES];
        bytes.extend(b"\nnext\n");
        let blocks = blocks(&bytes, &[65_536], Cut::Lines);
        assert_eq!(blocks.concat_texts().len(), bytes.len());
        assert!(blocks[0].1.starts_with('x') && blocks[0].1.ends_with('\n'));
    }
}
