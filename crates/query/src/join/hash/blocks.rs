//! Join of two partitions whose build side has too many rows of one key for the memory: a block nested-loop join.
//!
//! Each block of the build side is probed with the whole probe side. Where unpaired probe rows are returned, too, it is
//! remembered which rows have matched in any block ([`Matches`]).

use std::sync::Arc;

use arrow_array::RecordBatch;

use super::build::load_block;
use super::context::Context;
use super::matches::{MatchReader, Matches};
use super::memory::SpillMemory;
use super::partition::{Partition, RunBatches};
use super::probe::{Build, Probe};
use super::rule::Alone;
use super::stream::Source;
use crate::batch_bytes::row_bytes_max;
use crate::batch_spill::BatchRun;
use crate::join::pairs::Pairs;
use crate::join::result::ResultBatches;
use crate::spill::SpillFiles;
use crate::{Batches, Error};

/// Blocks of a build side.
pub(super) struct Blocks {
    build: RunBatches,
    /// Build batch that did not fit into the previous block.
    pending: Option<RecordBatch>,
    /// Bytes of the table of a block.
    table_bytes: usize,
    probe: Partition,
    files: SpillFiles,
    memory: Arc<SpillMemory>,
    stage: Stage,
}

enum Stage {
    Probe(Box<Probe>),
    /// Returns unpaired probe rows.
    Alone {
        rows: Box<RunBatches>,
        matches: Box<MatchReader>,
    },
    Ended,
}

impl Blocks {
    pub(super) fn new(
        context: &Context,
        (build, probe): (Partition, Partition),
        (files, memory): (&SpillFiles, &Arc<SpillMemory>),
        table_bytes: usize,
    ) -> Result<Blocks, Error> {
        let build = build.drain(&memory.account, memory.block)?;
        let (files, memory, stage) = (files.clone(), Arc::clone(memory), Stage::Ended);
        let mut blocks = Blocks { build, pending: None, table_bytes, probe, files, memory, stage };
        blocks.stage = blocks.next_stage(context, None)?;
        Ok(blocks)
    }

    /// Starts the next block of the build side, or the unpaired probe rows after the last one. `matches` are those of the
    /// previous blocks.
    fn next_stage(&mut self, context: &Context, matches: Option<BatchRun>) -> Result<Stage, Error> {
        // Frees the memory of the previous block.
        self.stage = Stage::Ended;
        let batches = load_block(context, &mut self.build, &mut self.pending, self.table_bytes)?;
        if !batches.is_empty() {
            let build = Build::new(context, self.build.schema(), batches, None, 1)?;
            let rows = Box::new(self.probe.read(&self.memory.account, self.memory.block)?);
            let matches = match context.rule.probe_alone {
                Alone::Never => None,
                Alone::Matched | Alone::Unmatched => {
                    Some(Matches::begin(&self.files, &self.memory, matches)?)
                }
            };
            return Ok(Stage::Probe(Box::new(Probe::new(context, Arc::new(build), rows, matches))));
        }
        let Some(matches) = matches else { return Ok(Stage::Ended) };
        let rows = Box::new(self.probe.read(&self.memory.account, self.memory.block)?);
        Ok(Stage::Alone { rows, matches: Box::new(MatchReader::new(matches, &self.memory)?) })
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
                    let matches = probe.matches.take().map(Matches::end).transpose()?;
                    self.stage = self.next_stage(context, matches)?;
                }
                Stage::Ended => return Ok(None),
                Stage::Alone { rows, matches } => {
                    let Some(batch) = rows.next()? else { return Ok(None) };
                    context.job.check()?;
                    for (row, is_matched) in matches.next(batch.num_rows())?.iter().enumerate() {
                        if context.rule.probe_alone.gives(is_matched) {
                            context.rule.give_probe_row(row, pairs);
                        }
                    }
                    if !pairs.is_empty() {
                        let none = RecordBatch::new_empty(self.build.schema());
                        return Ok(Some((context.assemble(&none, &batch, pairs)?, row_bytes_max(&batch))));
                    }
                }
            }
        }
    }
}
