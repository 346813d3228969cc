//! Batches of sorted rows.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::phase::Meter;
use crate::sort::chunk::Chunk;
use crate::sort::context::Context;
use crate::sort::memory::PieceGrants;
use crate::sort::row::gather::{Gatherer, Rows};
use crate::{Batches, Error};

/// A stream of sorted rows, which follow those of the previous partition.
///
/// A thread must drop a partition before it takes the next one, which needs its memory.
pub struct Partition {
    context: Arc<Context>,
    chunks: Vec<Chunk>,
    places: Vec<u32>,
    at: usize,
    gatherer: Gatherer,
    /// Memory of the chunks, which are dropped before it.
    _grants: PieceGrants,
}

impl Partition {
    /// Creates a partition of the rows at `places` in chunks.
    pub(crate) fn new(
        context: &Arc<Context>,
        chunks: Vec<Chunk>,
        places: Vec<u32>,
        grants: PieceGrants,
    ) -> Partition {
        let gatherer = Gatherer::new(&context.layout, &context.dictionaries);
        Partition { context: Arc::clone(context), chunks, places, at: 0, gatherer, _grants: grants }
    }

    /// Keeps only the first `rows` rows.
    pub(super) fn first(mut self, rows: u64) -> Partition {
        self.places.truncate(usize::try_from(rows).unwrap_or(usize::MAX));
        self
    }

    /// Returns the number of rows not yet returned.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.places.len() - self.at
    }
}

impl Batches for Partition {
    fn schema(&self) -> SchemaRef {
        self.context.layout.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.context.job.check()?;
        let places = &self.places[self.at..];
        if places.is_empty() {
            return Ok(None);
        }
        let meter = Meter::start();
        let rows = Rows { blocks: &self.chunks, shift: self.context.memory.shift() };
        let (batch, taken) = self.gatherer.batch(rows, places, self.context.batch_rows)?;
        self.at += taken;
        self.context.job.phases().add(meter.stop("gather", 0, Duration::ZERO));
        Ok(Some(batch))
    }
}
