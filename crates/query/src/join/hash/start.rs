//! Start of a hash join: a build side that fits into memory is shared by a probe for each stream of the probe side.
//! Otherwise both sides are spilled into partitions.

use std::sync::Arc;

use arrow_schema::SchemaRef;

use super::build::{BUILD_COPIES, ENTRY_BYTES, Loaded, load_streams};
use super::context::Context;
use super::memory::SpillMemory;
use super::partition::{Division, Item, divide_streams};
use super::probe::{Build, Probe};
use super::rule::JoinSide;
use super::spilled::SpilledPairs;
use super::stream::ResultStream;
use crate::join::condition::Condition;
use crate::join::input::OpenStreams;
use crate::join::joined::{Parts, Streams};
use crate::join::kind::JoinKind;
use crate::spill::SpillFiles;
use crate::{Batches, Error, Job};

/// One part in this many of the free heap is for the tables of spilled partitions.
const TABLES_PARTS: usize = 2;

/// A side of a hash join.
pub(in crate::join) struct HashInput<'a> {
    /// The job that records its phases.
    pub(in crate::join) job: Job,
    pub(in crate::join) schema: SchemaRef,
    /// Estimated bytes and number of its rows, if they are known.
    pub(in crate::join) expected: Option<(u64, u64)>,
    pub(in crate::join) open: OpenStreams<'a>,
}

/// Approximate bytes of a table, from the bytes and the number of its rows.
fn table_bytes((bytes, rows): (u64, u64)) -> u64 {
    let entries = rows.saturating_mul(ENTRY_BYTES as u64);
    bytes.saturating_mul(BUILD_COPIES as u64).saturating_add(entries)
}

/// Reads the build side; returns the parts of the result and its schema. If the build side exceeds half of the free
/// memory, both sides are spilled.
///
/// # Errors
/// If a side cannot be read, compared or spilled.
pub(in crate::join) fn start(
    job: &Job,
    [left, right]: [HashInput<'_>; 2],
    (condition, kind, side): (&Condition, JoinKind, JoinSide),
) -> Result<(SchemaRef, Arc<dyn Parts>), Error> {
    let context = Context::new(job, [&left.schema, &right.schema], condition, kind, side)?;
    let (build, probe) = if side == JoinSide::Left { (left, right) } else { (right, left) };
    let result_schema = context.layout.schema.clone();
    let memory = SpillMemory::reserve(job, build.expected.map(table_bytes))?;
    // The rest is for the scans of both sides, one after the other, and the result.
    let table_max_bytes = job.available() / 2;
    let (loaded, rest) = load_streams(&context, &build.job, (build.open)(&build.job)?, table_max_bytes)?;
    if loaded.is_too_large {
        let build = HashInput { open: Box::new(|_| Ok(rest)), ..build };
        let pairs = spill(context, memory, loaded, build, probe)?;
        return Ok((result_schema, Arc::new(pairs)));
    }
    drop(memory);
    if loaded.batches.is_empty() && context.rule.is_empty_without_build() {
        return Ok((result_schema, Arc::new(Streams::new(Vec::new()))));
    }
    let streams = (probe.open)(&probe.job)?;
    let Loaded { batches, memory, .. } = loaded;
    let table = Arc::new(Build::new(&context, build.schema, batches, Some(memory), streams.len())?);
    let context = Arc::new(context);
    let probes = streams.into_iter().map(|stream| -> Box<dyn Batches> {
        let probe = Probe::new(&context, Arc::clone(&table), stream, None);
        Box::new(ResultStream::new(&context, probe, ()))
    });
    Ok((result_schema, Arc::new(Streams::new(probes.collect()))))
}

/// Spills both sides into partitions; `build` has the rows that were not loaded.
fn spill(
    context: Context,
    memory: SpillMemory,
    loaded: Loaded,
    build: HashInput<'_>,
    probe: HashInput<'_>,
) -> Result<SpilledPairs, Error> {
    let job = context.job.clone();
    let files = SpillFiles::new(&job);
    let spill = (&files, &memory);
    let (bits, block) = (memory.first_bits, memory.first_block);
    let division = Division { used_bits: 0, bits, block, is_build: true };
    // The threads share the loaded batches, and continue with a stream each.
    let item = |stream| Item { stream: Some(stream), ..Item::default() };
    let mut items: Vec<Item> = (build.open)(&build.job)?.into_iter().map(item).collect();
    items.resize_with(job.options().threads.max(1).max(items.len()), Item::default);
    let Loaded { batches, memory: loaded, .. } = loaded;
    let (count, loaded) = (items.len(), Arc::new(loaded));
    items.iter_mut().for_each(|item| item.memory = Some(Arc::clone(&loaded)));
    drop(loaded);
    batches.into_iter().enumerate().for_each(|(at, batch)| items[at % count].batches.push(batch));
    let builds = divide_streams(&context, &build.job, spill, &build.schema, items, division)?;
    let items = (probe.open)(&probe.job)?.into_iter().map(item).collect();
    let division = Division { is_build: false, ..division };
    let probes = divide_streams(&context, &probe.job, spill, &probe.schema, items, division)?;
    // The rest is for the rows of each thread, and the result.
    let tables = job.reserve_part(TABLES_PARTS);
    Ok(SpilledPairs::new(context, files, memory, tables, [builds, probes], bits))
}
