//! Tables 5 to 7 of Kohagura and Kono 2014: counting the words of 1 GB, read in four ways.

use std::collections::BTreeMap;

use crate::curve::{Curve, Figure};
use crate::estimate::{Estimate, Results};
use crate::experiment::{combinations, scenario};
use crate::paper::Paper;
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
