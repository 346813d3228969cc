//! Made-up results for tests: one in the shape of the paper's table 4, and arbitrary ones.

mod any_live;
mod any_probe;
mod explain;
mod iorate;
mod job;
pub(crate) mod live;
mod probe;
mod query;
mod regulation;
mod reproduce;
mod run;
mod scenario;
pub(crate) mod stream;

use proptest::collection::vec;
use proptest::prelude::*;

use sakiyomi_report::result::*;

pub(crate) use any_live::{any_mount, any_top};
pub(crate) use any_probe::{any_broken_probe, any_probe};
pub(crate) use explain::explained;
pub(crate) use iorate::{any_iorate, iorate};
pub(crate) use job::jobs;
pub(crate) use query::{aggregated, sorted};
pub(crate) use regulation::{any_regulation, regulated, searched};
pub(crate) use reproduce::reproduction;
pub(crate) use run::followed;
pub(crate) use scenario::{any_scenario, scenario};

const MS: u64 = 1_000_000;

/// Returns a small result; `"short"` and any other name give the two sides of table 4.
pub(crate) fn result(name: &str) -> SimResult {
    let short = name == "short";
    let full_hits = if short { 3400 } else { 6300 };
    let near_misses = if short { 4600 } else { 1500 };
    let chunks: Vec<ChunkPoint> = (0..6).map(|index| chunk(index, short)).collect();
    let spread = |scale: u64| Spread {
        mean: scale * MS / 2,
        p50: MS / 5,
        p90: scale * MS,
        p99: scale * 4 * MS,
        p999: scale * 9 * MS,
        max: if short { 120 * MS } else { 310 * MS },
    };
    SimResult {
        trace: "office.csv".to_owned(),
        drive: "desktop-500gb".to_owned(),
        settings: vec![format!("cache.read_ahead.max={}", if short { "64KiB" } else { "1MiB" })],
        commands: 11_500,
        reads: 9000,
        writes: 2480,
        flushes: 20,
        hit_ratio: (full_hits + 120) as f64 / 9000.0,
        read_counts: ReadCounts {
            full_hits,
            active_hits: 120,
            near_misses,
            purged_misses: 90,
            pure_misses: 9000 - full_hits - 120 - near_misses - 90,
        },
        writes_absorbed: 2470,
        writes_media: 10,
        read_bytes: 310 << 20,
        written_bytes: 94 << 20,
        seeks: if short {
            Seeks { read: 900, read_near_miss: 4600, write: 1408 }
        } else {
            Seeks { read: 1080, read_near_miss: 1500, write: 629 }
        },
        response_ns: spread(if short { 10 } else { 5 }),
        read_response_ns: spread(if short { 12 } else { 6 }),
        write_response_ns: spread(2),
        device_ns: spread(if short { 9 } else { 4 }),
        host_queue: HostQueue { wait_mean_ns: 14_000, wait_max_ns: 61 * MS, backlog_max: 17, held_back: 0 },
        disk_time_ns: DiskTime {
            idle: if short { 558 } else { 691 } * MS,
            read_seek: 210 * MS,
            read_data: 40 * MS,
            write_seek: 50 * MS,
            write_data: 9 * MS,
        },
        simulated_ns: 1000 * 1000 * MS,
        breakdown_mean_ns: vec![breakdown("full_hit", full_hits, 0), breakdown("near_miss", near_misses, 9)],
        chunking: Chunking { mode: ChunkMode::Time, size: 1000 * MS, chunks_per_point: 1 },
        chunks,
        response_curve: (0..=10)
            .map(|step| CurvePoint { share_ratio: step as f64 / 10.0, response_ns: 100_000 << step })
            .collect(),
        response_histogram: (0..10)
            .map(|bin| HistogramBin {
                from_ns: 100_000 << bin,
                to_ns: 200_000 << bin,
                read_counts: ReadCounts {
                    full_hits: 10 * (10 - bin),
                    near_misses: 3 * bin,
                    ..ReadCounts::default()
                },
                writes: 4,
            })
            .collect(),
        ..SimResult::default()
    }
}

fn breakdown(class: &str, commands: u64, scale: u64) -> ClassBreakdown {
    ClassBreakdown {
        class: class.to_owned(),
        commands,
        queue: scale * MS / 4,
        overhead: MS / 5,
        seek: scale * MS / 2,
        rotation: scale * MS / 2,
        transfer: scale * MS / 9,
    }
}

fn chunk(index: u64, short: bool) -> ChunkPoint {
    // The third chunk is empty, so that every chart has a gap.
    let reads = if index == 2 { 0 } else { 20 + 7 * index };
    let hits = if short { reads / 3 } else { reads * 3 / 4 };
    ChunkPoint {
        start_ns: index * 1000 * MS,
        end_ns: (index + 1) * 1000 * MS,
        commands: reads,
        reads,
        read_counts: ReadCounts { full_hits: hits, near_misses: reads - hits, ..ReadCounts::default() },
        seeks: Seeks { read: 1, read_near_miss: reads - hits, write: 2 },
        response_ns: ResponseSummary { mean: (1 + index) * MS, p99: 20 * MS, max: (30 + index) * MS },
        disk_time_ns: DiskTime {
            idle: 600 * MS,
            read_seek: 300 * MS,
            read_data: 100 * MS,
            ..DiskTime::default()
        },
        ..ChunkPoint::default()
    }
}

pub(crate) fn run() -> Run {
    Run {
        command: ["sakiyomi", "sim", "office.csv"].map(str::to_owned).to_vec(),
        version: "0.2.0".to_owned(),
        commit: None,
        wall_ns: Some(7700 * MS),
        machine: Machine {
            kernel: "Linux 6.18".to_owned(),
            cpu: "Example CPU".to_owned(),
            cores: 2,
            memory_bytes: 8 << 30,
        },
        commands_per_s: Some(1493.5),
        simulated_per_wall_ratio: Some(130.0),
    }
}

pub(crate) fn document(name: &str) -> Document<SimResult> {
    Document::new(run(), result(name))
}

pub(crate) fn sweep() -> Document<SweepResult> {
    let points =
        [("64KiB", 0.39, 5, 120), ("256KiB", 0.61, 3, 130), ("512KiB", 0.6, 4, 150), ("1MiB", 0.72, 2, 310)]
            .map(|(value, hit_ratio, mean, max)| SweepPoint {
                values: vec![value.to_owned()],
                hit_ratio,
                response_mean_ns: mean * MS,
                response_p99_ns: mean * 8 * MS,
                response_max_ns: max * MS,
                seeks: 6908 / mean,
                idle_ratio: 0.6,
                ..SweepPoint::default()
            });
    let mut result = SweepResult {
        trace: "office.csv".to_owned(),
        drive: "desktop-500gb".to_owned(),
        settings: vec!["queue.depth=32".to_owned()],
        varied: vec!["cache.read_ahead.max".to_owned()],
        points: points.to_vec(),
    };
    result.mark_undominated();
    Document::new(run(), result)
}

/// Returns I/O engines on a disk, a tmpfs and a loop device.
pub(crate) fn probe() -> Document<ProbeResult> {
    let command = ["sakiyomi", "probe", "/data"].map(str::to_owned).to_vec();
    let run = Run { command, commands_per_s: None, simulated_per_wall_ratio: None, ..run() };
    Document::new(run, probe::result())
}

/// Generates any text except the one by which tests find numbers that are not finite.
pub(crate) fn words() -> impl Strategy<Value = String> + Clone {
    any::<String>().prop_map(|text| text.replace("NaN", "nan"))
}

/// Generates small, ordinary and extreme numbers.
fn number() -> BoxedStrategy<u64> {
    prop_oneof![Just(0), 0u64..100, 0u64..10_000_000_000, Just(u64::MAX), any::<u64>()].boxed()
}

fn share() -> BoxedStrategy<f64> {
    prop_oneof![0.0..=1.0f64, Just(0.0), Just(1e300), proptest::num::f64::NORMAL].boxed()
}

fn counts() -> BoxedStrategy<ReadCounts> {
    [number(), number(), number(), number(), number()]
        .prop_map(|[full_hits, active_hits, near_misses, purged_misses, pure_misses]| ReadCounts {
            full_hits,
            active_hits,
            near_misses,
            purged_misses,
            pure_misses,
        })
        .boxed()
}

fn seeks() -> BoxedStrategy<Seeks> {
    [number(), number(), number()]
        .prop_map(|[read, read_near_miss, write]| Seeks { read, read_near_miss, write })
        .boxed()
}

fn disk_time() -> BoxedStrategy<DiskTime> {
    [number(), number(), number(), number(), number()]
        .prop_map(|[idle, read_seek, read_data, write_seek, write_data]| DiskTime {
            idle,
            read_seek,
            read_data,
            write_seek,
            write_data,
        })
        .boxed()
}

fn spread() -> BoxedStrategy<Spread> {
    [number(), number(), number(), number(), number(), number()]
        .prop_map(|[mean, p50, p90, p99, p999, max]| Spread { mean, p50, p90, p99, p999, max })
        .boxed()
}

fn any_chunk() -> BoxedStrategy<ChunkPoint> {
    let numbers = [number(), number(), number(), number(), number(), number(), number(), number(), number()];
    (numbers, counts(), seeks(), disk_time())
        .prop_map(
            |(
                [start_ns, end_ns, commands, reads, writes, mean, p99, max, backlog_max],
                read_counts,
                seeks,
                disk,
            )| {
                ChunkPoint {
                    start_ns,
                    end_ns,
                    commands,
                    reads,
                    writes,
                    read_counts,
                    seeks,
                    response_ns: ResponseSummary { mean, p99, max },
                    disk_time_ns: disk,
                    backlog_max,
                }
            },
        )
        .boxed()
}

fn any_breakdown() -> BoxedStrategy<ClassBreakdown> {
    let class = prop_oneof![Just("full_hit".to_owned()), Just("pure_miss".to_owned()), words()];
    (class, [number(), number(), number(), number(), number(), number()])
        .prop_map(|(class, [commands, queue, overhead, seek, rotation, transfer])| ClassBreakdown {
            class,
            commands,
            queue,
            overhead,
            seek,
            rotation,
            transfer,
        })
        .boxed()
}

fn any_bin() -> BoxedStrategy<HistogramBin> {
    (number(), number(), counts(), number())
        .prop_map(|(from_ns, to_ns, read_counts, writes)| HistogramBin {
            from_ns,
            to_ns,
            read_counts,
            writes,
        })
        .boxed()
}

fn any_curve_point() -> impl Strategy<Value = CurvePoint> {
    (share(), number()).prop_map(|(share_ratio, response_ns)| CurvePoint { share_ratio, response_ns })
}

/// Generates any value that deserializes, sensible or not.
pub(crate) fn any_result() -> impl Strategy<Value = SimResult> {
    let names = (words(), words(), vec(words(), 0..3));
    let totals = ([number(), number(), number(), number()], share(), counts(), seeks());
    let times = ([spread(), spread(), spread(), spread()], disk_time(), number());
    let series = (
        vec(any_breakdown(), 0..4),
        vec(any_chunk(), 0..6),
        vec(any_curve_point(), 0..6),
        vec(any_bin(), 0..6),
    );
    (names, totals, times, series).prop_map(|(names, totals, times, series)| {
        let [commands, reads, writes, read_bytes] = totals.0;
        let [response_ns, read_response_ns, write_response_ns, device_ns] = times.0;
        SimResult {
            trace: names.0,
            drive: names.1,
            settings: names.2,
            commands,
            reads,
            writes,
            read_bytes,
            hit_ratio: totals.1,
            read_counts: totals.2,
            seeks: totals.3,
            response_ns,
            read_response_ns,
            write_response_ns,
            device_ns,
            disk_time_ns: times.1,
            simulated_ns: times.2,
            breakdown_mean_ns: series.0,
            chunks: series.1,
            response_curve: series.2,
            response_histogram: series.3,
            ..SimResult::default()
        }
    })
}

/// Generates any value that deserializes as a sweep.
pub(crate) fn any_sweep() -> impl Strategy<Value = SweepResult> {
    let point = (vec(words(), 0..3), share(), [number(), number(), number(), number()], any::<bool>());
    let point = point.prop_map(|(values, hit_ratio, [mean, p99, max, seeks], undominated)| SweepPoint {
        values,
        hit_ratio,
        response_mean_ns: mean,
        response_p99_ns: p99,
        response_max_ns: max,
        seeks,
        idle_ratio: hit_ratio,
        undominated,
        same_drive_as_point: (seeks % 3 == 0).then_some(seeks % 11),
        limits: (0..seeks % 5)
            .map(|number| SweepLimit {
                key: "k".repeat(number as usize),
                value: max.to_string(),
                acts_as: (number % 2 == 0).then(|| mean.to_string()),
                limited_by: vec!["l".to_owned(); (number % 3) as usize],
            })
            .collect(),
    });
    (words(), vec(words(), 0..3), vec(point, 0..8)).prop_map(|(trace, varied, points)| SweepResult {
        drive: trace.clone(),
        settings: vec![trace.clone()],
        trace,
        varied,
        points,
    })
}

/// Returns a simulation that is a little too fast, of a drive that distinguished hits from misses.
pub(crate) fn validation() -> Document<ValidateResult> {
    let spread = |scale: u64| Spread {
        mean: scale * MS / 100,
        p50: scale * MS / 90,
        p90: scale * MS / 50,
        p99: scale * MS / 30,
        p999: scale * MS / 10,
        max: scale * MS / 4,
    };
    let error = |scale: u64| RequestError {
        median: scale * 1000,
        mean: scale * 3000,
        p90: scale * 9000,
        bias: -(scale as i64) * 700,
    };
    let kind = |kind, requests, scale: u64| KindError {
        kind,
        requests,
        measured_mean_ns: scale * 10_500,
        simulated_mean_ns: scale * 10_000,
        request_error_ns: error(scale / 10),
        correlation: (kind != Kind::Hits).then_some(0.94),
    };
    let accuracy = |scale: u64| Accuracy {
        simulated_response_ns: spread(400 + scale),
        rms_ns: scale * 2300,
        rms_ratio: scale as f64 / 1900.0,
        binned_rms_ns: scale * 2310,
        request_error_ns: error(scale),
        correlation: Some(0.91),
        kinds: vec![
            kind(Kind::Reads, 640, 400),
            kind(Kind::Writes, 360, 480),
            kind(Kind::Hits, 210, 30),
            kind(Kind::Misses, 430, 620),
        ],
    };
    let agreement = |misses_as_hits: u64, scale| LabelAgreement {
        agreement_ratio: (620 - misses_as_hits) as f64 / 640.0,
        hits_as_hits: 200,
        hits_as_misses: 20,
        misses_as_hits,
        misses_as_misses: 420 - misses_as_hits,
        hit_error_ns: error(scale / 8),
        miss_error_ns: error(scale),
    };
    let labels = Labels {
        hits: 220,
        misses: 420,
        baseline_agreement_ratio: 0.81,
        free: agreement(14, 90),
        anchored: agreement(10, 40),
    };
    let point = |step: u64| QuantilePoint {
        share_ratio: step as f64 / 20.0,
        measured_ns: 300_000 + step * step * 30_000,
        free_ns: 280_000 + step * step * 29_000,
        anchored_ns: 310_000 + step * step * 29_800,
    };
    let bin = |step: i64| ErrorBin {
        from_ns: step * 100_000,
        to_ns: (step + 1) * 100_000,
        free: 60 / (step.unsigned_abs() + 1),
        anchored: 400 / (step.unsigned_abs().pow(2) + 1),
    };
    let result = ValidateResult {
        spindle_coherence: 0.97,
        trace: "measured.trace".to_owned(),
        drive: "desktop-500gb".to_owned(),
        settings: vec!["cache.read_ahead.max=64KiB".to_owned()],
        replay: vec!["closed loop".to_owned()],
        from_ns: 200 * 1000 * MS,
        until_ns: None,
        requests: 3000,
        judged: 1000,
        measured_response_ns: spread(427),
        free: accuracy(45),
        anchored: accuracy(20),
        labels: Some(labels),
        quantile_curve: (0..=20).map(point).collect(),
        error_histogram: (-10..10).map(bin).collect(),
    };
    Document::new(run(), result)
}

/// Sets every fraction to the same value, so that written results read back to the last bit.
pub(crate) fn set_ratios(result: &mut ValidateResult, ratio: f64) {
    for accuracy in [&mut result.free, &mut result.anchored] {
        accuracy.rms_ratio = ratio;
        accuracy.correlation = accuracy.correlation.map(|_| ratio);
        accuracy.kinds.iter_mut().for_each(|kind| kind.correlation = None);
    }
    if let Some(labels) = &mut result.labels {
        labels.baseline_agreement_ratio = ratio;
        labels.free.agreement_ratio = ratio;
        labels.anchored.agreement_ratio = ratio;
    }
    result.quantile_curve.iter_mut().for_each(|point| point.share_ratio = ratio);
}

fn request_error() -> BoxedStrategy<RequestError> {
    ([number(), number(), number()], any::<i64>())
        .prop_map(|([median, mean, p90], bias)| RequestError { median, mean, p90, bias })
        .boxed()
}

fn accuracy() -> BoxedStrategy<Accuracy> {
    let kind = prop_oneof![Just(Kind::Reads), Just(Kind::Writes), Just(Kind::Hits), Just(Kind::Misses)];
    let correlation = || proptest::option::of(share());
    let kind = (kind, [number(), number(), number()], request_error(), correlation()).prop_map(
        |(kind, [requests, measured_mean_ns, simulated_mean_ns], request_error_ns, correlation)| KindError {
            kind,
            requests,
            measured_mean_ns,
            simulated_mean_ns,
            request_error_ns,
            correlation,
        },
    );
    (spread(), [number(), number()], share(), request_error(), correlation(), vec(kind, 0..4))
        .prop_map(|(simulated_response_ns, [rms_ns, binned_rms_ns], rms_ratio, error, correlation, kinds)| {
            Accuracy {
                simulated_response_ns,
                rms_ns,
                rms_ratio,
                binned_rms_ns,
                request_error_ns: error,
                correlation,
                kinds,
            }
        })
        .boxed()
}

fn label_agreement() -> BoxedStrategy<LabelAgreement> {
    (share(), [number(), number(), number(), number()], request_error(), request_error())
        .prop_map(|(agreement_ratio, counts, hit_error_ns, miss_error_ns)| {
            let [hits_as_hits, hits_as_misses, misses_as_hits, misses_as_misses] = counts;
            LabelAgreement {
                agreement_ratio,
                hits_as_hits,
                hits_as_misses,
                misses_as_hits,
                misses_as_misses,
                hit_error_ns,
                miss_error_ns,
            }
        })
        .boxed()
}

/// Generates any value that deserializes as a validation.
pub(crate) fn any_validation() -> impl Strategy<Value = ValidateResult> {
    let labels = ([number(), number()], share(), label_agreement(), label_agreement()).prop_map(
        |([hits, misses], baseline_agreement_ratio, free, anchored)| Labels {
            hits,
            misses,
            baseline_agreement_ratio,
            free,
            anchored,
        },
    );
    let point = (share(), [number(), number(), number()]).prop_map(|(share_ratio, times)| {
        let [measured_ns, free_ns, anchored_ns] = times;
        QuantilePoint { share_ratio, measured_ns, free_ns, anchored_ns }
    });
    let bin = (any::<[i64; 2]>(), [number(), number()])
        .prop_map(|([from_ns, to_ns], [free, anchored])| ErrorBin { from_ns, to_ns, free, anchored });
    let names = (words(), vec(words(), 0..3));
    let counts = ([number(), number(), number()], proptest::option::of(number()));
    let series = (vec(point, 0..6), vec(bin, 0..6));
    (names, counts, spread(), accuracy(), accuracy(), proptest::option::of(labels), series).prop_map(
        |(names, counts, measured_response_ns, free, anchored, labels, series)| {
            let [from_ns, requests, judged] = counts.0;
            ValidateResult {
                spindle_coherence: 0.0,
                drive: names.0.clone(),
                trace: names.0,
                settings: names.1.clone(),
                replay: names.1,
                from_ns,
                until_ns: counts.1,
                requests,
                judged,
                measured_response_ns,
                free,
                anchored,
                labels,
                quantile_curve: series.0,
                error_histogram: series.1,
            }
        },
    )
}
