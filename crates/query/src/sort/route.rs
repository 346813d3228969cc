//! Assignment of rows to partitions by the caller of a sort.

use std::fmt;

use arrow_array::RecordBatch;

use crate::Error;

/// Assigns rows to partitions.
pub(crate) trait Router: fmt::Debug + Send + Sync {
    /// Returns the number of partitions.
    fn partitions(&self) -> usize;

    /// Returns whether the rows of a partition need no order.
    fn is_single(&self, partition: usize) -> bool;

    /// Appends the partition of each row of a batch; [`DROPPED_ROW_ROUTE`] for rows that are not needed.
    ///
    /// # Errors
    /// If the keys of the rows cannot be computed.
    fn route(&self, batch: &RecordBatch, partitions: &mut Vec<u32>) -> Result<(), Error>;
}

/// Partition number of rows that are dropped.
pub(crate) const DROPPED_ROW_ROUTE: u32 = u32::MAX;
