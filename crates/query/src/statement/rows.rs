//! The input rows of a statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::cast;
use arrow_schema::SchemaRef;

use crate::batches::InMemory;
use crate::phase::Meter;
use crate::sort::SAMPLE_ROWS;
use crate::table::{Extent, Representation, ScanOptions, Table};
use crate::transform::{Transform, needed};
use crate::{Batches, Error, Job};
use sakiyomi_expression::{Expression, Projection};

/// A table with an optional filter and projection.
#[derive(Debug)]
pub struct Input {
    /// The table.
    pub table: Table,
    /// SQL condition on its rows.
    pub filter: Option<String>,
    /// SQL expressions that replace its columns.
    pub select: Option<String>,
}

impl Input {
    /// Returns all rows and columns of a table.
    #[must_use]
    pub fn all(table: Table) -> Input {
        Input { table, filter: None, select: None }
    }
}

/// An input whose expressions are bound.
#[derive(Debug)]
pub(super) struct Rows {
    table: Table,
    /// Columns that are read.
    columns: Vec<usize>,
    condition: Option<Expression>,
    projection: Option<Projection>,
    representation: Representation,
    /// A condition that an operator evaluates on the rows.
    operator_condition: Option<Expression>,
    /// Names and types of the result as stored in files.
    stored: SchemaRef,
    read: Arc<AtomicU64>,
}

/// Memory of a scan: the limit divided by this, and at most as much as two streams need.
const SCAN_MEMORY_PARTS: usize = 4;
const SCAN_MEMORY_MAX_BYTES: usize = 64 << 20;

/// Bytes assumed for a string and its length: LINEITEM's comments have 27 on average.
const STRING_BYTES: usize = 32;

impl Rows {
    /// Binds an input. With `compact`, streams have the smallest possible types.
    pub(super) fn bind(input: Input, compact: bool) -> Result<Rows, Error> {
        let Input { table, filter, select } = input;
        let schema = table.schema();
        // Computed columns keep the types of the file; columns that are only copied may be narrower.
        let representation = match select {
            None if compact => Representation::COMPACT,
            _ => Representation { contiguous_strings: true, ..Representation::STORED },
        };
        let all: Vec<usize> = (0..schema.fields().len()).collect();
        let scanned = table.scan_schema(&all, representation);
        let condition = filter.map(|text| Expression::condition(&text, &scanned)).transpose()?;
        let projection = select.map(|text| Projection::parse(&text, &scanned)).transpose()?;
        let stored = projection.as_ref().map_or(schema, Projection::schema);
        let columns = needed(condition.as_ref(), projection.as_ref(), all.len());
        let condition = condition.map(|condition| condition.onto(&columns));
        let projection = projection.map(|projection| projection.onto(&columns));
        let (operator_condition, read) = (None, Arc::default());
        Ok(Rows { table, columns, condition, projection, representation, operator_condition, stored, read })
    }

    /// Returns the names and types of the rows as stored in files.
    pub(super) fn stored_schema(&self) -> SchemaRef {
        self.stored.clone()
    }

    /// Returns the names and types of the rows in streams.
    pub(super) fn schema(&self) -> SchemaRef {
        match &self.projection {
            Some(projection) => projection.schema(),
            None => self.table.scan_schema(&self.columns, self.representation),
        }
    }

    /// Returns the table.
    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the columns that are read.
    pub(super) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Returns the number of expressions evaluated on each row.
    pub(super) fn expressions(&self) -> usize {
        let computed = |projection: &Projection| {
            projection.expressions().iter().filter(|item| item.as_column().is_none()).count()
        };
        usize::from(self.condition.is_some()) + self.projection.as_ref().map_or(0, computed)
    }

    /// Returns a sample of about `rows` rows with the columns that are read, and the number that pass the condition.
    pub(super) fn scan_sample(&self, job: &Job, rows: usize) -> Result<(RecordBatch, usize), Error> {
        let sample = self.table.sample(job, &self.columns, rows)?;
        let sample = cast_to(&sample, &self.table.scan_schema(&self.columns, self.representation))?;
        let taken = match &self.condition {
            Some(condition) => condition.select(&sample)?.true_count(),
            None => sample.num_rows(),
        };
        Ok((sample, taken))
    }

    /// Returns the number of rows that a scan reads, if known.
    pub(super) fn scanned_rows(&self) -> Option<u64> {
        self.table.extent(&self.scan_options()).rows
    }

    /// Returns the number of row groups or record batches that a scan reads, each on one thread; 0 for other formats.
    pub(super) fn splits(&self) -> u64 {
        self.table.extent(&self.scan_options()).groups as u64
    }

    /// Returns the bytes that a scan reads.
    pub(super) fn bytes(&self) -> u64 {
        self.table.extent(&self.scan_options()).bytes
    }

    /// Returns a sentence for the result about row groups that were not read, if there are any.
    pub(super) fn notes(&self) -> Vec<String> {
        let Extent { groups, skipped_groups: skipped, .. } = self.table.extent(&self.scan_options());
        let all = groups + skipped;
        let note =
            format!("skipped {skipped} of {all} row groups: by their bounds, no row satisfies the condition");
        (skipped > 0).then_some(note).into_iter().collect()
    }

    /// Approximate bytes of a row in memory; strings are taken as [`STRING_BYTES`].
    pub(super) fn row_bytes(&self) -> u64 {
        let schema = self.schema();
        let widths =
            schema.fields().iter().map(|field| field.data_type().primitive_width().unwrap_or(STRING_BYTES));
        widths.sum::<usize>() as u64
    }

    /// Approximate bytes of all scanned rows in memory, if their number is known.
    pub(super) fn expected_bytes(&self) -> Option<u64> {
        self.scanned_rows().map(|rows| rows.saturating_mul(self.row_bytes()))
    }

    /// Returns whether no condition filters rows.
    pub(super) fn is_all(&self) -> bool {
        self.condition.is_none()
    }

    /// Returns the rows that have been read so far.
    pub(super) fn rows_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Spools a table that can be read only once, so that it can be read repeatedly.
    pub(super) fn spool(&mut self, job: &Job) -> Result<(), Error> {
        self.table.spool(job)
    }

    pub(super) fn is_stream(&self) -> bool {
        self.table.is_stream()
    }

    pub(super) fn has_batches(&self) -> bool {
        self.table.has_batches()
    }

    /// Skips row groups that have no row for which a condition of the operator is true; it is bound to the columns that
    /// are read.
    pub(super) fn skip_by(&mut self, condition: Option<&Expression>) {
        self.operator_condition = condition.cloned();
    }

    /// Restricts the scan to some columns.
    ///
    /// # Panics
    /// If the rows have a condition or a projection.
    pub(super) fn keep(&mut self, columns: &[usize]) {
        assert!(self.condition.is_none() && self.projection.is_none(), "rows that are taken as they are");
        self.columns = columns.to_vec();
    }

    /// Starts the scan: one stream per thread, or a single one in table order.
    pub(super) fn streams(
        &self,
        job: &Job,
        streams: usize,
        ordered: bool,
    ) -> Result<Vec<Box<dyn Batches>>, Error> {
        let options = ScanOptions {
            streams: if ordered { 1 } else { streams.max(1) },
            ordered,
            memory: (job.options().memory / SCAN_MEMORY_PARTS).min(SCAN_MEMORY_MAX_BYTES),
            block: job.options().block,
            ..self.scan_options()
        };
        let scan = self.table.scan(job, &options)?;
        Ok(scan.into_iter().map(|stream| self.transformed(job, stream)).collect())
    }

    fn scan_options(&self) -> ScanOptions {
        let condition = self.condition.as_ref().or(self.operator_condition.as_ref()).cloned();
        let representation = self.representation;
        ScanOptions { representation, condition, ..ScanOptions::new(self.columns.clone()) }
    }

    fn transformed(&self, job: &Job, stream: Box<dyn Batches>) -> Box<dyn Batches> {
        let counted = Counted { stream, job: job.clone(), read: self.read.clone() };
        if self.condition.is_none() && self.projection.is_none() {
            return Box::new(counted);
        }
        Box::new(Transform::new(counted, self.condition.clone(), self.projection.clone()))
    }

    /// Like [`Rows::sample`] with a sort's number of rows, and as a phase of the job.
    pub(super) fn splitter_sample(&self, job: &Job, places: &[usize]) -> Result<RecordBatch, Error> {
        let sampling = Meter::start();
        let sample = self.sample(job, places, SAMPLE_ROWS)?;
        job.phases().add(sampling.stop("sample", 0, Duration::ZERO));
        Ok(sample)
    }

    /// Returns a sample of about `rows` result rows, with only the columns at `places`.
    pub(super) fn sample(&self, job: &Job, places: &[usize], rows: usize) -> Result<RecordBatch, Error> {
        if self.condition.is_none() && self.projection.is_none() {
            let columns: Vec<usize> = places.iter().map(|&place| self.columns[place]).collect();
            return self.table.sample(job, &columns, rows);
        }
        let sample = self.table.sample(job, &self.columns, rows)?;
        let scanned = self.table.scan_schema(&self.columns, self.representation);
        let stream = InMemory::new(scanned.clone(), vec![cast_to(&sample, &scanned)?]);
        let mut taken = Transform::new(stream, self.condition.clone(), self.projection.clone());
        Ok(match taken.next()? {
            Some(batch) => batch.project(places)?,
            None => RecordBatch::new_empty(Arc::new(self.schema().project(places)?)),
        })
    }

    /// Returns a sample of result rows in the types of streams, with only the columns at `places`: about `rows` rows
    /// before the condition.
    pub(super) fn typed_sample(
        &self,
        job: &Job,
        places: &[usize],
        rows: usize,
    ) -> Result<RecordBatch, Error> {
        if self.is_plain() {
            let columns: Vec<usize> = places.iter().map(|&place| self.columns[place]).collect();
            let sample = self.table.sample(job, &columns, rows)?;
            return cast_to(&sample, &self.table.scan_schema(&columns, self.representation));
        }
        self.sample(job, places, rows)
    }

    /// Returns whether rows are taken as they are, without a condition or a projection.
    pub(super) fn is_plain(&self) -> bool {
        self.condition.is_none() && self.projection.is_none()
    }

    /// Returns whether expressions replace the columns.
    pub(super) fn is_projected(&self) -> bool {
        self.projection.is_some()
    }
}

/// Casts a sample from the types of the file to those of the scan.
fn cast_to(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Error> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        let is_same = column.data_type() == field.data_type();
        if is_same { Ok(Arc::clone(column)) } else { cast(column, field.data_type()) }
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
    // A batch without columns needs an explicit row count.
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// A stream that counts its rows.
struct Counted {
    stream: Box<dyn Batches>,
    job: Job,
    read: Arc<AtomicU64>,
}

impl Batches for Counted {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        self.job.check()?;
        let batch = self.stream.next()?;
        if let Some(batch) = &batch {
            self.read.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            self.job.progress().add_rows(batch.num_rows());
        }
        Ok(batch)
    }
}
