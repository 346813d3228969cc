//! Tables 5 to 7 of Kohagura and Kono 2014: counting the words of 1 GB, read in four ways, and of 10 GB, read twice.

use std::collections::BTreeMap;

use crate::curve::{Curve, Figure};
use crate::estimate::{Estimate, Results};
use crate::experiment::{combinations, scenario};
use crate::live::{LiveCount, LiveExperiment, LiveTask, drive, in_rounds, live_point};
use crate::paper::{Effort, Paper};
use crate::published::{Published, published};
use crate::task::{Task, point};

const METHODS: [&str; 4] = ["mmap", "read", "blocked-any", "blocked-io"];
const METHODS_CACHED: [&str; 3] = ["mmap", "read", "blocked-io"];
const PARTS: [&str; 2] = ["128KiB", "16KiB"];
const THREADS: [&str; 4] = ["1", "4", "8", "12"];
/// Size of the file that is read twice (section 5).
const SECOND_RUN_SIZE: &str = "10GB";
/// Published times that are closer to each other than this are not ordered: they are those of single runs.
const ORDER_DIFFERENCE_RATIO_MIN: f64 = 1.05;

pub(crate) fn tasks() -> Vec<Task> {
    let methods = scenario(include_str!("../../../scenarios/cerium2014-methods.toml"), "methods");
    let varied: [(&str, &[&str]); 3] =
        [("job.wc.part", &PARTS), ("job.wc.method", &METHODS), ("job.wc.threads", &THREADS)];
    let cached = scenario(include_str!("../../../scenarios/cerium2014-cached.toml"), "cached");
    let varied_cached: [(&str, &[&str]); 1] = [("job.wc.method", &METHODS_CACHED)];
    let mut tasks = combinations(Paper::Cerium2014, "methods", &methods, &varied, 1);
    tasks.extend(combinations(Paper::Cerium2014, "cached", &cached, &varied_cached, 1));
    let twice = scenario(include_str!("../../../scenarios/cerium2014-second-run.toml"), "second run");
    let varied_twice: [(&str, &[&str]); 1] = [("job.wc.size", &[SECOND_RUN_SIZE])];
    tasks.extend(combinations(Paper::Cerium2014, "second-run", &twice, &varied_twice, 1));
    tasks
}

/// Threads of live runs: more than this machine has cores would compute more slowly than in the paper.
const LIVE_THREADS: &str = "1";
/// Live runs of each method.
const LIVE_RUNS: u32 = 3;
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
            "{megabytes} MB counted by one thread that computes as fast as in the paper, on the emulated drive, {LIVE_RUNS} times by each method; times are scaled to 1 GB"
        );
        (live_point(Paper::Cerium2014, "methods", [LIVE_PART, method, LIVE_THREADS]), what, count)
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
            "{megabytes} MB in memory, counted on all cores as fast as this machine can, {LIVE_RUNS} times by each method; times are scaled to 1 GB"
        );
        (live_point(Paper::Cerium2014, "cached", [method]), what, count)
    });
    let points: Vec<_> = methods.into_iter().chain(cached).collect();
    in_rounds(LIVE_RUNS, &points, |(point, what, count), round| {
        LiveTask::new(point, round, what.clone(), LiveExperiment::Count(count.clone()))
    })
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
    let twice = point(Paper::Cerium2014, "second-run", [SECOND_RUN_SIZE]);
    let again = results.estimate(&twice, "second_over_first");
    estimates.extend(again.map(|again| ("second_run.10GB".to_owned(), again)));
    let ordered = ordered_as_published(&estimates);
    estimates.extend(ordered.map(|ordered| ("order".to_owned(), ordered)));
    estimates
}

/// Returns the number of pairs of methods, with the same parts and threads, that are in the published order. `None` if a time
/// is missing.
fn ordered_as_published(estimates: &BTreeMap<String, Estimate>) -> Option<Estimate> {
    let mut ordered = 0;
    for (faster, slower) in published_order() {
        let [faster, slower] = [faster, slower].map(|id| estimates.get(&id).map(|time| time.median));
        ordered += u32::from(faster? < slower?);
    }
    Estimate::of(vec![f64::from(ordered)])
}

/// Returns the pairs of methods with the same parts and threads whose published times differ, the faster one first.
fn published_order() -> Vec<(String, String)> {
    let published = published();
    let time = |id: &str| {
        let figure = published.iter().find(|figure| figure.paper == Paper::Cerium2014 && figure.id == id);
        figure.map_or(f64::NAN, |figure| figure.value)
    };
    let points = PARTS.iter().flat_map(|part| THREADS.map(|threads| (part, threads)));
    let pairs = points.flat_map(|(part, threads)| {
        let ids = METHODS.map(|method| format!("{part}.{method}.{threads}"));
        let all = ids.clone().into_iter().flat_map(move |one| ids.clone().map(|other| (one.clone(), other)));
        all.filter(|(one, other)| time(other) / time(one) > ORDER_DIFFERENCE_RATIO_MIN).collect::<Vec<_>>()
    });
    pairs.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_times_order_as_many_pairs_as_are_to_be_reproduced() {
        let figure = published().into_iter().find(|figure| figure.id == "order").unwrap();
        assert_eq!(published_order().len() as f64, figure.value);
        let times = published().into_iter().filter(|figure| figure.paper == Paper::Cerium2014);
        let mut times: BTreeMap<String, Estimate> =
            times.filter_map(|figure| Some((figure.id, Estimate::of(vec![figure.value])?))).collect();
        assert_eq!(ordered_as_published(&times).unwrap().median, figure.value);
        let slow = Estimate::of(vec![100.0]).unwrap();
        times.insert("128KiB.blocked-io.12".to_owned(), slow);
        assert_eq!(ordered_as_published(&times).unwrap().median, figure.value - 3.0);
        times.remove("128KiB.mmap.1");
        assert_eq!(ordered_as_published(&times), None);
    }
}
