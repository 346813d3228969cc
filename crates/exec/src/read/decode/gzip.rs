//! gzip (RFC 1952): members one after the other; and BGZF, whose members say how long they are, so that they can be
//! decoded in parallel (as `bgzip` writes them; the specification of SAM, section 4.1).

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::index;
use super::parts::{self, Divisible, Unpack, append, decoded_units, invalid};
use super::{Bytes, Format, Units};

/// Bytes of the input read in one call.
const INPUT_BYTES: usize = 256 << 10;

/// Members of unknown length.
pub(super) struct Gzip;

impl Format for Gzip {
    fn reader<'r>(&self, from: Bytes<'r>) -> io::Result<Bytes<'r>> {
        Ok(Box::new(decoder(from)))
    }

    fn units<'r>(&self, from: Bytes<'r>) -> io::Result<Units<'r>> {
        Ok(decoded_units(decoder(from)))
    }
}

fn decoder<R: Read>(from: R) -> MultiGzDecoder<BufReader<R>> {
    MultiGzDecoder::new(BufReader::with_capacity(INPUT_BYTES, from))
}

/// Members of up to 64 KiB, each with its length.
pub(super) struct Bgzf;

/// Bytes at the beginning of a member up to its length.
const HEADER_BYTES: usize = 18;
/// The checksum and the size at the end of a member.
const TRAILER_BYTES: usize = 8;
/// Maximum number of bytes of a member after decoding.
const CONTENT_MAX_BYTES: u32 = 64 << 10;

impl Bgzf {
    /// Returns the size of the member that begins so; `None` if it does not state one.
    pub(super) fn size(header: &[u8]) -> Option<usize> {
        let &[0x1f, 0x8b, 8, 4, _, _, _, _, _, _, 6, 0, b'B', b'C', 2, 0, low, high, ..] = header else {
            return None;
        };
        let size = usize::from(u16::from_le_bytes([low, high])) + 1;
        (size >= HEADER_BYTES + TRAILER_BYTES).then_some(size)
    }
}

impl Format for Bgzf {
    fn reader<'r>(&self, from: Bytes<'r>) -> io::Result<Bytes<'r>> {
        Gzip.reader(from)
    }

    fn units<'r>(&self, from: Bytes<'r>) -> io::Result<Units<'r>> {
        Ok(parts::units(&Bgzf, from))
    }

    fn seek(&self, file: &mut File, path: &Path, at: u64) -> io::Result<u64> {
        index::of_bgzf(path, file, at, |header| Bgzf::size(header).is_some())?.take_up(file)
    }
}

impl Divisible for Bgzf {
    fn part(&self, from: &mut dyn Read, packed: &mut Vec<u8>) -> io::Result<Option<u64>> {
        let start = packed.len();
        from.take(HEADER_BYTES as u64).read_to_end(packed)?;
        let Some(size) = Bgzf::size(&packed[start..]) else { return Ok(None) };
        append(from, size - HEADER_BYTES, packed)?;
        let content = u32::from_le_bytes(*packed.last_chunk().expect("it has a trailer"));
        if content > CONTENT_MAX_BYTES {
            return Err(invalid("a BGZF block states more than 64 KiB"));
        }
        Ok(Some(content.into()))
    }

    fn unpacker(&self) -> io::Result<Box<Unpack>> {
        let mut inflate = Decompress::new(false);
        Ok(Box::new(move |member, length, bytes| {
            inflate.reset(false);
            unpack(&mut inflate, member, length as usize, bytes)
        }))
    }
}

/// Appends the content of a member. It goes straight to its place, without the window that a decoder of streams keeps.
fn unpack(inflate: &mut Decompress, member: &[u8], length: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
    let (deflated, trailer) = member[HEADER_BYTES..].split_at(member.len() - HEADER_BYTES - TRAILER_BYTES);
    let start = bytes.len();
    bytes.resize(start + length, 0);
    let content = &mut bytes[start..];
    let status = inflate.decompress(deflated, content, FlushDecompress::Finish)?;
    let is_whole = status == Status::StreamEnd && inflate.total_out() == length as u64;
    let mut checksum = Crc::new();
    checksum.update(content);
    if !is_whole || trailer[..4] != checksum.sum().to_le_bytes() {
        return Err(invalid("a BGZF block is damaged"));
    }
    Ok(())
}
