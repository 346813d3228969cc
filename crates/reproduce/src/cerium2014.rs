//! Tables 5 to 7 of Kohagura and Kono 2014: counting the words of 1 GB, read in four ways.

use std::collections::BTreeMap;

use crate::curve::{Curve, Figure};
use crate::estimate::{Estimate, Results};
use crate::experiment::{combinations, scenario};
use crate::live::{LiveCount, LiveExperiment, LiveTask, drive, live_point};
use crate::paper::{Effort, Paper};
use crate::published::Published;
use crate::task::{Task, point};

const METHODS: [&str; 4] = ["mmap", "read", "blocked-any", "blocked-io"];
const METHODS_CACHED: [&str; 3] = ["mmap", "read", "blocked-io"];
const PARTS: [&str; 2] = ["128KiB", "16KiB"];
const THREADS: [&str; 4] = ["1", "4", "8", "12"];

pub(crate) fn tasks() -> Vec<Task> {
    let methods = scenario(include_str!("../../../scenarios/cerium2014-methods.toml"), "methods");
    let varied: [(&str, &[&str]); 3] =
        [("job.wc.part", &PARTS), ("job.wc.method", &METHODS), ("job.wc.threads", &THREADS)];
    let cached = scenario(include_str!("../../../scenarios/cerium2014-cached.toml"), "cached");
    let varied_cached: [(&str, &[&str]); 1] = [("job.wc.method", &METHODS_CACHED)];
    let mut tasks = combinations(Paper::Cerium2014, "methods", &methods, &varied, 1);
    tasks.extend(combinations(Paper::Cerium2014, "cached", &cached, &varied_cached, 1));
    tasks
}

/// Threads of live runs: more than this machine has cores would compute more slowly than in the paper.
const LIVE_THREADS: &str = "1";
/// Size of parts in live runs.
const LIVE_PART: &str = "128KiB";
/// Size of the text of a live run of `--quick`; times are scaled to that of the paper.
const LIVE_BYTES_QUICK: u64 = 96_000_000;
/// Size of the text in the paper.
const BYTES: u64 = 1_000_000_000;

/// The methods on one thread that computes as fast as in the paper, and counting in memory as fast as possible.
pub(crate) fn live_tasks(effort: Effort) -> Vec<LiveTask> {
    let bytes = if effort == Effort::Full { BYTES } else { LIVE_BYTES_QUICK };
    let megabytes = bytes / 1_000_000;
    let scenario = scenario(include_str!("../../../scenarios/cerium2014-methods.toml"), "methods");
    let drive = drive(&scenario);
    let methods = METHODS.map(|method| {
        let mut scenario = scenario.clone();
        for (key, value) in [("method", method), ("part", LIVE_PART), ("threads", LIVE_THREADS)] {
            let key = format!("job.wc.{key}");
            scenario.set(&key, value).unwrap_or_else(|error| panic!("{key}: {error}"));
        }
        let job = scenario.job.into_iter().next().expect("an experiment has a job");
        let count = LiveCount {
            drive: Some(drive.clone()),
            place: job.place.unwrap_or_default(),
            bytes,
            part_bytes: job.part.0 as usize,
            method: job.method,
            threads: Some(job.threads as usize),
            compute_bytes_per_s: job.compute.map(|rate| rate.0 as f64),
        };
        let what = format!(
            "{megabytes} MB counted by one thread that computes as fast as in the paper, on the emulated drive; times are scaled to 1 GB"
        );
        let point = live_point(Paper::Cerium2014, "methods", [LIVE_PART, method, LIVE_THREADS]);
        LiveTask::new(&point, 0, what, LiveExperiment::Count(count))
    });
    let cached = METHODS_CACHED.map(|method| {
        let mut scenario = scenario.clone();
        scenario.set("job.wc.method", method).unwrap_or_else(|error| panic!("{method}: {error}"));
        let job = scenario.job.into_iter().next().expect("an experiment has a job");
        let count = LiveCount {
            drive: None,
            place: 0.0,
            bytes,
            part_bytes: job.part.0 as usize,
            method: job.method,
            threads: None,
            compute_bytes_per_s: None,
        };
        let what = format!(
            "{megabytes} MB in memory, counted on all cores as fast as this machine can; times are scaled to 1 GB"
        );
        let point = live_point(Paper::Cerium2014, "cached", [method]);
        LiveTask::new(&point, 0, what, LiveExperiment::Count(count))
    });
    methods.into_iter().chain(cached).collect()
}

/// Live times, in seconds for 1 GB.
pub(crate) fn live_estimates(results: &Results) -> BTreeMap<String, Estimate> {
    let mut estimates = BTreeMap::new();
    for method in METHODS {
        let point = live_point(Paper::Cerium2014, "methods", [LIVE_PART, method, LIVE_THREADS]);
        let elapsed = results.estimate(&point, "s_per_gb");
        estimates.extend(elapsed.map(|elapsed| (format!("{LIVE_PART}.{method}.{LIVE_THREADS}"), elapsed)));
    }
    for method in METHODS_CACHED {
        let elapsed = results.estimate(&live_point(Paper::Cerium2014, "cached", [method]), "s_per_gb");
        estimates.extend(elapsed.map(|elapsed| (format!("cached.{method}"), elapsed)));
    }
    estimates
}

pub(crate) fn estimates(results: &Results) -> BTreeMap<String, Estimate> {
    let mut estimates = BTreeMap::new();
    for part in PARTS {
        for (method, threads) in METHODS.iter().flat_map(|method| THREADS.map(|threads| (method, threads))) {
            let point = point(Paper::Cerium2014, "methods", [part, method, threads]);
            let elapsed = results.estimate(&point, "elapsed_s");
            estimates.extend(elapsed.map(|elapsed| (format!("{part}.{method}.{threads}"), elapsed)));
        }
    }
    for method in METHODS_CACHED {
        let elapsed = results.estimate(&point(Paper::Cerium2014, "cached", [method]), "elapsed_s");
        estimates.extend(elapsed.map(|elapsed| (format!("cached.{method}"), elapsed)));
    }
    estimates
}

pub(crate) fn curves(estimates: &BTreeMap<String, Estimate>, published: &[Published]) -> Vec<Curve> {
    let all = PARTS.iter().flat_map(|part| METHODS.map(|method| (part, method)));
    let curves = all.map(|(part, method)| {
        let places = THREADS
            .map(|threads| (threads.parse().unwrap_or_default(), format!("{part}.{method}.{threads}")));
        let panel = format!("parts of {part}");
        Curve::of_figures((Figure::TimeByThreads, &panel, method), &places.to_vec(), estimates, published)
    });
    curves.collect()
}
