//! The result of a join: parts, which threads take in turn.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::{Batches, Error};

/// A part of a result with its number; `None` after the last one.
pub type NextPart = Option<(usize, Box<dyn Batches>)>;

/// Parts of a result.
pub(super) trait Parts: Send + Sync {
    /// Returns the next part with its number, counted from 0; `None` at the end. Any number of threads may call it; a
    /// thread drops a part before it takes the next one, which needs its memory.
    fn next_part(&self) -> Result<NextPart, Error>;
}

/// Joined rows. Clones share one state: each part is returned once.
#[derive(Clone)]
pub struct Joined {
    pub(super) schema: SchemaRef,
    pub(super) is_ordered: bool,
    pub(super) is_parallel: bool,
    pub(super) parts: Arc<dyn Parts>,
}

impl Joined {
    /// Creates a result of one stream.
    pub(super) fn of_stream(stream: Box<dyn Batches>, is_ordered: bool) -> Joined {
        let schema = stream.schema();
        Joined { schema, is_ordered, is_parallel: false, parts: Arc::new(Streams::new(vec![stream])) }
    }

    /// Returns the schema of the batches.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Returns whether the rows of the parts, one after the other, are in the order of the keys, except for rows with
    /// a null key.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// Returns whether there may be several parts.
    #[must_use]
    pub fn is_parallel(&self) -> bool {
        self.is_parallel
    }

    /// Returns the next part with its number, counted from 0; `None` at the end. Any number of threads may call it. A
    /// thread must drop a part before it takes the next one, which needs its memory.
    ///
    /// # Errors
    /// If the rows of the part cannot be read.
    pub fn next_part(&self) -> Result<NextPart, Error> {
        self.parts.next_part()
    }

    /// Returns all rows as one stream.
    #[must_use]
    pub fn into_batches(self) -> JoinedBatches {
        JoinedBatches { joined: self, part: None }
    }
}

/// Stream of all rows of a join.
pub struct JoinedBatches {
    joined: Joined,
    part: Option<Box<dyn Batches>>,
}

impl Batches for JoinedBatches {
    fn schema(&self) -> SchemaRef {
        self.joined.schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            if let Some(part) = &mut self.part
                && let Some(batch) = part.next()?
            {
                return Ok(Some(batch));
            }
            self.part = None;
            match self.joined.next_part()? {
                Some((_, part)) => self.part = Some(part),
                None => return Ok(None),
            }
        }
    }
}

/// Parts that are streams.
pub(super) struct Streams(Mutex<std::iter::Enumerate<std::vec::IntoIter<Box<dyn Batches>>>>);

impl Streams {
    pub(super) fn new(streams: Vec<Box<dyn Batches>>) -> Streams {
        Streams(Mutex::new(streams.into_iter().enumerate()))
    }
}

impl Parts for Streams {
    fn next_part(&self) -> Result<NextPart, Error> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).next())
    }
}
