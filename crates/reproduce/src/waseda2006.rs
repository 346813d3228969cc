//! Figures 3 to 6 and table 3 of Fukayama et al. 2006: `gzip` on eight files, on two computers.

use std::collections::BTreeMap;

use sakiyomi_model::Bytes;
use sakiyomi_scenario::Scenario;

use crate::curve::{Curve, Figure};
use crate::estimate::{Estimate, Results};
use crate::experiment::{combinations, scenario};
use crate::live::{LiveExperiment, LiveProgram, LiveTask, drive, in_rounds, live_point};
use crate::paper::{Effort, Paper};
use crate::published::Published;
use crate::task::{Task, point};

/// The computers: name, scenario, and the sizes of the eight files.
const COMPUTERS: [(&str, &str, [&str; 8]); 2] = [
    (
        "a",
        include_str!("../../../scenarios/waseda2006-a.toml"),
        ["0.61GB", "1.00GB", "1.61GB", "2.22GB", "2.83GB", "3.44GB", "4.05GB", "4.66GB"],
    ),
    (
        "b",
        include_str!("../../../scenarios/waseda2006-b.toml"),
        ["0.61GB", "1.00GB", "1.61GB", "2.22GB", "2.84GB", "3.45GB", "4.07GB", "4.68GB"],
    ),
];

const WITHOUT: &str = "off";
/// The limit whose times stand for those with prefetching. Table 3 does not say which limit gave the shortest time.
const LIMIT: &str = "16MiB";
/// Limits of figures 3 to 6.
const LIMITS_ALL: [&str; 18] = [
    "4KiB", "8KiB", "16KiB", "32KiB", "64KiB", "128KiB", "256KiB", "512KiB", "1MiB", "2MiB", "4MiB", "8MiB",
    "16MiB", "32MiB", "64MiB", "128MiB", "256MiB", "512MiB",
];
const LIMITS_QUICK: [&str; 10] =
    ["4KiB", "64KiB", "128KiB", "256KiB", "512KiB", "1MiB", "4MiB", "8MiB", "16MiB", "512MiB"];
/// A limit is as good as the best if its mean gain is at least this part of the best one.
const STABLE_GAIN_RATIO_MIN: f64 = 0.9;

pub(crate) fn tasks(effort: Effort) -> Vec<Task> {
    let limits: &[&str] = if effort == Effort::Full { &LIMITS_ALL } else { &LIMITS_QUICK };
    let limits: Vec<&str> = [WITHOUT].iter().chain(limits).copied().collect();
    let tasks = COMPUTERS.iter().flat_map(|(name, text, sizes)| {
        let varied: [(&str, &[&str]); 2] = [("process.gzip.size", sizes), ("prefetch.limit", &limits)];
        combinations(Paper::Waseda2006, name, &scenario(text, name), &varied, 1)
    });
    tasks.chain(live_condition_tasks(effort)).collect()
}

/// Keys of a scenario that are others in the live experiments: nothing is written, and Linux reads ahead as it does today,
/// in time and unplugged, in front of a mount that does not sort.
const LIVE_CONDITIONS: [(&str, &str); 7] = [
    ("process.gzip.output_ratio", "0"),
    ("queue.plug_ticks", "0"),
    ("queue.scheduler", "noop"),
    ("queue.max_request", "128KiB"),
    ("memory.read_ahead", "128KiB"),
    ("memory.asynchronous", "true"),
    ("cpu.tick", "1ms"),
];

/// Name of the experiment under these conditions.
fn live_condition_name(computer: &str) -> String {
    format!("live-conditions/{computer}")
}

/// The live experiments in virtual time.
fn live_condition_tasks(effort: Effort) -> Vec<Task> {
    let size = live_size(effort);
    let tasks = COMPUTERS.iter().flat_map(|(name, text, _)| {
        let mut scenario = scenario(text, name);
        for (key, value) in LIVE_CONDITIONS {
            scenario.set(key, value).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let varied: [(&str, &[&str]); 2] =
            [("process.gzip.size", &[&size]), ("prefetch.limit", &[WITHOUT, LIMIT])];
        combinations(Paper::Waseda2006, &live_condition_name(name), &scenario, &varied, 1)
    });
    tasks.collect()
}

/// The gains of the live experiments in virtual time, with the file of `--full` if it was run, else with that of `--quick`.
pub(crate) fn live_conditions(results: &Results) -> BTreeMap<String, Estimate> {
    let gains = COMPUTERS.iter().filter_map(|(computer, ..)| {
        let of_size = |effort| gain(results, &live_condition_name(computer), &live_size(effort), LIMIT);
        let gain = of_size(Effort::Full).or_else(|| of_size(Effort::Quick));
        Some((format!("{computer}.mean.speedup"), single(gain)?))
    });
    gains.collect()
}

/// Size of the file of a live run of `--quick`.
const LIVE_BYTES_QUICK: u64 = 64_000_000;
/// Size of the file of a live run of `--full`: the smallest one of the paper.
const LIVE_BYTES_FULL: u64 = 610_000_000;
/// Live runs with each limit.
const LIVE_RUNS: u32 = 3;

fn live_bytes(effort: Effort) -> u64 {
    if effort == Effort::Full { LIVE_BYTES_FULL } else { LIVE_BYTES_QUICK }
}

/// The same as a size in a scenario.
fn live_size(effort: Effort) -> String {
    format!("{}MB", live_bytes(effort) / 1_000_000)
}

/// A program that computes as fast as `gzip` did on either computer, with and without prefetching.
pub(crate) fn live_tasks(effort: Effort) -> Vec<LiveTask> {
    let bytes = live_bytes(effort);
    let programs = COMPUTERS.iter().flat_map(|(name, text, _)| {
        let limit: Option<Bytes> = LIMIT.parse().ok();
        let program = live_program(&scenario(text, name), bytes);
        [(WITHOUT, None), (LIMIT, limit)].map(|(value, limit)| {
            (*name, value, LiveProgram { limit: limit.map(|limit| limit.0), ..program.clone() })
        })
    });
    in_rounds(LIVE_RUNS, &programs.collect::<Vec<_>>(), |(computer, value, program), round| {
        let what = format!(
            "a program that reads {} MB and computes as fast as gzip did on {}, on its emulated drive, {LIVE_RUNS} times without prefetching and with the paper's thread at a limit of 16 MiB; it writes nothing, and this kernel requests the next window in time, so that little is left to hide",
            bytes / 1_000_000,
            machine(computer)
        );
        let experiment = LiveExperiment::Prefetch(program.clone());
        LiveTask::new(&live_point(Paper::Waseda2006, computer, [*value]), round, what, experiment)
    })
}

fn live_program(scenario: &Scenario, bytes: u64) -> LiveProgram {
    let process = scenario.process.first().expect("an experiment has a program");
    LiveProgram {
        drive: drive(scenario),
        place: process.place.unwrap_or_default(),
        bytes,
        call_bytes: process.call.0,
        compute_bytes_per_s: process.compute.map_or(f64::INFINITY, |rate| rate.0 as f64),
        limit: None,
    }
}

/// The gain of each live run over the one without prefetching in the same round.
pub(crate) fn live_estimates(results: &Results) -> BTreeMap<String, Estimate> {
    let gains = COMPUTERS.iter().filter_map(|(computer, ..)| {
        let [without, with] = [WITHOUT, LIMIT].map(|limit| live_point(Paper::Waseda2006, computer, [limit]));
        let gain = results.combined([(&without, "elapsed_s"), (&with, "elapsed_s")], |[without, with]| {
            100.0 * (without / with - 1.0)
        });
        Some((format!("{computer}.mean.speedup"), gain?))
    });
    gains.collect()
}

pub(crate) fn estimates(results: &Results) -> BTreeMap<String, Estimate> {
    let mut estimates = BTreeMap::new();
    let mut add = |id: String, estimate: Option<Estimate>| {
        estimates.extend(estimate.map(|estimate| (id, estimate)));
    };
    for (computer, _, sizes) in COMPUTERS {
        for (file, size) in (1..).zip(sizes) {
            add(format!("{computer}.{file}.standard"), elapsed(results, computer, size, WITHOUT));
            add(format!("{computer}.{file}.prefetch"), elapsed(results, computer, size, LIMIT));
            add(format!("{computer}.{file}.speedup"), single(gain(results, computer, size, LIMIT)));
        }
        add(format!("{computer}.mean.speedup"), single(mean_gain(results, computer, &sizes, LIMIT)));
        let curve = gains(results, computer);
        add(
            format!("{computer}.stable_from"),
            single(stable_from(&curve).map(|limit| limit as f64 / 1024.0)),
        );
        let top = unpolluted_to(&curve).map(|limit| limit as f64 / f64::from(1 << 20));
        add(format!("{computer}.no_pollution_to"), single(top));
    }
    let all = COMPUTERS.iter().flat_map(|(computer, _, sizes)| {
        let limits = LIMITS_ALL.iter().flat_map(move |limit| sizes.iter().map(move |size| (size, limit)));
        limits.filter_map(move |(size, limit)| gain(results, computer, size, limit))
    });
    add("best.speedup".to_owned(), single(all.reduce(f64::max)));
    estimates
}

pub(crate) fn curves(
    results: &Results,
    estimates: &BTreeMap<String, Estimate>,
    published: &[Published],
) -> Vec<Curve> {
    let gains = COMPUTERS.map(|(computer, ..)| Curve {
        figure: Figure::GainByLimit,
        panel: String::new(),
        label: machine(computer),
        points: gains(results, computer).into_iter().map(|(limit, gain)| (limit as f64, gain)).collect(),
        published: Vec::new(),
    });
    let times = COMPUTERS.iter().flat_map(|(computer, _, sizes)| {
        [("standard", "without prefetching"), ("prefetch", "with prefetching")].map(|(kind, label)| {
            let places = (1..).zip(sizes).map(|(file, size)| {
                (size.trim_end_matches("GB").parse().unwrap_or_default(), format!("{computer}.{file}.{kind}"))
            });
            let name = machine(computer);
            Curve::of_figures((Figure::TimeBySize, &name, label), &places.collect(), estimates, published)
        })
    });
    gains.into_iter().chain(times).collect()
}

fn machine(computer: &str) -> String {
    format!("machine {}", computer.to_uppercase())
}

/// Mean gains in percent over the limit in bytes, of the limits that were run, in ascending order.
fn gains(results: &Results, computer: &str) -> Vec<(u64, f64)> {
    let sizes = COMPUTERS.iter().find(|(name, ..)| *name == computer).map_or([""; 8], |(.., sizes)| *sizes);
    let gains = LIMITS_ALL.iter().filter_map(|limit| {
        let bytes: Bytes = limit.parse().ok()?;
        Some((bytes.0, mean_gain(results, computer, &sizes, limit)?))
    });
    gains.collect()
}

/// Returns the smallest limit from which all are stable.
fn stable_from(gains: &[(u64, f64)]) -> Option<u64> {
    let least = least_stable(gains)?;
    gains.iter().rev().take_while(|(_, gain)| *gain >= least).last().map(|(limit, _)| *limit)
}

/// Returns the largest limit that is stable.
fn unpolluted_to(gains: &[(u64, f64)]) -> Option<u64> {
    let least = least_stable(gains)?;
    gains.iter().rev().find(|(_, gain)| *gain >= least).map(|(limit, _)| *limit)
}

fn least_stable(gains: &[(u64, f64)]) -> Option<f64> {
    Some(STABLE_GAIN_RATIO_MIN * gains.iter().map(|(_, gain)| *gain).reduce(f64::max)?)
}

fn elapsed(results: &Results, computer: &str, size: &str, limit: &str) -> Option<Estimate> {
    results.estimate(&point(Paper::Waseda2006, computer, [size, limit]), "elapsed_s")
}

/// Elapsed time without prefetching over that with it, less one, in percent.
fn gain(results: &Results, computer: &str, size: &str, limit: &str) -> Option<f64> {
    let [without, with] = [WITHOUT, limit].map(|limit| elapsed(results, computer, size, limit));
    Some(100.0 * (without?.median / with?.median - 1.0))
}

fn mean_gain(results: &Results, computer: &str, sizes: &[&str], limit: &str) -> Option<f64> {
    let gains: Option<Vec<f64>> = sizes.iter().map(|size| gain(results, computer, size, limit)).collect();
    gains.map(|gains| gains.iter().sum::<f64>() / gains.len() as f64)
}

/// The runs have no random part.
fn single(value: Option<f64>) -> Option<Estimate> {
    value.and_then(|value| Estimate::of(vec![value]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_stable_from_where_all_larger_limits_are_near_the_best() {
        let gains = [(1, 30.0), (2, 10.0), (4, 28.0), (8, 30.0), (16, 29.0)];
        assert_eq!((stable_from(&gains), unpolluted_to(&gains)), (Some(4), Some(16)));
        let polluted = [(1, 30.0), (2, 30.0), (4, 5.0)];
        assert_eq!((stable_from(&polluted), unpolluted_to(&polluted)), (None, Some(2)));
        assert_eq!((stable_from(&[]), unpolluted_to(&[])), (None, None));
    }
}
