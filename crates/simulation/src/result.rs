//! The result document of a simulation.

use sakiyomi_drive::observe::{Chunking, Counts, Latency, Point, Summary, Tally};
use sakiyomi_drive::{DiskTime, Seeks};
use sakiyomi_model::{Class, Nanos, ReadClass, WriteClass};
use sakiyomi_report::SimResult;
use sakiyomi_report::result::{
    self, ChunkMode, ChunkPoint, ClassBreakdown, CurvePoint, HistogramBin, HostQueue, curve_shares,
};

use crate::Simulated;

/// Bins of the histogram per factor of ten.
const BINS_PER_DECADE: i32 = 10;

/// Returns the `result` of the result document. `drive` is the drive's title, `settings` those that differ from its own
/// file.
#[must_use]
pub fn sim_result(
    simulated: &Simulated,
    drive: &str,
    settings: &[String],
    warm_up: Nanos,
    chunking: Chunking,
) -> SimResult {
    let Summary { start, end, usage, tally, series } = &simulated.summary;
    let counts = &tally.counts;
    let all = tally.response(|_| true);
    SimResult {
        trace: simulated.trace.clone(),
        drive: drive.to_owned(),
        settings: settings.to_vec(),
        replay: simulated.replay.clone(),
        warm_up_ns: warm_up.0,
        commands: counts.commands,
        reads: counts.reads(),
        writes: counts.writes(),
        flushes: counts.of(Class::Flush),
        discards: counts.of(Class::Discard),
        hit_ratio: counts.hit_ratio(),
        read_counts: read_counts(counts),
        writes_absorbed: counts.of(Class::Write(WriteClass::Absorbed)),
        writes_media: counts.of(Class::Write(WriteClass::Media)),
        read_bytes: counts.read_bytes.0,
        written_bytes: counts.written_bytes.0,
        seeks: seeks(usage.seeks),
        read_response_ns: spread(&tally.response(|class| matches!(class, Some(Class::Read(_))))),
        write_response_ns: spread(&tally.response(|class| matches!(class, Some(Class::Write(_))))),
        device_ns: spread(&tally.device),
        host_queue: HostQueue {
            wait_mean_ns: tally.host_wait.mean().0,
            wait_max_ns: tally.host_wait.max().0,
            backlog_max: simulated.host.backlog_max as u64,
            held_back: simulated.host.held_back,
        },
        disk_time_ns: disk_time(usage.time),
        simulated_ns: (*end - *start).0,
        breakdown_mean_ns: breakdown(tally),
        chunking: chunks_of(chunking, series.chunks_per_point()),
        chunks: series.points().iter().map(chunk_point).collect(),
        response_curve: curve(&all),
        response_histogram: histogram(tally, all.max()),
        response_ns: spread(&all),
    }
}

fn read_counts(counts: &Counts) -> result::ReadCounts {
    let of = |class| counts.of(Class::Read(class));
    result::ReadCounts {
        full_hits: of(ReadClass::FullHit),
        active_hits: of(ReadClass::ActiveHit),
        near_misses: of(ReadClass::NearMiss),
        purged_misses: of(ReadClass::PurgedMiss),
        pure_misses: of(ReadClass::PureMiss),
    }
}

fn seeks(seeks: Seeks) -> result::Seeks {
    result::Seeks { read: seeks.read, read_near_miss: seeks.read_near_miss, write: seeks.write }
}

/// Converts the time of a disk by activity.
#[must_use]
pub fn disk_time(time: DiskTime) -> result::DiskTime {
    result::DiskTime {
        idle: time.idle.0,
        read_seek: time.read_seek.0,
        read_data: time.read_data.0,
        write_seek: time.write_seek.0,
        write_data: time.write_data.0,
    }
}

fn spread(latency: &Latency) -> result::Spread {
    result::Spread {
        mean: latency.mean().0,
        p50: latency.quantile(0.5).0,
        p90: latency.quantile(0.9).0,
        p99: latency.quantile(0.99).0,
        p999: latency.quantile(0.999).0,
        max: latency.max().0,
    }
}

fn breakdown(tally: &Tally) -> Vec<ClassBreakdown> {
    let classes = Class::ALL.iter().zip(&tally.breakdown).filter(|(class, _)| tally.counts.of(**class) > 0);
    classes
        .map(|(class, sum)| {
            let commands = tally.counts.of(*class);
            ClassBreakdown {
                class: class.name().to_owned(),
                commands,
                queue: (sum.queue / commands).0,
                overhead: (sum.overhead / commands).0,
                seek: (sum.seek / commands).0,
                rotation: (sum.rotation / commands).0,
                transfer: (sum.transfer / commands).0,
            }
        })
        .collect()
}

fn chunks_of(chunking: Chunking, chunks_per_point: u64) -> result::Chunking {
    let (mode, size) = match chunking {
        Chunking::Time(time) => (ChunkMode::Time, time.0),
        Chunking::Bytes(bytes) => (ChunkMode::Bytes, bytes.0),
        Chunking::Commands(commands) => (ChunkMode::Commands, commands),
    };
    result::Chunking { mode, size, chunks_per_point }
}

/// Converts a chunk, or several joined ones, to the schema.
fn chunk_point(point: &Point) -> ChunkPoint {
    ChunkPoint {
        start_ns: point.start.0,
        end_ns: point.end.0,
        commands: point.counts.commands,
        reads: point.counts.reads(),
        writes: point.counts.writes(),
        read_counts: read_counts(&point.counts),
        seeks: seeks(point.usage.seeks),
        response_ns: result::ResponseSummary {
            mean: point.response_mean().0,
            p99: point.response_p99.0,
            max: point.response_max.0,
        },
        disk_time_ns: disk_time(point.usage.time),
        backlog_max: point.backlog_max,
    }
}

/// Returns all response times in ascending order, thinned.
fn curve(all: &Latency) -> Vec<CurvePoint> {
    let shares = curve_shares(all.count());
    shares.map(|share| CurvePoint { share_ratio: share, response_ns: all.quantile(share).0 }).collect()
}

fn histogram(tally: &Tally, longest: Nanos) -> Vec<HistogramBin> {
    let edge = |step: i32| Nanos(10f64.powf(f64::from(step) / f64::from(BINS_PER_DECADE)).round() as u64);
    // From 1 µs on; faster responses are counted in the first bin.
    let first = 3 * BINS_PER_DECADE;
    let last = (first..).find(|step| edge(*step) >= longest).unwrap_or(first);
    let bounds: Vec<Nanos> = (first..=last).map(edge).collect();
    let counts: Vec<Vec<u64>> =
        tally.by_class.iter().map(|latency| latency.counts_between(&bounds)).collect();
    let from = |bin: usize| if bin == 0 { Nanos(edge(first - 1).0) } else { bounds[bin - 1] };
    (0..bounds.len())
        .map(|bin| HistogramBin {
            from_ns: from(bin).0,
            to_ns: bounds[bin].0,
            read_counts: result::ReadCounts {
                full_hits: counts[0][bin],
                active_hits: counts[1][bin],
                near_misses: counts[2][bin],
                purged_misses: counts[3][bin],
                pure_misses: counts[4][bin],
            },
            writes: counts[5][bin] + counts[6][bin],
        })
        .collect()
}
