//! An experiment in virtual time, made up: a plausible and arbitrary ones.

use proptest::collection::vec;
use proptest::prelude::*;

use super::job::any_jobs;
use super::{MS, any_regulation, disk_time, number, run, words};
use sakiyomi_report::result::*;

/// Returns one file at three limits, two of which were published.
pub(crate) fn scenario() -> Document<ScenarioResult> {
    let point = |limit: &str, bytes: Option<u64>, elapsed: u64, published: Option<u64>| ScenarioPoint {
        values: vec!["1.00GB".to_owned(), limit.to_owned()],
        limit: limit.to_owned(),
        limit_bytes: bytes,
        elapsed_ns: elapsed * MS,
        plain_elapsed_ns: 30_000 * MS,
        speedup_ratio: 30_000.0 / elapsed as f64 - 1.0,
        published_elapsed_ns: published.map(|ms| ms * MS),
        published_speedup_ratio: published.filter(|_| bytes.is_some()).map(|ms| 29_650.0 / ms as f64 - 1.0),
        processes: vec![ScenarioProcess {
            name: "gzip".to_owned(),
            elapsed_ns: elapsed * MS,
            computing_ns: 21_500 * MS,
            io_wait_read_ns: (elapsed - 21_500) * MS,
            hidden_ns: 12_000 * MS,
            read_bytes: 1_000_000_000,
            written_bytes: 200_000_000,
            prefetched_bytes: bytes.map_or(0, |_| 999_000_000),
            wasted_bytes: if elapsed > 30_000 { 254_000_000 } else { 0 },
            distance_max_bytes: bytes.unwrap_or_default(),
            distance: bytes
                .map(|bytes| {
                    (0..40).map(move |at| DistancePoint { at_ns: at * 500 * MS, bytes: bytes * (at % 4) / 4 })
                })
                .into_iter()
                .flatten()
                .collect(),
            prefetcher: if bytes.is_some() { "reads ahead".to_owned() } else { String::new() },
            ..ScenarioProcess::default()
        }],
        disk_time_ns: Some(DiskTime { idle: 1, read_seek: 2, read_data: 3, write_seek: 4, write_data: 5 }),
        jobs: Vec::new(),
        regulation: None,
    };
    let result = ScenarioResult {
        name: "gzip on a drive of 2005".to_owned(),
        drive: "Hitachi Deskstar 7K250 250 GB (HDS722525)".to_owned(),
        repetitions: 1,
        varied: vec!["process.gzip.size".to_owned(), "prefetch.limit".to_owned()],
        points: vec![
            point("off", None, 30_000, Some(29_650)),
            point("64KiB", Some(64 << 10), 29_000, None),
            point("16MiB", Some(16 << 20), 21_520, Some(21_540)),
            point("512MiB", Some(512 << 20), 34_100, None),
        ],
    };
    let command = ["sakiyomi", "scenario", "run", "gzip.toml"].map(str::to_owned).to_vec();
    let run = Run { command, commands_per_s: None, ..run() };
    Document::new(run, result)
}

/// Generates any value that deserializes as an experiment.
pub(crate) fn any_scenario() -> impl Strategy<Value = ScenarioResult> {
    let at = || (number(), number()).prop_map(|(at_ns, bytes)| DistancePoint { at_ns, bytes });
    let process = (words(), vec(number(), 13), vec(at(), 0..4), words()).prop_map(
        |(name, numbers, distance, prefetcher)| ScenarioProcess {
            name,
            elapsed_ns: numbers[0],
            computing_ns: numbers[1],
            hops_ns: Some(numbers[12]).filter(|hops| hops.is_multiple_of(2)),
            queued_ns: numbers[2],
            io_wait_read_ns: numbers[3],
            io_wait_write_ns: numbers[4],
            paused_ns: numbers[5],
            hidden_ns: numbers[6],
            read_bytes: numbers[7],
            written_bytes: numbers[8],
            prefetched_bytes: numbers[9],
            wasted_bytes: numbers[10],
            distance_max_bytes: numbers[11],
            distance,
            prefetcher,
        },
    );
    let limit = prop_oneof![Just("off".to_owned()), Just("auto".to_owned()), words()];
    let ratio = || prop_oneof![-1.0..2.0f64, proptest::num::f64::ANY];
    let value = prop_oneof![(0u32..20).prop_map(|number| number.to_string()), words()];
    let point = (
        (vec(value, 0..3), limit, proptest::option::of(number())),
        ([number(), number()], ratio()),
        (proptest::option::of(number()), proptest::option::of(ratio())),
        (
            vec(process, 0..3),
            any_jobs(),
            proptest::option::of(disk_time()),
            proptest::option::weighted(0.3, any_regulation()),
        ),
    )
        .prop_map(
            |(
                (values, limit, limit_bytes),
                ([elapsed, plain], speedup),
                (published, gain),
                (processes, jobs, disk, regulation),
            )| {
                ScenarioPoint {
                    values,
                    limit,
                    limit_bytes,
                    elapsed_ns: elapsed,
                    plain_elapsed_ns: plain,
                    speedup_ratio: speedup,
                    published_elapsed_ns: published,
                    published_speedup_ratio: gain,
                    processes,
                    jobs,
                    disk_time_ns: disk,
                    regulation,
                }
            },
        );
    let keys = ["prefetch.limit", "regulate.allowance", "process.p.rate", "job.wc.threads", "job.wc.method"];
    let key = prop_oneof![3 => prop::sample::select(keys.map(str::to_owned).to_vec()), 1 => words()];
    let varied = vec(key, 0..3);
    ([words(), words()], any::<u32>(), varied, vec(point, 0..6)).prop_map(
        |([name, drive], repetitions, varied, points)| ScenarioResult {
            name,
            drive,
            repetitions,
            varied,
            points,
        },
    )
}
