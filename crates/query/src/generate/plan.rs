//! Options of a generated table: scale factor, columns, types, order.

use std::collections::BTreeMap;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;

use super::columns::{ColumnTypes, Projection, row_bytes};
use super::memory::{self, Held};
use super::tables::{TEXT_POOL_BYTES, TpchTable, check_scale};
use crate::{Error, Job};

/// Name of the generator's memory in errors.
pub(super) const GENERATOR_MEMORY: &str = "generating rows";

/// Name of the memory of the standard's text pool in errors.
const TEXT_MEMORY: &str = "generating comments (tables without their comment columns need less)";

/// Options of a generated table.
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// The table.
    pub table: TpchTable,
    /// The scale factor, more than 0: 1 is about 1 GB of text in all tables.
    pub scale: f64,
    /// Names of the columns in the order of the result; all columns if empty.
    pub columns: Vec<String>,
    /// Seed of a random row order; key order if `None`.
    pub shuffle: Option<u64>,
    /// Types of the columns.
    pub types: ColumnTypes,
}

/// Checked options.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    job: Job,
    pub(super) table: TpchTable,
    scale: f64,
    projection: Projection,
    /// Number of parts.
    pub(super) parts: usize,
}

impl Plan {
    pub(super) fn new(job: &Job, options: &GenerateOptions) -> Result<Plan, Error> {
        check_scale(options.scale)?;
        let projection = Projection::new(options.table, &options.columns, options.types)?;
        let parts = options.table.parts(options.scale);
        Ok(Plan { job: job.clone(), table: options.table, scale: options.scale, projection, parts })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.projection.schema
    }

    /// Returns the values of coded columns, by column index.
    pub(super) fn dictionaries(&self) -> BTreeMap<usize, ArrayRef> {
        self.projection.dictionaries()
    }

    pub(super) fn job(&self) -> &Job {
        &self.job
    }

    /// Approximate total rows.
    pub(super) fn rows(&self) -> u64 {
        self.table.rows(self.scale)
    }

    /// Approximate bytes of `rows` rows in memory.
    pub(super) fn bytes(&self, rows: u64) -> usize {
        usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(row_bytes(self.schema()))
    }

    /// Approximate bytes of the rows of a part in memory.
    pub(super) fn part_bytes(&self) -> usize {
        self.bytes(self.rows().div_ceil(self.parts.max(1) as u64))
    }

    /// Returns the rows of a part.
    pub(super) fn part(&self, part: usize) -> impl Iterator<Item = Result<RecordBatch, Error>> {
        let has_comments = self.projection.has_comments();
        self.table.part(self.scale, part, self.parts, has_comments).map(|batch| {
            self.job.check()?;
            self.projection.apply(&batch?)
        })
    }

    /// Reserves the memory of the text that comments are taken from, if there are any.
    ///
    /// # Errors
    /// [`Error::Memory`] if the job does not have that much.
    pub(super) fn text_memory(&self) -> Result<Held, Error> {
        let bytes = if self.projection.has_comments() { TEXT_POOL_BYTES } else { 0 };
        Held::new(&self.job, bytes, TEXT_MEMORY)
    }

    /// Returns the number of items of `item_bytes` that fit into memory, of which `held_bytes` are held already: at
    /// least one, at most two per thread.
    pub(super) fn window(&self, item_bytes: usize, held_bytes: usize) -> usize {
        let fitting = (memory::available(&self.job) + held_bytes) / item_bytes.max(1);
        fitting.clamp(1, 2 * self.job.options().threads.max(1))
    }
}
