//! Figures 1 to 3 and table 1 of Ueda 2013: direct reads and their CPU time, the I/O of a sort-merge join and of query 1,
//! and a stream on cores.

use std::collections::BTreeMap;

use crate::estimate::{Estimate, Results};
use crate::experiment::{combinations, scenario};
use crate::live::{LiveDirectRead, LiveExperiment, LiveTables, LiveTask, in_rounds, live_point};
use crate::paper::{Effort, Paper};
use crate::task::{Task, point};

/// Size of the file of figure 1.
const FILE_SIZES: [&str; 1] = ["256GB"];
/// Repetitions of the stream in `--quick`.
const STREAM_SEEDS_QUICK: u32 = 3;
/// Repetitions of the stream in `--full`.
const STREAM_SEEDS_FULL: u32 = 20;

/// Size of a direct read in live runs: enough to occupy the storage; one of 2 GB would need as much memory.
const LIVE_BLOCK_BYTES: usize = 16 << 20;
/// Size of the file in live runs.
const LIVE_FILE_BYTES: u64 = 256 << 20;
/// How long direct reads take in a live run, in milliseconds.
const LIVE_READ_MS: u64 = 1000;
/// Live runs of `--quick`.
const LIVE_RUNS_QUICK: u32 = 3;
/// Live runs of `--full`.
const LIVE_RUNS_FULL: u32 = 10;

/// Tables of live runs: small ones, whose join nevertheless has to spill.
const LIVE_TABLES: LiveTables =
    LiveTables { scale: 0.1, seed: 1, order_seed: 1, block_bytes: 1 << 20, memory_bytes: 48 << 20 };
/// Scale factor of live runs of `--full`.
const LIVE_SCALE_FULL: f64 = 1.0;

pub(crate) fn tasks(effort: Effort) -> Vec<Task> {
    let seeds = if effort == Effort::Full { STREAM_SEEDS_FULL } else { STREAM_SEEDS_QUICK };
    let reading = scenario(include_str!("../../../scenarios/waseda2013-read.toml"), "read");
    let mut tasks =
        combinations(Paper::Waseda2013, "read", &reading, &[("process.read.size", &FILE_SIZES)], 1);
    let stream = point(Paper::Waseda2013, "stream", []);
    tasks.extend((0..seeds).map(|seed| Task::stream(&stream, seed)));
    tasks
}

pub(crate) fn estimates(results: &Results) -> BTreeMap<String, Estimate> {
    let reading = point(Paper::Waseda2013, "read", FILE_SIZES);
    let stream = point(Paper::Waseda2013, "stream", []);
    let figures = [
        ("show.throughput", &reading, "megabytes_per_s"),
        ("show.cpu", &reading, "cpu_percent"),
        // The thread that reads is the one of figure 1. What computes beside it does not hold it back.
        ("phase.1", &reading, "megabytes_per_s"),
        ("phase.5", &reading, "megabytes_per_s"),
        ("stream.static", &stream, "static_over_ordinary"),
        ("stream.gain", &stream, "static_over_relocated"),
        ("stream.rise", &stream, "relocating_over_steady"),
        ("stream.relocating", &stream, "relocating_over_static"),
        ("stream.order", &stream, "reordered"),
    ];
    named(results, &figures.map(|(id, point, metric)| (id, point.clone(), metric)))
}

/// This machine's storage, read by one thread; query 1, and a join, on small tables.
pub(crate) fn live_tasks(effort: Effort) -> Vec<LiveTask> {
    let is_full = effort == Effort::Full;
    let runs = if is_full { LIVE_RUNS_FULL } else { LIVE_RUNS_QUICK };
    let scale = if is_full { LIVE_SCALE_FULL } else { LIVE_TABLES.scale };
    let tables = LiveTables { scale, ..LIVE_TABLES };
    let read =
        LiveDirectRead { file_bytes: LIVE_FILE_BYTES, block_bytes: LIVE_BLOCK_BYTES, run_ms: LIVE_READ_MS };
    let experiments = [
        (
            "show",
            format!(
                "sequential direct reads of 16 MiB by one thread from this machine's storage, {runs} times"
            ),
            LiveExperiment::DirectRead(read),
        ),
        (
            "query1",
            format!(
                "query 1 on LINEITEM at SF {scale}, with direct reads of 1 MiB, {runs} times by each method, in an order that is drawn again each time"
            ),
            LiveExperiment::Query1(tables),
        ),
        (
            "join",
            format!(
                "the sort-merge join at SF {scale} with {} MiB of memory, {runs} times; it merges runs while it joins, so that there are no phases 4 and 5; means over the phases, computation included",
                LIVE_TABLES.memory_bytes >> 20
            ),
            LiveExperiment::Join(tables),
        ),
    ];
    in_rounds(runs, &experiments, |(name, what, experiment), round| {
        let experiment = match experiment {
            LiveExperiment::Query1(tables) => {
                LiveExperiment::Query1(LiveTables { order_seed: u64::from(round) + 1, ..*tables })
            }
            other => other.clone(),
        };
        LiveTask::new(&live_point(Paper::Waseda2013, name, []), round, what.clone(), experiment)
    })
}

pub(crate) fn live_estimates(results: &Results) -> BTreeMap<String, Estimate> {
    let [show, query1, join] = ["show", "query1", "join"].map(|name| live_point(Paper::Waseda2013, name, []));
    let figures = [
        ("show.throughput", &show, "megabytes_per_s"),
        ("show.cpu", &show, "kernel_percent"),
        ("phase.1", &join, "read_mb_per_s"),
        ("phase.2", &join, "write_mb_per_s"),
        ("phase.3", &join, "merge_mb_per_s"),
    ];
    let mut estimates = named(results, &figures.map(|(id, point, metric)| (id, point.clone(), metric)));
    let over_read = |method: &str| {
        results.combined([(&query1, method), (&query1, "read_s")], |[other, read]| other / read)
    };
    estimates.extend(over_read("aio_s").map(|ratio| ("query1.aio".to_owned(), ratio)));
    // The paper names no number of threads; the fastest is the most favorable for `pread`.
    let threads = ["pread2_s", "pread4_s", "pread8_s", "pread16_s"].into_iter().filter_map(over_read);
    let fastest = threads.min_by(|a, b| a.median.total_cmp(&b.median));
    estimates.extend(fastest.map(|ratio| ("query1.pread".to_owned(), ratio)));
    estimates
}

fn named<const N: usize>(
    results: &Results,
    figures: &[(&str, String, &str); N],
) -> BTreeMap<String, Estimate> {
    let estimates = figures
        .iter()
        .filter_map(|(id, point, metric)| Some(((*id).to_owned(), results.estimate(point, metric)?)));
    estimates.collect()
}
