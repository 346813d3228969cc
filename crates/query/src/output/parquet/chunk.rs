//! Writer of a column chunk: pages, their index, and the chunk's metadata.

use std::ops::Range;

use parquet::basic::{self, BoundaryOrder, Encoding, PageType};
use parquet::file::metadata::{
    ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder, PageEncodingStats,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

use super::codec::Codec;
use super::header::{self, PageSizes};
use super::validity::Validity;
use crate::Error;
use crate::output::buffer::Buf;

/// An encoded column chunk. Its offsets are relative to its row group.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(super) metadata: ColumnChunkMetaData,
    pub(super) column_index: ColumnIndexMetaData,
    pub(super) offset_index: OffsetIndexMetaData,
}

/// Bytes of a chunk's own allocations: bounds and encodings.
const CHUNK_HEAP_BYTES: usize = 256;

/// Bytes of a page in the indexes: its place, its null count, and two short bounds, each an allocation.
const PAGE_INDEX_BYTES: usize = 128;

impl Chunk {
    /// Approximate bytes of the metadata in memory.
    pub(crate) fn memory(&self) -> usize {
        memory_of(self.offset_index.page_locations.len())
    }

    /// Makes the offsets absolute, for a row group at file offset `base`.
    pub(super) fn placed(mut self, base: i64) -> Result<Chunk, Error> {
        let (data, dictionary) = (self.metadata.data_page_offset(), self.metadata.dictionary_page_offset());
        self.metadata = self
            .metadata
            .into_builder()
            .set_data_page_offset(data + base)
            .set_dictionary_page_offset(dictionary.map(|offset| offset + base))
            .build()?;
        self.offset_index.page_locations.iter_mut().for_each(|location| location.offset += base);
        Ok(self)
    }
}

/// Bytes of the metadata of a chunk of some pages.
pub(super) fn memory_of(pages: usize) -> usize {
    size_of::<Chunk>() + CHUNK_HEAP_BYTES + pages * PAGE_INDEX_BYTES
}

/// Minimum and maximum of a page, in the form of the column index.
pub(super) type PageBounds = (Vec<u8>, Vec<u8>);

/// Reused page buffers.
#[derive(Debug, Default)]
pub(super) struct PageBuffers {
    uncompressed: Buf,
    compressed: Buf,
}

impl PageBuffers {
    pub(super) fn memory(&self) -> usize {
        self.uncompressed.memory() + self.compressed.memory()
    }
}

/// Output and resources for writing pages.
pub(super) struct PageSink<'a> {
    pub(super) out: &'a mut Buf,
    pub(super) buffers: &'a mut PageBuffers,
    pub(super) codec: &'a mut Codec,
    pub(super) compression: basic::Compression,
}

/// A chunk being written. The dictionary page, if any, must be written first.
pub(super) struct ChunkWriter<'a> {
    sink: PageSink<'a>,
    descr: &'a ColumnDescPtr,
    validity: &'a Validity,
    start: usize,
    dictionary: Option<usize>,
    first_page: Option<usize>,
    uncompressed: usize,
    encodings: Vec<PageEncodingStats>,
    index: ColumnIndexBuilder,
    offsets: OffsetIndexBuilder,
}

impl<'a> ChunkWriter<'a> {
    pub(super) fn new(
        sink: PageSink<'a>,
        descr: &'a ColumnDescPtr,
        validity: &'a Validity,
    ) -> ChunkWriter<'a> {
        let start = sink.out.len();
        let index = ColumnIndexBuilder::new(descr.physical_type());
        let offsets = OffsetIndexBuilder::new();
        let encodings = Vec::new();
        ChunkWriter {
            sink,
            descr,
            validity,
            start,
            dictionary: None,
            first_page: None,
            uncompressed: 0,
            encodings,
            index,
            offsets,
        }
    }

    /// Returns the column.
    pub(super) fn descr(&self) -> &'a ColumnDescPtr {
        self.descr
    }

    /// Writes the dictionary page; `bytes` are its plain-encoded values.
    pub(super) fn dictionary_page(
        &mut self,
        bytes: &[u8],
        values: usize,
        is_sorted: bool,
    ) -> Result<(), Error> {
        self.dictionary = Some(self.sink.out.len());
        self.count(PageType::DICTIONARY_PAGE, Encoding::PLAIN);
        let values = self.size(values)?;
        if self.sink.codec.is_none() {
            let sizes = self.sizes(bytes.len(), bytes.len())?;
            self.header(|out| header::dictionary_page(out, sizes, values, is_sorted));
            self.sink.out.extend(bytes);
        } else {
            self.sink.codec.compress(bytes, &mut self.sink.buffers.compressed)?;
            let sizes = self.sizes(bytes.len(), self.sink.buffers.compressed.len())?;
            self.header(|out| header::dictionary_page(out, sizes, values, is_sorted));
            self.sink.out.extend(self.sink.buffers.compressed.as_slice());
        }
        self.uncompressed += bytes.len();
        Ok(())
    }

    /// Writes a data page of `rows`: levels, then the `bytes` bytes that `fill` appends. `fill` returns the bounds of
    /// the values; `None` if none of them is ordered.
    pub(super) fn data_page(
        &mut self,
        rows: &Range<usize>,
        encoding: Encoding,
        bytes: usize,
        fill: impl FnOnce(&mut Buf) -> Option<PageBounds>,
    ) -> Result<(), Error> {
        let at = self.sink.out.len();
        self.first_page.get_or_insert(at);
        self.count(PageType::DATA_PAGE, encoding);
        let values = self.size(rows.len())?;
        let levels = &mut self.sink.buffers.uncompressed;
        levels.clear();
        self.validity.append_levels(levels, rows);
        let length = levels.len() + bytes;
        self.size(length)?;
        let bounds = if self.sink.codec.is_none() {
            let sizes = self.sizes(length, length)?;
            self.header(|out| header::data_page(out, sizes, values, encoding));
            let body = self.sink.out.len();
            self.sink.out.extend(self.sink.buffers.uncompressed.as_slice());
            let bounds = fill(self.sink.out);
            assert_eq!(self.sink.out.len() - body, length, "a page of another size than its header says");
            bounds
        } else {
            let bounds = fill(&mut self.sink.buffers.uncompressed);
            let PageBuffers { uncompressed, compressed } = &mut *self.sink.buffers;
            self.sink.codec.compress(uncompressed.as_slice(), compressed)?;
            let sizes = (uncompressed.len(), compressed.len());
            let sizes = self.sizes(sizes.0, sizes.1)?;
            self.header(|out| header::data_page(out, sizes, values, encoding));
            self.sink.out.extend(self.sink.buffers.compressed.as_slice());
            bounds
        };
        self.uncompressed += length;
        self.index_page(rows, bounds, at)
    }

    fn index_page(
        &mut self,
        rows: &Range<usize>,
        bounds: Option<PageBounds>,
        at: usize,
    ) -> Result<(), Error> {
        let nulls = self.validity.nulls_in(rows);
        match bounds {
            _ if nulls == rows.len() => self.index.append(true, Vec::new(), Vec::new(), nulls as i64),
            Some((least, greatest)) => self.index.append(false, least, greatest, nulls as i64),
            None => self.index.to_invalid(),
        }
        self.offsets.append_row_count(rows.len() as i64);
        let size = self.size(self.sink.out.len() - at)?;
        self.offsets.append_offset_and_size(at as i64, size);
        Ok(())
    }

    /// Appends a page's header.
    fn header(&mut self, append: impl FnOnce(&mut Buf)) {
        let before = self.sink.out.len();
        append(self.sink.out);
        self.uncompressed += self.sink.out.len() - before;
    }

    fn count(&mut self, page_type: PageType, encoding: Encoding) {
        let known = self
            .encodings
            .iter_mut()
            .find(|known| (known.page_type, known.encoding) == (page_type, encoding));
        match known {
            Some(known) => known.count += 1,
            None => self.encodings.push(PageEncodingStats { page_type, encoding, count: 1 }),
        }
    }

    fn sizes(&self, uncompressed: usize, compressed: usize) -> Result<PageSizes, Error> {
        Ok(PageSizes { uncompressed: self.size(uncompressed)?, compressed: self.size(compressed)? })
    }

    fn size(&self, count: usize) -> Result<i32, Error> {
        i32::try_from(count).map_err(|_| {
            self.error(&format!(
                "has a page of {count} bytes, and Parquet allows 2,147,483,647; write Arrow IPC, or shorter values"
            ))
        })
    }

    /// Returns an error about the column.
    pub(super) fn error(&self, what: &str) -> Error {
        Error::Query(format!("column {} {what}", self.descr.path().string()))
    }

    /// Ends the chunk.
    pub(super) fn finish(mut self, statistics: Statistics, order: BoundaryOrder) -> Result<Chunk, Error> {
        self.index.set_boundary_order(order);
        let is_indexed = self.index.valid() && self.first_page.is_some();
        let column_index = if is_indexed { self.index.build()? } else { ColumnIndexMetaData::NONE };
        let mut encodings: Vec<Encoding> = self.encodings.iter().map(|pages| pages.encoding).collect();
        encodings.push(Encoding::RLE);
        let bytes = self.sink.out.len() - self.start;
        let metadata = ColumnChunkMetaData::builder(self.descr.clone())
            .set_encodings(encodings)
            .set_page_encoding_stats(self.encodings)
            .set_compression(self.sink.compression)
            .set_num_values(self.validity.rows() as i64)
            .set_total_compressed_size(bytes as i64)
            .set_total_uncompressed_size(self.uncompressed as i64)
            .set_data_page_offset(self.first_page.unwrap_or(self.start) as i64)
            .set_dictionary_page_offset(self.dictionary.map(|offset| offset as i64))
            .set_statistics(statistics)
            .build()?;
        Ok(Chunk { metadata, column_index, offset_index: self.offsets.build() })
    }
}

/// Order of the pages' bounds, as recorded in the column index.
pub(super) fn boundary_order<T: Copy>(pages: &[(T, T)], is_less: impl Fn(T, T) -> bool) -> BoundaryOrder {
    let steps = || pages.windows(2).map(|pair| (pair[0], pair[1]));
    if !steps().any(|(one, next)| is_less(next.0, one.0) || is_less(next.1, one.1)) {
        BoundaryOrder::ASCENDING
    } else if !steps().any(|(one, next)| is_less(one.0, next.0) || is_less(one.1, next.1)) {
        BoundaryOrder::DESCENDING
    } else {
        BoundaryOrder::UNORDERED
    }
}
