//! Jobs of tasks in an experiment, made up: plausible and arbitrary ones.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{MS, number, run, words};
use sakiyomi_report::result::*;

/// Returns two methods on one and on four threads, whose published order is reproduced once.
pub(crate) fn jobs() -> Document<ScenarioResult> {
    let point = |method: &str, threads: u64, elapsed: u64, published: u64| ScenarioPoint {
        values: vec![method.to_owned(), threads.to_string()],
        limit: "off".to_owned(),
        elapsed_ns: elapsed * MS,
        plain_elapsed_ns: elapsed * MS,
        published_elapsed_ns: Some(published * MS),
        jobs: vec![ScenarioJob {
            name: "wc".to_owned(),
            method: method.to_owned(),
            threads,
            runs: [elapsed, elapsed / 2]
                .map(|elapsed| ScenarioJobRun {
                    elapsed_ns: elapsed * MS,
                    computing_ns: 10_537 * MS,
                    copied_ns: 500 * MS,
                    io_wait_ns: 11_000 * MS,
                    idle_ns: threads * 900 * MS,
                    reading_ns: 10_900 * MS,
                    read_bytes: 1_000_000_000,
                    computed_bytes: 1_000_000_000,
                    fetched_bytes: elapsed * 50_000,
                    ..ScenarioJobRun::default()
                })
                .to_vec(),
        }],
        ..ScenarioPoint::default()
    };
    let result = ScenarioResult {
        name: "word count".to_owned(),
        drive: "Hitachi Deskstar P7K500 500 GB (HDP725050GLA360)".to_owned(),
        repetitions: 1,
        varied: vec!["job.wc.method".to_owned(), "job.wc.threads".to_owned()],
        points: vec![
            point("mmap", 1, 15_390, 20_179),
            point("mmap", 4, 11_300, 22_861),
            point("blocked-io", 1, 11_408, 13_930),
            point("blocked-io", 4, 11_361, 14_634),
        ],
    };
    let command = ["sakiyomi", "scenario", "run", "wc.toml"].map(str::to_owned).to_vec();
    Document::new(Run { command, commands_per_s: None, ..run() }, result)
}

pub(super) fn any_jobs() -> impl Strategy<Value = Vec<ScenarioJob>> {
    let run = vec(number(), 11).prop_map(|numbers| ScenarioJobRun {
        elapsed_ns: numbers[0],
        computing_ns: numbers[1],
        copied_ns: numbers[2],
        hops_ns: Some(numbers[10]).filter(|hops| hops.is_multiple_of(2)),
        queued_ns: numbers[3],
        io_wait_ns: numbers[4],
        idle_ns: numbers[5],
        reading_ns: numbers[6],
        read_bytes: numbers[7],
        computed_bytes: numbers[8],
        fetched_bytes: numbers[9],
    });
    let job = (words(), words(), number(), vec(run, 0..3))
        .prop_map(|(name, method, threads, runs)| ScenarioJob { name, method, threads, runs });
    vec(job, 0..3)
}
