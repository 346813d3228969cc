//! The tables of TPC-H, generated as streams or files by the crate `tpchgen`, with the same rows as the official
//! `dbgen`.
//!
//! Rows are generated in parts, on all threads, and returned in order; memory is a few parts. LINEITEM is generated in
//! key order, which would favor a sort. A seed gives a random order ([`GenerateOptions::shuffle`], `shuffle.rs`) that
//! does not depend on the number of threads or the memory limit.
//!
//! Comment columns need the standard's text pool of 300 MiB, which counts in the job's memory.
//!
//! | file | subject |
//! |---|---|
//! | `tables.rs` | tables, their rows, and parts of them |
//! | `columns.rs` | projections and types: standard or compact |
//! | `plan.rs` | checked options |
//! | `memory.rs` | memory of rows and of the text pool, from the job's heap and buffers |
//! | `ordered.rs` | items produced on several threads and returned in order |
//! | `scatter.rs`, `shuffle.rs` | the random order: rows scattered to buckets, and the rows of each bucket shuffled |

mod columns;
mod memory;
mod ordered;
mod plan;
mod scatter;
mod shuffle;
mod tables;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::output::{Encoded, Output, OutputOptions, Target};
use crate::{Batches, Error, Job};
use memory::Held;
use ordered::{Make, Ordered};
use plan::{GENERATOR_MEMORY, Plan};
use shuffle::{Finish, Shuffle};

pub use columns::ColumnTypes;
pub use plan::GenerateOptions;
pub use tables::{TPCH_TABLES, TpchTable};

/// Copies of a part in memory at the same time: its rows, and its columns in other types.
const PART_COPIES: usize = 2;

/// Copies of a part including the encoded result, whose memory the encoder reserves.
const ENCODED_PART_COPIES: usize = PART_COPIES + 1;

/// Progress of a generation. Rows of a shuffled table are counted twice: when generated and when returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Rows done so far.
    pub rows: u64,
    /// Total rows; for LINEITEM an estimate to about 0.1 %.
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

/// Returns the names and types of the generated columns.
///
/// # Errors
/// [`Error::Query`] if a column does not exist.
pub fn schema(options: &GenerateOptions) -> Result<SchemaRef, Error> {
    Ok(columns::Projection::new(options.table, &options.columns, options.types)?.schema)
}

/// Generates a table as a file. Arrow IPC keeps dictionary codes; other formats store the strings.
///
/// # Errors
/// If an option is invalid, the memory is insufficient, or the file cannot be written.
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

/// Cuts batches into groups of at most `group_rows` rows.
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
    job: Job,
    schema: SchemaRef,
    state: GeneratorState,
    batches: std::vec::IntoIter<RecordBatch>,
}

enum GeneratorState {
    /// Generation starts with the first call of `next`.
    Idle(Box<Plan>, Option<u64>),
    Running(Items<Vec<RecordBatch>>),
    Ended,
}

impl Generator {
    /// Checks the options; generation starts with the first batch.
    ///
    /// # Errors
    /// [`Error::Query`] if an option is invalid.
    pub fn new(job: &Job, options: &GenerateOptions) -> Result<Generator, Error> {
        let plan = Plan::new(job, options)?;
        let schema = plan.schema().clone();
        let state = GeneratorState::Idle(Box::new(plan), options.shuffle);
        Ok(Generator { job: job.clone(), schema, state, batches: Vec::new().into_iter() })
    }
}

impl Batches for Generator {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        // The threads may have made all rows ahead of the reader.
        self.job.check()?;
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

/// Items made of the rows of a table, in order.
struct Items<T> {
    source: Source<T>,
    total: u64,
    /// Rows counted before the first item.
    before: u64,
    /// Memory of parts and of the text of comments; a shuffle has its own.
    _memory: Vec<Held>,
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
            return Ok(Items { source, total, before: rows, _memory: Vec::new() });
        }
        let text = plan.text_memory()?;
        let part_bytes = plan.part_bytes();
        let window = plan.window(part_bytes * ENCODED_PART_COPIES, 0);
        let memory = Held::new(plan.job(), part_bytes * PART_COPIES * window, GENERATOR_MEMORY)?;
        let (threads, parts) = (plan.job().options().threads.min(window), plan.parts);
        let make: Make<T> = Arc::new(move |part| finish(plan.part(part).collect::<Result<_, _>>()?));
        let source = Source::Parts(Ordered::start(threads, window, parts, &make));
        Ok(Items { source, total: rows, before: 0, _memory: vec![text, memory] })
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
