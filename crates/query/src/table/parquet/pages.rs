//! The pages of a row group, for the library's decoders.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::SerializedPageReader;

use super::chunk::Chunk;
use super::delta;
use super::levels::Levels;
use parquet::arrow::arrow_reader::RowGroups;

/// The pages of a chunk. The dictionary is decompressed early, because a row group's memory and its batch size depend
/// on it.
pub(super) struct Pages {
    inner: SerializedPageReader<Chunk>,
    chunk: Arc<Chunk>,
    levels: Levels,
    dictionary: Option<Page>,
    /// Bytes of the longest string in the dictionary, if any.
    longest: Option<usize>,
}

impl Pages {
    pub(super) fn new(chunk: Chunk, metadata: &ColumnChunkMetaData, rows: usize) -> Result<Pages> {
        let chunk = Arc::new(chunk);
        let levels = Levels::of(metadata.column_descr());
        let mut inner = SerializedPageReader::new(Arc::clone(&chunk), metadata, rows, chunk.locations())?;
        let mut dictionary = None;
        if inner.peek_next_page()?.is_some_and(|page| page.is_dict) {
            dictionary = inner.get_next_page()?;
            inner.peek_next_page()?;
        }
        // Whether all columns fit into memory is known before the first row is decoded.
        chunk.reserve_first()?;
        let is_string = metadata.column_type() == Type::BYTE_ARRAY;
        let longest = dictionary.as_ref().filter(|_| is_string).map(longest_value);
        Ok(Pages { inner, chunk, levels, dictionary, longest })
    }

    /// Checks and reserves the lengths of strings that the library decodes before the first string is requested.
    fn check_lengths(&self, page: &Page) -> Result<()> {
        let streams = match page.encoding() {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
            // Lengths of the prefixes and of the rest.
            Encoding::DELTA_BYTE_ARRAY => 2,
            _ => return Ok(()),
        };
        let counts = self.levels.values(page).and_then(|values| delta::counts(values, streams));
        let counts =
            counts.filter(|counts| counts.iter().all(|&count| count <= u64::from(page.num_values())));
        let bad = || self.chunk.damaged("the lengths of a page's strings are not readable");
        self.chunk.reserve_lengths(counts.ok_or_else(bad)?.iter().sum())
    }

    /// Returns the bytes of the longest string in the dictionary; `None` without a dictionary of strings.
    pub(super) fn longest_in_dictionary(&self) -> Option<usize> {
        self.longest
    }
}

/// Returns the bytes of the longest value of a dictionary page, whose values follow their 4-byte lengths.
fn longest_value(page: &Page) -> usize {
    let mut rest: &[u8] = page.buffer();
    let mut longest = 0;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some(behind) = behind.get(length..) else { break };
        longest = longest.max(length);
        rest = behind;
    }
    longest
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        if let Some(dictionary) = self.dictionary.take() {
            return Ok(Some(dictionary));
        }
        let page = self.inner.get_next_page()?;
        page.iter().try_for_each(|page| self.check_lengths(page))?;
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        match self.dictionary {
            None => self.inner.peek_next_page(),
            Some(_) => Ok(Some(PageMetadata { num_rows: None, num_levels: None, is_dict: true })),
        }
    }

    fn skip_next_page(&mut self) -> Result<()> {
        match self.dictionary.take() {
            None => {
                self.inner.skip_next_page()?;
                self.chunk.skip_page();
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        if self.dictionary.is_some() { Ok(true) } else { self.inner.at_record_boundary() }
    }
}

/// The chunks of a row group; each can be taken once.
pub(super) struct GroupPages {
    /// Metadata of the row group alone.
    pub(super) metadata: Arc<ParquetMetaData>,
    /// Chunks by leaf.
    pub(super) chunks: Mutex<BTreeMap<usize, Pages>>,
}

impl RowGroups for GroupPages {
    fn num_rows(&self) -> usize {
        self.metadata.row_group(0).num_rows() as usize
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>> {
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let pages = chunks.remove(&leaf);
        let pages = pages.ok_or_else(|| ParquetError::General(format!("leaf {leaf} is not projected")))?;
        Ok(Box::new(OneChunk(Some(pages))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(0)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

struct OneChunk(Option<Pages>);

impl Iterator for OneChunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(|pages| Ok(Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for OneChunk {}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;
    use sakiyomi_io::Access;
    use sakiyomi_testing::Scratch;

    use super::*;
    use crate::table::decoder_memory::DecoderMemory;
    use crate::table::parquet::chunk::Fault;
    use crate::table::parquet::footer::ParquetFile;
    use crate::table::source::Source;
    use crate::{Job, JobOptions};

    /// Rows of a page of 4.8 MB, which counts until the next one is decompressed.
    const PAGE_ROWS: usize = 600_000;

    #[test]
    fn pages_that_are_skipped_hold_no_memory() {
        let scratch = Scratch::new("skipped_pages");
        let rows = 4 * PAGE_ROWS;
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(None)
            .set_data_page_row_count_limit(PAGE_ROWS)
            .set_data_page_size_limit(1 << 30)
            .set_write_batch_size(PAGE_ROWS)
            .set_dictionary_enabled(false);
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        let path = scratch.file("t", writer.into_inner().unwrap());
        let file = ParquetFile::open(Source::named(&path, Access::Buffered).unwrap(), None).unwrap();
        let group = file.groups.group(0).unwrap();
        let metadata = group.row_group(0).column(0);
        let (start, length) = metadata.byte_range();
        let bytes = file.source.reader().unwrap().read(start, length).unwrap();
        let job = Job::new(JobOptions { memory: 64 << 20, threads: 1, ..JobOptions::default() }).unwrap();
        let memory = Arc::new(DecoderMemory::new(&job, 1 << 20, 0).unwrap());
        let pieces = vec![(start, bytes.into())];
        let chunk = Chunk::whole(metadata, pieces, None, &memory, &Fault::default());
        let mut pages = Pages::new(chunk, metadata, rows).unwrap();
        let page = memory.used();
        assert!(page >= 8 * PAGE_ROWS, "the first page is reserved before it is read");
        pages.skip_next_page().unwrap();
        assert_eq!(memory.used(), 0);
        pages.get_next_page().unwrap();
        assert_eq!(memory.used(), page);
        pages.peek_next_page().unwrap();
        pages.skip_next_page().unwrap();
        assert_eq!(memory.used(), page);
        pages.get_next_page().unwrap();
        assert_eq!(memory.used(), 2 * page, "the decoder holds the page before the skipped one");
        drop(pages);
        assert_eq!(memory.used(), 0);
    }
}
