//! Record batches of the caller as a table that is read once.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, SchemaRef};
use sakiyomi_io::file::create_unnamed;
use sakiyomi_io::{Access, IoFile};

use super::options::OpenOptions;
use super::source::Source;
use super::types::Shape;
use crate::job::spill_directory;
use crate::{Batches, Error, Job};

/// Name of such a table in errors.
const NAME: &str = "record batches";

/// Bytes collected for one write of a copy.
const COPY_BYTES: usize = 1 << 20;

/// Record batches that were not read yet.
pub(super) struct GivenBatches(Box<dyn Batches>);

impl GivenBatches {
    pub(super) fn new(batches: Box<dyn Batches>) -> GivenBatches {
        GivenBatches(batches)
    }

    /// Copies the batches into an unnamed file, an Arrow IPC stream, as long as `check` succeeds.
    pub(super) fn spool(
        mut self,
        options: &OpenOptions,
        check: &dyn Fn() -> Result<(), Error>,
    ) -> Result<Source, Error> {
        let directory = options.spool.clone().unwrap_or_else(spill_directory);
        let path = Path::new(NAME);
        let refused = |problem: &dyn std::fmt::Display| Error::Table {
            path: path.to_owned(),
            reason: format!(
                "they cannot be copied into an unnamed file in {}: {problem}",
                directory.display()
            ),
        };
        let file = create_unnamed(&directory, Access::Buffered).map_err(|error| refused(&error))?;
        let failed = |error: ArrowError| match error {
            // The source says what the operating system refused.
            ArrowError::IoError(_, source) => refused(&source),
            other => refused(&other),
        };
        let copy: BufWriter<&File> = BufWriter::with_capacity(COPY_BYTES, &file);
        let mut writer = StreamWriter::try_new(copy, &self.0.schema()).map_err(failed)?;
        while let Some(batch) = self.0.next()? {
            check()?;
            writer.write(&batch).map_err(failed)?;
        }
        writer.finish().map_err(failed)?;
        drop(writer);
        let file = IoFile::from_file(file, path, Access::Buffered)?;
        Ok(Source::unnamed(path, file.into()))
    }

    /// Returns streams that share the batches, one for each of `workers` threads.
    pub(super) fn streams(
        self,
        job: &Job,
        columns: &[usize],
        shape: &Shape,
        batch_rows: usize,
        workers: usize,
    ) -> Vec<Box<dyn Batches>> {
        let left = Arc::new(Mutex::new(Some(self.0)));
        let stream = |_| -> Box<dyn Batches> {
            let (job, left, columns) = (job.clone(), Arc::clone(&left), columns.to_vec());
            let shape = shape.clone();
            Box::new(GivenScan { job, left, columns, shape, batch_rows, current: None })
        };
        (0..workers).map(stream).collect()
    }
}

/// Scan state of one worker. A batch is cut into slices without a copy; only columns whose type the scan changes are
/// converted, a slice at a time. The memory of the batches is the caller's, and is not counted.
struct GivenScan {
    job: Job,
    /// The batches that no worker has taken; `None` after the end or an error.
    left: Arc<Mutex<Option<Box<dyn Batches>>>>,
    columns: Vec<usize>,
    shape: Shape,
    batch_rows: usize,
    /// The batch that is cut, and its next row.
    current: Option<(RecordBatch, usize)>,
}

impl GivenScan {
    fn take(&self) -> Result<Option<RecordBatch>, Error> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(batches) = left.as_mut() else { return Ok(None) };
        let next = batches.next();
        if !matches!(next, Ok(Some(_))) {
            *left = None;
        }
        next
    }
}

impl Batches for GivenScan {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shape.schema)
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            self.job.check()?;
            if let Some((batch, next)) = &mut self.current {
                let count = self.batch_rows.min(batch.num_rows() - *next);
                if count > 0 {
                    let slice = batch.slice(*next, count);
                    *next += count;
                    return self.shape.apply(&slice).map(Some);
                }
            }
            self.current = None;
            match self.take()? {
                None => return Ok(None),
                Some(batch) => self.current = Some((batch.project(&self.columns)?, 0)),
            }
        }
    }
}
