//! Results: the first rows as a table, all rows as a file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::{DataFusionError, Result};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::file_format::FileFormatFactory;
use datafusion::datasource::file_format::arrow::ArrowFormatFactory;
use datafusion::datasource::file_format::csv::CsvFormatFactory;
use datafusion::datasource::file_format::format_as_file_type;
use datafusion::datasource::file_format::json::JsonFormatFactory;
use datafusion::datasource::file_format::parquet::ParquetFormatFactory;
use datafusion::logical_expr::LogicalPlanBuilder;
use sakiyomi_io::partial_path;

/// The format of a result file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Comma-separated values with a header.
    Csv,
    /// An object a line.
    Json,
    /// Arrow IPC.
    Arrow,
}

impl Format {
    /// Returns the format that the end of a file's name says.
    #[must_use]
    pub fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "parquet" => Some(Format::Parquet),
            "csv" => Some(Format::Csv),
            "json" | "jsonl" | "ndjson" => Some(Format::Json),
            "arrow" | "ipc" => Some(Format::Arrow),
            _ => None,
        }
    }

    fn factory(self) -> Arc<dyn FileFormatFactory> {
        match self {
            Format::Parquet => Arc::new(ParquetFormatFactory::new()),
            Format::Csv => Arc::new(CsvFormatFactory::new()),
            Format::Json => Arc::new(JsonFormatFactory::new()),
            Format::Arrow => Arc::new(ArrowFormatFactory::new()),
        }
    }
}

/// The first rows of a result.
pub struct Preview {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    left: usize,
    is_cut: bool,
}

impl Preview {
    pub(super) fn new(schema: SchemaRef, rows: usize) -> Preview {
        Preview { schema, batches: Vec::new(), left: rows, is_cut: false }
    }

    /// Adds rows while there is room. Whether all of them had room.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> bool {
        let taken = batch.num_rows().min(self.left);
        if taken > 0 {
            self.batches.push(batch.slice(0, taken));
        }
        self.left -= taken;
        self.is_cut |= taken < batch.num_rows();
        !self.is_cut
    }

    /// Returns whether there are more rows.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Its number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Returns the number in its first row and column, of statements that count what they have written.
    pub(super) fn first_number(&self) -> Option<u64> {
        let column = self.batches.first()?.columns().first()?;
        column.as_primitive_opt::<UInt64Type>().map(|numbers| numbers.value(0))
    }
}

/// Returns the rows as a table, with its columns' names.
///
/// # Errors
/// If a value cannot be printed.
pub fn print(preview: &Preview) -> Result<String> {
    let empty = [RecordBatch::new_empty(Arc::clone(&preview.schema))];
    let batches = if preview.batches.is_empty() { &empty[..] } else { &preview.batches[..] };
    Ok(pretty_format_batches(batches)?.to_string())
}

/// A file that gets its name when it is whole, and is removed if it never is.
pub(super) struct Partial(PathBuf);

impl Partial {
    /// # Errors
    /// If the directory of the file does not exist, or the path is one.
    pub(super) fn new(path: PathBuf) -> Result<Partial> {
        let path = std::path::absolute(path)?;
        let directory = path.parent().unwrap_or(&path);
        if !directory.is_dir() {
            let directory = directory.display();
            return Err(DataFusionError::Execution(format!(
                "{directory} is not a directory; create it first"
            )));
        }
        Ok(Partial(partial_path(&path)?))
    }

    /// Returns where it is written to.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// If its directory cannot be written to any more.
    pub(super) fn complete(self) -> Result<()> {
        // Without `.partial`, after all symbolic links.
        std::fs::rename(&self.0, self.0.with_extension(""))?;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // It is not there if it was completed.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the statement that writes the rows of another one to a file.
///
/// # Errors
/// If the path cannot be one of DataFusion's.
pub(super) fn written_to(frame: DataFrame, path: &Path, format: Format) -> Result<DataFrame> {
    let absolute = std::path::absolute(path)?;
    let name = absolute.to_str().ok_or_else(|| {
        DataFusionError::Execution(format!("{}: the name is not UTF-8; choose another", path.display()))
    })?;
    let (state, plan) = frame.into_parts();
    let options = HashMap::from([("single_file_output".to_owned(), "true".to_owned())]);
    let file_type = format_as_file_type(format.factory());
    let plan = LogicalPlanBuilder::copy_to(plan, name.to_owned(), file_type, options, Vec::new())?.build()?;
    Ok(DataFrame::new(state, plan))
}
