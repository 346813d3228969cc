//! Candidate streams of an engine, and the best of them for the stages of an algorithm.
//!
//! Only a fully pipelined plan has a stage with both input and output, and needs all combinations. In all other plans
//! the best input and the best output are found separately, because stages have separate memory limits and additive
//! times.

use sakiyomi_io::{EngineSpec, WriteOptions};
use sakiyomi_probe::calibration::EstimateError;

use super::error::CostError;
use super::flow::Role;
use super::model::{Model, SPILL_BLOCKS_BYTES};
use super::plan::StreamPlan;
use super::shape::Task;
use super::stage::Stage;
use super::streams::{Channel, Streams};
use super::transfer::Transfer;

/// Predictable streams of one engine.
pub(crate) struct EngineOptions {
    pub(crate) engine: EngineSpec,
    pub(crate) inputs: Vec<StreamPlan>,
    /// The first is `None`, for plans that do not spill.
    pub(crate) spills: Vec<Option<StreamPlan>>,
    /// Only `None` if no result is written.
    pub(crate) outputs: Vec<Option<StreamPlan>>,
    /// One entry per combination, indexed by spill, input, output.
    streams: Vec<Streams>,
}

/// The best streams for some stages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fitted {
    pub(crate) cost: f64,
    pub(crate) input: StreamPlan,
    pub(crate) output: Option<StreamPlan>,
}

/// Weight of a plan's CPU time, added to its elapsed time. Of equally fast plans the one with less CPU time is chosen,
/// and 1 % less elapsed time does not outweigh 50 % more CPU time.
const CPU_WEIGHT: f64 = 0.02;

/// A stream with its costs on each device.
type Feasible = (StreamPlan, Vec<Channel>);

/// Returns the streams that can be predicted.
fn feasible(
    plans: Vec<StreamPlan>,
    channels: impl Fn(StreamPlan) -> Result<Vec<Channel>, EstimateError>,
) -> Result<Vec<Feasible>, EstimateError> {
    let mut reason = None;
    let mut found = Vec::new();
    for plan in plans {
        match channels(plan) {
            Ok(channels) => found.push((plan, channels)),
            Err(error) => reason = Some(error),
        }
    }
    match reason {
        Some(reason) if found.is_empty() => Err(reason),
        _ => Ok(found),
    }
}

/// Streams without those that are no better in anything than another one.
fn undominated(mut found: Vec<Feasible>) -> Vec<Feasible> {
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
    found
}

fn is_no_worse(a: &Channel, b: &Channel) -> bool {
    let pairs = [(a.read, b.read), (a.random_read, b.random_read), (a.write, b.write)];
    let figures = |t: Transfer| [t.device_ns_per_byte, t.cpu_ns_per_byte, t.kernel_ns_per_byte, t.latency_ns];
    pairs.into_iter().all(|(a, b)| figures(a).into_iter().zip(figures(b)).all(|(a, b)| a <= b))
}

impl Model<'_> {
    /// Returns the candidate streams of all engines.
    ///
    /// # Errors
    /// If no engine can be predicted.
    pub(crate) fn options(&self, task: &Task) -> Result<Vec<EngineOptions>, CostError> {
        let (mut all, mut reason) = (Vec::new(), None);
        for engine in self.engines() {
            match self.options_of(task, engine) {
                Ok(options) => all.push(options),
                Err(error) => reason = reason.or(Some(error)),
            }
        }
        match reason {
            Some(reason) if all.is_empty() => Err(self.unmeasured(reason)),
            _ if all.is_empty() => Err(CostError::Task("the calibration has no engine that reads")),
            _ => Ok(all),
        }
    }

    fn options_of(&self, task: &Task, engine: EngineSpec) -> Result<EngineOptions, EstimateError> {
        let inputs = self.input_plans(self.storage.inputs[0], engine);
        let inputs = undominated(feasible(inputs, |plan| self.input_channels(task, engine, plan))?);
        // A job that cannot spill with this engine still has the plans that do not spill.
        let spills = self.storage.spills.first();
        let spills = spills.map(|costs| Model::written_plans(costs, engine, &SPILL_BLOCKS_BYTES));
        let spills = spills.and_then(|plans| feasible(plans, |plan| self.spill_channels(engine, plan)).ok());
        let spills = [None].into_iter().chain(spills.unwrap_or_default().into_iter().map(Some));
        let spills: Vec<Option<Feasible>> = spills.collect();
        let outputs = match (&task.output, self.storage.output) {
            (Some(_), Some(costs)) => {
                let channel = |plan| self.output_channel(engine, plan).map(Vec::from_iter);
                let plans = Model::written_plans(costs, engine, &[WriteOptions::default().block as u64]);
                feasible(plans, channel)?.into_iter().map(Some).collect()
            }
            _ => vec![None],
        };
        let plan = |option: &Option<Feasible>| option.as_ref().map(|(plan, _)| *plan);
        Ok(EngineOptions {
            engine,
            streams: self.combinations(engine, &inputs, &spills, &outputs),
            inputs: inputs.iter().map(|(plan, _)| *plan).collect(),
            spills: spills.iter().map(plan).collect(),
            outputs: outputs.iter().map(plan).collect(),
        })
    }

    fn combinations(
        &self,
        engine: EngineSpec,
        inputs: &[Feasible],
        spills: &[Option<Feasible>],
        outputs: &[Option<Feasible>],
    ) -> Vec<Streams> {
        let mut all = Vec::with_capacity(inputs.len() * spills.len() * outputs.len());
        let channels =
            |option: &Option<Feasible>| option.as_ref().map_or(Vec::new(), |(_, channels)| channels.clone());
        for spill in spills {
            for (input, input_channels) in inputs {
                let stream = spill.as_ref().map_or(*input, |(spill, _)| *spill);
                let interference = self.interference(engine, stream);
                all.extend(outputs.iter().map(|output| Streams {
                    inputs: input_channels.clone(),
                    spills: channels(spill),
                    output: channels(output).first().copied(),
                    interference: interference.clone(),
                }));
            }
        }
        all
    }

    /// Returns the best input and output for some stages, with a spill by its index; none if none of them keeps the
    /// memory limit.
    pub(crate) fn fit(
        &self,
        stages: &[Stage],
        options: &EngineOptions,
        spill: usize,
        threads: usize,
    ) -> Option<Fitted> {
        let has = |stage: &Stage, wanted: fn(Role) -> bool| stage.flows.iter().any(|flow| wanted(flow.role));
        let reads = |stage: &Stage| has(stage, |role| matches!(role, Role::Input(_)));
        let writes = |stage: &Stage| has(stage, |role| role == Role::Output);
        let cost = |input: usize, output: usize, wanted: &dyn Fn(&Stage) -> bool| {
            let of = stages.iter().filter(|stage| wanted(stage));
            of.map(|stage| self.stage_cost(stage, options, [spill, input, output], threads))
                .fold(Cost::default(), Cost::and)
        };
        let (inputs, outputs) = (0..options.inputs.len(), 0..options.outputs.len());
        let best = if stages.iter().any(|stage| reads(stage) && writes(stage)) {
            let pairs = inputs.flat_map(|input| outputs.clone().map(move |output| (input, output)));
            best(pairs.map(|(input, output)| (cost(input, output, &|_| true), (input, output))))
        } else {
            let input = best(inputs.map(|input| (cost(input, 0, &|stage| !writes(stage)), input)));
            let output = best(outputs.map(|output| (cost(0, output, &writes), output)));
            input.zip(output).map(|((a, input), (b, output))| (a.and(b), (input, output)))
        };
        let (cost, (input, output)) = best.filter(|(cost, _)| cost.memory_ratio <= 1.0)?;
        Some(Fitted { cost: cost.cost, input: options.inputs[input], output: options.outputs[output] })
    }

    fn stage_cost(&self, stage: &Stage, options: &EngineOptions, at: [usize; 3], threads: usize) -> Cost {
        let [spill, input, output] = at;
        let index = (spill * options.inputs.len() + input) * options.outputs.len() + output;
        let cores = self.cores(threads, options.engine);
        let figures = stage.predict(&cores, &options.streams[index]);
        let cpu = figures.user_ns + figures.system_ns + figures.kernel_threads_ns;
        let stages = std::slice::from_ref(stage);
        let (input, output) = (options.inputs[input], options.outputs[output]);
        Cost {
            cost: figures.elapsed_ns + CPU_WEIGHT * cpu,
            memory_ratio: self.memory_ratio(stages, options.engine, threads, input, output),
        }
    }

    /// Ratio of the largest stage's memory to the limit.
    pub(crate) fn memory_ratio(
        &self,
        stages: &[Stage],
        engine: EngineSpec,
        threads: usize,
        input: StreamPlan,
        output: Option<StreamPlan>,
    ) -> f64 {
        let (buffers, heap) = (self.limits.buffer_bytes as f64, self.limits.heap_bytes as f64);
        let ratio = |stage: &Stage| {
            let used = self.stage_memory(stage, engine, threads, input, output);
            f64::max(used.0 / buffers, used.1 / heap)
        };
        stages.iter().map(ratio).fold(0.0, f64::max)
    }
}

/// Cost of some stages, and ratio of their memory to the limit.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    cost: f64,
    memory_ratio: f64,
}

impl Cost {
    fn and(self, other: Cost) -> Cost {
        Cost { cost: self.cost + other.cost, memory_ratio: self.memory_ratio.max(other.memory_ratio) }
    }
}

/// Returns the cheapest item within the memory limit, or else the one with the least memory.
fn best<T>(all: impl Iterator<Item = (Cost, T)>) -> Option<(Cost, T)> {
    all.min_by(|(a, _), (b, _)| {
        let over = |cost: &Cost| cost.memory_ratio.max(1.0);
        over(a).total_cmp(&over(b)).then_with(|| a.cost.total_cmp(&b.cost))
    })
}
