//! The search for the cheapest plan.
//!
//! Every algorithm with every size of its grid is combined with every engine, depth, block, use of the page cache and
//! compression that the calibration can predict. Variants whose lower bound exceeds the best plan of the same kind are
//! pruned.

use std::collections::BTreeMap;

use serde::Serialize;

use super::algorithms::{algorithms, can_spill, stages};
use super::correction::Correction;
use super::error::CostError;
use super::flow::{Flow, Role};
use super::model::{Model, RESIDENT_CHUNK_BYTES};
use super::operators::{Codec, OperatorCosts};
use super::options::EngineOptions;
use super::plan::{Algorithm, PageCache, Plan, SpillPlan, StreamPlan};
use super::prediction::Prediction;
use super::rejected::{Rejected, thread_counts};
use super::shape::{TableShape, Task};
use super::stage::Stage;
use super::streams::Fastest;
use crate::sort::options::RESIDENT_BYTES;

/// Blocks of plans that spill nothing: the default, and that of little memory.
const RESIDENT_BLOCKS_BYTES: [u64; 2] = [64 << 10, RESIDENT_CHUNK_BYTES];

/// Largest multiple of a memory limit that is tried to find how much a task needs.
const LIMIT_RATIO_MAX: f64 = (1u64 << 40) as f64;
/// Precision of the result.
const LIMIT_PRECISION_RATIO: f64 = 1.01;

/// A chosen plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The plan.
    pub plan: Plan,
    /// Its figures.
    pub prediction: Prediction,
    /// Other plans that keep the memory limit, the fastest first.
    pub rejected: Vec<Rejected>,
}

/// A partial plan, without the choice of streams.
struct Variant {
    algorithm: Algorithm,
    threads: usize,
    /// Block and compression of spills; `None` if nothing is spilled.
    spill: Option<(u64, Codec)>,
    stages: Vec<Stage>,
    /// Lower bound of the elapsed time for any streams, in nanoseconds.
    bound_ns: f64,
}

impl Variant {
    /// Sets the lower bound: in each stage the larger of its CPU time and the time of its longest flow on the fastest
    /// device.
    fn bounded(mut self, costs: &OperatorCosts, fastest: &Fastest, spills: usize) -> Variant {
        let flow = |flow: &Flow| {
            let devices = if flow.role == Role::Spill { spills.max(1) } else { 1 };
            flow.bytes / devices as f64 * fastest.ns_per_byte(flow.direction)
        };
        let stage = |stage: &Stage| {
            let Correction { elapsed, cpu } = costs.corrections.of(stage.kind());
            let cpu_ns = stage.user_ns / self.threads as f64 * cpu.ratio;
            stage.flows.iter().map(flow).fold(cpu_ns, f64::max) * elapsed.ratio
        };
        self.bound_ns = self.stages.iter().map(stage).sum();
        self
    }
}

/// The best plan of an algorithm so far.
struct Best {
    cost: f64,
    plan: Plan,
}

impl Model<'_> {
    /// Chooses a plan.
    ///
    /// # Errors
    /// If the task is inconsistent, a calibration lacks measurements, or no plan keeps the memory limit.
    pub fn choose(&self, task: &Task) -> Result<Choice, CostError> {
        self.check(task)?;
        let options = self.options(task)?;
        let kinds = self.search(task, &options)?;
        let Some(chosen) = kinds.first() else { return Err(self.too_little(task, &options)?) };
        let plan = chosen.plan.clone();
        let prediction = self.predict(task, &plan)?;
        let rejected =
            self.rejected(task, &prediction, others(&kinds).into_iter().chain(self.neighbors(&plan)));
        Ok(Choice { plan, prediction, rejected })
    }

    /// Returns the best plan of each algorithm and number of threads that keeps the memory limit, the best first.
    fn search(&self, task: &Task, options: &[EngineOptions]) -> Result<Vec<Best>, CostError> {
        let mut variants = self.variants(task, options)?;
        variants.sort_by(|a, b| a.bound_ns.total_cmp(&b.bound_ns));
        let mut best = BTreeMap::new();
        for variant in &variants {
            self.try_variant(variant, options, &mut best);
        }
        let mut kinds: Vec<Best> = best.into_values().collect();
        // Few rows are not spilled, whatever the estimates: these differ by less than their errors.
        let few = task.tables.iter().map(TableShape::packed_bytes).sum::<f64>() <= RESIDENT_BYTES as f64;
        let spills = |best: &Best| few && best.plan.spill.is_some();
        kinds.sort_by(|a, b| {
            let by_cost = a.cost.total_cmp(&b.cost).then_with(|| a.plan.cmp(&b.plan));
            spills(a).cmp(&spills(b)).then(by_cost)
        });
        Ok(kinds)
    }

    /// Returns the error about a memory limit that no plan keeps, with one that a plan keeps: found by doubling, then
    /// by bisection.
    fn too_little(&self, task: &Task, options: &[EngineOptions]) -> Result<CostError, CostError> {
        let limit_bytes = self.limits.buffer_bytes.saturating_add(self.limits.heap_bytes);
        let is_enough = |ratio: f64| {
            let of = |bytes: u64| (bytes as f64 * ratio).ceil() as u64;
            let mut model = self.clone();
            (model.limits.buffer_bytes, model.limits.heap_bytes) =
                (of(self.limits.buffer_bytes.max(1)), of(self.limits.heap_bytes.max(1)));
            model.search(task, options).map(|found| !found.is_empty())
        };
        let (mut low, mut high) = (1.0, 2.0);
        while !is_enough(high)? && high < LIMIT_RATIO_MAX {
            (low, high) = (high, 2.0 * high);
        }
        while high / low > LIMIT_PRECISION_RATIO {
            let middle = f64::midpoint(low, high);
            if is_enough(middle)? { high = middle } else { low = middle }
        }
        let needed_bytes = (high * limit_bytes as f64).ceil() as u64;
        Ok(match self.storage.spills_in_memory() > 0.0 {
            true => CostError::SpillMemory { needed_bytes, limit_bytes },
            false => CostError::Memory { needed_bytes, limit_bytes },
        })
    }

    /// Returns all algorithms with all numbers of threads, and with all blocks and compressions if they spill.
    fn variants(&self, task: &Task, options: &[EngineOptions]) -> Result<Vec<Variant>, CostError> {
        let spills = options.iter().flat_map(|options| options.spills.iter().flatten());
        let mut blocks: Vec<u64> = spills.map(|spill| spill.block_bytes).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let codecs = self.codecs();
        let (fastest, devices) = (Fastest::new(&self.storage.devices()), self.storage.spills.len());
        let (mut variants, bound_ns) = (Vec::new(), 0.0);
        for threads in thread_counts(self.limits.threads) {
            // Memory decides which chunks are possible, so that rows that stay in memory have several, too.
            for block_bytes in RESIDENT_BLOCKS_BYTES {
                for algorithm in algorithms(task, &self.resources(threads, block_bytes)) {
                    let stages = stages(&self.work(task, threads, None, Codec::None), algorithm)?;
                    if !spills_rows(&stages) {
                        let variant = Variant { algorithm, threads, spill: None, stages, bound_ns };
                        variants.push(variant.bounded(self.operators, &fastest, devices));
                    }
                }
            }
            for &block_bytes in &blocks {
                for algorithm in algorithms(task, &self.resources(threads, block_bytes)) {
                    let stream = StreamPlan { block_bytes, page_cache: PageCache::Bypassed };
                    for &codec in &codecs {
                        if !can_spill(algorithm, block_bytes) {
                            continue;
                        }
                        let stages = stages(&self.work(task, threads, Some(stream), codec), algorithm)?;
                        if spills_rows(&stages) {
                            let spill = Some((block_bytes, codec));
                            let variant = Variant { algorithm, threads, spill, stages, bound_ns };
                            variants.push(variant.bounded(self.operators, &fastest, devices));
                        }
                    }
                }
            }
        }
        Ok(variants)
    }

    fn try_variant(
        &self,
        variant: &Variant,
        options: &[EngineOptions],
        best: &mut BTreeMap<(String, usize), Best>,
    ) {
        let kind = (variant.algorithm.describe(), variant.threads);
        for options in options {
            for (index, &stream) in options.spills.iter().enumerate() {
                let known = best.get(&kind).map_or(f64::INFINITY, |best| best.cost);
                let block = stream.map(|stream| stream.block_bytes);
                if variant.bound_ns >= known || block != variant.spill.map(|(block, _)| block) {
                    continue;
                }
                let fitted = self.fit(&variant.stages, options, index, variant.threads);
                let Some(fitted) = fitted.filter(|fitted| fitted.cost < known) else { continue };
                let codec = variant.spill.map(|(_, codec)| codec);
                let spill = stream.zip(codec).map(|(stream, codec)| SpillPlan { stream, codec });
                let plan = Plan {
                    algorithm: variant.algorithm,
                    threads: variant.threads,
                    engine: options.engine,
                    input: fitted.input,
                    spill,
                    output: fitted.output,
                };
                best.insert(kind.clone(), Best { cost: fitted.cost, plan });
            }
        }
    }
}

/// Plans of another algorithm, and of the best plan's algorithm with other threads, each with its difference.
fn others(kinds: &[Best]) -> Vec<(String, Plan)> {
    let Some(chosen) = kinds.first().map(|best| best.plan.algorithm.describe()) else { return Vec::new() };
    let mut named: Vec<(String, Plan)> = Vec::new();
    for best in &kinds[1..] {
        let (algorithm, threads) = (best.plan.algorithm.describe(), best.plan.threads);
        let difference = match threads {
            _ if algorithm != chosen => algorithm,
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        };
        // The best plan of an algorithm is before its others.
        if !named.iter().any(|(known, _)| *known == difference) {
            named.push((difference, best.plan.clone()));
        }
    }
    named
}

fn spills_rows(stages: &[Stage]) -> bool {
    stages.iter().flat_map(|stage| &stage.flows).any(|flow| flow.role == Role::Spill)
}
