//! Rejected plans: the best of each other algorithm, and those that differ from the chosen plan in one choice.

use serde::Serialize;

use super::algorithms::{can_spill, stages};
use super::error::CostError;
use super::model::Model;
use super::operators::Codec;
use super::plan::{PageCache, Plan, SpillPlan, StreamPlan};
use super::prediction::Prediction;
use super::shape::Task;

/// Compressions of spills.
const SPILL_CODECS: [Codec; 2] = [Codec::Lz4, Codec::Zstd];

/// A rejected plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rejected {
    /// Its difference from the chosen plan: `hash join built from the right`, `engine pread:4`, `input buffered`.
    pub difference: String,
    /// The plan.
    pub plan: Plan,
    /// Its elapsed time, in nanoseconds.
    pub elapsed_ns: u64,
    /// Its CPU time in user and kernel mode, in nanoseconds.
    pub cpu_ns: u64,
    /// Its peak memory in bytes.
    pub memory_bytes: u64,
    /// Its elapsed time over that of the chosen plan.
    pub elapsed_ratio: f64,
}

impl Model<'_> {
    /// Returns whether a plan keeps the memory limit.
    ///
    /// # Errors
    /// If the task is inconsistent, or an operator was not measured.
    pub fn fits(&self, task: &Task, plan: &Plan) -> Result<bool, CostError> {
        self.check(task)?;
        let codec = plan.spill.map_or(Codec::None, |spill| spill.codec);
        let stages = stages(
            &self.work(task, plan.threads, plan.spill.map(|spill| spill.stream), codec),
            plan.algorithm,
        )?;
        Ok(self.memory_ratio(&stages, plan.engine, plan.threads, plan.input, plan.output) <= 1.0)
    }

    /// Returns the plans that differ from a plan in one choice, with a description of the difference.
    pub(crate) fn neighbors(&self, plan: &Plan) -> Vec<(String, Plan)> {
        let mut all = Vec::new();
        let mut add = |difference: String, neighbor: Plan| {
            if neighbor != *plan {
                all.push((difference, neighbor));
            }
        };
        for engine in self.engines() {
            add(format!("engine {engine}"), Plan { engine, ..plan.clone() });
        }
        for page_cache in [PageCache::Bypassed, PageCache::Used] {
            let changed = |stream: StreamPlan| StreamPlan { page_cache, ..stream };
            let name = page_cache.name();
            add(format!("input {name}"), Plan { input: changed(plan.input), ..plan.clone() });
        }
        for codec in self.codecs() {
            let spill = plan.spill.map(|spill| SpillPlan { codec, ..spill });
            let spill = spill.filter(|spill| can_spill(plan.algorithm, spill.stream.block_bytes));
            if spill.is_none() {
                continue;
            }
            add(format!("spill compressed by {codec:?}"), Plan { spill, ..plan.clone() });
        }
        all
    }

    /// Returns the candidate compressions of spills: none, and all measured ones.
    pub(crate) fn codecs(&self) -> Vec<Codec> {
        let measured = self.operators.codecs.iter().map(|cost| cost.codec);
        std::iter::once(Codec::None).chain(measured.filter(|codec| SPILL_CODECS.contains(codec))).collect()
    }

    /// Returns the plans that keep the memory limit, the fastest first.
    pub(crate) fn rejected(
        &self,
        task: &Task,
        chosen: &Prediction,
        plans: impl Iterator<Item = (String, Plan)>,
    ) -> Vec<Rejected> {
        let predicted = plans.filter_map(|(difference, plan)| {
            let prediction = self.fits(task, &plan).ok()?.then(|| self.predict(task, &plan).ok())??;
            Some(Rejected {
                difference,
                plan,
                elapsed_ns: prediction.elapsed_ns,
                cpu_ns: prediction.user_ns.saturating_add(prediction.system_ns),
                memory_bytes: prediction.memory_bytes,
                elapsed_ratio: prediction.elapsed_ns as f64 / chosen.elapsed_ns.max(1) as f64,
            })
        });
        let mut rejected: Vec<Rejected> = predicted.collect();
        rejected
            .sort_by(|a, b| a.elapsed_ns.cmp(&b.elapsed_ns).then_with(|| a.difference.cmp(&b.difference)));
        rejected
    }
}

/// Candidate numbers of threads: the powers of two below the limit, and the limit.
pub(crate) fn thread_counts(limit: usize) -> Vec<usize> {
    let limit = limit.max(1);
    let powers = (0..usize::BITS).map(|bit| 1usize << bit).take_while(|&count| count < limit);
    powers.chain([limit]).collect()
}
