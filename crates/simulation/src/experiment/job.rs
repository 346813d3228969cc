//! Jobs of an experiment as results.

use sakiyomi_model::Nanos;
use sakiyomi_report::result::{ScenarioJob, ScenarioJobRun};
use sakiyomi_scenario::spec::ReadMethod;
use sakiyomi_scenario::{JobOutcome, JobRun};

pub(super) fn job(job: &JobOutcome) -> ScenarioJob {
    ScenarioJob {
        name: job.name.clone(),
        method: method_in_words(job.method).to_owned(),
        threads: u64::from(job.threads),
        runs: job.runs.iter().map(run).collect(),
    }
}

fn run(run: &JobRun) -> ScenarioJobRun {
    ScenarioJobRun {
        elapsed_ns: run.elapsed.0,
        computing_ns: run.computed.0,
        copied_ns: run.copied.0,
        hops_ns: hops(run.hops),
        queued_ns: run.queued.0,
        io_wait_ns: run.waited.0,
        idle_ns: run.idle.0,
        reading_ns: run.reading.0,
        read_bytes: run.read_bytes,
        computed_bytes: run.computed_bytes,
        fetched_bytes: run.fetched_bytes,
    }
}

/// None where there were none: on a machine without distances, among others.
pub(super) fn hops(hops: Nanos) -> Option<u64> {
    (!hops.is_zero()).then_some(hops.0)
}

/// Returns the name of a method in an experiment file.
fn method_in_words(method: ReadMethod) -> &'static str {
    match method {
        ReadMethod::Mmap => "mmap",
        ReadMethod::Read => "read",
        ReadMethod::BlockedAny => "blocked-any",
        ReadMethod::BlockedIo => "blocked-io",
    }
}
