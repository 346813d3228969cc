//! How and where a result is written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use arrow_array::ArrayRef;

use crate::order::SortKey;
use crate::table::Format;

/// How a result is written.
#[derive(Clone, Debug)]
pub struct OutputOptions {
    /// The format.
    pub format: Format,
    /// Compression of Parquet pages and of Arrow IPC buffers.
    pub compression: Compression,
    /// Rows of a group (a Parquet row group, an IPC record batch), at most; see [`group_rows`].
    pub group_rows: usize,
    /// The order of the rows, if they have one: Parquet records it. Columns count as in the schema of the result.
    pub sorted_by: Vec<SortKey>,
    /// The bodies of Arrow IPC record batches begin at multiples of it: 64, or 4096 for readers with direct I/O. It has no
    /// effect on other formats and on compressed files.
    pub alignment: usize,
    /// Columns that Arrow IPC keeps as codes, by their places, with the values that all batches have. They have a
    /// dictionary type in the schema. Other formats, and all other columns, have no dictionaries.
    pub dictionaries: BTreeMap<usize, ArrayRef>,
}

/// Alignment of buffers that Arrow recommends.
pub(crate) const BUFFER_ALIGNMENT_BYTES: usize = 64;

impl OutputOptions {
    /// The usual ways of a format: no compression, groups of 122,880 rows, no order.
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

/// Where a result goes.
#[derive(Clone, Debug)]
pub enum Target {
    /// A file, which appears when it is whole. A pipe or a device is written as it is.
    File(PathBuf),
    /// The standard output.
    Stdout,
}

/// Rows of a group that readers of analytical files expect at least: as many as DuckDB writes.
const GROUP_ROWS_MIN: usize = 122_880;
/// Rows of a group at most, as in other writers.
const GROUP_ROWS_MAX: usize = 1 << 20;

/// Rows below which statistics and dictionaries of a group cost more than they tell.
const GROUP_ROWS_FLOOR: usize = 1024;

/// Bytes of a group from which larger ones help no reader: a column of it is then some megabytes.
const GROUP_BYTES: usize = 64 << 20;

/// Rows of a group, if rows have so many bytes and an encoded group may have so many: a multiple of 1024 rows.
#[must_use]
pub fn group_rows(row_bytes: usize, memory: usize) -> usize {
    let row_bytes = row_bytes.max(1);
    let wanted = (GROUP_BYTES / row_bytes).clamp(GROUP_ROWS_MIN, GROUP_ROWS_MAX);
    let rows = wanted.min(memory / row_bytes).max(GROUP_ROWS_FLOOR);
    rows / GROUP_ROWS_FLOOR * GROUP_ROWS_FLOOR
}
