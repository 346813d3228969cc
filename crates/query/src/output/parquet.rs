//! Results as Parquet: row groups encoded on any thread and appended in order, then page indexes and the footer.
//!
//! Pages have format version 1, which all readers support. Values are dictionary-encoded (RLE and bit packing) where
//! that is smaller, else plain; definition levels mark nulls. Each page is compressed. Chunks and pages (`ColumnIndex`,
//! `OffsetIndex`) record minimum, maximum and null count, so that readers can skip them.
//!
//! | file | subject |
//! |---|---|
//! | `columns.rs` | choice of encoders; the chunks of a row group |
//! | `numbers.rs`, `strings.rs`, `booleans.rs` | the encoders; `nested.rs`: the library's, for all other types |
//! | `stand_ins.rs` | types that Parquet lacks |
//! | `gather.rs`, `visit.rs`, `validity.rs` | values and nulls of several arrays as one column |
//! | `physical.rs`, `extremes.rs` | order and statistics of numbers, of strings |
//! | `dictionary.rs`, `bits.rs` | codes of distinct values; runs and bit packing |
//! | `chunk.rs`, `header.rs`, `codec.rs` | pages, their headers, their compression |
//! | `footer.rs`, `group_log.rs` | page indexes and metadata at the end of a file; where they are until then |

mod bits;
mod booleans;
mod chunk;
mod codec;
mod columns;
mod dictionary;
mod extremes;
mod footer;
mod gather;
mod group_log;
mod header;
mod nested;
mod numbers;
mod physical;
mod stand_ins;
mod strings;
mod validity;
mod visit;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, IntervalUnit, Schema};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, encode_arrow_schema};
use parquet::file::metadata::{FileMetaData, KeyValue, RowGroupMetaData, SortingColumn};

pub(crate) use chunk::Chunk;
use columns::Columns;
pub(crate) use columns::Scratch;
use footer::{Footer, Indexes, MAGIC};

use crate::order::SortKey;
use crate::output::buffer::Buf;
use crate::output::options::Compression;
use crate::output::plain::find_type;
use crate::output::pool::Lease;
use crate::output::sink::SharedSink;
use crate::{Error, Job};

/// Format version of pages and types.
const FORMAT_VERSION: i32 = 1;

/// Writer name recorded in files.
const CREATED_BY: &str = concat!("sakiyomi version ", env!("CARGO_PKG_VERSION"));

/// Returns the schema of a file with the rows of `schema`: Parquet has no seconds, and dates in days only.
pub(crate) fn stored_schema(schema: &Schema) -> Schema {
    stand_ins::stored_schema(schema)
}

/// Encodes row groups; clones share the column encoders.
#[derive(Clone, Debug)]
pub(crate) struct Encoder {
    columns: Arc<Columns>,
}

impl Encoder {
    /// # Errors
    /// If Parquet does not support a type.
    pub(crate) fn new(schema: &Schema, compression: Compression) -> Result<Encoder, Error> {
        if let Some((column, data_type)) = find_type(schema, is_refused) {
            return Err(Error::Query(format!(
                "column {column}: Parquet has no type for {data_type}; exclude it with --select, or write Arrow IPC"
            )));
        }
        Ok(Encoder { columns: Arc::new(Columns::new(schema, compression)?) })
    }

    /// Bytes of the metadata of a row group, however few its rows.
    pub(crate) fn group_metadata_bytes(&self) -> usize {
        self.columns.descr.num_columns() * chunk::memory_of(1)
    }

    /// Encodes the rows of `batches` as one row group.
    pub(crate) fn encode(
        &self,
        batches: &[RecordBatch],
        scratch: &mut Scratch,
        out: &mut Lease<Buf>,
    ) -> Result<Vec<Chunk>, Error> {
        let columns = batches.first().map_or(0, RecordBatch::num_columns);
        let arrays = |column| -> Vec<ArrayRef> {
            batches.iter().map(|batch| Arc::clone(batch.column(column))).collect()
        };
        self.columns.encode((0..columns).map(arrays).collect(), scratch, out)
    }
}

fn is_refused(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) | DataType::Interval(IntervalUnit::MonthDayNano) => true,
        DataType::Struct(fields) => fields.is_empty(),
        // A value of a fixed length has a byte at least, and a decimal no digits left of its last one.
        DataType::FixedSizeBinary(size) => *size == 0,
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => *scale < 0,
        _ => false,
    }
}

/// A file being written.
pub(crate) struct Writer {
    columns: Arc<Columns>,
    sink: SharedSink,
    sorting: Option<Vec<SortingColumn>>,
    footer: Footer,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("groups", &self.footer.groups()).finish_non_exhaustive()
    }
}

impl Writer {
    /// Starts a file.
    pub(crate) fn new(
        job: &Job,
        encoder: &Encoder,
        sink: &SharedSink,
        schema: &Schema,
        sorted_by: &[SortKey],
    ) -> Result<Writer, Error> {
        let columns = Arc::clone(&encoder.columns);
        sink.append(MAGIC)?;
        let schema = KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), encode_arrow_schema(schema));
        let (version, writer) = (FORMAT_VERSION, Some(CREATED_BY.to_owned()));
        let descr = Arc::clone(&columns.descr);
        let file = FileMetaData::new(version, 0, writer, Some(vec![schema]), descr, None);
        let sorting = sorting_columns(&columns, sorted_by);
        Ok(Writer { columns, sink: sink.clone(), sorting, footer: Footer::new(job, file)? })
    }

    /// Appends a row group.
    pub(crate) fn append(&mut self, bytes: &[u8], chunks: Vec<Chunk>, rows: usize) -> Result<(), Error> {
        let base = self.sink.written() as i64;
        self.sink.append(bytes)?;
        let placed: Result<Vec<Chunk>, Error> = chunks.into_iter().map(|chunk| chunk.placed(base)).collect();
        let (columns, indexes) = Indexes::of(placed?);
        let mut group = RowGroupMetaData::builder(Arc::clone(&self.columns.descr))
            .set_num_rows(rows as i64)
            .set_total_byte_size(columns.iter().map(|column| column.uncompressed_size()).sum())
            .set_sorting_columns(self.sorting.clone())
            .set_file_offset(base)
            .set_column_metadata(columns);
        // The field is optional and has only 16 bits.
        if let Ok(ordinal) = i16::try_from(self.footer.groups()) {
            group = group.set_ordinal(ordinal);
        }
        self.footer.add(group.build()?, indexes)
    }

    /// Writes the page indexes and the metadata.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let base = self.sink.written();
        self.footer.finish(base, |bytes| self.sink.append(bytes))
    }
}

/// Returns the order as recorded in row groups, up to the first nested column.
fn sorting_columns(columns: &Columns, sorted_by: &[SortKey]) -> Option<Vec<SortingColumn>> {
    let sorting = sorted_by.iter().map_while(|key| {
        let column_idx = i32::try_from(columns.leaf_of(key.column)?).ok()?;
        let (descending, nulls_first) = (key.options.descending, key.options.nulls_first);
        Some(SortingColumn { column_idx, descending, nulls_first })
    });
    Some(sorting.collect()).filter(|sorting: &Vec<_>| !sorting.is_empty())
}
