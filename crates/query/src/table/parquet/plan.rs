//! The parts of a scan that its workers share.

use std::sync::Arc;

use arrow_schema::Fields;

use super::footer::ParquetFile;
use crate::table::types::Shape;

/// Which files and columns are decoded, and to which types.
#[derive(Debug)]
pub(in crate::table) struct ParquetPlan {
    pub(in crate::table) files: Arc<Vec<ParquetFile>>,
    /// The columns that are decoded, in the order of the files, each once.
    pub(in crate::table) columns: Vec<usize>,
    /// The scan's types of all columns of the table.
    pub(in crate::table) types: Fields,
    pub(in crate::table) shape: Shape,
    pub(in crate::table) batch_rows: usize,
}
