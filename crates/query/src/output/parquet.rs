//! Results as Parquet: row groups encoded on any thread, appended in order, a footer with the index of their pages.
//!
//! Pages are of format version 1, which every reader knows: dictionaries with codes in runs or bit-packed where they are
//! smaller, else plain values; levels of definition for nulls; each page compressed. Minimum, maximum and number of nulls
//! are kept for chunks and pages (`ColumnIndex`, `OffsetIndex`), so that readers can skip both.
//!
//! | file | subject |
//! |---|---|
//! | `columns.rs` | which encoder a column has; the chunks of a row group |
//! | `numbers.rs`, `strings.rs`, `booleans.rs` | the encoders; `nested.rs`: the library's, for all other types |
//! | `gather.rs`, `visit.rs`, `validity.rs` | values and nulls of several arrays as one column |
//! | `physical.rs`, `extremes.rs` | order and statistics of numbers, of strings |
//! | `dictionary.rs`, `bits.rs` | codes of distinct values; runs and bit packing |
//! | `chunk.rs`, `header.rs`, `codec.rs` | pages, their headers, their compression |

mod bits;
mod booleans;
mod chunk;
mod codec;
mod columns;
mod dictionary;
mod extremes;
mod gather;
mod header;
mod nested;
mod numbers;
mod physical;
mod strings;
mod validity;
mod visit;

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, IntervalUnit, Schema};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, encode_arrow_schema};
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaDataBuilder, ParquetMetaDataWriter, RowGroupMetaData, SortingColumn,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::OffsetIndexMetaData;
use parquet::file::writer::TrackedWrite;

pub(crate) use chunk::Chunk;
use columns::Columns;
pub(crate) use columns::Scratch;

use crate::Error;
use crate::order::SortKey;
use crate::output::buffer::Buf;
use crate::output::options::Compression;
use crate::output::plain::find_type;
use crate::output::pool::Lease;
use crate::output::sink::SharedSink;

/// The first and the last bytes of a file.
const MAGIC: &[u8] = b"PAR1";

/// The version of the format of pages and types.
const FORMAT_VERSION: i32 = 1;

/// The writer that a file names.
const CREATED_BY: &str = concat!("sakiyomi version ", env!("CARGO_PKG_VERSION"));

/// Encodes row groups; clones are handles of the same.
#[derive(Clone, Debug)]
pub(crate) struct Encoder {
    columns: Arc<Columns>,
}

impl Encoder {
    /// # Errors
    /// If Parquet cannot hold a type.
    pub(crate) fn new(schema: &Schema, compression: Compression) -> Result<Encoder, Error> {
        if let Some((column, data_type)) = find_type(schema, is_refused) {
            return Err(Error::Query(format!(
                "column {column}: Parquet has no type for {data_type}; leave it out by --select, or write Arrow IPC"
            )));
        }
        Ok(Encoder { columns: Arc::new(Columns::new(schema, compression)?) })
    }

    /// Encodes the rows of some batches as one group.
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
        _ => false,
    }
}

/// A file that is being written.
pub(crate) struct Writer {
    columns: Arc<Columns>,
    out: TrackedWrite<SharedSink>,
    sink: SharedSink,
    sorting: Option<Vec<SortingColumn>>,
    schema: KeyValue,
    rows: i64,
    groups: Vec<RowGroupMetaData>,
    column_indexes: Vec<Vec<ColumnIndexMetaData>>,
    offset_indexes: Vec<Vec<OffsetIndexMetaData>>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("rows", &self.rows)
            .field("groups", &self.groups.len())
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// Begins a file.
    pub(crate) fn new(
        encoder: &Encoder,
        sink: &SharedSink,
        schema: &Schema,
        sorted_by: &[SortKey],
    ) -> Result<Writer, Error> {
        let columns = Arc::clone(&encoder.columns);
        let mut out = TrackedWrite::new(sink.clone());
        sink.check(out.write_all(MAGIC).map_err(parquet::errors::ParquetError::from))?;
        Ok(Writer {
            sorting: sorting_columns(&columns, sorted_by),
            columns,
            out,
            sink: sink.clone(),
            schema: KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), encode_arrow_schema(schema)),
            rows: 0,
            groups: Vec::new(),
            column_indexes: Vec::new(),
            offset_indexes: Vec::new(),
        })
    }

    /// Appends a row group.
    pub(crate) fn append(&mut self, bytes: &[u8], chunks: Vec<Chunk>, rows: usize) -> Result<(), Error> {
        let base = self.out.bytes_written() as i64;
        self.sink.check(self.out.write_all(bytes).map_err(parquet::errors::ParquetError::from))?;
        let placed: Result<Vec<Chunk>, Error> = chunks.into_iter().map(|chunk| chunk.placed(base)).collect();
        let (mut columns, mut column_index, mut offset_index) = (Vec::new(), Vec::new(), Vec::new());
        for chunk in placed? {
            columns.push(chunk.metadata);
            column_index.push(chunk.column_index);
            offset_index.push(chunk.offset_index);
        }
        let mut group = RowGroupMetaData::builder(Arc::clone(&self.columns.descr))
            .set_num_rows(rows as i64)
            .set_total_byte_size(columns.iter().map(|column| column.uncompressed_size()).sum())
            .set_sorting_columns(self.sorting.clone())
            .set_file_offset(base)
            .set_column_metadata(columns);
        // The field is optional, and too small for more.
        if let Ok(ordinal) = i16::try_from(self.groups.len()) {
            group = group.set_ordinal(ordinal);
        }
        self.groups.push(group.build()?);
        self.column_indexes.push(column_index);
        self.offset_indexes.push(offset_index);
        self.rows += rows as i64;
        Ok(())
    }

    /// Writes the indexes of the pages, and the footer.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let file = FileMetaData::new(
            FORMAT_VERSION,
            self.rows,
            Some(CREATED_BY.to_owned()),
            Some(vec![self.schema]),
            Arc::clone(&self.columns.descr),
            None,
        );
        let has_groups = !self.groups.is_empty();
        let metadata = ParquetMetaDataBuilder::new(file)
            .set_row_groups(self.groups)
            .set_column_index(Some(self.column_indexes).filter(|_| has_groups))
            .set_offset_index(Some(self.offset_indexes).filter(|_| has_groups))
            .build();
        let mut out = self.out;
        self.sink.check(out.flush().map_err(parquet::errors::ParquetError::from))?;
        self.sink.check(ParquetMetaDataWriter::new_with_tracked(out, &metadata).finish())
    }
}

/// The order as row groups record it: as far as its columns are leaves.
fn sorting_columns(columns: &Columns, sorted_by: &[SortKey]) -> Option<Vec<SortingColumn>> {
    let sorting = sorted_by.iter().map_while(|key| {
        let column_idx = i32::try_from(columns.leaf_of(key.column)?).ok()?;
        let (descending, nulls_first) = (key.options.descending, key.options.nulls_first);
        Some(SortingColumn { column_idx, descending, nulls_first })
    });
    Some(sorting.collect()).filter(|sorting: &Vec<_>| !sorting.is_empty())
}
