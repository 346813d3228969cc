//! Shapes of tables and results: all that a prediction knows of data.

use serde::Serialize;

use super::error::CostError;
use super::operators::{Codec, FileFormat, OperatorCosts, ValueKind};

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ColumnShape {
    /// The kind of its values.
    pub kind: ValueKind,
    /// Mean bytes of a value in memory: of a text its characters, of a code one or two.
    pub value_bytes: f64,
    /// Bytes of the column in the file, compressed as it is there.
    pub file_bytes: u64,
    /// Bytes of the column before compression; the same if it is not compressed.
    pub encoded_bytes: u64,
    /// Its compression.
    pub codec: Codec,
    /// Whether the file has its values as codes of a dictionary.
    pub is_dictionary: bool,
}

/// Bytes of the length that a packed row has before each text.
const TEXT_LENGTH_BYTES: f64 = 4.0;

impl ColumnShape {
    /// Bytes of a value in a packed row.
    #[must_use]
    pub fn packed_bytes(&self) -> f64 {
        self.value_bytes + if self.kind == ValueKind::Text { TEXT_LENGTH_BYTES } else { 0.0 }
    }
}

/// A table, or a result: the columns that a plan touches, in any order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableShape {
    /// Number of rows.
    pub rows: u64,
    /// The format of its files.
    #[serde(rename = "file_format")]
    pub format: FileFormat,
    /// Columns that are read or written.
    pub columns: Vec<ColumnShape>,
    /// The part of its bytes that is in the page cache, 0 to 1.
    pub cached_ratio: f64,
    /// Whether its rows are in the order that the operator needs.
    pub is_sorted: bool,
}

impl TableShape {
    /// Bytes of the columns in the files.
    #[must_use]
    pub fn file_bytes(&self) -> f64 {
        self.columns.iter().map(|column| column.file_bytes as f64).sum()
    }

    /// Bytes of a packed row.
    #[must_use]
    pub fn row_bytes(&self) -> f64 {
        self.columns.iter().map(ColumnShape::packed_bytes).sum::<f64>().max(1.0)
    }

    /// Bytes of all packed rows.
    #[must_use]
    pub fn packed_bytes(&self) -> f64 {
        self.rows as f64 * self.row_bytes()
    }

    /// CPU time to decode all values, in nanoseconds, decompression included.
    pub(crate) fn decode_ns(&self, costs: &OperatorCosts) -> Result<f64, CostError> {
        let column = |column: &ColumnShape| {
            let cost = costs.decode(self.format, column.kind, column.is_dictionary);
            let cost = cost.ok_or_else(|| CostError::operator("decoding", self.format, column.kind))?;
            let codec = costs.codec(column.codec).ok_or(CostError::Codec { codec: column.codec })?;
            let text =
                if column.kind == ValueKind::Text { column.value_bytes * cost.ns_per_byte } else { 0.0 };
            let restored = column.encoded_bytes as f64 * codec.restore_ns_per_byte;
            Ok(self.rows as f64 * (cost.ns_per_value + text) + restored)
        };
        self.columns.iter().map(column).sum()
    }

    /// CPU time to encode all values, in nanoseconds, compression included.
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

/// The key of a sort or of a join.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct KeyShape {
    /// Rows that share the 64 bits by which rows are sorted first, in the mean; 1 if these decide the order.
    pub rows_per_prefix: f64,
}

impl KeyShape {
    /// A key whose first 64 bits decide the order.
    pub const EXACT: KeyShape = KeyShape { rows_per_prefix: 1.0 };

    /// CPU time to order rows of the same prefix, in nanoseconds: `n log2 k` comparisons.
    pub(crate) fn ties_ns(self, rows: f64, costs: &OperatorCosts) -> f64 {
        rows * self.rows_per_prefix.clamp(1.0, rows.max(1.0)).log2() * costs.comparison_ns
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

    /// The other one.
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
        /// Rows that are wanted, if not all (`--limit`).
        limit_rows: Option<u64>,
        /// Whether equal keys keep their order, which range partitioning by several threads does not.
        is_stable: bool,
    },
    /// Rows of two tables with equal keys.
    Join {
        /// The key.
        key: KeyShape,
        /// Whether a hash join may build its table of either side, or of one only.
        build: Option<Side>,
    },
    /// Groups of a table.
    Aggregate {
        /// Number of groups.
        groups: u64,
        /// Bytes of a group in the table of groups: its key and the states of its aggregates.
        group_bytes: f64,
        /// Aggregates of each row.
        aggregates: u64,
    },
}

/// All that is to be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Task {
    /// The operator.
    pub operator: Operator,
    /// Its tables: two for a join, else one.
    pub tables: Vec<TableShape>,
    /// Operations of expressions on each row of the first table, those of a filter among them.
    pub expressions: u64,
    /// The part of the first table's rows that its filter leaves, 0 to 1.
    pub selected_ratio: f64,
    /// The result, if it is written to a file.
    pub output: Option<TableShape>,
}

impl Task {
    /// Why it cannot be planned, if it cannot.
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
