//! Table 4 and figure 3 of Hosogi et al. 2013: a PC's workload on a drive with a short and with a long read-ahead.

use std::collections::BTreeMap;

use sakiyomi_model::Nanos;
use sakiyomi_trace::generate::pc::PcParams;

use crate::estimate::{Estimate, Results};
use crate::live::{LiveExperiment, LiveReplay, LiveTask, in_rounds, live_point};
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
/// Share of sequential reads: calibrated to the hit rate with the short read-ahead.
const SEQUENTIAL_RATIO: f64 = 0.53;
/// Share of reads that skip forward: calibrated to the hit rate with the long read-ahead. The short one misses skips and
/// jumps alike, so that its figures do not determine this share.
const SKIP_RATIO: f64 = 0.295;
/// Repetitions of `--quick`.
const SEEDS_QUICK: u64 = 5;
/// Repetitions of `--full`; the paper does not state its own.
const SEEDS_FULL: u64 = 50;

/// Live runs with each read-ahead.
const LIVE_RUNS: u32 = 3;
/// Commands of a live run of `--quick`: some seconds.
const LIVE_COMMANDS_QUICK: u64 = 400;

/// The benchmark with fewer commands, and less computing time in proportion.
fn params(commands: u64) -> PcParams {
    let part = commands as f64 / PcParams::default().commands as f64;
    PcParams {
        commands,
        duration: Nanos::from_secs_f64(THINK_TOTAL.as_secs_f64() * part),
        closed_loop: true,
        command_gap: THINK_IN_BURST,
        sequential: SEQUENTIAL_RATIO,
        skip: SKIP_RATIO,
        ..PcParams::default()
    }
}

/// The benchmark on a mounted drive, with each read-ahead, and the speed of its simulation.
pub(crate) fn live_tasks(effort: Effort) -> Vec<LiveTask> {
    let all = PcParams::default().commands;
    let commands = if effort == Effort::Full { all } else { LIVE_COMMANDS_QUICK };
    let replays = in_rounds(LIVE_RUNS, &READ_AHEADS, |(name, read_ahead), round| {
        let drive = drive(read_ahead).unwrap_or_else(|error| panic!("{read_ahead}: {error}"));
        let seed = u64::from(round) + 1;
        let replay = LiveReplay { drive, params: params(commands), seed };
        let what = format!(
            "{commands} of the benchmark's commands, {LIVE_RUNS} times with other seeds, in real time on a mount of the emulated drive, with its pauses"
        );
        let point = live_point(Paper::Hitachi2013, "run", [*name]);
        LiveTask::new(&point, round + 1, what, LiveExperiment::Replay(replay))
    });
    let speed = (1..=LIVE_RUNS).map(|seed| {
        let [(name, read_ahead), _] = READ_AHEADS;
        let workload = Workload { seed: u64::from(seed), params: params(all), read_ahead };
        let what = format!("the simulation of the benchmark with the {name} read-ahead, {LIVE_RUNS} times");
        let point = live_point(Paper::Hitachi2013, "speed", []);
        let simulation = Task::cache(&point, workload);
        LiveTask::new(&point, seed, what, LiveExperiment::Speed(simulation))
    });
    replays.into_iter().chain(speed).collect()
}

pub(crate) fn live_estimates(results: &Results) -> BTreeMap<String, Estimate> {
    let figures = READ_AHEADS.iter().flat_map(|(name, _)| {
        [("hit", "hit_percent"), ("mean", "response_mean_ms")].map(|figure| (*name, figure))
    });
    let estimates = figures.filter_map(|(name, (id, metric))| {
        let point = live_point(Paper::Hitachi2013, "run", [name]);
        Some((format!("{name}.{id}"), results.estimate(&point, metric)?))
    });
    let speed = results.estimate(&live_point(Paper::Hitachi2013, "speed", []), "simulated_per_wall_ratio");
    estimates.chain(speed.map(|speed| ("speed".to_owned(), speed))).collect()
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
    add("short.near".to_owned(), results.estimate(&short, "near_percent_of_misses"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    fn run(skip: f64, read_ahead: &'static str) -> Metrics {
        let params = PcParams { skip, ..params(PcParams::default().commands) };
        Workload { seed: 1, params, read_ahead }.run().unwrap()
    }

    /// The figures with the short read-ahead fix the share of sequential reads and the think time. Those with the long one
    /// depend on the share of skips as well, and the published ones lie in the range of plausible shares.
    #[test]
    fn the_short_read_ahead_does_not_tell_skips_from_jumps_and_the_long_one_does() {
        let [(_, short), (_, long)] = READ_AHEADS;
        let [few, many] = [0.2, 0.4].map(|skip| (run(skip, short), run(skip, long)));
        for (metric, tolerance) in [("hit_percent", 1.0), ("idle_percent", 2.0), ("seeks", 150.0)] {
            assert!((few.0[metric] - many.0[metric]).abs() < tolerance, "{metric}");
        }
        for (metric, published) in
            [("hit_percent", 72.4), ("idle_percent", 69.1), ("seeks", 3209.0), ("response_mean_ms", 2.5)]
        {
            let (one, other) = (few.1[metric], many.1[metric]);
            assert!((one.min(other)..one.max(other)).contains(&published), "{metric}: {one} to {other}");
        }
    }
}
