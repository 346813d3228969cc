//! What is generated: a table at a scale factor, some of its columns, in some types.

use std::collections::BTreeMap;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;

use super::columns::{ColumnTypes, Projection, row_bytes};
use super::tables::{TpchTable, check_scale};
use crate::{Error, Job};

/// Names the memory of the generator in errors.
pub(super) const GENERATOR_MEMORY: &str = "generating rows";

/// Which rows are generated.
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// The table.
    pub table: TpchTable,
    /// The scale factor, more than 0: 1 is about 1 GB of text in all tables.
    pub scale: f64,
    /// Names of the columns in the order of the result; all columns if there are none.
    pub columns: Vec<String>,
    /// Seed of a random order of the rows. Without one they come in the order of their key.
    pub shuffle: Option<u64>,
    /// Types of the columns.
    pub types: ColumnTypes,
}

/// A checked table to generate.
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

    /// The values of columns of codes, by their places.
    pub(super) fn dictionaries(&self) -> BTreeMap<usize, ArrayRef> {
        self.projection.dictionaries()
    }

    pub(super) fn job(&self) -> &Job {
        &self.job
    }

    /// Rows in all, about.
    pub(super) fn rows(&self) -> u64 {
        self.table.rows(self.scale)
    }

    /// Bytes of a number of rows in memory, about.
    pub(super) fn bytes(&self, rows: u64) -> usize {
        usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(row_bytes(self.schema()))
    }

    /// The rows of a part.
    pub(super) fn part(&self, part: usize) -> Result<Vec<RecordBatch>, Error> {
        let has_comments = self.projection.has_comments();
        let batches = self.table.part(self.scale, part, self.parts, has_comments).map(|batch| {
            self.job.check()?;
            self.projection.apply(&batch?)
        });
        batches.collect()
    }

    /// How many items of some bytes may exist at the same time: at least one, at most two for each thread.
    pub(super) fn window(&self, item_bytes: usize) -> usize {
        let fitting = self.job.available() / item_bytes.max(1);
        fitting.clamp(1, 2 * self.job.options().threads.max(1))
    }
}
