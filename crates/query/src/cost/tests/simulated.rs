//! Plans on simulated machines with stalls, jitter and calibration errors that the model does not know.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::machines::*;
use crate::cost::algorithms::{algorithms, stages};
use crate::cost::flow::Direction;
use crate::cost::model::Model;
use crate::cost::operators::Codec;
use crate::cost::plan::{Algorithm, Plan, SpillPlan};
use crate::cost::shape::Task;
use crate::cost::stage::Stage;
use crate::cost::streams::Streams;

/// Portions of a simulated stage.
const PORTIONS: usize = 60;
/// Maximum portions in flight or waiting: read-ahead and write buffers.
const PORTION_WINDOW: usize = 8;
/// Relative errors of calibrations, and jitter of each portion.
const CALIBRATION_ERROR_RATIO: f64 = 0.1;
const JITTER_RATIO: f64 = 0.4;

/// A factor around 1.
fn factor(random: &mut Pcg64, spread: f64) -> f64 {
    1.0 + spread * (random.next_u64() as f64 / u64::MAX as f64 * 2.0 - 1.0)
}

/// Simulates a stage portion by portion: a device that alternates reads and writes, compute threads, a serial part, and
/// a window that limits read-ahead. Returns the elapsed time in nanoseconds.
fn simulate(stage: &Stage, model: &Model<'_>, plan: &Plan, streams: &Streams, random: &mut Pcg64) -> f64 {
    let cores = model.cores(plan.threads, plan.engine);
    let figures = stage.predict(&cores, streams);
    let of = |direction| {
        let flows: Vec<_> = stage.flows.iter().copied().filter(|flow| flow.direction == direction).collect();
        streams.device_ns(&flows)
    };
    let (reading, writing) = (of(Direction::Read), of(Direction::Write));
    let threads = plan.threads.min(model.limits.cores);
    let cpu = figures.user_ns + figures.system_ns + figures.kernel_threads_ns;
    let serial = stage.serial_ns * cores.operators.slowdown(threads);
    let (mut device, mut merger) = (0.0f64, 0.0f64);
    let mut free = vec![0.0f64; threads];
    let mut done: Vec<f64> = Vec::with_capacity(PORTIONS);
    // Times at which portions are ready to be written.
    let mut unwritten = std::collections::VecDeque::new();
    for portion in 0..PORTIONS {
        let mut share = |total: f64| total / PORTIONS as f64 * factor(random, JITTER_RATIO);
        while unwritten.front().is_some_and(|&ready| ready <= device) {
            unwritten.pop_front();
            device += share(writing);
        }
        let window = portion.checked_sub(PORTION_WINDOW).map_or(0.0, |before| done[before]);
        device = device.max(window) + share(reading);
        let thread = (0..threads).min_by(|&a, &b| free[a].total_cmp(&free[b])).unwrap();
        let mut end = device.max(free[thread]) + share(cpu - serial);
        free[thread] = end;
        if serial > 0.0 {
            merger = merger.max(end) + share(serial);
            end = merger;
        }
        unwritten.push_back(end);
        done.push(end);
    }
    for ready in unwritten {
        device = device.max(ready) + writing / PORTIONS as f64;
    }
    done.into_iter().chain(free).fold(device, f64::max)
}

/// The simulated time of a plan on a machine.
fn run(model: &Model<'_>, task: &Task, plan: &Plan, random: &mut Pcg64) -> f64 {
    let codec = plan.spill.map_or(Codec::None, |spill| spill.codec);
    let spill = plan.spill.map(|spill| spill.stream);
    let stages = stages(&model.work(task, plan.threads, spill, codec), plan.algorithm).unwrap();
    let streams = model.streams(task, plan.engine, plan.input, spill, plan.output).unwrap();
    stages.iter().map(|stage| simulate(stage, model, plan, &streams, random)).sum()
}

/// Alternative plans within the memory limit: all algorithms, with all other choices random.
fn rivals(model: &Model<'_>, task: &Task, chosen: &Plan, random: &mut Pcg64) -> Vec<Plan> {
    let mut pick = |count: usize| (random.next_u64() % count as u64) as usize;
    let engines = model.engines();
    let mut plans = Vec::new();
    let resources = model.resources(model.limits.threads, 256 << 10);
    for algorithm in algorithms(task, &resources) {
        for _ in 0..2 {
            let stream = |pick: &mut dyn FnMut(usize) -> usize, plan: &Plan| {
                let blocks = [1 << 16, 1 << 18, 1 << 20];
                crate::cost::plan::StreamPlan { block_bytes: blocks[pick(3)], ..plan.input }
            };
            let codec = [Codec::None, Codec::None, Codec::Lz4][pick(3)];
            let block_bytes =
                if matches!(algorithm, Algorithm::HashAggregate { .. }) { 128 << 10 } else { 256 << 10 };
            let spill =
                SpillPlan { stream: crate::cost::plan::StreamPlan { block_bytes, ..chosen.input }, codec };
            let output = chosen.output;
            let engine = engines[pick(engines.len())];
            let input = stream(&mut pick, chosen);
            let threads = model.limits.threads;
            plans.push(Plan { algorithm, threads, engine, input, spill: Some(spill), output });
        }
    }
    plans.retain(|plan| model.fits(task, plan).unwrap_or(false));
    plans
}

/// Ratio of the time of the chosen plan to that of the best one, on a machine derived from a seed.
fn regret(seed: u64) -> f64 {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut log = |low: f64, high: f64| {
        let at = random.next_u64() as f64 / u64::MAX as f64;
        low * (high / low).powf(at)
    };
    let read = log(1e8, 8e9);
    let spec = DeviceSpec {
        bandwidth: [read, read * log(0.4, 1.2)],
        latency_ns: log(2e4, 5e6),
        seek_ns: if log(1.0, 3.0) > 2.0 { log(1e5, 1.5e7) } else { 0.0 },
        op_ns: log(2e3, 3e4),
        byte_ns: log(0.01, 0.2),
        buffered_byte_ns: log(0.05, 1.5),
        writes: true,
    };
    let rows = log(3e5, 6e7) as u64;
    let memory = (log(48.0, 1024.0) as u64) * MIB;
    let task = match seed % 3 {
        0 => sort_of(rows),
        1 => join_of(rows, log(1e5, 2e7) as u64),
        _ => aggregate_of(rows, (log(4.0, rows as f64)) as u64),
    };
    let skill = log(0.5, 2.0);
    let (true_device, true_operators) = (spec.calibrated(), operators(2, &mut || skill));
    let (mut a, mut b) = (Pcg64::seed_from_u64(seed + 1), Pcg64::seed_from_u64(seed + 2));
    let device = spec.measured(&mut || factor(&mut a, CALIBRATION_ERROR_RATIO));
    let measured = operators(2, &mut || skill * factor(&mut b, CALIBRATION_ERROR_RATIO));
    let tables = task.tables.len();
    let believed = model(&device, &measured, tables, memory, 2);
    let Ok(choice) = believed.choose(&task) else { return 1.0 };
    let truth = model(&true_device, &true_operators, tables, memory, 2);
    let mut time = |plan: &Plan| run(&truth, &task, plan, &mut Pcg64::seed_from_u64(seed + 3));
    let chosen = time(&choice.plan);
    let others = rivals(&truth, &task, &choice.plan, &mut Pcg64::seed_from_u64(seed + 4));
    let others = others.iter().chain(choice.rejected.iter().map(|rejected| &rejected.plan));
    chosen / others.map(&mut time).fold(chosen, f64::min)
}

#[test]
fn the_chosen_plan_is_nearly_the_best_on_machines_that_it_was_not_tuned_for() {
    let mut regrets: Vec<f64> = (7000..7030).map(regret).collect();
    regrets.sort_by(f64::total_cmp);
    let (median, worst) = (regrets[regrets.len() / 2], regrets[regrets.len() - 1]);
    assert!(median <= 1.1, "median {median}, all {regrets:?}");
    assert!(worst <= 1.5, "worst {worst}, all {regrets:?}");
}

#[test]
fn a_prediction_is_near_the_simulated_time() {
    let mut errors = Vec::new();
    for seed in 0..30u64 {
        let mut random = Pcg64::seed_from_u64(seed);
        let spec = DeviceSpec {
            bandwidth: [2e8 * factor(&mut random, 0.9) * (1 + seed % 10) as f64; 2],
            ..DeviceSpec::fast()
        };
        let (device, costs) = (spec.calibrated(), operators(2, &mut || 1.0));
        let model = model(&device, &costs, 1, 256 * MIB, 2);
        let task = sort_of(5_000_000);
        let choice = model.choose(&task).unwrap();
        let simulated = run(&model, &task, &choice.plan, &mut random);
        errors.push(choice.prediction.elapsed_ns as f64 / simulated - 1.0);
    }
    errors.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    assert!(errors[errors.len() / 2].abs() <= 0.1, "{errors:?}");
}
