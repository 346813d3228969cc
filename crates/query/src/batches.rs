//! Streams of record batches.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::Error;

/// Record batches of one schema, one after the other. After an error or the end it is not asked again.
///
/// An operator that works on several threads takes one stream for each of them: which rows come from which stream is
/// then undefined.
pub trait Batches: Send {
    /// The schema of each batch.
    fn schema(&self) -> SchemaRef;

    /// The next batch, which has at least one row; none at the end.
    ///
    /// # Errors
    /// If reading or computing it fails.
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

/// Batches that are in memory.
#[derive(Clone, Debug)]
pub struct InMemory {
    schema: SchemaRef,
    batches: std::vec::IntoIter<RecordBatch>,
}

impl InMemory {
    /// A stream of some batches; those without rows are left out.
    #[must_use]
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> InMemory {
        InMemory { schema, batches: batches.into_iter() }
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
