//! `sort`, `join` and `aggregate`: statements on tables, whose results are files or streams of record batches.
//!
//! A statement runs on a thread of its own, and on those that it starts. The thread that wants its rows or its end waits for
//! them without the interpreter, and looks after signals and the display of progress from time to time.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use arrow_array::ffi_stream::ArrowArrayStreamReader;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use sakiyomi_io::{Access, EngineSpec};
use sakiyomi_model::Bytes;
use sakiyomi_query::join::{JoinKind, JoinMethod};
use sakiyomi_query::output::Target;
use sakiyomi_query::statement::{BatchSender, Destination, Join, Sort, Streamed, batch_stream};
use sakiyomi_query::table::Table as QueryTable;
use sakiyomi_query::{Batches, Error as QueryError, Job};
use sakiyomi_report::{Document, Run};
use sakiyomi_tables::{
    AggregateLists, Error as TablesError, Figures, GROUP_ROWS_MAX, Measurement, Operation, Outputs, Planned,
    Request, Resources, RowOptions, batches_input, compression, format, inputs, plan, spill_compression,
};

use crate::arrow::{self, STREAM, Table, of_arrow};
use crate::buffer;
use crate::error::{Error, closed, exception, of_file, sentence};
use crate::live;
use crate::options::wrong;
use crate::process::OfProcess;
use crate::reader::nanos;
use crate::simulation::{build, json};

/// Time between two polls of signals and the progress.
const POLL_PERIOD: Duration = Duration::from_millis(50);

/// Time for an interrupted statement to end by itself, so that its files are removed when the exception is raised. One that
/// waits for a pipe ends later, without a result.
const CANCEL_GRACE: Duration = Duration::from_millis(300);

/// Name of record batches in results.
const BATCHES: &str = "record batches";

/// A table: its files, or an object with `__arrow_c_stream__`. The caller says which, because a DataFrame, too, can be
/// iterated over names.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TableArgument<'py> {
    files: Vec<PathBuf>,
    batches: Option<Bound<'py, PyAny>>,
}

/// A table that the thread of the statement opens.
enum Source {
    Files(Vec<PathBuf>),
    Batches(Box<dyn Batches>),
}

impl TableArgument<'_> {
    fn source(self) -> PyResult<Source> {
        match self.batches {
            None => {
                let files = self.files;
                if let Some(path) = files.iter().find(|path| path.as_path() == Path::new("-")) {
                    return Err(PyValueError::new_err(format!(
                        "{}: only the command reads standard input; give a path, or record batches",
                        path.display()
                    )));
                }
                Ok(Source::Files(files))
            }
            Some(table) => {
                let capsule = table.call_method0("__arrow_c_stream__")?;
                let reader = buffer::stream_reader(capsule.cast::<PyCapsule>()?, STREAM);
                let reader =
                    reader.map_err(|error| error.map_or_else(|error| error, |error| of_arrow(&error)))?;
                Ok(Source::Batches(Box::new(Given { schema: reader.schema(), reader })))
            }
        }
    }
}

/// Record batches of another library. Reading them may need the interpreter, which no thread holds that waits for them.
struct Given {
    schema: SchemaRef,
    reader: ArrowArrayStreamReader,
}

impl Batches for Given {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        let failed = |error: ArrowError| {
            let reason = match error {
                // Arrow's own words for an error that the producer describes.
                ArrowError::CDataInterface(reason) => reason,
                other => other.to_string(),
            };
            let remedy = if has_no_type(&self.schema) { NO_TYPE_REMEDY } else { "" };
            let reason = format!("they cannot be read: {}{remedy}", reason.trim_end());
            QueryError::Table { path: BATCHES.into(), reason }
        };
        let next = self.reader.by_ref().find(|next| !matches!(next, Ok(batch) if batch.num_rows() == 0));
        next.transpose().map_err(failed)
    }
}

/// Polars passes columns of Arrow's type null with a buffer, which the interface forbids.
const NO_TYPE_REMEDY: &str =
    " A column has the type null, as of an empty list in Polars: cast it to another type";

/// Returns whether a column, or a part of one, has Arrow's type null.
fn has_no_type(schema: &SchemaRef) -> bool {
    schema.flattened_fields().iter().any(|field| field.data_type().is_null())
}

/// Rows, and the resources of a statement, by the options of the commands.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct StatementOptions {
    #[pyo3(item("where"))]
    filter: Option<String>,
    select: Option<String>,
    input_format: Option<String>,
    memory: String,
    threads: Option<usize>,
    method: Option<String>,
    direct: Option<bool>,
    block: Option<String>,
    spill: Vec<PathBuf>,
    spill_compression: String,
    output: Option<PathBuf>,
    format: Option<String>,
    compression: Option<String>,
    row_group: u32,
}

/// Most threads, as the commands have it.
const THREADS_MAX: usize = 1024;

impl StatementOptions {
    fn rows(&self) -> RowOptions {
        RowOptions { filter: self.filter.clone(), select: self.select.clone() }
    }

    fn request(&self, operation: Operation, sources: &[Source]) -> PyResult<Request> {
        if self.threads.is_some_and(|threads| !(1..=THREADS_MAX).contains(&threads)) {
            return Err(PyValueError::new_err(format!("threads is 1 to {THREADS_MAX}")));
        }
        let bytes = |name, text: &str| text.parse::<Bytes>().map_err(|error| wrong(name, &error));
        let method = self.method.as_deref().map(|text| text.parse::<EngineSpec>());
        let resources = Resources {
            memory: bytes("memory", &self.memory)?,
            threads: self.threads,
            engine: method.transpose().map_err(|error| wrong("method", &error))?,
            access: self.direct.map(|direct| if direct { Access::Direct } else { Access::Buffered }),
            block: self.block.as_deref().map(|text| bytes("block", text)).transpose()?,
            spill: self.spill.clone(),
            spill_compression: spill_compression("spill_compression", &self.spill_compression)
                .map_err(|error| of_tables(&error))?,
        };
        resources.options().map_err(|error| of_tables(&error))?;
        let input_format = self.input_format.as_deref().map(|name| format("input_format", name)).transpose();
        let tables = sources.iter().map(|source| match source {
            Source::Files(files) => files.clone(),
            Source::Batches(_) => Vec::new(),
        });
        Ok(Request {
            operation,
            tables: tables.collect(),
            format: input_format.map_err(|error| of_tables(&error))?,
            resources,
        })
    }

    /// Returns the destination, and the rows if they are a stream.
    fn destination(&self) -> PyResult<(Destination, Option<Receiver<Streamed>>)> {
        let Some(path) = &self.output else {
            let (sender, receiver): (BatchSender, _) = batch_stream();
            return Ok((Destination::Stream(sender), Some(receiver)));
        };
        if path == Path::new("-") {
            return Err(PyValueError::new_err("-: only the command writes to standard output; give a path"));
        }
        if !(1..=GROUP_ROWS_MAX).contains(&self.row_group) {
            return Err(PyValueError::new_err(format!("row_group is 1 to {GROUP_ROWS_MAX}")));
        }
        let refused = |error: TablesError| of_tables(&error);
        let outputs = Outputs {
            format: self.format.as_deref().map(|name| format("format", name)).transpose().map_err(refused)?,
            compression: (self.compression.as_deref())
                .map(|name| compression("compression", name))
                .transpose()
                .map_err(refused)?,
            row_group: self.row_group,
        };
        let options = outputs.options(path).map_err(refused)?;
        Ok((Destination::File { target: Target::File(path.clone()), options }, None))
    }
}

/// Number of the error "no space left on device", the same on every architecture of Linux.
const ENOSPC: i32 = 28;

/// Makes an exception of an error of a statement.
fn of_tables(error: &TablesError) -> PyErr {
    match error {
        TablesError::Option(problem) => PyValueError::new_err(problem.clone()),
        TablesError::Query(QueryError::Io(error)) => of_file(error),
        TablesError::Query(QueryError::SpillFull { .. }) => PyOSError::new_err((ENOSPC, sentence(error))),
        _ => exception(error),
    }
}

/// The columns of an aggregation for each function.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct AggregateOptions {
    by: Option<String>,
    sum: Vec<String>,
    avg: Vec<String>,
    min: Vec<String>,
    max: Vec<String>,
    distinct: Vec<String>,
    count: bool,
}

/// A statement that runs.
pub(crate) struct Running {
    state: Mutex<State>,
    cancel: Cancel,
    /// Called from time to time while a thread of Python's waits; None without a display.
    show: Option<Py<PyAny>>,
}

#[derive(Default)]
struct State {
    /// The rows of a stream; `None` after the last one.
    rows: Option<Receiver<Streamed>>,
    /// The end of the statement; `None` after it.
    end: Option<Receiver<End>>,
    /// The document of the result, once the statement has succeeded.
    document: Option<String>,
    is_closed: bool,
}

/// How a statement ends: with the document of its result, or an error.
type End = Result<String, TablesError>;

/// The job of a statement, once it was opened, and whether it is cancelled.
#[derive(Clone, Default)]
struct Cancel(Arc<Mutex<(bool, Option<Job>)>>);

impl Cancel {
    fn cancel(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = true;
        if let Some(job) = &state.1 {
            job.cancel();
        }
    }

    /// Takes the job, which is cancelled at once if its statement is.
    fn job(&self, job: &Job) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0 {
            job.cancel();
        }
        state.1 = Some(job.clone());
    }

    /// Returns the job's step, and the rows done and to do.
    fn progress(&self) -> Option<(&'static str, u64, u64)> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = state.1.as_ref()?.progress().snapshot();
        (!now.step.is_empty()).then_some((now.step, now.done_rows, now.total_rows))
    }
}

/// The next of a statement.
enum Next {
    Schema(SchemaRef),
    Batch(RecordBatch),
    End,
    Failed(TablesError),
    /// The job's thread has ended by a panic, which is on standard error.
    Panicked,
    Closed,
    NotYet,
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels the statement, and takes nothing of it any more, without the interpreter.
    pub(crate) fn end(&self) {
        self.cancel.cancel();
        let mut state = self.lock();
        // A statement that waits for its reader ends.
        state.rows = None;
        state.is_closed = true;
    }

    /// Waits for the next for a limited time, without the interpreter.
    fn poll(&self, timeout: Duration) -> Next {
        let mut state = self.lock();
        if state.is_closed {
            return Next::Closed;
        }
        if let Some(rows) = &state.rows {
            match rows.recv_timeout(timeout) {
                Ok(Streamed::Schema(schema)) => return Next::Schema(schema),
                Ok(Streamed::Batch(batch)) => return Next::Batch(batch),
                Err(RecvTimeoutError::Timeout) => return Next::NotYet,
                Err(RecvTimeoutError::Disconnected) => state.rows = None,
            }
        }
        let Some(end) = &state.end else { return Next::End };
        let ended = match end.recv_timeout(timeout) {
            Ok(Ok(document)) => {
                state.document = Some(document);
                Next::End
            }
            Ok(Err(error)) => Next::Failed(error),
            Err(RecvTimeoutError::Timeout) => return Next::NotYet,
            Err(RecvTimeoutError::Disconnected) => Next::Panicked,
        };
        state.end = None;
        ended
    }
}

/// A statement, which is cancelled when this is dropped.
struct Statement {
    running: Arc<Running>,
}

impl Statement {
    /// Starts a statement on a thread of its own.
    fn start(
        py: Python<'_>,
        operation: Operation,
        tables: Vec<TableArgument<'_>>,
        options: &StatementOptions,
        show: Option<Py<PyAny>>,
    ) -> PyResult<Statement> {
        let begun = Measurement::begin();
        let sources: Vec<Source> = tables.into_iter().map(TableArgument::source).collect::<PyResult<_>>()?;
        let request = options.request(operation, &sources)?;
        let (destination, rows) = options.destination()?;
        let (sender, end): (SyncSender<End>, _) = sync_channel(1);
        let state = State { rows, end: Some(end), document: None, is_closed: false };
        let cancel = Cancel::default();
        let running = Arc::new(Running { state: Mutex::new(state), cancel: cancel.clone(), show });
        let guard = live::begin(&running);
        let work = move || {
            // Fails if nobody waits for the end any more.
            let _ = sender.send(run(&begun, &request, sources, destination, &cancel));
            drop(guard);
        };
        py.detach(|| thread::Builder::new().name("sakiyomi-query".into()).spawn(work))
            .map_err(|error| exception(&error))?;
        Ok(Statement { running })
    }

    /// Waits for the next, while signals are looked after and the progress is shown. May be called with or without the
    /// interpreter.
    fn next(&self) -> PyResult<Next> {
        let mut has_shown = false;
        let next = loop {
            let next = released(|| self.running.poll(POLL_PERIOD));
            if !matches!(next, Next::NotYet) {
                break Ok(next);
            }
            // None: the interpreter is ending, and has no signals any more.
            let looked = Python::try_attach(|py| {
                py.check_signals()?;
                has_shown |= self.show(py)?;
                Ok(())
            });
            if let Some(Err(error)) = looked {
                self.close();
                break Err(error);
            }
        };
        if has_shown {
            Python::try_attach(|py| self.hide(py)).transpose()?;
        }
        next
    }

    fn show(&self, py: Python<'_>) -> PyResult<bool> {
        let (Some(show), Some(now)) = (&self.running.show, self.running.cancel.progress()) else {
            return Ok(false);
        };
        show.call1(py, now)?;
        Ok(true)
    }

    fn hide(&self, py: Python<'_>) -> PyResult<()> {
        self.running.show.as_ref().map_or(Ok(()), |show| show.call0(py).map(drop))
    }

    /// Cancels the statement, and waits a short time for its end. May be called with or without the interpreter.
    fn close(&self) {
        released(|| {
            self.running.end();
            let end = self.running.lock().end.take();
            if let Some(end) = end {
                let _ = end.recv_timeout(CANCEL_GRACE);
            }
        });
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        // The rows end with this, and with them a statement that waits for their reader.
        self.running.cancel.cancel();
    }
}

/// Runs work without the interpreter, whether this thread holds it or not.
fn released<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let mut work = Some(work);
    let mut run = || work.take().expect("run once")();
    match Python::try_attach(|py| py.detach(&mut run)) {
        Some(done) => done,
        None => run(),
    }
}

/// Runs a statement to its end.
fn run(
    begun: &Measurement,
    request: &Request,
    sources: Vec<Source>,
    destination: Destination,
    cancel: &Cancel,
) -> End {
    let has_batches = sources.iter().any(|source| matches!(source, Source::Batches(_)));
    let planned = if has_batches { Planned::default() } else { plan(request, &destination)? };
    let job = request.resources.job(planned.plan.as_ref())?;
    cancel.job(&job);
    let options = request.open_options(&planned);
    let (mut tables, mut files) = (Vec::new(), Vec::new());
    for source in sources {
        job.check()?;
        tables.push(match source {
            Source::Files(paths) => {
                let table = QueryTable::open(&paths, &options)?;
                files.extend(inputs(&paths, &table));
                table
            }
            Source::Batches(batches) => {
                files.push(batches_input(BATCHES));
                QueryTable::of_batches(batches, &options)?
            }
        });
    }
    let statement = request.operation.clone().statement(tables);
    let outcome = statement.run(&job, &destination, planned.plan.as_ref())?;
    let figures = Figures::of(request, files, planned, &destination, &outcome);
    let result = begun.result(figures, &job, &outcome);
    let run = Run { wall_ns: Some(nanos(begun.elapsed())), ..build() };
    json(&Document::new(run, result)).map_err(|error| TablesError::Option(error.to_string()))
}

/// The rows of a statement, computed while they are read.
#[pyclass(frozen, module = "sakiyomi")]
pub(crate) struct QueryStream {
    statement: Arc<OfProcess<Statement>>,
    schema: SchemaRef,
}

/// Name of a statement in messages.
const NAME: &str = "this result";

#[pymethods]
impl QueryStream {
    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Returns the next batch; None after the last one.
    fn take(&self) -> PyResult<Option<Table>> {
        match self.statement.get(NAME)?.next()? {
            Next::Batch(batch) => Ok(Some(Table::of(batch))),
            next => ended(next).map(|()| None),
        }
    }

    /// Returns the rows that are left as a stream of the interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A request is for the consumer's convenience; it casts what comes otherwise.
        drop(requested_schema);
        self.statement.get(NAME)?;
        let rows = RowStream { statement: Arc::clone(&self.statement), schema: Arc::clone(&self.schema) };
        arrow::stream(py, Box::new(rows))
    }

    /// Returns the schema of the interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow::schema(py, &self.schema)
    }

    /// Returns the document of the result; None until all rows were read.
    fn document(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let statement = self.statement.get(NAME)?;
        Ok(py.detach(|| statement.running.lock().document.clone()))
    }

    /// Ends the statement. Rows that were taken stay valid.
    fn close(&self) {
        if self.statement.is_own() {
            self.statement.any_process().close();
        }
    }
}

/// Returns the error of a statement without further rows, if it has one.
fn ended(next: Next) -> PyResult<()> {
    match next {
        Next::Failed(error) => Err(of_tables(&error)),
        Next::Panicked => {
            Err(Error::new_err("the statement ended without a result, by an error in sakiyomi"))
        }
        Next::Closed => Err(closed("a result")),
        Next::End | Next::Schema(_) | Next::Batch(_) | Next::NotYet => Ok(()),
    }
}

/// The rows of a statement as batches of Arrow's. Any thread may read them, with or without the interpreter.
struct RowStream {
    statement: Arc<OfProcess<Statement>>,
    schema: SchemaRef,
}

impl Iterator for RowStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let failed = |problem: String| Some(Err(ArrowError::ExternalError(problem.into())));
        let next = match self.statement.get(NAME).and_then(Statement::next) {
            Ok(next) => next,
            Err(error) => return failed(interrupted(&error)),
        };
        match next {
            Next::Batch(batch) => Some(Ok(batch)),
            Next::Failed(error) => failed(sentence(&error)),
            next => match ended(next) {
                Ok(()) => None,
                Err(error) => failed(error.to_string()),
            },
        }
    }
}

/// Returns the text of an exception that ends a stream. A consumer makes an exception of its own of it; if this was Ctrl-C,
/// the interpreter raises it again as soon as it runs.
fn interrupted(error: &PyErr) -> String {
    Python::try_attach(|py| {
        if !error.is_instance_of::<PyKeyboardInterrupt>(py) {
            return error.to_string();
        }
        // Nothing more can be done if this fails: the consumer has its error.
        let _ = py.import("_thread").and_then(|thread| thread.call_method0("interrupt_main"));
        "interrupted by Ctrl-C".to_owned()
    })
    .unwrap_or_else(|| "the interpreter is ending".to_owned())
}

impl RecordBatchReader for RowStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The result of a statement: the document of that of a file, or the rows.
#[derive(IntoPyObject)]
pub(crate) enum Done {
    File(String),
    Rows(QueryStream),
}

fn started(
    py: Python<'_>,
    operation: Operation,
    tables: Vec<TableArgument<'_>>,
    options: &StatementOptions,
    show: Option<Py<PyAny>>,
) -> PyResult<Done> {
    let statement = Statement::start(py, operation, tables, options, show)?;
    match statement.next()? {
        Next::Schema(schema) => {
            Ok(Done::Rows(QueryStream { statement: Arc::new(OfProcess::new(statement)), schema }))
        }
        next => {
            ended(next)?;
            let document = statement.running.lock().document.take();
            document.map(Done::File).ok_or_else(|| Error::new_err("the statement has no result"))
        }
    }
}

/// Sorts a table: `sort`.
#[pyfunction]
#[pyo3(signature = (table, by, limit, stable, options, show))]
pub(crate) fn sort(
    py: Python<'_>,
    table: TableArgument<'_>,
    by: String,
    limit: Option<u64>,
    stable: bool,
    options: StatementOptions,
    show: Option<Py<PyAny>>,
) -> PyResult<Done> {
    let operation = Operation::Sort(options.rows(), Sort { by, limit, stable });
    started(py, operation, vec![table], &options, show)
}

/// Joins two tables: `join`.
#[pyfunction]
#[pyo3(signature = (left, right, on, kind, ordered, options, show))]
#[expect(clippy::too_many_arguments, reason = "the options of the command")]
pub(crate) fn join(
    py: Python<'_>,
    left: TableArgument<'_>,
    right: TableArgument<'_>,
    on: String,
    kind: &str,
    ordered: bool,
    options: StatementOptions,
    show: Option<Py<PyAny>>,
) -> PyResult<Done> {
    let kind = kind.parse::<JoinKind>().map_err(|error| wrong("kind", &error))?;
    let RowOptions { filter, select } = options.rows();
    let method = ordered.then_some(JoinMethod::Merge);
    let operation = Operation::Join(Join { on, kind, filter, select, method });
    started(py, operation, vec![left, right], &options, show)
}

/// Aggregates a table: `aggregate`.
#[pyfunction]
#[pyo3(signature = (table, columns, options, show))]
pub(crate) fn aggregate(
    py: Python<'_>,
    table: TableArgument<'_>,
    columns: AggregateOptions,
    options: StatementOptions,
    show: Option<Py<PyAny>>,
) -> PyResult<Done> {
    let AggregateOptions { by, sum, avg, min, max, distinct, count } = columns;
    let lists = AggregateLists { by, sum, avg, min, max, distinct, count };
    let aggregate = lists.aggregate().map_err(|error| of_tables(&error))?;
    started(py, Operation::Aggregate(options.rows(), aggregate), vec![table], &options, show)
}
