//! State shared by the parts of one sort.

use std::sync::Arc;

use arrow_schema::{DataType, SchemaRef};
use sakiyomi_io::buffer::class_size;

use super::key::Keys;
use super::memory::SortMemory;
use super::plan::MemoryPlan;
use super::row::dictionary::Dictionary;
use super::row::layout::{Form, Layout};
use crate::job::Reservation;
use crate::order::SortKey;
use crate::spill::SpillFiles;
use crate::{Error, Job};

/// Row layout, sort keys and dictionaries.
pub(crate) type RowParts = (Arc<Layout>, Keys, Arc<[Dictionary]>);

/// State shared by the parts of one sort.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) job: Job,
    pub(crate) layout: Arc<Layout>,
    pub(crate) keys: Keys,
    pub(crate) dictionaries: Arc<[Dictionary]>,
    pub(crate) memory: MemoryPlan,
    /// The reserved memory that the plan divides.
    pub(crate) buffers: Arc<SortMemory>,
    pub(crate) spills: SpillFiles,
    /// Heap reservation for ordering rows.
    pub(crate) _heap: Reservation,
    /// Maximum rows of an output batch.
    pub(crate) batch_rows: usize,
    /// Maximum rows of the output.
    pub(crate) limit: Option<u64>,
}

impl Context {
    /// Builds the row format for a schema. `numbered` adds row numbers, which make the sort stable.
    ///
    /// # Errors
    /// [`Error::Query`] if a column cannot be stored in rows or used as a key.
    pub(crate) fn rows(
        job: &Job,
        schema: &SchemaRef,
        keys: &[SortKey],
        numbered: bool,
    ) -> Result<RowParts, Error> {
        let layout = Layout::new(schema, keys, numbered)?;
        let keys = Keys::new(&layout, keys)?;
        let columns = schema.fields().iter().zip(&layout.columns);
        let dictionaries = columns.filter_map(|(field, column)| match (field.data_type(), &column.form) {
            (DataType::Dictionary(keys, values), Form::Code { width, .. }) => {
                Some(Dictionary::new(job, field.name(), keys, values, *width))
            }
            _ => None,
        });
        let dictionaries = dictionaries.collect();
        Ok((Arc::new(layout), keys, dictionaries))
    }

    /// Returns the writes in flight of a run whose longest chunk has `longest` bytes, and the bytes of its chunks.
    pub(crate) fn write_memory(&self, longest: usize) -> (usize, usize) {
        let plan = &self.memory;
        let in_flight = if longest > plan.chunk_bytes { 1 } else { plan.writes_in_flight };
        // One is filled or handed over.
        (in_flight, (in_flight + 1) * class_size(longest.max(plan.chunk_bytes)))
    }
}
