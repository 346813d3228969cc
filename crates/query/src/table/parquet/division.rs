//! Division of large row groups among the workers of a scan, where there are too few for all of them.
//!
//! ```text
//!              part 0         part 1         part 2        ranges of rows, each a split
//! column a  D |  page   |  page   |  page   |  page   |    the pages with rows of the part, and the dictionary D
//! column b  D |    page     |    page     |    page    |
//! ```
//!
//! A page with rows of two parts is decoded for both. The places of pages come from the file's offset index, or else from
//! the headers of the pages. Neither is trusted: a page that disagrees with its place is an error (`chunk.rs`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::page_index::offset_index::PageLocation;

use super::footer::ParquetFile;
use super::thrift::{self, HEADER_BYTES, Problem};
use crate::Error;
use crate::table::fetch::Split;
use crate::table::source::SourceReader;

/// Row groups for each worker from which none is divided: the last of them leave workers idle for an eighth of the time.
const GROUPS_PER_WORKER: usize = 4;

/// Parts for each worker: the last of them leave workers idle for a sixteenth of the time.
const PARTS_PER_WORKER: u64 = 8;

/// Minimum bytes of a part, beside which the effort to open the decoders of its columns is small.
const PART_MIN_BYTES: u64 = 2 << 20;

/// Minimum bytes of a part for each byte of dictionaries, which are decoded again for each part, if all workers have parts.
const PART_BYTES_OF_DICTIONARY: u64 = 8;

/// Maximum bytes of an offset index that is read: a million pages.
const INDEX_MAX_BYTES: u64 = 16 << 20;

/// Maximum bytes of a page header that is read to find the next page. Longer ones have long statistics.
const HEADER_MAX_BYTES: u64 = 64 << 10;

/// The places of the pages of a leaf's column chunk.
#[derive(Debug)]
pub(super) struct LeafPages {
    /// Offset of the chunk, and so of its dictionary if it has one.
    start: u64,
    /// Data pages, which follow each other without gaps.
    pages: Vec<Place>,
    /// Rows of the row group.
    rows: u64,
}

/// A data page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    offset: u64,
    /// Bytes with the header.
    bytes: u64,
    first_row: u64,
}

impl LeafPages {
    /// Returns the pages that have rows of a range.
    pub(super) fn span(&self, rows: &Range<u64>) -> Range<usize> {
        let from = self.pages.partition_point(|page| page.first_row <= rows.start);
        from.saturating_sub(1)..self.pages.partition_point(|page| page.first_row < rows.end)
    }

    /// Returns the bytes of the dictionary and of a span of pages: one range, or two if other pages lie between.
    pub(super) fn ranges(&self, span: &Range<usize>) -> Vec<Range<u64>> {
        let last = self.pages[span.end - 1];
        let (dictionary, pages) =
            (self.start..self.pages[0].offset, self.pages[span.start].offset..last.offset + last.bytes);
        let joined = dictionary.start..pages.end;
        let ranges = if dictionary.end == pages.start { [joined, 0..0] } else { [dictionary, pages] };
        ranges.into_iter().filter(|range| !range.is_empty()).collect()
    }

    /// Returns the bytes of the data pages.
    fn bytes(&self) -> u64 {
        self.pages.iter().map(|page| page.bytes).sum()
    }

    /// Returns the rows of the page at an offset; `None` if no page begins there.
    fn rows_at(&self, offset: u64) -> Option<u64> {
        let index = self.pages.binary_search_by_key(&offset, |page| page.offset).ok()?;
        let end = self.pages.get(index + 1).map_or(self.rows, |next| next.first_row);
        Some(end - self.pages[index].first_row)
    }

    fn locations(&self) -> Vec<PageLocation> {
        let location = |page: &Place| PageLocation {
            offset: page.offset as i64,
            compressed_page_size: page.bytes as i32,
            first_row_index: page.first_row as i64,
        };
        self.pages.iter().map(location).collect()
    }

    /// Returns whether the pages are those of a chunk, in order.
    fn is_valid(&self, end: u64) -> bool {
        let is_in_order = self.pages.windows(2).all(|pair| {
            pair[0].offset.checked_add(pair[0].bytes) == Some(pair[1].offset)
                && pair[0].first_row < pair[1].first_row
        });
        let (Some(first), Some(last)) = (self.pages.first(), self.pages.last()) else { return false };
        let is_within =
            self.start <= first.offset && last.offset.checked_add(last.bytes).is_some_and(|at| at <= end);
        let has_sizes = self.pages.iter().all(|page| page.bytes > 0 && i32::try_from(page.bytes).is_ok());
        is_in_order && is_within && has_sizes && first.first_row == 0 && last.first_row < self.rows
    }
}

/// The pages of a part of a divided row group. The library knows their places, and asks for their bytes only.
pub(super) struct Located {
    leaf: Arc<LeafPages>,
    /// The pages of the part.
    span: Range<usize>,
}

impl Located {
    /// Returns the pages with the rows of a part.
    pub(super) fn new(leaf: &Arc<LeafPages>, rows: &Range<u64>) -> Located {
        Located { leaf: Arc::clone(leaf), span: leaf.span(rows) }
    }

    /// Ranges of the file with the dictionary and the pages.
    pub(super) fn ranges(&self) -> Vec<Range<u64>> {
        self.leaf.ranges(&self.span)
    }

    /// Offsets and bytes of the pages.
    pub(super) fn pages(&self) -> impl Iterator<Item = (u64, u64)> {
        self.leaf.pages[self.span.clone()].iter().map(|page| (page.offset, page.bytes))
    }

    /// Returns the rows of the page at an offset; `None` if no page begins there.
    pub(super) fn rows_at(&self, offset: u64) -> Option<u64> {
        self.leaf.rows_at(offset)
    }

    /// Returns all data pages of the chunk, for the library.
    pub(super) fn locations(&self) -> Vec<PageLocation> {
        self.leaf.locations()
    }
}

/// A row group that can be divided.
#[derive(Debug)]
pub(in crate::table) struct Division {
    /// Pages of the projected leaves, in file order.
    pub(super) leaves: Vec<Arc<LeafPages>>,
    rows: u64,
    bytes: u64,
    parts_max: u64,
    parts: u64,
}

/// Divided row groups by file and index.
pub(in crate::table) type Divisions = BTreeMap<(usize, usize), Division>;

impl Division {
    /// Finds the pages of a row group; `None` if it cannot be divided among `workers`.
    fn new(
        file: &ParquetFile,
        index: usize,
        columns: &[usize],
        workers: usize,
        reads_headers: bool,
    ) -> Result<Option<Division>, Error> {
        let leaves = file.leaves(columns);
        let places = leaves.iter().map(|&(leaf, _)| file.groups.place(index, leaf).bytes());
        let bytes = places.fold(0, u64::saturating_add);
        let is_flat = leaves.iter().all(|&(leaf, _)| file.descriptor().column(leaf).max_rep_level() == 0);
        if bytes < 2 * PART_MIN_BYTES || !is_flat {
            return Ok(None);
        }
        let metadata = file.groups.group(index)?;
        let group = metadata.row_group(0);
        let chunks = || leaves.iter().map(|&(leaf, _)| group.column(leaf));
        let (reader, rows) = (file.source.reader()?, group.num_rows() as u64);
        let mut found = Vec::with_capacity(leaves.len());
        for chunk in chunks() {
            let pages = match of_index(&reader, chunk)? {
                None if reads_headers => of_headers(&reader, chunk)?,
                pages => pages,
            };
            let (start, length) = chunk.byte_range();
            let leaf = LeafPages { start, pages: pages.unwrap_or_default(), rows };
            if !leaf.is_valid(start + length) {
                return Ok(None);
            }
            found.push(Arc::new(leaf));
        }
        let dictionaries: u64 = found.iter().map(|leaf| leaf.pages[0].offset - leaf.start).sum();
        let part_bytes = PART_MIN_BYTES.max(dictionaries.saturating_mul(PART_BYTES_OF_DICTIONARY));
        let wanted = (bytes / part_bytes).max(workers as u64).min(bytes / PART_MIN_BYTES);
        // A page of the largest column belongs to two parts at most.
        let pages = found.iter().max_by_key(|leaf| leaf.bytes()).map_or(0, |leaf| leaf.pages.len() as u64);
        let parts_max = wanted.min(pages).min(rows);
        Ok((parts_max > 1).then_some(Division { leaves: found, rows, bytes, parts_max, parts: 1 }))
    }

    /// Returns the rows of a part.
    pub(super) fn rows(&self, part: usize) -> Range<u64> {
        self.rows_of(part as u64, self.parts)
    }

    fn rows_of(&self, part: u64, parts: u64) -> Range<u64> {
        let at = |part: u64| (u128::from(self.rows) * u128::from(part) / u128::from(parts)) as u64;
        at(part)..at(part + 1)
    }

    /// The byte ranges of a part: those of each leaf.
    pub(in crate::table) fn ranges(&self, part: usize) -> Vec<Range<u64>> {
        let rows = self.rows(part);
        self.leaves.iter().flat_map(|leaf| leaf.ranges(&leaf.span(&rows))).collect()
    }

    /// Returns the bytes of the largest of `parts` parts.
    fn largest(&self, parts: u64) -> u64 {
        let of_leaf = |leaf: &Arc<LeafPages>, rows: &Range<u64>| {
            leaf.ranges(&leaf.span(rows)).iter().map(|range| range.end - range.start).sum::<u64>()
        };
        let of_part = |part| {
            let rows = self.rows_of(part, parts);
            self.leaves.iter().map(|leaf| of_leaf(leaf, &rows)).sum()
        };
        (0..parts).map(of_part).max().unwrap_or(0)
    }

    /// Chooses the number of parts: `wanted`, or as many more as make a part fit into `whole` bytes.
    fn divide(&mut self, wanted: u64, whole: u64, workers: u64) {
        let mut parts = wanted.max(self.bytes.div_ceil(whole.max(1))).clamp(2, self.parts_max);
        while self.largest(parts) > whole && parts < self.parts_max {
            parts = (parts * 2).min(self.parts_max);
        }
        // Parts that exceed the memory are read in windows, however few they are.
        self.parts = if self.largest(parts) > whole { workers.clamp(2, self.parts_max) } else { parts };
    }
}

/// Finds the row groups to divide among `workers`: none if there are enough for all of them.
///
/// # Errors
/// If a file cannot be read.
pub(in crate::table) fn divisions(
    files: &[ParquetFile],
    splits: &[Split],
    columns: &[usize],
    workers: usize,
) -> Result<Divisions, Error> {
    let mut found = BTreeMap::new();
    if workers < 2 || columns.is_empty() || splits.len() >= GROUPS_PER_WORKER * workers {
        return Ok(found);
    }
    for split in splits {
        // The headers of pages are spread over the file, so they are read only if workers have nothing to do otherwise.
        let reads_headers = splits.len() < workers;
        if let Some(division) =
            Division::new(&files[split.file], split.index, columns, workers, reads_headers)?
        {
            found.insert((split.file, split.index), division);
        }
    }
    Ok(found)
}

/// Returns the number of workers that the splits and the parts of the divisions suffice for.
pub(in crate::table) fn workers(splits: &[Split], divisions: &Divisions, workers: usize) -> usize {
    let parts: u64 = divisions.values().map(|division| division.parts_max - 1).sum();
    workers.min(splits.len().saturating_add(usize::try_from(parts).unwrap_or(usize::MAX))).max(1)
}

/// Divides row groups into parts that fit into `whole` bytes where possible. Returns all splits in order.
pub(in crate::table) fn divided(
    splits: Vec<Split>,
    divisions: &mut Divisions,
    workers: usize,
    whole: u64,
) -> Vec<Split> {
    let all: u64 = divisions.values().map(|division| division.bytes).fold(0, u64::saturating_add);
    for division in divisions.values_mut() {
        let parts = u128::from(PARTS_PER_WORKER * workers as u64) * u128::from(division.bytes);
        division.divide(parts.div_ceil(u128::from(all.max(1))) as u64, whole, workers as u64);
    }
    let parts = |split: Split| {
        let parts = divisions.get(&(split.file, split.index)).map_or(1, |division| division.parts as usize);
        (0..parts).map(move |part| Split { part, ..split })
    };
    splits.into_iter().flat_map(parts).collect()
}

/// Returns the places in the offset index of a chunk; `None` without a readable one.
fn of_index(reader: &SourceReader, chunk: &ColumnChunkMetaData) -> Result<Option<Vec<Place>>, Error> {
    let (Some(at), Some(length)) = (chunk.offset_index_offset(), chunk.offset_index_length()) else {
        return Ok(None);
    };
    let (Ok(at), Ok(length)) = (u64::try_from(at), u64::try_from(length)) else { return Ok(None) };
    if length > INDEX_MAX_BYTES || at.checked_add(length).is_none_or(|end| end > reader.size) {
        return Ok(None);
    }
    let mut places = Vec::new();
    let mut is_valid = true;
    let read = thrift::page_locations(&reader.read(at, length)?, |numbers| {
        let place = numbers.map(u64::try_from);
        let [Ok(offset), Ok(bytes), Ok(first_row)] = place else { return is_valid = false };
        places.push(Place { offset, bytes, first_row });
    });
    Ok(Some(places).filter(|_| read.is_ok() && is_valid))
}

/// Returns the places that the headers of a chunk's pages give; `None` if one is not readable.
fn of_headers(reader: &SourceReader, chunk: &ColumnChunkMetaData) -> Result<Option<Vec<Place>>, Error> {
    let (mut at, length) = chunk.byte_range();
    let end = at + length;
    let (mut places, mut first_row) = (Vec::new(), 0u64);
    while at < end {
        let mut wanted = HEADER_BYTES as u64;
        let header = loop {
            match thrift::page_header(&reader.read(at, wanted.min(end - at))?) {
                Err(Problem::End) if wanted < HEADER_MAX_BYTES.min(end - at) => wanted *= 4,
                header => break header,
            }
        };
        let Ok(header) = header else { return Ok(None) };
        let (Ok(compressed), Ok(values)) = (u64::try_from(header.compressed), u64::try_from(header.values))
        else {
            return Ok(None);
        };
        let bytes = (header.length as u64).saturating_add(compressed);
        match header.kind {
            thrift::DICTIONARY_PAGE_KIND if places.is_empty() => {}
            thrift::DATA_PAGE_KIND | thrift::DATA_PAGE_V2_KIND => {
                places.push(Place { offset: at, bytes, first_row });
                // Without repetition each row has one value.
                first_row = first_row.saturating_add(values);
            }
            _ => return Ok(None),
        }
        at = at.saturating_add(bytes);
    }
    Ok(Some(places))
}
