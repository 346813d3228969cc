//! Zstandard (RFC 8878): frames that state their content size are decoded in parallel, the rest sequentially.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use zstd::bulk::Decompressor;
use zstd::stream::read::Decoder;

use super::index;
use super::parts::{self, Divisible, Unpack, append, cut_short};
use super::{Bytes, Format, Units};

/// Content of a frame that is decoded as a whole at most; larger ones are decoded sequentially.
const FRAME_MAX_BYTES: u64 = 16 << 20;
/// Bytes of the magic number, and of the descriptor that says which fields the header has.
const BEGINNING_BYTES: usize = 5;

/// Bytes at the beginning of a frame without content up to its size.
const SKIPPABLE_BYTES: usize = 8;
/// Bytes of a frame that is decoded as a whole at most: a frame may have any number of empty blocks.
const PACKED_MAX_BYTES: usize = 2 * FRAME_MAX_BYTES as usize;

/// Frames.
pub(super) struct Zstd;

impl Zstd {
    /// Returns whether a frame begins so.
    pub(super) fn begins(beginning: &[u8]) -> bool {
        beginning.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || is_skippable(beginning)
    }
}

/// Returns whether a frame without content begins so.
fn is_skippable(beginning: &[u8]) -> bool {
    matches!(beginning, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

impl Format for Zstd {
    fn reader<'r>(&self, from: Bytes<'r>) -> io::Result<Bytes<'r>> {
        Ok(Box::new(Decoder::new(from)?))
    }

    fn units<'r>(&self, from: Bytes<'r>) -> io::Result<Units<'r>> {
        Ok(parts::units(&Zstd, from))
    }

    fn seek(&self, file: &mut File, _path: &Path, at: u64) -> io::Result<u64> {
        index::of_zstd(file, at, Zstd::begins)?.take_up(file)
    }
}

impl Divisible for Zstd {
    fn part(&self, from: &mut dyn Read, packed: &mut Vec<u8>) -> io::Result<Option<u64>> {
        let start = packed.len();
        from.take(BEGINNING_BYTES as u64).read_to_end(packed)?;
        if is_skippable(&packed[start..]) {
            append(from, SKIPPABLE_BYTES - BEGINNING_BYTES, packed)?;
            let size = u32::from_le_bytes(*packed.last_chunk().expect("it was just read"));
            packed.truncate(start);
            return skip(from, size.into()).map(|()| Some(0));
        }
        let beginning = &packed[start..];
        if beginning.len() < BEGINNING_BYTES || !Zstd::begins(beginning) {
            return Ok(None);
        }
        let header = Descriptor(beginning[BEGINNING_BYTES - 1]);
        append(from, header.length() - BEGINNING_BYTES, packed)?;
        let content = header.content(packed).filter(|&content| content <= FRAME_MAX_BYTES);
        let is_whole = content.is_some() && blocks(from, header, packed)?;
        Ok(content.filter(|_| is_whole))
    }

    fn unpacker(&self) -> io::Result<Box<Unpack>> {
        let mut decompressor = Decompressor::new()?;
        Ok(Box::new(move |part, length, bytes| {
            if !part.is_empty() {
                bytes.extend_from_slice(&decompressor.decompress(part, length as usize)?);
            }
            Ok(())
        }))
    }
}

/// The byte that tells which fields the header of a frame has (section 3.1.1.1.1).
#[derive(Clone, Copy)]
struct Descriptor(u8);

impl Descriptor {
    /// Returns the number of bytes of the header.
    fn length(self) -> usize {
        let window = usize::from(!self.is_single_segment());
        let dictionary = [0, 1, 2, 4][usize::from(self.0 & 3)];
        BEGINNING_BYTES + window + dictionary + self.content_length()
    }

    fn is_single_segment(self) -> bool {
        self.0 & 0x20 != 0
    }

    fn has_checksum(self) -> bool {
        self.0 & 4 != 0
    }

    /// Returns the number of bytes of the content size, which is the last field.
    fn content_length(self) -> usize {
        [usize::from(self.is_single_segment()), 2, 4, 8][usize::from(self.0 >> 6)]
    }

    /// Returns the content size at the end of these bytes; `None` if it is not stated.
    fn content(self, header: &[u8]) -> Option<u64> {
        let (length, mut content) = (self.content_length(), [0; 8]);
        content[..length].copy_from_slice(&header[header.len() - length..]);
        let content = u64::from_le_bytes(content);
        match length {
            0 => None,
            2 => Some(content + 256),
            _ => Some(content),
        }
    }
}

/// Appends the blocks of a frame and its checksum (section 3.1.1.2); returns false if they are too many.
fn blocks(from: &mut dyn Read, header: Descriptor, packed: &mut Vec<u8>) -> io::Result<bool> {
    let most = packed.len() + PACKED_MAX_BYTES;
    while packed.len() <= most {
        append(from, 3, packed)?;
        let &[.., low, middle, high] = &packed[..] else { unreachable!("three bytes were appended") };
        let block = u32::from_le_bytes([low, middle, high, 0]);
        // A block of type 1 is one byte that repeats.
        let size = if (block >> 1) & 3 == 1 { 1 } else { block >> 3 };
        append(from, size as usize, packed)?;
        if block & 1 == 1 {
            return append(from, if header.has_checksum() { 4 } else { 0 }, packed).map(|()| true);
        }
    }
    Ok(false)
}

fn skip(from: &mut dyn Read, bytes: u64) -> io::Result<()> {
    let skipped = io::copy(&mut from.take(bytes), &mut io::sink())?;
    if skipped == bytes { Ok(()) } else { Err(cut_short()) }
}
