//! Result streams of hash joins.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::context::Context;
use crate::join::pairs::Pairs;
use crate::join::result::{RESULT_BATCH_ROWS, ResultBatches};
use crate::{Batches, Error};

/// Joined rows in batches of any size.
pub(super) trait Source: Send {
    /// Returns the next result batch and the maximum bytes of its rows; `None` at the end.
    fn next(
        &mut self,
        context: &Context,
        pairs: &mut Pairs,
        result: &ResultBatches,
    ) -> Result<Option<(RecordBatch, usize)>, Error>;
}

/// Rows of a source; `G` is dropped after it.
pub(super) struct ResultStream<S, G> {
    context: Arc<Context>,
    /// `None` at the end.
    source: Option<S>,
    pairs: Pairs,
    result: ResultBatches,
    _guard: G,
}

impl<S: Source, G: Send> ResultStream<S, G> {
    pub(super) fn new(context: &Arc<Context>, source: S, guard: G) -> ResultStream<S, G> {
        let result = ResultBatches::new(&context.job, context.layout.schema.clone(), RESULT_BATCH_ROWS);
        let pairs = Pairs::with_capacity(RESULT_BATCH_ROWS);
        ResultStream { context: Arc::clone(context), source: Some(source), pairs, result, _guard: guard }
    }
}

impl<S: Source, G: Send> Batches for ResultStream<S, G> {
    fn schema(&self) -> SchemaRef {
        self.context.layout.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            if let Some(batch) = self.result.pop() {
                return Ok(Some(batch));
            }
            let Some(source) = &mut self.source else { return Ok(None) };
            self.context.job.check()?;
            match source.next(&self.context, &mut self.pairs, &self.result)? {
                Some((batch, row_bytes)) => self.result.push(batch, row_bytes)?,
                None => {
                    self.source = None;
                    self.result.finish()?;
                }
            }
        }
    }
}
