//! Estimate of the memory for the pages of a row group, before a scan divides its memory.
//!
//! A footer gives the sizes of column chunks only. So the headers of the first pages of large chunks are read if the chunks
//! of a row group are larger than a worker's share; later pages of a chunk are rarely larger.

use parquet::file::metadata::ColumnChunkMetaData;

use super::chunk::{HELD_MIN_BYTES, page_bytes};
use super::footer::ParquetFile;
use super::groups::ChunkPlace;
use super::thrift::{self, HEADER_BYTES};
use crate::Error;
use crate::table::fetch::Split;
use crate::table::source::SourceReader;

/// Memory in bytes for the pages of a row group that are decoded at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::table) struct PageMemory {
    /// Memory of the pages of all columns.
    pub(in crate::table) all: usize,
    /// Memory of the column with the largest pages: columns can be decoded in turn.
    pub(in crate::table) largest: usize,
}

/// Memory for the pages of the largest row group; nothing if all its pages fit into `share` bytes. Row groups of more
/// than `whole` bytes are read in windows.
pub(in crate::table) fn page_memory(
    files: &[ParquetFile],
    splits: &[Split],
    columns: &[usize],
    share: usize,
    whole: u64,
) -> Result<PageMemory, Error> {
    let places = |split: &Split| {
        let (groups, index) = (&files[split.file].groups, split.index);
        files[split.file].leaves(columns).into_iter().map(move |(leaf, _)| groups.place(index, leaf))
    };
    let decoded = |split: &Split| places(split).map(|place| place.uncompressed).fold(0, u64::saturating_add);
    let Some((bytes, split)) =
        splits.iter().map(|split| (decoded(split), split)).max_by_key(|(bytes, _)| *bytes)
    else {
        return Ok(PageMemory::default());
    };
    if bytes <= share as u64 {
        return Ok(PageMemory::default());
    }
    let is_windowed = places(split).map(ChunkPlace::bytes).fold(0, u64::saturating_add) > whole;
    let file = &files[split.file];
    let reader = file.source.reader()?;
    let group = file.groups.group(split.index)?;
    let mut memory = PageMemory::default();
    for (leaf, _) in file.leaves(columns) {
        let chunk = group.row_group(0).column(leaf);
        let size = usize::try_from(chunk.uncompressed_size()).unwrap_or(0);
        // A page and its copy while the next one is decompressed: a small chunk is not worth a read of its headers.
        let pages = match size.saturating_mul(2) {
            most if most <= share => most,
            _ => first_pages(&reader, chunk, is_windowed)?,
        };
        memory.all = memory.all.saturating_add(pages);
        memory.largest = memory.largest.max(pages);
    }
    Ok(memory)
}

/// Returns the bytes of a chunk's dictionary and its first data page. A header that is damaged or long counts as
/// none: decoding reports the error.
fn first_pages(
    reader: &SourceReader,
    chunk: &ColumnChunkMetaData,
    is_windowed: bool,
) -> Result<usize, Error> {
    let (mut at, length) = chunk.byte_range();
    let end = at + length;
    let mut bytes = 0usize;
    for _ in 0..2 {
        let head = reader.read(at, (end - at).min(HEADER_BYTES as u64))?;
        let Ok(header) = thrift::page_header(&head) else { break };
        // No page is larger than its chunk claims to be.
        let most =
            usize::try_from(chunk.uncompressed_size().saturating_add(length as i64)).unwrap_or(usize::MAX);
        bytes = bytes.saturating_add(page_bytes(chunk.compression(), is_windowed, &header).min(most));
        let behind = at.saturating_add(header.length as u64).checked_add_signed(header.compressed.max(0));
        let held = usize::try_from(header.uncompressed).unwrap_or(0);
        if behind.is_some_and(|behind| behind < end) && (HELD_MIN_BYTES..most).contains(&held) {
            bytes = bytes.saturating_add(held);
        }
        match behind {
            Some(behind) if header.kind == thrift::DICTIONARY_PAGE_KIND && behind < end => at = behind,
            _ => break,
        }
    }
    Ok(bytes)
}
