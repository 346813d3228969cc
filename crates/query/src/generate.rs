//! The tables of TPC-H, generated as streams or files by the crate `tpchgen`, whose rows are those of the official
//! `dbgen`.
//!
//! Rows are generated on all threads, in parts, and given out in order; memory is a few parts. LINEITEM is born ordered
//! by its key, which flatters a sort; a seed gives a random order ([`GenerateOptions::shuffle`], `shuffle.rs`) that is
//! the same whatever the number of threads and the memory limit.
//!
//! Columns of comments need the standard's pool of text, 300 MiB that are not counted in the job's memory. A result
//! without them needs none of it.
//!
//! | file | what |
//! |---|---|
//! | `tables.rs` | tables, their rows, and parts of them |
//! | `columns.rs` | projections and types: the standard's, or compact ones |
//! | `plan.rs` | the options, checked |
//! | `ordered.rs` | items that are made on several threads and given out in order |
//! | `shuffle.rs` | the random order |

mod columns;
mod ordered;
mod plan;
mod shuffle;
mod tables;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::job::Reservation;
use crate::output::{Encoded, Output, OutputOptions, Target};
use crate::{Batches, Error, Job};
use ordered::{Make, Ordered};
use plan::{GENERATOR_MEMORY, Plan};
use shuffle::{Finish, Shuffle};

pub use columns::ColumnTypes;
pub use plan::GenerateOptions;
pub use tables::{TPCH_TABLES, TpchTable};

/// Rows of a part and of what is made of them, that exist at the same time.
const PART_COPIES: usize = 2;

/// How far a generation has come. Rows of a shuffled table are counted twice: generated and given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Rows done so far.
    pub rows: u64,
    /// Rows in all; those of LINEITEM to about a thousandth.
    pub total: u64,
}

/// A generated file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Its rows.
    pub rows: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// Names and types of the columns that are generated.
///
/// # Errors
/// [`Error::Query`] if a column does not exist.
pub fn schema(options: &GenerateOptions) -> Result<SchemaRef, Error> {
    Ok(columns::Projection::new(options.table, &options.columns, options.types)?.schema)
}

/// Generates a table as a file. Arrow IPC keeps compact columns of codes; other formats have their strings.
///
/// # Errors
/// If an option is not possible, the memory is not enough, or the file cannot be written.
pub fn generate_file(
    job: &Job,
    options: &GenerateOptions,
    target: &Target,
    output: &OutputOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Generated, Error> {
    let plan = Plan::new(job, options)?;
    let group_rows = output.group_rows.max(1);
    let options_of_file = OutputOptions { dictionaries: plan.dictionaries(), ..output.clone() };
    let mut output = Output::create(job, target, plan.schema(), &options_of_file)?;
    let encoder = output.encoder();
    let finish: Finish<Vec<(Encoded, u64)>> = Arc::new(move |batches| {
        let groups = groups(batches, group_rows).into_iter().map(|group| {
            let rows = group.iter().map(|batch| batch.num_rows() as u64).sum();
            Ok((encoder.encode(&group)?, rows))
        });
        groups.collect()
    });
    let mut items = Items::start(plan, options.shuffle, finish, progress)?;
    let mut rows = 0;
    while let Some(groups) = items.next()? {
        for (group, group_rows) in groups {
            output.append(group)?;
            rows += group_rows;
        }
        progress(items.progress(rows));
    }
    Ok(Generated { rows, bytes: output.finish()? })
}

/// Cuts batches into groups of at most a number of rows.
fn groups(batches: Vec<RecordBatch>, group_rows: usize) -> Vec<Vec<RecordBatch>> {
    let (mut groups, mut group, mut rows) = (Vec::new(), Vec::new(), 0);
    for mut batch in batches {
        while rows + batch.num_rows() > group_rows {
            let first = group_rows - rows;
            group.push(batch.slice(0, first));
            batch = batch.slice(first, batch.num_rows() - first);
            groups.push(std::mem::take(&mut group));
            rows = 0;
        }
        rows += batch.num_rows();
        group.push(batch);
    }
    groups.push(group);
    groups.retain_mut(|group| {
        group.retain(|batch| batch.num_rows() > 0);
        !group.is_empty()
    });
    groups
}

/// A generated table as a stream.
pub struct Generator {
    schema: SchemaRef,
    state: GeneratorState,
    batches: std::vec::IntoIter<RecordBatch>,
}

enum GeneratorState {
    /// Nothing is generated before the first batch is asked for.
    Idle(Box<Plan>, Option<u64>),
    Running(Items<Vec<RecordBatch>>),
    Ended,
}

impl Generator {
    /// Checks the options.
    ///
    /// # Errors
    /// [`Error::Query`] if an option is not possible.
    pub fn new(job: &Job, options: &GenerateOptions) -> Result<Generator, Error> {
        let plan = Plan::new(job, options)?;
        let schema = plan.schema().clone();
        let state = GeneratorState::Idle(Box::new(plan), options.shuffle);
        Ok(Generator { schema, state, batches: Vec::new().into_iter() })
    }
}

impl Batches for Generator {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            if let Some(batch) = self.batches.find(|batch| batch.num_rows() > 0) {
                return Ok(Some(batch));
            }
            match std::mem::replace(&mut self.state, GeneratorState::Ended) {
                GeneratorState::Idle(plan, shuffle) => {
                    let items = Items::start(*plan, shuffle, Arc::new(Ok), &mut |_| ())?;
                    self.state = GeneratorState::Running(items);
                }
                GeneratorState::Running(mut items) => {
                    if let Some(batches) = items.next()? {
                        self.batches = batches.into_iter();
                        self.state = GeneratorState::Running(items);
                    }
                }
                GeneratorState::Ended => return Ok(None),
            }
        }
    }
}

/// What is made of the rows of a table, in order.
struct Items<T> {
    source: Source<T>,
    total: u64,
    /// Rows that were generated before the first item.
    before: u64,
    /// Memory of parts; a shuffle has its own.
    _memory: Option<Reservation>,
}

enum Source<T> {
    Parts(Ordered<T>),
    Shuffled(Box<Shuffle<T>>),
}

impl<T: Send + 'static> Items<T> {
    fn start(
        plan: Plan,
        shuffle: Option<u64>,
        finish: Finish<T>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Items<T>, Error> {
        let rows = plan.rows();
        if let Some(seed) = shuffle {
            let total = 2 * rows;
            let shuffle =
                Shuffle::start(&plan, seed, finish, &mut |rows| progress(Progress { rows, total }))?;
            let source = Source::Shuffled(Box::new(shuffle));
            return Ok(Items { source, total, before: rows, _memory: None });
        }
        let part_bytes = plan.bytes(rows.div_ceil(plan.parts.max(1) as u64)) * PART_COPIES;
        let window = plan.window(part_bytes);
        let memory = plan.job().reserve(part_bytes * window, GENERATOR_MEMORY)?;
        let (threads, parts) = (plan.job().options().threads.min(window), plan.parts);
        let make: Make<T> = Arc::new(move |part| finish(plan.part(part)?));
        let source = Source::Parts(Ordered::start(threads, window, parts, &make));
        Ok(Items { source, total: rows, before: 0, _memory: Some(memory) })
    }

    fn next(&mut self) -> Result<Option<T>, Error> {
        match &mut self.source {
            Source::Parts(parts) => parts.next().transpose(),
            Source::Shuffled(shuffle) => shuffle.next(),
        }
    }

    fn progress(&self, rows: u64) -> Progress {
        Progress { rows: (self.before + rows).min(self.total), total: self.total }
    }
}

#[cfg(test)]
mod tests;
