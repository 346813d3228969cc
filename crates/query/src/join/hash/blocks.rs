//! Join of two partitions whose build side has too many rows of one key for the memory: a block nested-loop join.
//!
//! Each block of the build side is probed with the whole probe side.

use std::sync::Arc;

use arrow_array::RecordBatch;

use super::build::load_block;
use super::context::Context;
use super::memory::SpillMemory;
use super::partition::{Partition, RunBatches};
use super::probe::{Build, Found, Probe};
use super::rule::Alone;
use super::stream::Source;
use crate::batch_bytes::row_bytes_max;
use crate::job::Reservation;
use crate::join::pairs::Pairs;
use crate::join::result::ResultBatches;
use crate::{Batches, Error};

/// Purpose that errors name: one bit for each probe row.
const MATCH_BITS_PURPOSE: &str = "joining rows of equal keys";

/// Blocks of a build side.
pub(super) struct Blocks {
    build: RunBatches,
    /// Build batch that did not fit into the previous block.
    pending: Option<RecordBatch>,
    /// Bytes of the table of a block.
    table_bytes: usize,
    probe: Partition,
    memory: Arc<SpillMemory>,
    stage: Stage,
    /// Memory of the bits of matched probe rows.
    _found: Reservation,
}

enum Stage {
    Probe(Box<Probe>),
    /// Returns unpaired probe rows; `before` counts the probe rows of previous batches.
    Alone {
        rows: Box<RunBatches>,
        found: Found,
        before: usize,
    },
    Ended,
}

impl Blocks {
    pub(super) fn new(
        context: &Context,
        (build, probe): (Partition, Partition),
        memory: &Arc<SpillMemory>,
        table_bytes: usize,
    ) -> Result<Blocks, Error> {
        let needs_found = context.rule.probe_alone != Alone::Never;
        let rows = usize::try_from(probe.size.rows).unwrap_or(usize::MAX);
        let _found =
            context.job.reserve(if needs_found { Found::bytes(rows) } else { 0 }, MATCH_BITS_PURPOSE)?;
        let found = needs_found.then(|| Found::new(rows));
        let build = build.drain(&memory.account, memory.block)?;
        let (memory, stage) = (Arc::clone(memory), Stage::Ended);
        let mut blocks = Blocks { build, pending: None, table_bytes, probe, memory, stage, _found };
        blocks.stage = blocks.next_stage(context, found)?;
        Ok(blocks)
    }

    /// Starts the next block of the build side, or the unpaired probe rows after the last one.
    fn next_stage(&mut self, context: &Context, found: Option<Found>) -> Result<Stage, Error> {
        // Frees the memory of the previous block.
        self.stage = Stage::Ended;
        let batches = load_block(context, &mut self.build, &mut self.pending, self.table_bytes)?;
        if !batches.is_empty() {
            let build = Build::new(context, self.build.schema(), batches, None, 1)?;
            let rows = Box::new(self.probe.read(&self.memory.account, self.memory.block)?);
            return Ok(Stage::Probe(Box::new(Probe::new(context, Arc::new(build), rows, found))));
        }
        let Some(found) = found else { return Ok(Stage::Ended) };
        let rows = Box::new(self.probe.read(&self.memory.account, self.memory.block)?);
        Ok(Stage::Alone { rows, found, before: 0 })
    }
}

impl Source for Blocks {
    fn next(
        &mut self,
        context: &Context,
        pairs: &mut Pairs,
        result: &ResultBatches,
    ) -> Result<Option<(RecordBatch, usize)>, Error> {
        loop {
            match &mut self.stage {
                Stage::Probe(probe) => {
                    if let Some(batch) = probe.next(context, pairs, result)? {
                        return Ok(Some(batch));
                    }
                    let found = probe.found.take();
                    self.stage = self.next_stage(context, found)?;
                }
                Stage::Ended => return Ok(None),
                Stage::Alone { rows, found, before } => {
                    let Some(batch) = rows.next()? else { return Ok(None) };
                    context.job.check()?;
                    for row in 0..batch.num_rows() {
                        if context.rule.probe_alone.gives(found.get(*before + row)) {
                            context.rule.give_probe_row(row, pairs);
                        }
                    }
                    *before += batch.num_rows();
                    if !pairs.is_empty() {
                        let none = RecordBatch::new_empty(self.build.schema());
                        return Ok(Some((context.assemble(&none, &batch, pairs)?, row_bytes_max(&batch))));
                    }
                }
            }
        }
    }
}
