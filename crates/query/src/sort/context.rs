//! What the parts of one sort share.

use std::sync::Arc;

use arrow_schema::{DataType, SchemaRef};

use super::key::Keys;
use super::plan::MemoryPlan;
use super::row::dictionary::Dictionary;
use super::row::layout::{Form, Layout};
use super::spill::Spills;
use crate::job::Reservation;
use crate::order::SortKey;
use crate::{Error, Job};

/// Places in rows, the columns that order them, and their dictionaries.
pub(crate) type RowParts = (Arc<Layout>, Keys, Arc<[Dictionary]>);

/// What the parts of one sort share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) job: Job,
    pub(crate) layout: Arc<Layout>,
    pub(crate) keys: Keys,
    pub(crate) dictionaries: Arc<[Dictionary]>,
    pub(crate) memory: MemoryPlan,
    pub(crate) spills: Spills,
    /// Memory in which rows are ordered.
    pub(crate) _heap: Reservation,
    /// Rows of the batches that come out, at most.
    pub(crate) batch_rows: usize,
    /// Rows that come out, at most.
    pub(crate) limit: Option<u64>,
}

impl Context {
    /// For batches of a schema. `numbered` sorts keep the order of equal rows.
    ///
    /// # Errors
    /// [`Error::Query`] if a column cannot be held in rows, or not ordered by.
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
}
