//! Format, options and target of a result.

use std::collections::BTreeMap;
use std::path::PathBuf;

use arrow_array::ArrayRef;

use crate::order::SortKey;
use crate::table::Format;

/// Options of a result.
#[derive(Clone, Debug)]
pub struct OutputOptions {
    /// The format.
    pub format: Format,
    /// Compression of Parquet pages and of Arrow IPC buffers.
    pub compression: Compression,
    /// Maximum rows of a group (a Parquet row group or an IPC record batch); see [`group_rows`].
    pub group_rows: usize,
    /// Sort order of the rows, empty if there is none; recorded in Parquet files. Columns are indices into the result's
    /// schema.
    pub sorted_by: Vec<SortKey>,
    /// Alignment of Arrow IPC record batch bodies in bytes: 64, or 4096 for readers with direct I/O. Ignored for other
    /// formats and compressed files.
    pub alignment: usize,
    /// Columns that Arrow IPC keeps as dictionary arrays, by index, with the values that all batches share. Their
    /// schema type is a dictionary. Other formats and columns have no dictionaries.
    pub dictionaries: BTreeMap<usize, ArrayRef>,
}

/// Buffer alignment that Arrow recommends, in bytes.
pub(crate) const BUFFER_ALIGNMENT_BYTES: usize = 64;

impl OutputOptions {
    /// Default options of a format: no compression, groups of 122,880 rows, no order.
    #[must_use]
    pub fn new(format: Format) -> OutputOptions {
        OutputOptions {
            format,
            compression: Compression::None,
            group_rows: GROUP_ROWS_MIN,
            sorted_by: Vec::new(),
            alignment: BUFFER_ALIGNMENT_BYTES,
            dictionaries: BTreeMap::new(),
        }
    }
}

/// Compression of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// None.
    #[default]
    None,
    /// Snappy (Parquet only).
    Snappy,
    /// LZ4: raw blocks in Parquet, frames in Arrow IPC.
    Lz4,
    /// Zstandard, level 1.
    Zstd,
}

/// Destination of a result.
#[derive(Clone, Debug)]
pub enum Target {
    /// A file, which appears when it is complete. A pipe or a device is written in place.
    File(PathBuf),
    /// The standard output.
    Stdout,
}

/// Minimum rows of a group for efficient analytical readers; DuckDB's default.
pub(crate) const GROUP_ROWS_MIN: usize = 122_880;
/// Maximum rows of a group, as in other writers.
const GROUP_ROWS_MAX: usize = 1 << 20;

/// Minimum rows of a group even if memory is short: statistics and dictionaries of fewer do not pay.
const GROUP_ROWS_FLOOR: usize = 1024;

/// Size above which larger groups do not help readers: each column then has some megabytes.
const GROUP_BYTES: usize = 64 << 20;

/// Returns the rows of a group, a multiple of 1024, for rows of `row_bytes` bytes and encoded groups of at most
/// `memory` bytes.
#[must_use]
pub fn group_rows(row_bytes: usize, memory: usize) -> usize {
    let row_bytes = row_bytes.max(1);
    let wanted = (GROUP_BYTES / row_bytes).clamp(GROUP_ROWS_MIN, GROUP_ROWS_MAX);
    let rows = wanted.min(memory / row_bytes).max(GROUP_ROWS_FLOOR);
    rows / GROUP_ROWS_FLOOR * GROUP_ROWS_FLOOR
}
