//! Shapes of tables and results: the properties of data that predictions use.

use serde::Serialize;

use super::error::CostError;
use super::operators::{Codec, FileFormat, OperatorCosts, ValueKind};
pub use super::row::RowShape;

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ColumnShape {
    /// The kind of its values.
    pub kind: ValueKind,
    /// Mean bytes of a value in memory, without lengths and offsets.
    pub value_bytes: f64,
    /// Bytes of the column in the file, after compression.
    pub file_bytes: u64,
    /// Bytes of the column before compression.
    pub encoded_bytes: u64,
    /// Its compression.
    pub codec: Codec,
    /// Whether the values are dictionary-encoded in the file.
    pub is_dictionary: bool,
}

/// Bytes of the length prefix of a text in a packed row.
const TEXT_LENGTH_BYTES: f64 = 4.0;

impl ColumnShape {
    /// Returns the bytes of a value in a packed row.
    #[must_use]
    pub fn packed_bytes(&self) -> f64 {
        self.value_bytes + if self.kind == ValueKind::Text { TEXT_LENGTH_BYTES } else { 0.0 }
    }
}

/// A table or result, reduced to the columns that a plan uses, in any order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableShape {
    /// Number of rows.
    pub rows: u64,
    /// The format of its files.
    #[serde(rename = "file_format")]
    pub format: FileFormat,
    /// Columns that are read or written.
    pub columns: Vec<ColumnShape>,
    /// Number of parts of which a scan gives each to one thread: row groups or record batches; 0 if parts are small.
    pub splits: u64,
    /// Fraction of its bytes in the page cache, 0 to 1.
    pub cached_ratio: f64,
    /// Whether its rows are in the order that the operator needs.
    pub is_sorted: bool,
}

impl TableShape {
    /// Returns the bytes of the columns in the files.
    #[must_use]
    pub fn file_bytes(&self) -> f64 {
        self.columns.iter().map(|column| column.file_bytes as f64).sum()
    }

    /// Returns the shape of its rows.
    #[must_use]
    pub fn row(&self) -> RowShape {
        RowShape::of(&self.columns)
    }

    /// Returns the bytes of all packed rows.
    #[must_use]
    pub fn packed_bytes(&self) -> f64 {
        self.rows as f64 * self.row().bytes
    }

    /// Returns the CPU time to decompress and decode all values, in nanoseconds.
    pub(crate) fn decode_ns(&self, costs: &OperatorCosts) -> Result<f64, CostError> {
        Ok(self.restore_ns(costs)? + self.decompressed_decode_ns(costs)?)
    }

    /// Returns the CPU time to decompress all values, in nanoseconds.
    pub(crate) fn restore_ns(&self, costs: &OperatorCosts) -> Result<f64, CostError> {
        let column = |column: &ColumnShape| {
            let codec = costs.codec(column.codec).ok_or(CostError::Codec { codec: column.codec })?;
            let stored_ratio = column.file_bytes as f64 / column.encoded_bytes.max(1) as f64;
            Ok(column.encoded_bytes as f64 * codec.restore_ns(stored_ratio))
        };
        self.columns.iter().map(column).sum()
    }

    /// Returns the CPU time to decode all values, in nanoseconds, without decompression.
    pub(crate) fn decompressed_decode_ns(&self, costs: &OperatorCosts) -> Result<f64, CostError> {
        let column = |column: &ColumnShape| {
            let cost = costs.decode(self.format, column.kind, column.is_dictionary);
            let cost = cost.ok_or_else(|| CostError::operator("decoding", self.format, column.kind))?;
            let text =
                if column.kind == ValueKind::Text { column.value_bytes * cost.ns_per_byte } else { 0.0 };
            Ok(self.rows as f64 * (cost.ns_per_value + text))
        };
        self.columns.iter().map(column).sum()
    }

    /// Returns the CPU time to encode and compress all values, in nanoseconds.
    pub(crate) fn encode_ns(&self, costs: &OperatorCosts) -> Result<f64, CostError> {
        let column = |column: &ColumnShape| {
            let cost = costs.encode(self.format, column.kind, column.is_dictionary);
            let cost = cost.ok_or_else(|| CostError::operator("encoding", self.format, column.kind))?;
            let codec = costs.codec(column.codec).ok_or(CostError::Codec { codec: column.codec })?;
            let text =
                if column.kind == ValueKind::Text { column.value_bytes * cost.ns_per_byte } else { 0.0 };
            let compressed = column.encoded_bytes as f64 * codec.compress_ns_per_byte;
            Ok(self.rows as f64 * (cost.ns_per_value + text) + compressed)
        };
        self.columns.iter().map(column).sum()
    }
}

impl RowShape {
    /// Returns the shape of rows with some columns.
    #[must_use]
    pub fn of(columns: &[ColumnShape]) -> RowShape {
        let texts = || columns.iter().filter(|column| column.kind == ValueKind::Text);
        RowShape {
            values: columns.len() as f64 - texts().count() as f64,
            texts: texts().count() as f64,
            text_bytes: texts().map(|column| column.value_bytes).sum(),
            bytes: columns.iter().map(ColumnShape::packed_bytes).sum::<f64>().max(1.0),
        }
    }
}

/// The key of a sort or of a join.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct KeyShape {
    /// Mean number of rows of the table with the same 64-bit code of their key, if codes are those of partitions in key
    /// order; 1 if codes determine the order.
    pub rows_per_code: f64,
    /// Rows per code if codes are those of the ranges of the whole table, as in runs.
    pub rows_per_run_code: f64,
    /// Texts in the key that a code has bits of.
    pub texts: f64,
    /// Part of the table's values that a sample for splitters decodes, 0 to 1.
    pub sampled_ratio: f64,
}

impl KeyShape {
    /// A key whose 64-bit code determines the order.
    pub const EXACT: KeyShape =
        KeyShape { rows_per_code: 1.0, rows_per_run_code: 1.0, texts: 0.0, sampled_ratio: 0.1 };

    /// The key in runs, each of which has `part` of the rows.
    pub(crate) fn in_runs(self, part: f64) -> KeyShape {
        KeyShape { rows_per_code: self.rows_per_run_code * part, ..self }
    }

    /// Returns the CPU time to extract the codes of a row's texts and to order it among `rows` rows beyond its code, in
    /// nanoseconds: `log2 k` comparisons with `k` rows of the same code.
    pub(crate) fn ns(self, rows: f64, costs: &OperatorCosts) -> f64 {
        let comparisons = self.rows_per_code.clamp(1.0, rows.max(1.0)).log2();
        self.texts * costs.text_key_ns + comparisons * costs.comparison_ns
    }
}

/// The side of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The first table.
    Left,
    /// The second table.
    Right,
}

impl Side {
    /// Its index among the tables.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self == Side::Right)
    }

    /// Returns the other side.
    #[must_use]
    pub fn other(self) -> Side {
        if self == Side::Left { Side::Right } else { Side::Left }
    }
}

/// The operator at the root of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "operator", rename_all = "kebab-case")]
pub enum Operator {
    /// All rows of a table in an order.
    Sort {
        /// The key.
        key: KeyShape,
        /// Maximum rows of the result (`--limit`).
        limit_rows: Option<u64>,
        /// Whether rows with equal keys keep their order; adds a row number to each row.
        is_stable: bool,
    },
    /// Rows of two tables with equal keys.
    Join {
        /// The key.
        key: KeyShape,
        /// The required build side of a hash join; `None` if either is possible.
        build: Option<Side>,
    },
    /// Aggregation of a table by groups.
    Aggregate {
        /// Number of groups.
        groups: u64,
        /// Bytes of a group: its key and aggregate states.
        size: GroupSize,
        /// Columns of the key.
        key: GroupKeyShape,
        /// States of a group, which aggregates may share.
        states: StateShape,
    },
}

/// Mean bytes of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct GroupSize {
    /// In the hash table, without its index.
    pub table_bytes: f64,
    /// In a spill file.
    pub record_bytes: f64,
}

/// The key of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct GroupKeyShape {
    /// Number of texts, which are hashed and compared.
    pub texts: u64,
    /// Number of columns of codes, if the key consists of them and its group is looked up directly; else 0.
    pub codes: u64,
}

/// The states of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StateShape {
    /// Number of sums of 64-bit values, which are updated in one pass if groups are few.
    pub sums: u64,
    /// Number of counts of rows and of values, which such a pass updates as well.
    pub counts: u64,
    /// Number of others: minima, maxima, sums of floating-point and wider numbers, counts of distinct values.
    pub others: u64,
}

/// A task: an operator with its inputs and output.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Task {
    /// The operator.
    pub operator: Operator,
    /// Its tables: two for a join, else one.
    pub tables: Vec<TableShape>,
    /// Expression operations per row of the first table, including its filter.
    pub expressions: u64,
    /// Fraction of the first table's rows that pass its filter, 0 to 1.
    pub selected_ratio: f64,
    /// Rows of the first table after its projection, if it has one.
    pub projected: Option<RowShape>,
    /// The result; `None` if it is not written to a file.
    pub output: Option<TableShape>,
}

impl Task {
    /// Returns the shape of the rows of a table that reach the operator.
    pub(crate) fn row(&self, table: usize) -> RowShape {
        self.projected.filter(|_| table == 0).unwrap_or_else(|| self.tables[table].row())
    }

    /// Returns the number of the rows of a table that reach the operator.
    pub(crate) fn rows(&self, table: usize) -> f64 {
        let selected = if table == 0 { self.selected_ratio } else { 1.0 };
        self.tables[table].rows as f64 * selected
    }

    /// Returns a description of the first inconsistency, if any.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let tables = if matches!(self.operator, Operator::Join { .. }) { 2 } else { 1 };
        let is_ratio = |ratio: f64| (0.0..=1.0).contains(&ratio);
        let shapes = self.tables.iter().chain(&self.output);
        let mut columns = shapes.clone().flat_map(|table| &table.columns);
        match () {
            () if self.tables.len() != tables => Some("the number of tables is not the operator's"),
            () if !is_ratio(self.selected_ratio) => Some("the part that a filter leaves is not from 0 to 1"),
            () if !shapes.clone().all(|table| is_ratio(table.cached_ratio)) => {
                Some("the part of a table in the page cache is not from 0 to 1")
            }
            () if !columns.all(|column| column.value_bytes.is_finite() && column.value_bytes >= 0.0) => {
                Some("the width of a column is not a number from 0 on")
            }
            () => None,
        }
    }
}
