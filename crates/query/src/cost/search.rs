//! The choice among plans.
//!
//! Every algorithm with every size of its grid is combined with every engine, depth, block, use of the page cache and
//! compression that the calibration can predict, and the one with the least cost is chosen. Blocks that are no better in
//! anything than another one are left out beforehand, and algorithms whose CPU time alone is longer than the best plan of
//! their kind.

use std::collections::BTreeMap;

use sakiyomi_io::EngineSpec;
use sakiyomi_probe::calibration::EstimateError;
use sakiyomi_probe::setting::Operation;
use serde::Serialize;

use super::algorithms::{algorithms, stages};
use super::error::CostError;
use super::flow::Role;
use super::model::{Model, stage_memory};
use super::operators::Codec;
use super::plan::{Algorithm, PageCache, Plan, SpillPlan, StreamPlan};
use super::prediction::Prediction;
use super::shape::Task;
use super::stage::Stage;
use super::streams::{Channel, Streams};
use super::transfer::Transfer;

/// A chosen plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The plan.
    pub plan: Plan,
    /// Its figures.
    pub prediction: Prediction,
    /// Other plans, the fastest first.
    pub rejected: Vec<Rejected>,
}

/// A plan that was not chosen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rejected {
    /// Its difference from the chosen plan: `hash join built from the right`, `engine pread:4`, `spill buffered`.
    pub difference: String,
    /// The plan.
    pub plan: Plan,
    /// Its time, in nanoseconds.
    pub elapsed_ns: u64,
    /// Its CPU time in user mode and in the kernel, in nanoseconds.
    pub cpu_ns: u64,
    /// Bytes of memory at its peak.
    pub memory_bytes: u64,
    /// Its time over the chosen plan's.
    pub elapsed_ratio: f64,
}

/// The part of a plan's CPU time that counts beside its elapsed time: of plans that take equally long the one that leaves
/// more of the machine to others is chosen, and one that is 1 % faster for 50 % of the CPU time is not.
const CPU_WEIGHT: f64 = 0.02;

/// Streams of one engine.
struct Candidate {
    engine: EngineSpec,
    input: StreamPlan,
    spill: Option<StreamPlan>,
    output: Option<StreamPlan>,
    streams: Streams,
}

/// The best plan of an algorithm so far.
struct Best {
    cost: f64,
    plan: Plan,
}

/// State of a search.
struct Search<'a, 'b> {
    model: &'b Model<'a>,
    task: &'b Task,
    candidates: Vec<Candidate>,
    /// By the algorithm's description.
    best: BTreeMap<String, Best>,
    /// Bytes of memory of the plan that needs the least of those that do not keep the limit.
    needed_bytes: f64,
}

impl Model<'_> {
    /// Chooses a plan.
    ///
    /// # Errors
    /// If the task contradicts itself, a calibration lacks measurements, or no plan keeps the memory limit.
    pub fn choose(&self, task: &Task) -> Result<Choice, CostError> {
        self.check(task)?;
        let candidates = self.candidates(task)?;
        let (best, needed_bytes) = (BTreeMap::new(), f64::INFINITY);
        let mut search = Search { model: self, task, candidates, best, needed_bytes };
        for algorithm in algorithms(task) {
            for threads in thread_counts(self.limits.threads) {
                search.try_sizes(algorithm, threads)?;
            }
        }
        let limit_bytes = self.limits.buffer_bytes + self.limits.heap_bytes;
        let mut kinds: Vec<Best> = search.best.into_values().collect();
        kinds.sort_by(|a, b| a.cost.total_cmp(&b.cost).then_with(|| a.plan.cmp(&b.plan)));
        let Some(chosen) = kinds.first() else {
            return Err(CostError::Memory { needed_bytes: search.needed_bytes as u64, limit_bytes });
        };
        let plan = chosen.plan.clone();
        let prediction = self.predict(task, &plan)?;
        let others = kinds[1..].iter().map(|best| (best.plan.algorithm.describe(), best.plan.clone()));
        let rejected = self.rejected(task, &prediction, others.chain(self.neighbours(&plan)));
        Ok(Choice { plan, prediction, rejected })
    }

    /// All combinations of streams that can be predicted.
    fn candidates(&self, task: &Task) -> Result<Vec<Candidate>, CostError> {
        let mut candidates = Vec::new();
        let mut reason = None;
        for engine in self.engines() {
            match self.candidates_of(task, engine) {
                Ok(found) => candidates.extend(found),
                Err(error) => reason = reason.or(Some(error)),
            }
        }
        match reason {
            Some(reason) if candidates.is_empty() => Err(self.unmeasured(reason)),
            _ if candidates.is_empty() => Err(CostError::Task("the calibration has no engine that reads")),
            _ => Ok(candidates),
        }
    }

    fn candidates_of(&self, task: &Task, engine: EngineSpec) -> Result<Vec<Candidate>, EstimateError> {
        let plans = |costs, op| self.stream_plans(costs, engine, op);
        let inputs = plans(self.storage.inputs[0], Operation::Read);
        let inputs = feasible(inputs, |plan| self.input_channels(task, engine, plan))?;
        // A job that cannot spill with this engine still has the plans that do not spill.
        let spills = self.storage.spills.first().map(|costs| plans(costs, Operation::Write));
        let spills = spills.and_then(|plans| feasible(plans, |plan| self.spill_channels(engine, plan)).ok());
        let spills = spills.unwrap_or_default();
        let outputs = match (&task.output, self.storage.output) {
            (Some(_), Some(costs)) => feasible(plans(costs, Operation::Write), |plan| {
                self.output_channel(engine, plan).map(Vec::from_iter)
            })?,
            _ => Vec::new(),
        };
        let mut candidates = Vec::new();
        for (input, input_channels) in &inputs {
            for spill in options(&spills) {
                for output in options(&outputs) {
                    let stream = spill.map_or(*input, |(spill, _)| *spill);
                    let channels = |option: Option<&Feasible>| option.map(|(_, channels)| channels.clone());
                    let streams = Streams {
                        inputs: input_channels.clone(),
                        spills: channels(spill).unwrap_or_default(),
                        output: channels(output).and_then(|channels| channels.first().copied()),
                        interference: self.interference(engine, stream),
                    };
                    let of = |option: Option<&Feasible>| option.map(|(plan, _)| *plan);
                    let (spill, output) = (of(spill), of(output));
                    candidates.push(Candidate { engine, input: *input, spill, output, streams });
                }
            }
        }
        Ok(candidates)
    }

    /// Plans that differ from a plan in one choice.
    fn neighbours(&self, plan: &Plan) -> Vec<(String, Plan)> {
        let mut all = Vec::new();
        let mut add = |difference: String, neighbour: Plan| {
            if neighbour != *plan {
                all.push((difference, neighbour));
            }
        };
        for engine in self.engines() {
            add(format!("engine {engine}"), Plan { engine, ..plan.clone() });
        }
        for threads in thread_counts(self.limits.threads) {
            let word = if threads == 1 { "thread" } else { "threads" };
            add(format!("{threads} {word}"), Plan { threads, ..plan.clone() });
        }
        for page_cache in [PageCache::Bypassed, PageCache::Used] {
            let changed = |stream: StreamPlan| StreamPlan { page_cache, ..stream };
            let name = page_cache.name();
            add(format!("input {name}"), Plan { input: changed(plan.input), ..plan.clone() });
            let spill = plan.spill.map(|spill| SpillPlan { stream: changed(spill.stream), ..spill });
            add(format!("spill {name}"), Plan { spill, ..plan.clone() });
            add(format!("output {name}"), Plan { output: plan.output.map(changed), ..plan.clone() });
        }
        for codec in self.codecs() {
            let spill = plan.spill.map(|spill| SpillPlan { codec, ..spill });
            add(format!("spill compressed by {codec:?}"), Plan { spill, ..plan.clone() });
        }
        all
    }

    /// Compressions of spills that were measured, and none.
    fn codecs(&self) -> Vec<Codec> {
        let measured = self.operators.codecs.iter().map(|cost| cost.codec);
        std::iter::once(Codec::None).chain(measured.filter(|&codec| codec != Codec::None)).collect()
    }

    fn rejected(
        &self,
        task: &Task,
        chosen: &Prediction,
        plans: impl Iterator<Item = (String, Plan)>,
    ) -> Vec<Rejected> {
        let predicted = plans.filter_map(|(difference, plan)| {
            let prediction = self.predict(task, &plan).ok()?;
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

impl Search<'_, '_> {
    /// Tries an algorithm with all blocks and compressions of spills.
    fn try_sizes(&mut self, algorithm: Algorithm, threads: usize) -> Result<(), CostError> {
        let (model, task) = (self.model, self.task);
        let resident = stages(&model.work(task, threads, None, Codec::None), algorithm)?;
        if !spills_rows(&resident) {
            self.try_streams(algorithm, threads, &resident, None);
            return Ok(());
        }
        let blocks =
            self.candidates.iter().filter_map(|candidate| candidate.spill).map(|spill| spill.block_bytes);
        let mut blocks: Vec<u64> = blocks.collect();
        blocks.sort_unstable();
        blocks.dedup();
        for block_bytes in blocks {
            for codec in model.codecs() {
                let stream = StreamPlan { block_bytes, page_cache: PageCache::Bypassed };
                let stages = stages(&model.work(task, threads, Some(stream), codec), algorithm)?;
                self.try_streams(algorithm, threads, &stages, Some((block_bytes, codec)));
            }
        }
        Ok(())
    }

    /// Tries the stages of an algorithm with all streams; if it spills, with those whose spills have its block.
    fn try_streams(
        &mut self,
        algorithm: Algorithm,
        threads: usize,
        stages: &[Stage],
        spill: Option<(u64, Codec)>,
    ) {
        let kind = algorithm.describe();
        let least = stages.iter().map(|stage| stage.user_ns).sum::<f64>() / threads as f64;
        let mut best = self.best.get(&kind).map_or(f64::INFINITY, |best| best.cost);
        if least >= best {
            return;
        }
        let has_block = |candidate: &Candidate| {
            let block = candidate.spill.map(|spill| spill.block_bytes);
            spill.is_none_or(|(wanted, _)| block == Some(wanted))
        };
        let mut found = None;
        for (index, candidate) in
            self.candidates.iter().enumerate().filter(|(_, candidate)| has_block(candidate))
        {
            if let Err(needed) = self.fits(stages, candidate, threads) {
                self.needed_bytes = self.needed_bytes.min(needed);
                continue;
            }
            let cost = self.cost(stages, candidate, threads);
            if cost < best {
                (best, found) = (cost, Some(index));
            }
        }
        if let Some(index) = found {
            let Candidate { engine, input, spill: stream, output, .. } = self.candidates[index];
            let spill = spill.and_then(|(_, codec)| stream.map(|stream| SpillPlan { stream, codec }));
            let plan = Plan { algorithm, threads, engine, input, spill, output };
            self.best.insert(kind, Best { cost: best, plan });
        }
    }

    /// Whether a plan keeps the memory limit; if not, the bytes that the whole limit would have to have.
    fn fits(&self, stages: &[Stage], candidate: &Candidate, threads: usize) -> Result<(), f64> {
        let limits = &self.model.limits;
        let (buffers, heap) = (limits.buffer_bytes as f64, limits.heap_bytes as f64);
        let over = |stage: &Stage| {
            let used = stage_memory(stage, candidate.engine, threads, candidate.input, candidate.output);
            f64::max(used.0 / buffers, used.1 / heap)
        };
        let worst = stages.iter().map(over).fold(0.0, f64::max);
        if worst <= 1.0 { Ok(()) } else { Err(worst * (buffers + heap)) }
    }

    fn cost(&self, stages: &[Stage], candidate: &Candidate, threads: usize) -> f64 {
        let cores = self.model.cores(threads, candidate.engine);
        let stage = |stage: &Stage| {
            let figures = stage.predict(&cores, &candidate.streams);
            let cpu = figures.user_ns + figures.system_ns + figures.kernel_threads_ns;
            figures.elapsed_ns + CPU_WEIGHT * cpu
        };
        stages.iter().map(stage).sum()
    }
}

fn spills_rows(stages: &[Stage]) -> bool {
    stages.iter().flat_map(|stage| &stage.flows).any(|flow| flow.role == Role::Spill)
}

/// Numbers of threads to choose among: the powers of two below the limit, and the limit.
fn thread_counts(limit: usize) -> Vec<usize> {
    let limit = limit.max(1);
    let powers = (0..usize::BITS).map(|bit| 1usize << bit).take_while(|&count| count < limit);
    powers.chain([limit]).collect()
}

/// A stream with what it costs on its devices.
type Feasible = (StreamPlan, Vec<Channel>);

/// The streams that can be predicted, without those that are no better in anything than another one.
fn feasible(
    plans: Vec<StreamPlan>,
    channels: impl Fn(StreamPlan) -> Result<Vec<Channel>, EstimateError>,
) -> Result<Vec<Feasible>, EstimateError> {
    let mut reason = None;
    let mut found: Vec<Feasible> = Vec::new();
    for plan in plans {
        match channels(plan) {
            Ok(channels) => found.push((plan, channels)),
            Err(error) => reason = Some(error),
        }
    }
    let is_dominated = |index: usize| {
        let (plan, channels) = &found[index];
        found.iter().enumerate().any(|(other, (better, better_channels))| {
            let is_same_cache = better.page_cache == plan.page_cache;
            let pairs = || better_channels.iter().zip(channels);
            is_same_cache
                && better.block_bytes <= plan.block_bytes
                && pairs().all(|(a, b)| is_no_worse(a, b))
                && (pairs().any(|(a, b)| !is_no_worse(b, a)) || other < index)
        })
    };
    let kept: Vec<bool> = (0..found.len()).map(|index| !is_dominated(index)).collect();
    let mut kept = kept.into_iter();
    found.retain(|_| kept.next() == Some(true));
    match reason {
        Some(reason) if found.is_empty() => Err(reason),
        _ => Ok(found),
    }
}

fn is_no_worse(a: &Channel, b: &Channel) -> bool {
    let pairs = [(a.read, b.read), (a.random_read, b.random_read), (a.write, b.write)];
    let figures = |t: Transfer| [t.device_ns_per_byte, t.cpu_ns_per_byte, t.kernel_ns_per_byte, t.latency_ns];
    pairs.into_iter().all(|(a, b)| figures(a).into_iter().zip(figures(b)).all(|(a, b)| a <= b))
}

/// Each option, or none if there is none.
fn options<T>(all: &[T]) -> Vec<Option<&T>> {
    if all.is_empty() { vec![None] } else { all.iter().map(Some).collect() }
}
