//! What the parts of one sort share.

use std::sync::Arc;

use arrow_schema::{DataType, SchemaRef};

use super::key::Keys;
use super::plan::MemoryPlan;
use super::row::dictionary::Dictionary;
use super::row::layout::Layout;
use super::spill::Spills;
use crate::order::SortKey;
use crate::{Error, Job};

/// What the parts of one sort share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) job: Job,
    pub(crate) layout: Arc<Layout>,
    pub(crate) keys: Keys,
    pub(crate) dictionaries: Arc<[Dictionary]>,
    pub(crate) memory: MemoryPlan,
    pub(crate) spills: Spills,
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
    ) -> Result<(Arc<Layout>, Keys, Arc<[Dictionary]>), Error> {
        let layout = Layout::new(schema, keys, numbered)?;
        let keys = Keys::new(&layout, keys)?;
        let dictionaries = schema.fields().iter().zip(&layout.columns).filter_map(|(field, column)| {
            let is_code = matches!(column.form, super::row::layout::Form::Code { .. });
            match field.data_type() {
                DataType::Dictionary(keys, values) if is_code => {
                    Some(Dictionary::new(job, field.name(), keys, values))
                }
                _ => None,
            }
        });
        let dictionaries = dictionaries.collect();
        Ok((Arc::new(layout), keys, dictionaries))
    }
}
