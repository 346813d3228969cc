//! The published experiment (Fukayama et al., Waseda 2006, figures 3 to 6 and table 3), whose trends must be
//! reproduced.

use sakiyomi_drive::spec::builtin;
use sakiyomi_scenario::{Scenario, run};

const A: &str = include_str!("../../../../scenarios/waseda2006-a.toml");
const B: &str = include_str!("../../../../scenarios/waseda2006-b.toml");
const POLLUTION: &str = include_str!("../../../../scenarios/waseda2006-pollution.toml");

/// Returns the elapsed time in seconds with some keys set.
fn seconds(text: &str, settings: &[(&str, &str)]) -> f64 {
    let mut scenario = Scenario::from_toml(text, "waseda2006").unwrap_or_else(|error| panic!("{error}"));
    for (key, value) in settings {
        scenario.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    let drive = builtin(scenario.drive.model.as_ref().unwrap()).unwrap().spec();
    run(&scenario, Some(&drive), 0).unwrap_or_else(|error| panic!("{error}")).elapsed.as_secs_f64()
}

/// Returns the relative speedup by prefetching for each file size.
fn speedups(text: &str, limit: &str) -> Vec<f64> {
    let scenario = Scenario::from_toml(text, "waseda2006").unwrap();
    let sizes = &scenario.vary["process.gzip.size"];
    let faster = sizes.iter().map(|size| {
        let at = |limit: &str| seconds(text, &[("process.gzip.size", size), ("prefetch.limit", limit)]);
        at("off") / at(limit) - 1.0
    });
    faster.collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn machine_a_gains_what_was_published() {
    let gains = speedups(A, "16MiB");
    assert!(gains.iter().all(|gain| (0.25..0.45).contains(gain)), "{gains:?}");
    assert!((mean(&gains) - 0.362).abs() < 0.03, "{gains:?}: published were 36.2 % on average");
}

#[test]
fn machine_b_gains_what_was_published() {
    let gains = speedups(B, "16MiB");
    assert!(gains.iter().all(|gain| (0.25..0.45).contains(gain)), "{gains:?}");
    assert!((mean(&gains) - 0.353).abs() < 0.03, "{gains:?}: published were 35.3 % on average");
}

#[test]
fn a_short_limit_gains_little_and_a_long_one_no_more_than_a_middling_one() {
    let gain = |limit: &str| {
        let at = |limit: &str| seconds(A, &[("process.gzip.size", "1.00GB"), ("prefetch.limit", limit)]);
        at("off") / at(limit) - 1.0
    };
    for limit in ["4KiB", "16KiB", "64KiB"] {
        assert!(gain(limit) < 0.05, "{limit}: {}", gain(limit));
    }
    assert!(gain("256KiB") > 0.1);
    let long = ["4MiB", "16MiB", "64MiB", "256MiB", "512MiB"].map(gain);
    assert!(long.iter().all(|gain| (gain - long[0]).abs() < 0.03), "{long:?}");
}

#[test]
fn a_limit_above_free_memory_is_slower_than_none() {
    let at = |limit: &str| seconds(POLLUTION, &[("memory.size", "200MB"), ("prefetch.limit", limit)]);
    let alone = at("off");
    assert!(at("512MiB") > 1.5 * alone, "{} against {alone}", at("512MiB"));
    assert!(at("auto") < alone, "{} against {alone}", at("auto"));
}
