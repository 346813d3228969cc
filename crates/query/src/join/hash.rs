//! Hash join: a hash table of the build side, probed with the probe side.
//!
//! A build side that fits into memory is probed by many threads ([`start()`]). Otherwise both sides are spilled into
//! partitions by key hash. Threads join pairs of partitions, and partition those again that are still too large. Equal
//! keys that exceed the memory are joined in blocks: each block of the build side is probed with the whole probe side.
//! The order of the result is undefined.

mod blocks;
pub(crate) mod build;
mod context;
mod matches;
pub(crate) mod memory;
pub(crate) mod partition;
mod probe;
mod rule;
mod spilled;
mod start;
mod stream;
pub(crate) mod table;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::condition::Condition;
use super::joined::{Joined, JoinedBatches};
use super::kind::JoinKind;
use crate::{Batches, Error, Job};

pub use rule::JoinSide;
pub(super) use start::{HashInput, start};

/// Result stream of a hash join.
pub struct HashJoin(JoinedBatches);

impl HashJoin {
    /// Joins two streams; reads the build side, which should be the smaller one, completely.
    ///
    /// # Errors
    /// [`Error::Arrow`] if a type cannot be compared; [`Error::Memory`] if the job has no memory left to spill rows;
    /// errors of reading and spilling.
    pub fn new(
        job: &Job,
        left: Box<dyn Batches>,
        right: Box<dyn Batches>,
        condition: &Condition,
        kind: JoinKind,
        build: JoinSide,
    ) -> Result<HashJoin, Error> {
        let input = |stream: Box<dyn Batches>| HashInput {
            job: job.clone(),
            schema: stream.schema(),
            expected: None,
            open: Box::new(|_| Ok(vec![stream])),
        };
        let (schema, parts) = start(job, [input(left), input(right)], (condition, kind, build))?;
        let joined = Joined { schema, is_ordered: false, is_parallel: true, parts };
        Ok(HashJoin(joined.into_batches()))
    }
}

impl Batches for HashJoin {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.0.next()
    }
}
