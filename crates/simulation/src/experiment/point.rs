//! An experiment in virtual time as a result.

use std::collections::BTreeMap;

use sakiyomi_prefetch::{Idle, State};
use sakiyomi_report::result::{DistancePoint, ScenarioPoint, ScenarioProcess};
use sakiyomi_scenario::spec::Distance;
use sakiyomi_scenario::{Outcome, ProcessOutcome, Scenario};

use super::job::{hops, job};
use crate::disk_time;

const LIMIT: &str = "prefetch.limit";

/// Returns one combination of values, `plain` being the same without prefetching.
pub(super) fn point(
    values: &[String],
    varied: &[(String, Vec<String>)],
    scenario: &Scenario,
    outcome: &Outcome,
    plain: &Outcome,
) -> ScenarioPoint {
    let at: BTreeMap<&str, &str> =
        varied.iter().map(|(key, _)| key.as_str()).zip(values.iter().map(String::as_str)).collect();
    let published = published(scenario, &at);
    let mut alone = at.clone();
    alone.insert(LIMIT, "off");
    let is_off = scenario.prefetch.limit == Distance::Off;
    let published_alone = self::published(scenario, &alone).filter(|_| !is_off);
    let faster = |alone: u64, ahead: u64| alone as f64 / ahead.max(1) as f64 - 1.0;
    ScenarioPoint {
        values: values.to_vec(),
        limit: limit_in_words(scenario.prefetch.limit),
        limit_bytes: match scenario.prefetch.limit {
            Distance::Fixed(limit) => Some(limit.0),
            Distance::Off | Distance::Auto => None,
        },
        elapsed_ns: outcome.elapsed.0,
        plain_elapsed_ns: plain.elapsed.0,
        speedup_ratio: faster(plain.elapsed.0, outcome.elapsed.0),
        published_elapsed_ns: published,
        published_speedup_ratio: published_alone.zip(published).map(|(alone, ahead)| faster(alone, ahead)),
        processes: outcome.processes.iter().map(process).collect(),
        jobs: outcome.jobs.iter().map(job).collect(),
        disk_time_ns: outcome.usage.as_ref().map(|usage| disk_time(usage.time)),
        regulation: None,
    }
}

/// Returns the published time for these values, in nanoseconds.
fn published(scenario: &Scenario, at: &BTreeMap<&str, &str>) -> Option<u64> {
    let found = scenario.published.iter().find(|published| {
        published.elapsed.is_some()
            && published.at.len() == at.len()
            && published.at.iter().all(|(key, value)| at.get(key.as_str()) == Some(&value.as_str()))
    });
    found.and_then(|published| published.elapsed).map(|elapsed| elapsed.0)
}

fn limit_in_words(limit: Distance) -> String {
    match limit {
        Distance::Off => "off".to_owned(),
        Distance::Auto => "auto".to_owned(),
        Distance::Fixed(limit) => sakiyomi_report::number::round_bytes(limit.0),
    }
}

fn process(process: &ProcessOutcome) -> ScenarioProcess {
    ScenarioProcess {
        name: process.name.clone(),
        elapsed_ns: process.elapsed.0,
        computing_ns: process.ran.0,
        hops_ns: hops(process.hops),
        queued_ns: process.queued.0,
        io_wait_read_ns: process.waited_read.0,
        io_wait_write_ns: process.waited_write.0,
        paused_ns: process.slept.0,
        hidden_ns: process.hidden().0,
        read_bytes: process.read_bytes,
        written_bytes: process.written_bytes,
        prefetched_bytes: process.prefetched_bytes,
        wasted_bytes: process.wasted_bytes,
        distance_max_bytes: process.distances.longest,
        distance: process
            .distances
            .points
            .iter()
            .map(|&(at, bytes)| DistancePoint { at_ns: at.0, bytes })
            .collect(),
        prefetcher: process.state.map_or("", state_in_words).to_owned(),
    }
}

fn state_in_words(state: State) -> &'static str {
    match state {
        State::Watching => "watches",
        State::Ahead => "reads ahead",
        State::Probation => "on probation",
        State::Idle(Idle::Resident) => "inactive: all data is in memory",
        State::Idle(Idle::DoesNotWait) => "inactive: the program does not wait for I/O",
        State::Idle(Idle::NotSequential) => "inactive: accesses are not sequential",
        State::Idle(Idle::IoBound) => "inactive: the drive is the bottleneck",
        State::Idle(Idle::NoMemory) => "inactive: too little memory",
        State::Idle(Idle::Done) => "all was read ahead",
        State::Idle(Idle::Refused) => "inactive: the file cannot be prefetched",
    }
}
