//! Chapters 6 and 7 of Tani 2023: the accuracy of I/O times, the best allowance, and its release, on three computers.

use std::collections::BTreeMap;

use crate::curve::{Curve, Figure};
use crate::estimate::{Estimate, Results};
use crate::experiment::{combinations, scenario};
use crate::live::{LiveExperiment, LiveReaders, LiveTask, drive, in_rounds, live_point};
use crate::paper::{Effort, Paper};
use crate::published::Published;
use crate::task::{Task, point};

const COMPUTERS: [&str; 3] = ["PC1", "PC2", "PC3"];
/// Requested I/O performance in percent.
const RATES: [&str; 5] = ["10", "15", "20", "25", "30"];
const ALLOWANCES: [&str; 9] = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
/// Computers and rates of which the thesis says that the correction reaches the best allowance (section 6.5).
const SETTLED: [(&str, &[&str]); 2] = [("PC2", &["10", "20", "25", "30"]), ("PC3", &RATES)];
const PATTERNS: [&str; 2] = ["LS", "LC"];
/// The highest accuracy that counts as good (section 6.2).
const GOOD_ACCURACY_MAX: f64 = 1.1;
/// Repetitions of each point in the thesis (section 6.3).
const REPETITIONS_FULL: u32 = 50;
/// Repetitions of `--quick`, as in the files of `scenarios/`.
const REPETITIONS_QUICK: u32 = 3;

pub(crate) fn tasks(effort: Effort) -> Vec<Task> {
    let repetitions = if effort == Effort::Full { REPETITIONS_FULL } else { REPETITIONS_QUICK };
    let experiment = |name: &str, text: &str, varied: &[(&str, &[&str])]| {
        combinations(Paper::Kochi2023, name, &scenario(text, name), varied, repetitions)
    };
    let accuracy = experiment(
        "accuracy",
        include_str!("../../../scenarios/kochi2023-accuracy.toml"),
        &[
            ("case.computer", &COMPUTERS),
            ("process.target.rate", &RATES),
            ("regulate.policy", &["formula", "thesis"]),
        ],
    );
    let allowance = experiment(
        "allowance",
        include_str!("../../../scenarios/kochi2023-allowance.toml"),
        &[
            ("case.computer", &COMPUTERS),
            ("process.target.rate", &RATES),
            ("regulate.allowance", &ALLOWANCES),
        ],
    );
    let release = experiment(
        "release",
        include_str!("../../../scenarios/kochi2023-release.toml"),
        &[("case.pattern", &PATTERNS), ("case.policy", &["thesis"]), ("regulate.release", &["off", "5s"])],
    );
    [accuracy, allowance, release].concat()
}

/// Points of live runs: computer and requested performance.
const LIVE_POINTS: [(&str, &str); 2] = [("PC2", "20"), ("PC3", "10")];
/// Live runs of each point.
const LIVE_RUNS: u32 = 3;
/// How long live readers read in `--quick`, in seconds: about a hundred I/Os.
const LIVE_DURATION_QUICK_S: u32 = 5;
/// How long they read in `--full`, in seconds.
const LIVE_DURATION_FULL_S: u32 = 120;

/// One reader with a rate beside nine without, on a regulated mount of the drive.
pub(crate) fn live_tasks(effort: Effort) -> Vec<LiveTask> {
    let duration_s = if effort == Effort::Full { LIVE_DURATION_FULL_S } else { LIVE_DURATION_QUICK_S };
    let scenario = scenario(include_str!("../../../scenarios/kochi2023-accuracy.toml"), "accuracy");
    in_rounds(LIVE_RUNS, &LIVE_POINTS, |(computer, rate), round| {
        let mut scenario = scenario.clone();
        scenario.set("case.computer", computer).unwrap_or_else(|error| panic!("{computer}: {error}"));
        let [target, others] = &scenario.process[..] else { panic!("a target, and others") };
        let readers = LiveReaders {
            drive: drive(&scenario),
            file_bytes: target.size.0,
            read_bytes: target.call.0,
            percent: rate.parse().unwrap_or_default(),
            rivals: others.count,
            duration_s,
        };
        let what = format!(
            "ten processes that read at random for {duration_s} s, {LIVE_RUNS} times, on a regulated mount of the emulated drive of {computer}, one of them with {rate} %, by the profile of the drive, the default here"
        );
        let point = live_point(Paper::Kochi2023, "accuracy", [*computer, *rate]);
        LiveTask::new(&point, round, what, LiveExperiment::Readers(readers))
    })
}

pub(crate) fn live_estimates(results: &Results) -> BTreeMap<String, Estimate> {
    let accuracies = LIVE_POINTS.iter().filter_map(|(computer, rate)| {
        let point = live_point(Paper::Kochi2023, "accuracy", [*computer, *rate]);
        Some((format!("corrected.{computer}.{rate}"), results.estimate(&point, "accuracy")?))
    });
    accuracies.collect()
}

pub(crate) fn estimates(results: &Results) -> BTreeMap<String, Estimate> {
    let mut estimates = BTreeMap::new();
    let mut add = |id: String, estimate: Option<Estimate>| {
        estimates.extend(estimate.map(|estimate| (id, estimate)));
    };
    for computer in COMPUTERS {
        for rate in RATES {
            add(format!("best.{computer}.{rate}"), best_allowance(results, computer, rate));
            for (name, policy) in [("formula", "formula"), ("corrected", "thesis")] {
                let point = accuracy_point(computer, rate, policy);
                add(format!("{name}.{computer}.{rate}"), results.estimate(&point, "accuracy"));
            }
        }
    }
    for (computer, rates) in SETTLED {
        let corrected =
            |rate: &str, metric: &str| results.estimate(&accuracy_point(computer, rate, "thesis"), metric);
        for rate in rates {
            add(format!("reached.{computer}.{rate}"), corrected(rate, "reached"));
        }
        let settled = rates.iter().filter_map(|rate| corrected(rate, "settled_ios"));
        let slowest = settled.max_by(|a, b| a.median.total_cmp(&b.median));
        add(format!("settled.{computer}"), slowest);
    }
    for (id, rate) in [("overshoot.PC2", "15"), ("overshoot.PC2.20", "20")] {
        add(id.to_owned(), results.estimate(&accuracy_point("PC2", rate, "thesis"), "reached"));
    }
    for rate in ["10", "20"] {
        let [formula, corrected] = ["formula", "thesis"].map(|policy| accuracy_point("PC2", rate, policy));
        let lost = results
            .combined([(&formula, "ios_per_s"), (&corrected, "ios_per_s")], |[with, less]| with - less);
        add(format!("cost.PC2.{rate}"), lost);
    }
    add("cost.step".to_owned(), step_cost(results));
    for pattern in PATTERNS {
        let [closed, open] =
            ["off", "5s"].map(|release| point(Paper::Kochi2023, "release", [pattern, "thesis", release]));
        let change = |metric: &str| {
            results.combined([(&open, metric), (&closed, metric)], |[open, closed]| open - closed)
        };
        add(format!("release.{pattern}.gain"), change("ios_per_s"));
        match pattern {
            "LS" => add("release.LS.accuracy".to_owned(), results.estimate(&open, "accuracy")),
            _ => add(format!("release.{pattern}.change"), change("accuracy")),
        }
    }
    estimates
}

pub(crate) fn curves(estimates: &BTreeMap<String, Estimate>, published: &[Published]) -> Vec<Curve> {
    let lines = [
        (Figure::AllowanceByRate, "best", "best allowance"),
        (Figure::AccuracyByRate, "formula", "without correction"),
        (Figure::AccuracyByRate, "corrected", "with correction"),
    ];
    let all = lines.iter().flat_map(|line| COMPUTERS.map(|computer| (line, computer)));
    let curves = all.map(|(&(figure, kind, label), computer)| {
        let places =
            RATES.map(|rate| (rate.parse().unwrap_or_default(), format!("{kind}.{computer}.{rate}")));
        // Accuracies were published as bounds, which are no points.
        let published = if figure == Figure::AllowanceByRate { published } else { &[] };
        Curve::of_figures((figure, computer, label), &places.to_vec(), estimates, published)
    });
    curves.collect()
}

fn accuracy_point(computer: &str, rate: &str, policy: &str) -> String {
    point(Paper::Kochi2023, "accuracy", [computer, rate, policy])
}

fn allowance_point(computer: &str, rate: &str, allowance: &str) -> String {
    point(Paper::Kochi2023, "allowance", [computer, rate, allowance])
}

/// Returns the largest allowance, up to the formula's, at which the accuracy is good (section 6.2), seed by seed. 1
/// if none is.
fn best_allowance(results: &Results, computer: &str, rate: &str) -> Option<Estimate> {
    let all = ALLOWANCES.map(|allowance| {
        let point = allowance_point(computer, rate, allowance);
        (results.by_seed(&point, "accuracy"), results.by_seed(&point, "formula"))
    });
    let seeds = all.iter().map(|(accuracies, _)| accuracies.len()).min()?;
    let best = (0..seeds).map(|seed| {
        let is_good = |index: &usize| {
            let (accuracies, formulas) = &all[*index];
            (*index + 1) as f64 <= formulas[seed] && accuracies[seed] <= GOOD_ACCURACY_MAX
        };
        (0..ALLOWANCES.len()).rev().find(is_good).map_or(1.0, |index| (index + 1) as f64)
    });
    Estimate::of(best.collect())
}

/// I/Os per second of all programs for each request more that may be in the device: between allowances 1 and 9, on PC2,
/// the mean over the rates.
fn step_cost(results: &Results) -> Option<Estimate> {
    let by_rate: Option<Vec<f64>> = RATES
        .iter()
        .map(|rate| {
            let [least, most] = ["1", "9"].map(|allowance| allowance_point("PC2", rate, allowance));
            let steps = (ALLOWANCES.len() - 1) as f64;
            let cost = results.combined([(&most, "ios_per_s"), (&least, "ios_per_s")], |[most, least]| {
                (most - least) / steps
            });
            cost.map(|cost| cost.median)
        })
        .collect();
    by_rate.and_then(Estimate::of)
}
