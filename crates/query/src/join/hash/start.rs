//! Start of a hash join: a build side that fits into memory is shared by a probe for each stream of the probe side.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::probe::{Build, Context, Probe};
use super::rule::JoinSide;
use super::{HashJoin, Source, load};
use crate::join::ahead::{Ahead, Waited};
use crate::join::condition::Condition;
use crate::join::kind::JoinKind;
use crate::join::pairs::Pairs;
use crate::join::result::{RESULT_BATCH_ROWS, ResultBatches};
use crate::phase::Meter;
use crate::{Batches, Error, Job};

/// Name of the memory that is kept for the probe side.
const PROBE_MEMORY: &str = "reading the probe side of a join";

/// A hash join whose build side was read.
pub(in crate::join) enum Started {
    /// Streams of the result, which can be read concurrently.
    Probes(SchemaRef, Vec<Box<dyn Batches>>),
    /// Both sides were spilled into partitions.
    Partitioned(Box<HashJoin>),
}

/// Reads the build side. If it exceeds half of the free memory, both sides are spilled into partitions. `jobs` record the
/// phases of the build side and of the probe side; `schemas` are those of the left and of the right side.
///
/// # Errors
/// If a side cannot be read, compared or spilled.
pub(in crate::join) fn start(
    job: &Job,
    jobs: &[Job; 2],
    schemas: &[SchemaRef; 2],
    mut build: Box<dyn Batches>,
    open_probes: impl FnOnce() -> Result<Vec<Box<dyn Batches>>, Error>,
    (condition, kind, side): (&Condition, JoinKind, JoinSide),
) -> Result<Started, Error> {
    let context = Context::new(job, [&schemas[0], &schemas[1]], condition, kind, side)?;
    let schema = build.schema();
    let meter = Meter::start();
    let spare = job.reserve(job.available() / 2, PROBE_MEMORY)?;
    let loaded = load(&context, &mut *build, None)?;
    drop(spare);
    if loaded.pending.is_some() {
        jobs[0].phases().add(meter.stop("build", 0, Duration::ZERO));
        let streams = open_probes()?;
        let probe_schema = streams.first().map_or_else(|| schema.clone(), |stream| stream.schema());
        let probe = Box::new(Ahead::start(streams, probe_schema, &Waited::default()));
        let mut join = HashJoin::of(context);
        join.partition(loaded, build, Source::Input(probe), 0)?;
        return Ok(Started::Partitioned(Box::new(join)));
    }
    // Frees the buffers of the scan.
    drop(build);
    let result_schema = context.layout.schema.clone();
    if loaded.batches.is_empty() && context.rule.is_empty_without_build() {
        return Ok(Started::Probes(result_schema, Vec::new()));
    }
    let streams = open_probes()?;
    let build = Build::new(&context, schema, loaded.batches, loaded.memory, streams.len())?;
    jobs[0].phases().add(meter.stop("build", 0, Duration::ZERO));
    let (context, build) = (Arc::new(context), Arc::new(build));
    let probes = streams.into_iter().map(|stream| -> Box<dyn Batches> {
        let probe = Probe::new(&context, Arc::clone(&build), stream, None);
        let result = ResultBatches::new(job, context.layout.schema.clone(), RESULT_BATCH_ROWS);
        let pairs = Pairs::with_capacity(RESULT_BATCH_ROWS);
        Box::new(ProbeStream { context: Arc::clone(&context), probe, pairs, result, has_ended: false })
    });
    Ok(Started::Probes(result_schema, probes.collect()))
}

/// Rows that one stream of the probe side gives.
struct ProbeStream {
    context: Arc<Context>,
    probe: Probe,
    pairs: Pairs,
    result: ResultBatches,
    has_ended: bool,
}

impl Batches for ProbeStream {
    fn schema(&self) -> SchemaRef {
        self.context.layout.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            if let Some(batch) = self.result.pop() {
                return Ok(Some(batch));
            }
            if self.has_ended {
                return Ok(None);
            }
            self.context.job.check()?;
            match self.probe.next(&self.context, &mut self.pairs, &self.result)? {
                Some((batch, row_bytes)) => self.result.push(batch, row_bytes)?,
                None => {
                    self.has_ended = true;
                    self.result.finish()?;
                }
            }
        }
    }
}
