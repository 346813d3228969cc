//! An experiment with regulated programs, made up: a plausible and arbitrary ones.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{MS, number, run, words};
use sakiyomi_report::result::*;

/// Returns two computers, two rates and two policies, with two programs that are regulated under one of them.
pub(crate) fn regulated() -> Document<ScenarioResult> {
    let mut points = Vec::new();
    for computer in ["PC1", "PC2"] {
        for rate in [10, 20] {
            points.push(point(computer, rate, "thesis", "corrected", 1.08));
            points.push(point(computer, rate, "deadline", "deadlines", 1.004));
        }
    }
    points[1].regulation.as_mut().unwrap().owners.push(program("second", 30, 1.01));
    document("two computers", &["case.computer", "process.target.rate", "regulate.policy"], points)
}

/// Returns the same with the allowance varied.
pub(crate) fn searched() -> Document<ScenarioResult> {
    let mut points = Vec::new();
    for rate in [10, 20] {
        for (allowance, accuracy) in [("3", 1.0), ("4", 1.09), ("5", 1.2)] {
            points.push(point("PC2", rate, allowance, "fixed", accuracy));
        }
        points.push(point("PC2", rate, "corrected", "corrected", 1.05));
    }
    points[3].regulation.as_mut().unwrap().allowances = vec![4, 4, 3];
    document("the best allowance", &["case.computer", "process.target.rate", "regulate.allowance"], points)
}

fn document(name: &str, varied: &[&str], points: Vec<ScenarioPoint>) -> Document<ScenarioResult> {
    let result = ScenarioResult {
        name: name.to_owned(),
        drive: "Western Digital Scorpio Blue WD10TPVX 1 TB".to_owned(),
        repetitions: 3,
        varied: varied.iter().map(|key| (*key).to_owned()).collect(),
        points,
    };
    let command = ["sakiyomi", "scenario", "run", "kochi.toml"].map(str::to_owned).to_vec();
    Document::new(Run { command, commands_per_s: None, ..run() }, result)
}

fn point(computer: &str, rate: u32, last: &str, decided_by: &str, accuracy: f64) -> ScenarioPoint {
    let course: &[(u64, u32)] =
        if decided_by == "corrected" { &[(0, 9), (300, 8), (900, 4)] } else { &[(0, 3)] };
    ScenarioPoint {
        values: vec![computer.to_owned(), rate.to_string(), last.to_owned()],
        limit: "off".to_owned(),
        regulation: Some(RegulationPoint {
            measured_ns: 200_000 * MS,
            ios_per_s: 160.0 - f64::from(rate),
            longest_other_ns: 180 * MS,
            owners: vec![program("target", rate, accuracy)],
            decided_by: decided_by.to_owned(),
            formula_allowance: 100 / rate - 1,
            allowance: 4,
            allowances: vec![4, 4, 4],
            settled_ios: if decided_by == "corrected" { 900 } else { 0 },
            regulated_ios: 5000,
            allowance_course: course
                .iter()
                .map(|&(ios, allowance)| AllowancePoint { ios, allowance })
                .collect(),
            published_best_allowance: Some(if rate == 10 { 4 } else { 3 }),
            published: if last == "thesis" { vec!["≤ 1.1".to_owned()] } else { Vec::new() },
        }),
        ..ScenarioPoint::default()
    }
}

fn program(name: &str, rate: u32, accuracy: f64) -> RegulatedProgram {
    RegulatedProgram {
        name: name.to_owned(),
        rate_percent: Some(rate),
        rate_every_ns: None,
        ios: 4200,
        accuracy_ratio: accuracy,
        cov_ratio: (accuracy - 1.0) * 2.0 + 0.02,
        p99_ratio: 1.0 + (accuracy - 1.0) * 8.0,
        late_ratio: 0.04,
        mean_ns: 40 * MS,
        ideal_ns: 39 * MS,
        after_pause_ratio: (name == "second").then_some(1.41),
        quantile_ratios: (0..=100)
            .map(|at| 0.99 + f64::from(at) * f64::from(at) * (accuracy - 1.0) / 1e3)
            .collect(),
    }
}

/// Generates any value that deserializes as the regulation of a point.
pub(crate) fn any_regulation() -> impl Strategy<Value = RegulationPoint> {
    let ratio = || prop_oneof![0.0..3.0f64, proptest::num::f64::ANY];
    let program = (words(), any::<Option<u32>>(), vec(number(), 3), vec(ratio(), 4), vec(ratio(), 0..6))
        .prop_map(|(name, rate_percent, numbers, ratios, quantile_ratios)| RegulatedProgram {
            name,
            rate_percent,
            rate_every_ns: rate_percent.is_none().then_some(numbers[0]),
            ios: numbers[0],
            accuracy_ratio: ratios[0],
            cov_ratio: ratios[1],
            p99_ratio: ratios[2],
            late_ratio: ratios[3],
            mean_ns: numbers[1],
            ideal_ns: numbers[2],
            after_pause_ratio: ratios.first().copied(),
            quantile_ratios,
        });
    let course = (number(), any::<u32>()).prop_map(|(ios, allowance)| AllowancePoint { ios, allowance });
    let decided_by = prop_oneof![Just("corrected".to_owned()), Just("deadlines".to_owned()), words()];
    (
        (vec(number(), 4), ratio(), vec(program, 0..3), decided_by),
        (any::<u32>(), any::<u32>(), vec(any::<u32>(), 0..3), vec(course, 0..4)),
        (option::of(any::<u32>()), vec(words(), 0..2)),
    )
        .prop_map(
            |(
                (numbers, ios_per_s, owners, decided_by),
                (formula_allowance, allowance, allowances, allowance_course),
                (published_best_allowance, published),
            )| RegulationPoint {
                measured_ns: numbers[0],
                ios_per_s,
                longest_other_ns: numbers[1],
                owners,
                decided_by,
                formula_allowance,
                allowance,
                allowances,
                settled_ios: numbers[2],
                regulated_ios: numbers[3],
                allowance_course,
                published_best_allowance,
                published,
            },
        )
}
