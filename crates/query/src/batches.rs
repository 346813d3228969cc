//! Streams of record batches.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::Error;

/// A stream of record batches of one schema. Callers do not call [`Batches::next`] again after an error or the end.
///
/// A multi-threaded operator takes one stream per thread; the assignment of rows to streams is then undefined.
pub trait Batches: Send {
    /// Returns the schema of each batch.
    fn schema(&self) -> SchemaRef;

    /// Returns the next batch, which has at least one row, or `None` at the end.
    ///
    /// # Errors
    /// If the batch cannot be read or computed.
    fn next(&mut self) -> Result<Option<RecordBatch>, Error>;
}

impl Batches for Box<dyn Batches + '_> {
    fn schema(&self) -> SchemaRef {
        (**self).schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        (**self).next()
    }
}

/// A stream of batches in memory.
#[derive(Clone, Debug)]
pub struct InMemory {
    schema: SchemaRef,
    batches: std::vec::IntoIter<RecordBatch>,
}

impl InMemory {
    /// Creates a stream of batches; batches without rows are skipped.
    #[must_use]
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> InMemory {
        InMemory { schema, batches: batches.into_iter() }
    }

    /// Returns the number of the rows that are left.
    pub(crate) fn row_count(&self) -> usize {
        self.batches.as_slice().iter().map(RecordBatch::num_rows).sum()
    }
}

impl Batches for InMemory {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        Ok(self.batches.find(|batch| batch.num_rows() > 0))
    }
}
