//! Options of opening and scanning tables, and statistics of their columns.

use std::path::PathBuf;

use arrow_array::ArrayRef;
use sakiyomi_io::Access;

use crate::cost::operators::Codec;
use sakiyomi_expression::Expression;

/// Options for opening files.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The format; by default it is detected from the first bytes and the name.
    pub format: Option<Format>,
    /// Whether scans use the page cache or direct I/O.
    pub access: Access,
    /// Directory of the unnamed file that holds the standard input where its format or an operator needs seeking;
    /// [`spill_directory`](crate::job::spill_directory) by default.
    pub spool: Option<PathBuf>,
}

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC file, with a footer.
    ArrowFile,
    /// Arrow IPC stream.
    ArrowStream,
    /// Comma-separated values with a header.
    Csv,
}

/// Array types of a scan. With all flags off they are those of [`Table::schema`](super::Table::schema).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Representation {
    /// Return string and binary views as `Utf8` and `Binary`: contiguous values with offsets.
    pub contiguous_strings: bool,
    /// Return `Decimal128` columns of at most 18 digits as `Decimal64`.
    pub narrow_decimals: bool,
    /// Return strings that are dictionary-encoded throughout, with small dictionaries, as `Dictionary(Int32, Utf8)`.
    /// Dictionaries differ between batches, and may contain unused values.
    pub dictionaries: bool,
}

impl Representation {
    /// The types of [`Table::schema`](super::Table::schema).
    pub const STORED: Representation =
        Representation { contiguous_strings: false, narrow_decimals: false, dictionaries: false };
    /// The most compact types, for operators that restore the stored types at the end.
    pub const COMPACT: Representation =
        Representation { contiguous_strings: true, narrow_decimals: true, dictionaries: true };
}

/// Options of a scan.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// Indices of the columns, in the order of the batches.
    pub columns: Vec<usize>,
    /// Number of streams that share the rows.
    pub streams: usize,
    /// Maximum rows of a batch. Batches of wide rows have fewer.
    pub batch_rows: usize,
    /// Bytes for buffers and decoders of all streams together.
    pub memory: usize,
    /// Whether rows are returned in file order, which implies a single stream.
    pub ordered: bool,
    /// Types of the arrays.
    pub representation: Representation,
    /// Transfer size in bytes; a column chunk may be read in one larger transfer.
    pub block: usize,
    /// A condition on batches. Parquet row groups that have no row for which it is true, by the bounds that the file
    /// records, are skipped; it is not evaluated on rows.
    pub condition: Option<Expression>,
}

/// The part of a table that a scan reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Row groups or record batches that are read.
    pub groups: usize,
    /// Row groups that the condition excludes.
    pub skipped_groups: usize,
    /// Rows of the groups that are read, if the metadata records it.
    pub rows: Option<u64>,
    /// Bytes that are read, without the gaps between columns; 0 for a stream, whose length is unknown.
    pub bytes: u64,
}

/// Default rows of a batch: columns of 8 bytes fit into the first-level cache with their validity.
const DEFAULT_BATCH_ROWS: usize = 8192;

/// Default memory of a scan: two streams, each with a row group of 7 MB and the next one read ahead.
const DEFAULT_SCAN_BYTES: usize = 64 << 20;

/// Default size of reads, at which direct transfers are fastest on most devices.
const DEFAULT_BLOCK_BYTES: usize = 1 << 20;

impl ScanOptions {
    /// Returns one ordered stream of `columns` in their stored types: 8,192 rows per batch, 64 MiB, reads of 1 MiB.
    #[must_use]
    pub fn new(columns: Vec<usize>) -> ScanOptions {
        ScanOptions {
            columns,
            streams: 1,
            batch_rows: DEFAULT_BATCH_ROWS,
            memory: DEFAULT_SCAN_BYTES,
            ordered: true,
            representation: Representation::STORED,
            block: DEFAULT_BLOCK_BYTES,
            condition: None,
        }
    }
}

/// Statistics of a column from the files' metadata.
#[derive(Clone, Debug, Default)]
pub struct ColumnStatistics {
    /// Lower bound, as an array of one row in the stored type. `None` if a file does not record it.
    pub min: Option<ArrayRef>,
    /// Upper bound, as an array of one row in the stored type. `None` if a file does not record it.
    pub max: Option<ArrayRef>,
    /// Whether the minimum and the maximum are values of the column, not just bounds.
    pub exact: bool,
    /// Number of nulls, if all files record it.
    pub nulls: Option<u64>,
}

/// How a column is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColumnStorage {
    /// Bytes in the files.
    pub file_bytes: u64,
    /// Bytes before compression.
    pub encoded_bytes: u64,
    /// Compression codec; the slowest one if there are several.
    pub codec: Codec,
    /// Whether each column chunk begins with a dictionary page.
    pub is_dictionary: bool,
}
