//! Table 4 and figure 3 of Hosogi et al. 2013: a PC's workload on a drive with a short and with a long read-ahead.

use std::collections::BTreeMap;

use sakiyomi_model::Nanos;
use sakiyomi_trace::generate::pc::PcParams;

use crate::estimate::{Estimate, Results};
use crate::live::{LiveExperiment, LiveReplay, LiveTask, live_point};
use crate::paper::{Effort, Paper};
use crate::task::{Task, point};
use crate::workload::{Workload, drive};

/// The two settings of the experiment: name, and the size of the read-ahead.
const READ_AHEADS: [(&str, &str); 2] = [("short", "64KiB"), ("long", "384KiB")];
/// Commands of the run whose misses are compared with its hits (section 2).
const MISS_RUN_COMMANDS: u64 = 4_762;
/// The time that the benchmark computes between commands, in all: calibrated to the idle share with the short read-ahead.
const THINK_TOTAL: Nanos = Nanos(82 * Nanos::SECOND.0);
/// Mean time that it computes between the commands of a burst; assumed.
const THINK_IN_BURST: Nanos = Nanos(1_500_000);
/// Share of sequential reads: calibrated, with the next one, to the two hit rates.
const SEQUENTIAL_RATIO: f64 = 0.53;
/// Share of reads that skip forward.
const SKIP_RATIO: f64 = 0.295;
/// Repetitions of `--quick`.
const SEEDS_QUICK: u64 = 5;
/// Repetitions of `--full`; the paper does not state its own.
const SEEDS_FULL: u64 = 50;

/// Commands of a live run of `--quick`: some seconds.
const LIVE_COMMANDS_QUICK: u64 = 600;

/// The benchmark with fewer commands, and less computing time in proportion.
fn params(commands: u64) -> PcParams {
    let part = commands as f64 / PcParams::default().commands as f64;
    PcParams {
        commands,
        duration: Nanos::from_secs_f64(THINK_TOTAL.as_secs_f64() * part),
        command_gap: THINK_IN_BURST,
        sequential: SEQUENTIAL_RATIO,
        skip: SKIP_RATIO,
        ..PcParams::default()
    }
}

/// The benchmark on a mounted drive, with each read-ahead.
pub(crate) fn live_tasks(effort: Effort) -> Vec<LiveTask> {
    let all = PcParams::default().commands;
    let commands = if effort == Effort::Full { all } else { LIVE_COMMANDS_QUICK };
    let tasks = READ_AHEADS.map(|(name, read_ahead)| {
        let drive = drive(read_ahead).unwrap_or_else(|error| panic!("{read_ahead}: {error}"));
        let replay = LiveReplay { drive, params: params(commands), seed: 1 };
        let what = format!(
            "{commands} of the benchmark's commands, in real time on a mount of the emulated drive, with its pauses"
        );
        let point = live_point(Paper::Hitachi2013, "run", [name]);
        LiveTask::new(&point, 1, what, LiveExperiment::Replay(replay))
    });
    tasks.to_vec()
}

pub(crate) fn live_estimates(results: &Results) -> BTreeMap<String, Estimate> {
    let figures = READ_AHEADS.iter().flat_map(|(name, _)| {
        [("hit", "hit_percent"), ("mean", "response_mean_ms")].map(|figure| (*name, figure))
    });
    let estimates = figures.filter_map(|(name, (id, metric))| {
        let point = live_point(Paper::Hitachi2013, "run", [name]);
        Some((format!("{name}.{id}"), results.estimate(&point, metric)?))
    });
    estimates.collect()
}

pub(crate) fn tasks(effort: Effort) -> Vec<Task> {
    let seeds = if effort == Effort::Full { SEEDS_FULL } else { SEEDS_QUICK };
    let runs = [("run", params(PcParams::default().commands)), ("misses", params(MISS_RUN_COMMANDS))];
    let all = runs.iter().flat_map(|(run, params)| READ_AHEADS.map(|setting| (*run, params, setting)));
    let tasks = all.flat_map(|(run, params, (name, read_ahead))| {
        let point = point(Paper::Hitachi2013, run, [name]);
        (1..=seeds)
            .map(move |seed| Task::cache(&point, Workload { seed, params: params.clone(), read_ahead }))
    });
    tasks.collect()
}

pub(crate) fn estimates(results: &Results) -> BTreeMap<String, Estimate> {
    let mut estimates = BTreeMap::new();
    let mut add = |id: String, estimate: Option<Estimate>| {
        estimates.extend(estimate.map(|estimate| (id, estimate)));
    };
    let [short, long] = READ_AHEADS.map(|(name, _)| point(Paper::Hitachi2013, "run", [name]));
    for (name, point) in [("short", &short), ("long", &long)] {
        for (id, metric) in [
            ("hit", "hit_percent"),
            ("seeks", "seeks"),
            ("idle", "idle_percent"),
            ("mean", "response_mean_ms"),
        ] {
            add(format!("{name}.{id}"), results.estimate(point, metric));
        }
    }
    add("commands".to_owned(), results.estimate(&short, "commands"));
    let change =
        |metric: &str| results.combined([(&long, metric), (&short, metric)], |[long, short]| long - short);
    add("worst.change".to_owned(), change("response_max_ms"));
    add("full_hits.change".to_owned(), change("full_hits"));
    let misses = point(Paper::Hitachi2013, "misses", ["long"]);
    add("miss.worst".to_owned(), results.estimate(&misses, "miss_over_hit"));
    add("miss.best".to_owned(), results.estimate(&misses, "miss_min_over_hit"));
    add("spread.all".to_owned(), results.estimate(&misses, "decades"));
    add("spread.misses".to_owned(), results.estimate(&misses, "miss_decades"));
    estimates
}
