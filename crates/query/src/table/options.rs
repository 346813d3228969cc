//! How tables are opened and scanned, and what is known of their columns.

use std::path::PathBuf;

use arrow_array::ArrayRef;
use sakiyomi_io::Access;

use crate::cost::operators::Codec;

/// How files are opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The format, where neither the first bytes nor the name tell it.
    pub format: Option<Format>,
    /// Whether scans go through the page cache.
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
    /// Arrow IPC, a file with a footer.
    ArrowFile,
    /// Arrow IPC, a stream.
    ArrowStream,
    /// Comma-separated values with a header.
    Csv,
}

/// Types of a scan's arrays. All off: the types of [`Table::schema`](super::Table::schema).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Representation {
    /// String and binary views come as `Utf8` and `Binary`: contiguous values with offsets.
    pub contiguous_strings: bool,
    /// Decimals of 128 bits with a precision of 18 digits at most come as `Decimal64`.
    pub narrow_decimals: bool,
    /// Strings that are dictionary-coded throughout, with small dictionaries, come as `Dictionary(Int32, Utf8)`. The
    /// dictionaries of batches differ, and may have values that no row has.
    pub dictionaries: bool,
}

impl Representation {
    /// Types as [`Table::schema`](super::Table::schema) says.
    pub const STORED: Representation =
        Representation { contiguous_strings: false, narrow_decimals: false, dictionaries: false };
    /// Types with the fewest bytes to move, for operators that restore the stored types in the end.
    pub const COMPACT: Representation =
        Representation { contiguous_strings: true, narrow_decimals: true, dictionaries: true };
}

/// How a table is scanned.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// Places of the columns, in the order in which batches have them.
    pub columns: Vec<usize>,
    /// Streams that share the rows.
    pub streams: usize,
    /// Rows of a batch, at most. Batches of wide rows have fewer.
    pub batch_rows: usize,
    /// Bytes for buffers and decoders of all streams together.
    pub memory: usize,
    /// Whether rows come in the order of the files; only with one stream.
    pub ordered: bool,
    /// Types of the arrays.
    pub representation: Representation,
    /// Bytes of a read, at most, unless a column of a row group is larger.
    pub block: usize,
}

/// Default rows of a batch: columns of 8 bytes fit into the first-level cache with their validity.
const DEFAULT_BATCH_ROWS: usize = 8192;

/// Default memory of a scan: two streams with a row group of 7 MB each, and the next one read ahead.
const DEFAULT_SCAN_BYTES: usize = 64 << 20;

/// Default size of reads, at which direct transfers are fastest on most devices.
const DEFAULT_BLOCK_BYTES: usize = 1 << 20;

impl ScanOptions {
    /// One ordered stream of some columns as they are stored: 8,192 rows a batch, 64 MiB, reads of 1 MiB.
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
        }
    }
}

/// What the files say of a column.
#[derive(Clone, Debug, Default)]
pub struct ColumnStatistics {
    /// An array of one row, of the column's stored type: no value is less. None if a file does not say.
    pub min: Option<ArrayRef>,
    /// An array of one row, of the column's stored type: no value is greater. None if a file does not say.
    pub max: Option<ArrayRef>,
    /// Whether the minimum and the maximum are values of the column, not just bounds.
    pub exact: bool,
    /// Number of nulls, where all files say it.
    pub nulls: Option<u64>,
}

/// How a column is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColumnStorage {
    /// Bytes in the files.
    pub file_bytes: u64,
    /// Bytes before compression.
    pub encoded_bytes: u64,
    /// Its compression; of several the slowest one.
    pub codec: Codec,
    /// Whether each part of it begins with a dictionary.
    pub is_dictionary: bool,
}
