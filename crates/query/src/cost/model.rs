//! The model of one job: its devices, machine and limits, and the prediction of a plan.

use sakiyomi_io::{EngineKind, EngineSpec};
use sakiyomi_probe::calibration::{Cost, DeviceCosts, EstimateError};
use sakiyomi_probe::setting::{CacheState, Operation};

use super::algorithms::{Resources, stages};
use super::error::CostError;
use super::flow::Role;
use super::operators::{Codec, OperatorCosts};
use super::plan::{PageCache, Plan, StreamPlan};
use super::prediction::{Basis, Prediction};
use super::shape::Task;
use super::stage::{Cores, Stage};
use super::streams::{self, BareDevice, Channel, Storage, Streams};
use super::transfer::Interference;
use super::work::Work;
use crate::sort::plan::CHUNK_BYTES;

/// Limits and fixed choices of a job.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum bytes of I/O buffers and rows in memory.
    pub buffer_bytes: u64,
    /// Maximum bytes of batches, decoders, encoders and tables in memory.
    pub heap_bytes: u64,
    /// Maximum compute threads.
    pub threads: usize,
    /// Cores of the machine that may be used.
    pub cores: usize,
    /// The engine; `None` lets the search choose.
    pub engine: Option<EngineSpec>,
    /// Use of the page cache by reads of tables, if it is not to be chosen.
    pub page_cache: Option<PageCache>,
    /// Bytes of a read of a table, if it is not to be chosen.
    pub block_bytes: Option<u64>,
}

impl Limits {
    /// Creates limits without fixed choices.
    #[must_use]
    pub fn new(buffer_bytes: u64, heap_bytes: u64, threads: usize, cores: usize) -> Limits {
        let (engine, page_cache, block_bytes) = (None, None, None);
        Limits { buffer_bytes, heap_bytes, threads, cores, engine, page_cache, block_bytes }
    }
}

/// A model of one job.
#[derive(Clone, Debug)]
pub struct Model<'a> {
    /// Calibrated devices.
    pub storage: Storage<'a>,
    /// CPU costs of operators.
    pub operators: &'a OperatorCosts,
    /// Limits of the job.
    pub limits: Limits,
}

/// Bytes of a chunk of rows where nothing is spilled.
pub(crate) const RESIDENT_CHUNK_BYTES: u64 = CHUNK_BYTES as u64;

/// More memory than any machine has, so that sums of it are numbers of 64 bits.
const MEMORY_MAX_BYTES: u64 = 1 << 48;

/// Block size assumed for an engine without measurements.
const UNMEASURED_BLOCK_BYTES: u64 = 1 << 20;

impl<'a> Model<'a> {
    /// Predicts a plan, even if it exceeds the memory limit.
    ///
    /// # Errors
    /// If the task is inconsistent, or a calibration lacks a measurement.
    pub fn predict(&self, task: &Task, plan: &Plan) -> Result<Prediction, CostError> {
        self.check(task)?;
        let codec = plan.spill.map_or(Codec::None, |spill| spill.codec);
        let spill = plan.spill.map(|spill| spill.stream);
        let stages = stages(&self.work(task, plan.threads, spill, codec), plan.algorithm)?;
        let streams = self.streams(task, plan.engine, plan.input, spill, plan.output)?;
        Ok(self.prediction(&stages, plan, &streams))
    }

    pub(crate) fn check(&self, task: &Task) -> Result<(), CostError> {
        task.fault().map_or(Ok(()), |fault| Err(CostError::Task(fault)))?;
        match () {
            () if self.storage.inputs.len() != task.tables.len() => {
                Err(CostError::Task("a table has no device, or a device no table"))
            }
            () if task.output.is_some() && self.storage.output.is_none() => {
                Err(CostError::Task("the result has no device"))
            }
            () => Ok(()),
        }
    }

    pub(crate) fn work<'b>(
        &'b self,
        task: &'b Task,
        threads: usize,
        spill: Option<StreamPlan>,
        codec: Codec,
    ) -> Work<'b> {
        let spill_block = spill.map_or(RESIDENT_CHUNK_BYTES, |spill| spill.block_bytes) as f64;
        let heap = self.limits.heap_bytes as f64;
        Work { task, costs: self.operators, threads, spill_block, heap, codec }
    }

    pub(crate) fn cores(&self, threads: usize, engine: EngineSpec) -> Cores<'a> {
        Cores { operators: self.operators, cores: self.limits.cores.max(1), threads, engine }
    }

    pub(crate) fn prediction(&self, stages: &[Stage], plan: &Plan, streams: &Streams) -> Prediction {
        let cores = self.cores(plan.threads, plan.engine);
        let memory = |stage: &Stage| {
            let (buffers, heap) =
                self.stage_memory(stage, plan.engine, plan.threads, plan.input, plan.output);
            buffers + heap
        };
        let block = |role: Role| match role {
            Role::Input(_) => plan.input.block_bytes as f64,
            Role::Spill => plan.spill.map_or(RESIDENT_CHUNK_BYTES, |spill| spill.stream.block_bytes) as f64,
            Role::Output => plan.output.map_or(RESIDENT_CHUNK_BYTES, |output| output.block_bytes) as f64,
        };
        let devices: Vec<BareDevice> = self.storage.devices().into_iter().map(BareDevice::new).collect();
        let (memory, block) = (&memory, &block);
        Prediction::new(&Basis { stages, cores: &cores, streams, memory, devices: &devices, block })
    }

    /// Returns the resources that decide the sizes of algorithms.
    pub(crate) fn resources(&self, threads: usize, block_bytes: u64) -> Resources {
        let whole = |bytes: u64| bytes.min(MEMORY_MAX_BYTES) as usize;
        Resources {
            buffers: whole(self.limits.buffer_bytes),
            heap: whole(self.limits.heap_bytes),
            threads,
            directories: self.storage.spills.len(),
            block: whole(block_bytes),
        }
    }

    /// Returns the streams of a plan.
    pub(crate) fn streams(
        &self,
        task: &Task,
        engine: EngineSpec,
        input: StreamPlan,
        spill: Option<StreamPlan>,
        output: Option<StreamPlan>,
    ) -> Result<Streams, CostError> {
        let first = |error| self.unmeasured(error);
        let inputs = self.input_channels(task, engine, input).map_err(first)?;
        let spills =
            spill.map_or(Ok(Vec::new()), |spill| self.spill_channels(engine, spill)).map_err(first)?;
        let written = task.output.as_ref().and(output);
        let output = written.map(|output| self.output_channel(engine, output)).transpose().map_err(first)?;
        let interference = self.interference(engine, spill.unwrap_or(input));
        Ok(Streams { inputs, spills, output: output.flatten(), interference })
    }

    pub(crate) fn input_channels(
        &self,
        task: &Task,
        engine: EngineSpec,
        stream: StreamPlan,
    ) -> Result<Vec<Channel>, EstimateError> {
        let tables = task.tables.iter().zip(&self.storage.inputs);
        tables
            .map(|(table, costs)| streams::input(self.numbered(costs), engine, stream, table.cached_ratio))
            .collect()
    }

    pub(crate) fn spill_channels(
        &self,
        engine: EngineSpec,
        stream: StreamPlan,
    ) -> Result<Vec<Channel>, EstimateError> {
        self.storage.spills.iter().map(|costs| streams::spill(self.numbered(costs), engine, stream)).collect()
    }

    pub(crate) fn output_channel(
        &self,
        engine: EngineSpec,
        stream: StreamPlan,
    ) -> Result<Option<Channel>, EstimateError> {
        self.storage.output.map(|costs| streams::output(self.numbered(costs), engine, stream)).transpose()
    }

    pub(crate) fn interference(&self, engine: EngineSpec, stream: StreamPlan) -> Vec<Interference> {
        self.storage.devices().into_iter().map(|costs| streams::interference(costs, engine, stream)).collect()
    }

    fn numbered(&self, costs: &'a DeviceCosts) -> (usize, &'a DeviceCosts) {
        (self.storage.index(costs), costs)
    }

    /// Returns the error that no engine can be predicted, with the first reason.
    pub(crate) fn unmeasured(&self, reason: EstimateError) -> CostError {
        let target = self.storage.inputs.first().map_or(String::new(), |costs| costs.target.clone());
        CostError::Device { target, reason }
    }

    /// Returns the engine of the limits, or all engines and depths with measured reads.
    pub(crate) fn engines(&self) -> Vec<EngineSpec> {
        if let Some(engine) = self.limits.engine {
            return vec![engine];
        }
        let Some(costs) = self.storage.inputs.first() else { return Vec::new() };
        let reads =
            costs.costs.iter().filter(|cost| cost.op == Operation::Read && cost.engine != EngineKind::Null);
        let all = reads.flat_map(|cost| {
            cost.depths.iter().map(|depth| EngineSpec { kind: cost.engine, depth: depth.depth })
        });
        let mut engines: Vec<EngineSpec> = all.collect();
        engines.sort_unstable();
        engines.dedup();
        engines
    }

    /// Ways to read tables that a device's calibration can predict for an engine: all measured block sizes, and the
    /// powers of two between them.
    pub(crate) fn input_plans(&self, costs: &DeviceCosts, engine: EngineSpec) -> Vec<StreamPlan> {
        let page_caches = match self.limits.page_cache {
            Some(page_cache) => vec![page_cache],
            None => vec![PageCache::Bypassed, PageCache::Used],
        };
        let of = |page_cache: PageCache| {
            let blocks = measured_blocks(costs, engine, Operation::Read, page_cache);
            let (first, last) = (blocks.first().copied().unwrap_or(0), blocks.last().copied().unwrap_or(0));
            let powers = (0..u64::BITS - 1).map(|bit| 1 << bit);
            let between = powers.filter(|&block| first < block && block < last).collect();
            let wanted = self.limits.block_bytes.map(|block| vec![block]);
            // Where nothing was measured, the estimate of any block says so.
            let found =
                if blocks.is_empty() { vec![UNMEASURED_BLOCK_BYTES] } else { [blocks, between].concat() };
            let blocks = wanted.unwrap_or(found).into_iter();
            blocks.map(move |block_bytes| StreamPlan { block_bytes, page_cache })
        };
        let mut plans: Vec<StreamPlan> = page_caches.into_iter().flat_map(of).collect();
        plans.sort_unstable();
        plans.dedup();
        plans
    }

    /// Ways to write with an engine. Files of the job itself bypass the page cache if their file system allows it; its
    /// calibration then has such writes.
    pub(crate) fn written_plans(costs: &DeviceCosts, engine: EngineSpec, blocks: &[u64]) -> Vec<StreamPlan> {
        let is_direct = |cost: &Cost| cost.op == Operation::Write && cost.cache == CacheState::Direct;
        let has_direct = costs.costs.iter().any(is_direct);
        let is_any = costs.costs.iter().any(|cost| cost.op == Operation::Write);
        let page_cache = if has_direct || !is_any { PageCache::Bypassed } else { PageCache::Used };
        let measured = measured_blocks(costs, engine, Operation::Write, page_cache);
        let largest = measured.last().copied().unwrap_or(0);
        let always = SPILL_BLOCKS_MIN;
        let taken = blocks
            .iter()
            .filter(|&&block| blocks.len() <= always || block <= largest.max(blocks[always - 1]));
        taken.map(|&block_bytes| StreamPlan { block_bytes, page_cache }).collect()
    }
}

/// Block sizes that were measured, ascending.
fn measured_blocks(
    costs: &DeviceCosts,
    engine: EngineSpec,
    op: Operation,
    page_cache: PageCache,
) -> Vec<u64> {
    let is_direct = page_cache == PageCache::Bypassed;
    let is_same = |cost: &&Cost| {
        cost.engine == engine.kind && cost.op == op && (cost.cache == CacheState::Direct) == is_direct
    };
    let points =
        costs.costs.iter().filter(is_same).flat_map(|cost| &cost.depths).flat_map(|depth| &depth.points);
    let mut blocks: Vec<u64> = points.map(|point| point.block_bytes).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

/// Chunks of a sort's spill, ascending.
pub(crate) const SPILL_BLOCKS_BYTES: [u64; 7] =
    [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];
/// Number of the first of them that are tried even if only smaller ones were measured.
const SPILL_BLOCKS_MIN: usize = 3;

/// Writes of a result in flight, and the buffer that is being filled.
const OUTPUT_BLOCKS: f64 = 4.0;

/// Part of the predicted spill that a plan must have memory for if the spill directories lie in memory: estimates of
/// rows and widths are not exact.
const SPILL_IN_MEMORY_RATIO: f64 = 0.8;

impl Model<'_> {
    /// Buffer bytes and allocator bytes of a stage. Spilled rows in memory count as the latter, as in the executor.
    pub(crate) fn stage_memory(
        &self,
        stage: &Stage,
        engine: EngineSpec,
        threads: usize,
        input: StreamPlan,
        output: Option<StreamPlan>,
    ) -> (f64, f64) {
        let has = |wanted: fn(Role) -> bool| stage.flows.iter().any(|flow| wanted(flow.role));
        let mut buffers = stage.buffer_bytes;
        if has(|role| matches!(role, Role::Input(_))) {
            // Blocks in flight or queued, and one being decoded per thread.
            buffers += (engine.ahead(input.block_bytes as usize) + threads) as f64 * input.block_bytes as f64;
        }
        if has(|role| role == Role::Output) {
            buffers += OUTPUT_BLOCKS * output.map_or(0.0, |output| output.block_bytes as f64);
        }
        let spilled = stage.spilled_bytes * self.storage.spills_in_memory() * SPILL_IN_MEMORY_RATIO;
        (buffers, stage.heap_bytes + spilled)
    }
}
