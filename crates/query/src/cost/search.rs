//! The search for the cheapest plan.
//!
//! Every algorithm with every size of its grid is combined with every engine, depth, block, use of the page cache and
//! compression that the calibration can predict. Variants whose lower bound exceeds the best plan of the same kind are
//! pruned.

use std::collections::BTreeMap;

use serde::Serialize;

use super::algorithms::{algorithms, stages};
use super::error::CostError;
use super::flow::{Flow, Role};
use super::model::Model;
use super::operators::Codec;
use super::options::EngineOptions;
use super::plan::{Algorithm, PageCache, Plan, SpillPlan, StreamPlan};
use super::prediction::Prediction;
use super::rejected::{Rejected, thread_counts};
use super::shape::Task;
use super::stage::Stage;
use super::streams::Fastest;

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
    fn bounded(mut self, fastest: &Fastest, spills: usize) -> Variant {
        let flow = |flow: &Flow| {
            let devices = if flow.role == Role::Spill { spills.max(1) } else { 1 };
            flow.bytes / devices as f64 * fastest.ns_per_byte(flow.direction)
        };
        let stage = |stage: &Stage| {
            let cpu = stage.user_ns / self.threads as f64;
            stage.flows.iter().map(flow).fold(cpu, f64::max)
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
        let mut variants = self.variants(task, &options)?;
        variants.sort_by(|a, b| a.bound_ns.total_cmp(&b.bound_ns));
        let (mut best, mut needed_ratio) = (BTreeMap::new(), f64::INFINITY);
        for variant in &variants {
            self.try_variant(variant, &options, &mut best, &mut needed_ratio);
        }
        let mut kinds: Vec<Best> = best.into_values().collect();
        kinds.sort_by(|a, b| a.cost.total_cmp(&b.cost).then_with(|| a.plan.cmp(&b.plan)));
        let Some(chosen) = kinds.first() else {
            let limit_bytes = self.limits.buffer_bytes.saturating_add(self.limits.heap_bytes);
            let needed_bytes = (needed_ratio * limit_bytes as f64).ceil() as u64;
            return Err(CostError::Memory { needed_bytes, limit_bytes });
        };
        let plan = chosen.plan.clone();
        let prediction = self.predict(task, &plan)?;
        let others = kinds[1..].iter().map(|best| (best.plan.algorithm.describe(), best.plan.clone()));
        let rejected = self.rejected(task, &prediction, others.chain(self.neighbours(&plan)));
        Ok(Choice { plan, prediction, rejected })
    }

    /// Combines all algorithms with all numbers of threads, and with all blocks and compressions if they spill.
    fn variants(&self, task: &Task, options: &[EngineOptions]) -> Result<Vec<Variant>, CostError> {
        let spills = options.iter().flat_map(|options| options.spills.iter().flatten());
        let mut blocks: Vec<u64> = spills.map(|spill| spill.block_bytes).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let (fastest, devices) = (Fastest::new(&self.storage.devices()), self.storage.spills.len());
        let (mut variants, bound_ns) = (Vec::new(), 0.0);
        for algorithm in algorithms(task) {
            for threads in thread_counts(self.limits.threads) {
                let resident = stages(&self.work(task, threads, None, Codec::None), algorithm)?;
                if !spills_rows(&resident) {
                    let variant = Variant { algorithm, threads, spill: None, stages: resident, bound_ns };
                    variants.push(variant.bounded(&fastest, devices));
                    continue;
                }
                for &block_bytes in &blocks {
                    for codec in self.codecs() {
                        let stream = StreamPlan { block_bytes, page_cache: PageCache::Bypassed };
                        let stages = stages(&self.work(task, threads, Some(stream), codec), algorithm)?;
                        let spill = Some((block_bytes, codec));
                        let variant = Variant { algorithm, threads, spill, stages, bound_ns };
                        variants.push(variant.bounded(&fastest, devices));
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
        best: &mut BTreeMap<String, Best>,
        needed_ratio: &mut f64,
    ) {
        let kind = variant.algorithm.describe();
        for options in options {
            for (index, &stream) in options.spills.iter().enumerate() {
                let known = best.get(&kind).map_or(f64::INFINITY, |best| best.cost);
                let block = stream.map(|stream| stream.block_bytes);
                if variant.bound_ns >= known || block != variant.spill.map(|(block, _)| block) {
                    continue;
                }
                match self.fit(&variant.stages, options, index, variant.threads) {
                    Ok(fitted) if fitted.cost < known => {
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
                    Ok(_) => {}
                    Err(ratio) => *needed_ratio = needed_ratio.min(ratio),
                }
            }
        }
    }
}

fn spills_rows(stages: &[Stage]) -> bool {
    stages.iter().flat_map(|stage| &stage.flows).any(|flow| flow.role == Role::Spill)
}
