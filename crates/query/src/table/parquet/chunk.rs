//! The bytes of a column chunk for the library's page reader. They are either all in memory or read through a moving
//! window, so that a chunk larger than the memory can be decoded.
//!
//! The page reader allocates the sizes that page headers claim. So each header is checked first against the chunk and the
//! codec. A page's memory is reserved when its bytes are requested, as many pages of a sample are skipped.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::{ChunkReader, Length};

use super::division::Located;
use super::thrift::{self, HEADER_BYTES, PageHeader, Problem};
use super::window::Window;
use crate::Error;
use crate::table::decoder_memory::DecoderMemory;

/// Maximum size of a page header. It contains the page's statistics, whose bounds are values of the column.
const HEADER_MAX_BYTES: usize = 16 << 20;

/// Size from which a page is counted until the next one is decompressed: usual pages of 1 MiB are not worth twice the
/// memory of a scan.
pub(super) const HELD_MIN_BYTES: usize = 4 << 20;

/// Bytes of a decoded length of a string.
const LENGTH_BYTES: u64 = 4;

/// Holds an error that the library would reduce to its text.
pub(super) type Fault = Arc<Mutex<Option<Error>>>;

/// A column chunk.
pub(super) struct Chunk {
    column: String,
    /// Offset in the file.
    start: u64,
    length: u64,
    /// Number of values, including nulls.
    values: u64,
    compression: Compression,
    storage: Storage,
    located: Option<Located>,
    state: Mutex<State>,
    memory: Arc<DecoderMemory>,
    fault: Fault,
}

/// Bytes of a chunk with their offsets in the file.
pub(super) type Pieces = Vec<(u64, Bytes)>;

enum Storage {
    Whole(Pieces),
    Window(Box<Mutex<Window>>),
}

/// Method that takes bytes from a window.
type OfWindow = fn(&mut Window, u64, usize) -> Result<Bytes, Error>;

#[derive(Default)]
struct State {
    /// End offset of the last returned header, and the compressed size of its page.
    header: Option<(u64, i64)>,
    /// The page of the last checked header, until its memory is reserved.
    next: Option<NextPage>,
    /// Bytes of the pages that the decoder holds: the dictionary and a data page.
    dictionary: usize,
    page: usize,
    /// Decompressed bytes of the last data page.
    decoded: usize,
    /// Whether the bytes of the page whose memory was reserved last were requested.
    is_read: bool,
    /// Offset of a page whose memory was reserved before it was requested.
    early: Option<u64>,
}

struct NextPage {
    is_dictionary: bool,
    /// Bytes for the page.
    bytes: usize,
    /// Its decompressed bytes.
    decoded: usize,
}

impl State {
    /// Returns the bytes that the decoder still holds while it gets the next page, if they are many.
    fn held_bytes(&self, is_dictionary: bool) -> usize {
        if is_dictionary || self.decoded < HELD_MIN_BYTES { 0 } else { self.decoded }
    }
}

impl Chunk {
    /// Returns a chunk whose bytes are all in memory.
    pub(super) fn whole(
        metadata: &ColumnChunkMetaData,
        pieces: Pieces,
        located: Option<Located>,
        memory: &Arc<DecoderMemory>,
        fault: &Fault,
    ) -> Chunk {
        Chunk::new(metadata, Storage::Whole(pieces), located, memory, fault)
    }

    /// Returns a chunk read through a window.
    pub(super) fn windowed(
        metadata: &ColumnChunkMetaData,
        window: Window,
        located: Option<Located>,
        memory: &Arc<DecoderMemory>,
        fault: &Fault,
    ) -> Chunk {
        Chunk::new(metadata, Storage::Window(Box::new(Mutex::new(window))), located, memory, fault)
    }

    fn new(
        metadata: &ColumnChunkMetaData,
        storage: Storage,
        located: Option<Located>,
        memory: &Arc<DecoderMemory>,
        fault: &Fault,
    ) -> Chunk {
        let (start, length) = metadata.byte_range();
        Chunk {
            column: metadata.column_path().string(),
            start,
            length,
            values: metadata.num_values() as u64,
            compression: metadata.compression(),
            storage,
            located,
            state: Mutex::default(),
            memory: Arc::clone(memory),
            fault: Arc::clone(fault),
        }
    }

    /// Returns the places of all data pages of a divided chunk, for the library.
    pub(super) fn locations(&self) -> Option<Vec<PageLocation>> {
        self.located.as_ref().map(Located::locations)
    }

    /// Headers of the data pages up to the first damaged one. Empty for a windowed chunk.
    pub(super) fn data_pages(&self) -> Vec<PageHeader> {
        let Storage::Whole(pieces) = &self.storage else { return Vec::new() };
        if let Some(located) = &self.located {
            let header = |(offset, bytes)| thrift::page_header(&piece(pieces, offset, bytes as usize)?).ok();
            return located.pages().map_while(header).collect();
        }
        let (mut at, end) = (self.start, self.start + self.length);
        let headers = std::iter::from_fn(|| {
            let left = piece(pieces, at, end.checked_sub(at)? as usize)?;
            let header = thrift::page_header(&left).ok()?;
            at = at.checked_add(header.length as u64)?.checked_add(u64::try_from(header.compressed).ok()?)?;
            Some(header)
        });
        headers
            .filter(|header| matches!(header.kind, thrift::DATA_PAGE_KIND | thrift::DATA_PAGE_V2_KIND))
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state stays consistent even if a holder panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the page header at an offset, and its bytes, which end before `end`.
    fn header(&self, offset: u64, end: u64) -> Result<(PageHeader, Bytes), ParquetError> {
        let left = end.saturating_sub(offset);
        let mut wanted = HEADER_BYTES;
        loop {
            let length = left.min(wanted as u64) as usize;
            let bytes = self.bytes(offset, length, Window::peek)?;
            match thrift::page_header(&bytes) {
                Ok(header) => return Ok((header, bytes.slice(..header.length))),
                Err(Problem::End) if (length as u64) < left && length < HEADER_MAX_BYTES => wanted *= 4,
                Err(_) => return Err(self.damaged("a page header is not readable")),
            }
        }
    }

    /// Checks the sizes of a page against the chunk and the codec.
    fn check(&self, offset: u64, header: &PageHeader) -> Result<(), ParquetError> {
        let left = (self.start + self.length).saturating_sub(offset + header.length as u64);
        let compressed = u64::try_from(header.compressed).ok().filter(|&bytes| bytes <= left);
        let compressed = compressed.ok_or_else(|| self.damaged("a page ends beyond its column chunk"))?;
        let uncompressed = u64::try_from(header.uncompressed).unwrap_or(u64::MAX);
        if uncompressed > decompressed_max(self.compression, compressed) {
            return Err(self.damaged("a page claims more bytes than its compression can hold"));
        }
        let values = u64::try_from(header.values).unwrap_or(u64::MAX);
        let is_dictionary = header.kind == thrift::DICTIONARY_PAGE_KIND;
        // A dictionary entry has at least one bit.
        let values_max = if is_dictionary { uncompressed.saturating_mul(8) } else { self.values };
        if values > values_max {
            return Err(self.damaged("a page claims more values than there can be"));
        }
        let is_windowed = matches!(self.storage, Storage::Window(_));
        let bytes = page_bytes(self.compression, is_windowed, header);
        self.state().next = Some(NextPage { is_dictionary, bytes, decoded: uncompressed as usize });
        Ok(())
    }

    /// Reserves the memory of the page whose header was checked last.
    pub(super) fn reserve(&self) -> Result<(), ParquetError> {
        let mut state = self.state();
        let Some(NextPage { is_dictionary, bytes, decoded }) = state.next.take() else { return Ok(()) };
        let old = if is_dictionary { state.dictionary } else { state.page };
        let bytes = bytes.saturating_add(state.held_bytes(is_dictionary));
        let what = || format!("decoding a page of {decoded} bytes of column {}", self.column);
        self.memory.resize(old, bytes, what).map_err(|error| self.failed(error))?;
        *(if is_dictionary { &mut state.dictionary } else { &mut state.page }) = bytes;
        if !is_dictionary {
            state.decoded = decoded;
        }
        state.is_read = false;
        Ok(())
    }

    /// Reserves the memory of the first data page, before it is requested.
    pub(super) fn reserve_first(&self) -> Result<(), ParquetError> {
        let Some((offset, bytes)) = self.located.as_ref().and_then(|located| located.pages().next()) else {
            return self.reserve();
        };
        let (header, _) = self.header(offset, offset + bytes)?;
        self.check(offset, &header)?;
        self.reserve()?;
        self.state().early = Some(offset);
        Ok(())
    }

    /// Releases what was reserved for a page that is skipped. The decoder still holds the page before it.
    pub(super) fn skip_page(&self) {
        let mut state = self.state();
        if state.next.take().is_none() && !state.is_read {
            // Shrinking never fails.
            let _ = self.memory.resize(state.page, 0, String::new);
            (state.page, state.decoded) = (0, 0);
        }
    }

    /// Returns a page of a divided chunk with its header, which the library reads without this chunk.
    fn located_page(&self, located: &Located, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let page = self.bytes(start, length, Window::take)?;
        let header = thrift::page_header(&page).map_err(|_| self.damaged("a page header is not readable"))?;
        let rows = located.rows_at(start);
        let is_wrong = rows.is_some_and(|rows| {
            let bytes = i64::try_from(header.length).unwrap_or(i64::MAX).saturating_add(header.compressed);
            u64::try_from(header.values) != Ok(rows) || u64::try_from(bytes) != Ok(length as u64)
        });
        if is_wrong {
            return Err(self.damaged("a page has other rows or bytes than the page index says"));
        }
        if self.state().early.take() != Some(start) {
            self.check(start, &header)?;
            self.reserve()?;
        }
        Ok(page)
    }

    /// Reserves memory for the `count` lengths of a page's strings, which the library decodes at once.
    pub(super) fn reserve_lengths(&self, count: u64) -> Result<(), ParquetError> {
        let bytes = usize::try_from(count.saturating_mul(LENGTH_BYTES)).unwrap_or(usize::MAX);
        let what = || format!("decoding {count} lengths of column {}", self.column);
        let mut state = self.state();
        self.memory.resize(0, bytes, what).map_err(|error| self.failed(error))?;
        state.page = state.page.saturating_add(bytes);
        Ok(())
    }

    fn bytes(&self, offset: u64, length: usize, of_window: OfWindow) -> Result<Bytes, ParquetError> {
        let end = offset.checked_add(length as u64);
        let is_within = offset >= self.start && end.is_some_and(|end| end <= self.start + self.length);
        if !is_within {
            return Err(self.damaged("a page ends beyond its column chunk"));
        }
        match &self.storage {
            Storage::Whole(pieces) => {
                piece(pieces, offset, length).ok_or_else(|| self.damaged("a page lies outside of its rows"))
            }
            Storage::Window(window) => {
                let mut window = window.lock().unwrap_or_else(PoisonError::into_inner);
                of_window(&mut window, offset, length).map_err(|error| self.failed(error))
            }
        }
    }

    pub(super) fn damaged(&self, how: &str) -> ParquetError {
        ParquetError::General(format!("column {}: {how}", self.column))
    }

    /// Keeps an error that the library would reduce to its text.
    fn failed(&self, error: Error) -> ParquetError {
        let text = error.to_string();
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        ParquetError::External(Box::new(io::Error::other(text)))
    }
}

/// Returns the bytes at an offset of the file; `None` if no piece has all of them.
fn piece(pieces: &Pieces, offset: u64, length: usize) -> Option<Bytes> {
    pieces.iter().find_map(|(start, bytes)| {
        let from = usize::try_from(offset.checked_sub(*start)?).ok()?;
        let to = from.checked_add(length).filter(|&to| to <= bytes.len())?;
        Some(bytes.slice(from..to))
    })
}

/// Memory of a page in bytes. A compressed page that is read through a window is copied before it is decompressed.
pub(super) fn page_bytes(compression: Compression, is_windowed: bool, header: &PageHeader) -> usize {
    let is_copied = is_windowed && compression != Compression::UNCOMPRESSED;
    let bytes = header.uncompressed.saturating_add(if is_copied { header.compressed } else { 0 });
    usize::try_from(bytes).unwrap_or(0)
}

/// Maximum decompressed size of `compressed` bytes: the longest copy of the codec's shortest element.
fn decompressed_max(compression: Compression, compressed: u64) -> u64 {
    let ratio = match compression {
        Compression::UNCOMPRESSED => 1,
        // A copy element of 2 bytes yields 64 bytes.
        Compression::SNAPPY => 32,
        // Each length byte adds 255 bytes.
        Compression::LZ4 | Compression::LZ4_RAW => 256,
        // Two bits yield 258 bytes.
        Compression::GZIP(_) => 1032,
        // A block of 4 bytes yields 128 KiB.
        _ => 128 << 10,
    };
    // The constant covers codec headers and small pages.
    compressed.saturating_mul(ratio).saturating_add(64)
}

impl Length for Chunk {
    fn len(&self) -> u64 {
        self.start + self.length
    }
}

impl ChunkReader for Chunk {
    type T = Reader<Bytes>;

    /// Returns a page header. The page reader calls this once more at the end of a header it has already read, and
    /// reads nothing then. After an empty page's header the next header follows, so that the call may mean either.
    fn get_read(&self, start: u64) -> Result<Reader<Bytes>, ParquetError> {
        let last = self.state().header;
        let is_behind = last.is_some_and(|(end, _)| end == start);
        if is_behind && last.is_some_and(|(_, compressed)| compressed > 0) {
            return Ok(Bytes::new().reader());
        }
        let header = self.header(start, self.start + self.length);
        let (header, bytes) = match header {
            Err(_) if is_behind => return Ok(Bytes::new().reader()),
            header => header?,
        };
        self.check(start, &header)?;
        self.state().header = Some((start + header.length as u64, header.compressed));
        Ok(bytes.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let bytes = match &self.located {
            Some(located) => self.located_page(located, start, length)?,
            None => {
                self.reserve()?;
                self.bytes(start, length, Window::take)?
            }
        };
        self.state().is_read = true;
        Ok(bytes)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let state = self.state();
        // Shrinking never fails.
        let _ = self.memory.resize(state.dictionary + state.page, 0, String::new);
    }
}
