//! Indexes of compressed files, by which a range of their content is read without the parts before it: the `.gzi` file
//! that `bgzip` writes beside its own, and the seek table at the end of a file in the seekable format of Zstandard.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::parts::invalid;

/// A part of a file that can be decoded without those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Offset in the file.
    pub(super) packed: u64,
    /// Offset of its content.
    pub(super) content: u64,
}

impl Place {
    /// Moves to it; returns the offset of its content.
    pub(super) fn take_up(self, file: &mut File) -> io::Result<u64> {
        file.seek(SeekFrom::Start(self.packed))?;
        Ok(self.content)
    }
}

const BEGINNING: Place = Place { packed: 0, content: 0 };

/// Bytes of an entry of a `.gzi` file: both offsets.
const GZI_ENTRY_BYTES: usize = 16;
/// Maximum size of an index that is read: that of 2^26 parts, 4 TiB of BGZF blocks.
const INDEX_MAX_BYTES: u64 = 1 << 30;

/// Returns the last block of a BGZF file that begins at the offset `at` of the content or before, by its `.gzi` file; the
/// first block if there is none. `is_block` recognizes the beginning of a block.
pub(super) fn of_bgzf(path: &Path, file: &File, at: u64, is_block: fn(&[u8]) -> bool) -> io::Result<Place> {
    let mut name = OsString::from(path);
    name.push(".gzi");
    let index = match File::open(&name) {
        Ok(index) => index,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BEGINNING),
        Err(error) => return Err(error),
    };
    let is_readable =
        index.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= INDEX_MAX_BYTES);
    let entries = if is_readable { fs::read(&name)? } else { Vec::new() };
    let place = in_gzi(&entries, at).filter(|place| {
        let mut header = [0; super::BEGINNING_BYTES];
        file.read_exact_at(&mut header, place.packed).is_ok() && is_block(&header)
    });
    place.ok_or_else(|| {
        let name = Path::new(&name).display();
        invalid(&format!("{name} is not the index of this file; remove it, or write it anew by `bgzip -r`"))
    })
}

/// Returns the place in the index; `None` if that is damaged.
fn in_gzi(index: &[u8], at: u64) -> Option<Place> {
    let (count, entries) = index.split_first_chunk()?;
    let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
    if count.checked_mul(GZI_ENTRY_BYTES)? != entries.len() {
        return None;
    }
    // The first block has no entry.
    let mut last = BEGINNING;
    for entry in entries.chunks_exact(GZI_ENTRY_BYTES) {
        let number = |at: usize| u64::from_le_bytes(*entry[at..].first_chunk().expect("two numbers"));
        let place = Place { packed: number(0), content: number(8) };
        if place.packed <= last.packed || place.content < last.content {
            return None;
        }
        if place.content > at {
            break;
        }
        last = place;
    }
    Some(last)
}

/// Bytes at the end of a seek table: the number of frames, a descriptor, and the magic number.
const FOOTER_BYTES: u64 = 9;
/// The number at the end of a seek table.
const SEEKABLE_MAGIC: [u8; 4] = 0x8f92_eab1_u32.to_le_bytes();
/// The number of the frame without content that a seek table is.
const TABLE_MAGIC: [u8; 4] = 0x184d_2a5e_u32.to_le_bytes();

/// Returns the last frame of a Zstandard file that begins at the offset `at` of the content or before, by its seek table;
/// the first frame if it has none. `begins` recognizes the beginning of a frame.
pub(super) fn of_zstd(file: &File, at: u64, begins: fn(&[u8]) -> bool) -> io::Result<Place> {
    let size = file.metadata()?.len();
    let Some(footer_at) = size.checked_sub(FOOTER_BYTES) else { return Ok(BEGINNING) };
    let mut footer = [0; FOOTER_BYTES as usize];
    file.read_exact_at(&mut footer, footer_at)?;
    let &[a, b, c, d, descriptor, ref magic @ ..] = &footer;
    if *magic != SEEKABLE_MAGIC {
        return Ok(BEGINNING);
    }
    let damaged =
        || invalid("the seek table at its end is damaged; read all of the file, or compress it again");
    let entry_bytes = if descriptor & 0x80 == 0 { 8 } else { 12 };
    let entries_bytes = u64::from(u32::from_le_bytes([a, b, c, d])) * entry_bytes;
    let table_bytes = entries_bytes + FOOTER_BYTES;
    let table_at =
        size.checked_sub(table_bytes + 8).filter(|_| table_bytes <= INDEX_MAX_BYTES).ok_or_else(damaged)?;
    let mut table = vec![0; (entries_bytes + 8) as usize];
    file.read_exact_at(&mut table, table_at)?;
    let (header, entries) = table.split_at(8);
    if header[..4] != TABLE_MAGIC || u64::from(number(&header[4..])) != table_bytes {
        return Err(damaged());
    }
    let place = in_table(entries, entry_bytes as usize, at);
    let mut beginning = [0; 4];
    let is_frame = place.packed == table_at
        || place.packed < table_at
            && file.read_exact_at(&mut beginning, place.packed).is_ok()
            && begins(&beginning);
    if is_frame { Ok(place) } else { Err(damaged()) }
}

/// Returns the last frame that begins at the offset or before.
fn in_table(entries: &[u8], entry_bytes: usize, at: u64) -> Place {
    let mut last = BEGINNING;
    for entry in entries.chunks_exact(entry_bytes) {
        // Their number and sizes have 32 bits, so the sums have no more than 64.
        let next = Place {
            packed: last.packed + u64::from(number(entry)),
            content: last.content + u64::from(number(&entry[4..])),
        };
        if next.content > at {
            break;
        }
        last = next;
    }
    last
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(*bytes.first_chunk().expect("four bytes"))
}
