//! External sort of rows of any schema, within the memory budget of a job.
//!
//! ```no_run
//! # fn main() -> Result<(), sakiyomi_query::Error> {
//! # use sakiyomi_query::{Batches, Job, JobOptions, batches::InMemory, order::SortKey, sort::{SortOptions, sort}};
//! # let (job, keys): (Job, Vec<SortKey>) = (Job::new(JobOptions::default())?, Vec::new());
//! # let inputs: Vec<Box<dyn Batches>> = Vec::new();
//! let sorted = sort(&job, inputs, &keys, &SortOptions::default())?;
//! let mut batches = sorted.into_batches();
//! while let Some(batch) = batches.next()? {
//!     // …
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Batches are packed into rows (`row`) and their keys encoded as integers (`key`). There are two algorithms:
//!
//! - **Range partitioning** (`partition`, `splitters`), used with a sample of the rows: each thread appends every row to
//!   its own open chunk for that row's partition; full chunks stay in memory or are spilled. Each partition is then
//!   read, radix-sorted in cache and returned. Rows are moved once, in input order.
//! - **Runs and merge** (`runs`, `merge`): each thread sorts the rows that fit into its memory and writes them as a
//!   run; a loser tree merges the runs. This algorithm needs no sample and handles any key distribution. It also sorts
//!   partitions that exceed their share of memory.
//!
//! Both return ordered partitions ([`Sorted`]), which threads take in turn, or one stream of batches. `plan` divides
//! the memory, and `memory` reserves and grants it.
//!
//! A join has a `router` divide the rows instead of a sample (`route`, `router`): both of its inputs use the same
//! boundaries, and it sorts their partitions in pairs.
//!
//! All NaNs are equal and greater than all other numbers.

pub(crate) mod chunk;
mod context;
mod in_memory;
mod key;
mod loser_tree;
pub(crate) mod memory;
mod merge;
pub(crate) mod options;
mod partition;
pub(crate) mod plan;
mod radix;
mod route;
pub(crate) mod router;
mod row;
pub(crate) mod runs;
mod sorted;
mod splitters;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};

pub use options::{SAMPLE_ROWS, SortOptions};
pub use sorted::{Partition, Sorted, SortedBatches};

use context::Context;
use key::Keys;
use memory::{Guarantee, SortMemory};
use partition::{Division, Partitions, Scatter};
use plan::{Demand, MemoryPlan, ORDER_BYTES};
use router::{Parts, Router};
use row::stage::Stage;
use row::view::Viewer;
use runs::{Collector, Run};
use splitters::Splitters;

use crate::batch_bytes::batch_bytes;
use crate::order::SortKey;
use crate::phase::Meter;
use crate::spill::{SpillFiles, check_spilled_chunks};
use crate::{Batches, Error, Job};

/// A sort that is accepting rows.
#[derive(Debug)]
pub struct Sorter {
    context: Arc<Context>,
    method: Method,
    router: Option<Arc<dyn Router>>,
    workers: usize,
    results: Arc<Mutex<Results>>,
}

/// Results of the finished workers.
#[derive(Debug, Default)]
struct Results {
    finished: usize,
    runs: Vec<Run>,
}

#[derive(Clone, Debug)]
enum Method {
    Partition(Arc<Partitions>),
    Runs,
}

/// Accepts the rows of one thread.
#[derive(Debug)]
pub struct Worker {
    context: Arc<Context>,
    viewer: Viewer,
    stage: Stage,
    target: Target,
    router: Option<Arc<dyn Router>>,
    /// Partitions of the rows of a batch.
    routes: Vec<u32>,
    /// Number of the next row.
    number: u64,
    results: Arc<Mutex<Results>>,
}

#[derive(Debug)]
enum Target {
    Partitions(Scatter),
    Runs(Box<Collector>),
}

/// A row number is `worker << 48 | row`; stable sorts compare it last.
const WORKER_SHIFT: u32 = 48;

impl Sorter {
    /// Creates a sort of batches with the given schema.
    ///
    /// # Errors
    /// [`Error::Query`] if a column cannot be sorted; [`Error::Io`] if the job has too little memory left.
    pub fn new(
        job: &Job,
        schema: &SchemaRef,
        keys: &[SortKey],
        options: &SortOptions,
    ) -> Result<Sorter, Error> {
        Sorter::with_spills(job, schema, keys, options, SpillFiles::new(job))
    }

    fn with_spills(
        job: &Job,
        schema: &SchemaRef,
        keys: &[SortKey],
        options: &SortOptions,
        spills: SpillFiles,
    ) -> Result<Sorter, Error> {
        let (layout, key_columns, dictionaries) = Context::rows(job, schema, keys, options.stable)?;
        let (memory, buffers) = divide_memory(job, options, &key_columns)?;
        let threads = job.options().threads;
        let heap = memory.heap_bytes(threads, ORDER_BYTES + key_columns.digit_bytes());
        let ordering = job.reserve(heap, "ordering rows")?;
        // Check only if all rows are certain to be kept: a limit or a filter may leave few.
        let spills_all = options.limit.is_none() || options.usable_sample().is_some();
        if spills_all && options.expected_bytes.is_some() {
            check_spilled_chunks(job, memory.spilled_chunk_list_bytes)?;
        }
        let context = Arc::new(Context {
            _heap: ordering,
            job: job.clone(),
            layout,
            keys: key_columns,
            dictionaries,
            memory,
            buffers,
            spills,
            batch_rows: options.batch_rows.max(1),
            limit: options.limit,
        });
        let method = match options.usable_sample() {
            Some(sample) => {
                let types = keys.iter().map(|key| context.layout.columns[key.column].packed_type.clone());
                let types: Vec<DataType> = types.collect();
                let splitters = Splitters::new(job, sample, &types, keys, memory.partitions)?;
                let division = Division::Splitters(splitters);
                Method::Partition(Arc::new(Partitions::new(&context, division)))
            }
            None => Method::Runs,
        };
        Ok(Sorter { context, method, router: None, workers: 0, results: Arc::default() })
    }

    /// Creates a sort whose rows are divided by a router (joins: both inputs use the same boundaries).
    fn routed(job: &Job, input: router::Routed<'_>, routing: router::Routing) -> Result<Sorter, Error> {
        let router::Routed { schema, keys, options } = input;
        let router::Routing { router, memory, guarantee, spills } = routing;
        let (layout, keys, dictionaries) = Context::rows(job, schema, keys, false)?;
        let buffers = guarantee.divide(job, memory.chunk_bytes, memory.partition_input_bytes, usize::MAX)?;
        let heap = memory.load_rows * (ORDER_BYTES + keys.digit_bytes());
        let context = Arc::new(Context {
            _heap: job.reserve(heap, "ordering rows")?,
            job: job.clone(),
            layout,
            keys,
            dictionaries,
            memory,
            buffers,
            spills,
            batch_rows: options.batch_rows.max(1),
            limit: None,
        });
        let division = Division::Router(Arc::clone(&router));
        let method = Method::Partition(Arc::new(Partitions::new(&context, division)));
        Ok(Sorter { context, method, router: Some(router), workers: 0, results: Arc::default() })
    }

    /// Returns the memory plan of the sort.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> &MemoryPlan {
        &self.context.memory
    }

    /// Adds a worker. A sort has at most as many workers as the job has threads.
    #[must_use]
    pub fn worker(&mut self) -> Worker {
        let context = Arc::clone(&self.context);
        let target = match &self.method {
            Method::Partition(partitions) => Target::Partitions(Scatter::new(partitions)),
            Method::Runs => Target::Runs(Box::new(Collector::new(&context))),
        };
        let number = (self.workers as u64) << WORKER_SHIFT;
        self.workers += 1;
        Worker {
            viewer: Viewer::new(&context.layout, &context.dictionaries),
            stage: Stage::new(&context.layout),
            context,
            target,
            router: self.router.clone(),
            routes: Vec::new(),
            number,
            results: Arc::clone(&self.results),
        }
    }

    /// Returns the partitions of a router after all workers have finished.
    fn finish_parts(self) -> Result<Parts, Error> {
        let Method::Partition(partitions) = &self.method else { unreachable!("a sort with a router") };
        self.check_finished()?;
        let (pieces, spilled) = partitions.finish()?;
        Ok(Parts::new(Arc::clone(&self.context), pieces, spilled))
    }

    fn check_finished(&self) -> Result<(), Error> {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        if results.finished < self.workers { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Returns the sorted rows after all workers have finished.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if a worker was dropped unfinished; also if rows cannot be written or read.
    pub fn finish(self) -> Result<Sorted, Error> {
        self.check_finished()?;
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = std::mem::take(&mut results.runs);
        match self.method {
            Method::Partition(partitions) => {
                let (pieces, spilled) = partitions.finish()?;
                Ok(Sorted::of_pieces(&self.context, pieces, spilled, self.context.memory.load_bytes / 2))
            }
            Method::Runs => Sorted::of_runs(&self.context, spilled_together(&self.context, runs)?),
        }
    }
}

/// Plans the memory that the sort may use, or the part of it that is still free.
fn divide_memory(
    job: &Job,
    options: &SortOptions,
    keys: &Keys,
) -> Result<(MemoryPlan, Arc<SortMemory>), Error> {
    let budget = job.io().pool().budget();
    let bytes = options.memory.unwrap_or(options::default_memory(budget)).min(budget);
    let (threads, directories) = (job.options().threads, job.options().spill.len());
    let min_bytes = plan::min_bytes(options.block, threads, directories);
    let guarantee = Guarantee::new(job, bytes.max(min_bytes), min_bytes)?;
    let memory = MemoryPlan::new(&Demand {
        bytes: guarantee.bytes,
        heap_bytes: job.available(),
        threads,
        directories,
        expected_bytes: options.expected_bytes,
        expected_rows: options.expected_rows,
        spilled_bytes: options.expected_bytes.or(options.bytes_max),
        resident_bytes: options.resident,
        partitions_max: options.usable_sample().map_or(1, |_| options.partitions),
        planned_partitions: options.planned_partitions,
        planned_run: options.planned_run,
        block: options.block,
        order_bytes: ORDER_BYTES + keys.digit_bytes(),
    });
    let (input_bytes, row_max_bytes) = match options.usable_sample() {
        Some(_) => (memory.partition_input_bytes, usize::MAX),
        None => (memory.run_input_bytes, memory.run_max_bytes),
    };
    let buffers = guarantee.divide(job, memory.chunk_bytes, input_bytes, row_max_bytes)?;
    Ok((memory, buffers))
}

/// Spills the runs in memory if any run is spilled: the merge needs memory to read the spilled ones.
fn spilled_together(context: &Context, runs: Vec<Run>) -> Result<Vec<Run>, Error> {
    if !runs.iter().any(Run::is_spilled) {
        return Ok(runs);
    }
    runs.into_iter().map(|run| run.spilled(context)).collect()
}

/// Maximum bytes of rows packed at a time, unless a single row is longer.
const STAGED_BYTES: usize = 4 << 20;

/// Returns the rows of a batch that are packed at a time, at most `most`.
fn staged_rows(batch: &RecordBatch, most: usize) -> usize {
    // A slice of a large batch shares buffers with other rows, so the sizes of its buffers would suggest long rows.
    let row_bytes = batch_bytes(batch) / batch.num_rows().max(1);
    most.min(STAGED_BYTES / row_bytes.max(1)).max(1)
}

impl Worker {
    /// Adds the rows of a batch.
    ///
    /// # Errors
    /// If rows cannot be written or do not fit into memory; the sort then cannot continue.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.context.job.check()?;
        self.routes.clear();
        if let Some(router) = &self.router {
            router.route(batch, &mut self.routes)?;
        }
        let view = self.viewer.view(batch)?;
        let block_rows = staged_rows(batch, self.context.layout.block_rows);
        for from in (0..view.rows).step_by(block_rows) {
            let rows = block_rows.min(view.rows - from);
            self.stage.fill(&view, from, rows, self.number);
            self.number += rows as u64;
            match &mut self.target {
                Target::Partitions(scatter) => {
                    scatter.take(&self.stage, self.routes.get(from..from + rows).unwrap_or_default())?;
                }
                Target::Runs(collector) => collector.take(&self.stage)?,
            }
        }
        self.stage.shrink();
        Ok(())
    }

    /// Hands the remaining rows over to the sort.
    ///
    /// # Errors
    /// Same as [`Worker::push`].
    pub fn finish(self) -> Result<(), Error> {
        let runs = match self.target {
            Target::Partitions(scatter) => {
                scatter.finish()?;
                Vec::new()
            }
            Target::Runs(collector) => collector.finish()?,
        };
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.finished += 1;
        results.runs.extend(runs);
        Ok(())
    }
}

/// Sorts the rows of the input streams, with one thread for each stream.
///
/// # Errors
/// The first error of any thread.
pub fn sort(
    job: &Job,
    inputs: Vec<Box<dyn Batches>>,
    keys: &[SortKey],
    options: &SortOptions,
) -> Result<Sorted, Error> {
    let Some(schema) = inputs.first().map(|input| input.schema()) else {
        return Err(Error::Query("there is no input to sort".into()));
    };
    let mut sorter = Sorter::new(job, &schema, keys, options)?;
    let workers: Vec<Worker> = inputs.iter().map(|_| sorter.worker()).collect();
    feed(job, inputs, workers)?;
    sorter.finish()
}

/// Passes the rows of each stream to its worker.
fn feed(job: &Job, inputs: Vec<Box<dyn Batches>>, workers: Vec<Worker>) -> Result<(), Error> {
    let first_error: Mutex<Option<Error>> = Mutex::default();
    let has_failed = || first_error.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    let work = |mut input: Box<dyn Batches>, mut worker: Worker| {
        let meter = Meter::start();
        while !has_failed()
            && let Some(batch) = input.next()?
        {
            worker.push(&batch)?;
        }
        // Frees the scan's buffers before the last rows are handed over.
        drop(input);
        worker.finish()?;
        job.phases().add(meter.stop("read", 0, std::time::Duration::ZERO));
        Ok(())
    };
    thread::scope(|scope| {
        for (input, worker) in inputs.into_iter().zip(workers) {
            let (work, first_error) = (&work, &first_error);
            scope.spawn(move || {
                if let Err(error) = work(input, worker) {
                    first_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            });
        }
    });
    first_error.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests;
