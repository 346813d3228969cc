//! The discrete policies of a drive, and the alternatives that are tried for each.

use sakiyomi_drive::spec::{
    Consumed, DriveSpec, QueuePolicy, ReadAheadMode, Replacement, SegmentMode, WriteOnCached, WriteShare,
};
use sakiyomi_model::{Bytes, Nanos};

/// A policy: a setting with few alternatives.
#[derive(Clone, Copy)]
pub(crate) struct Policy {
    /// Its key.
    pub(crate) key: &'static str,
    /// Returns drives that differ in this policy only; the given one is the first.
    pub(crate) alternatives: fn(&DriveSpec) -> Vec<DriveSpec>,
    /// Requests that would decide it.
    pub(crate) advice: &'static str,
}

const STREAMS: &str = "sequential reads in streams, with pauses of several lengths between them";
const REREADS: &str = "reads of sectors that were read before, after few and after many others";
const MANY_STREAMS: &str = "more interleaved sequential streams than the buffer has segments";
const BURSTS: &str = "bursts of writes longer than the write cache, and pauses after them";
const READS_OF_WRITTEN: &str = "reads of sectors that were just written, and writes of sectors just read";
const QUEUED: &str = "requests that are issued while others wait";

/// Policies of any drive.
const POLICIES: &[Policy] = &[
    Policy {
        key: "cache.read_ahead.mode",
        alternatives: |spec| each(spec, READ_AHEAD_MODES, |spec, mode| spec.cache.read_ahead.mode = mode),
        advice: STREAMS,
    },
    Policy {
        key: "cache.read_ahead.after_sequential",
        alternatives: |spec| each(spec, 0..4, |spec, count| spec.cache.read_ahead.after_sequential = count),
        advice: STREAMS,
    },
    Policy {
        key: "cache.read_ahead.on_arrival",
        alternatives: |spec| each(spec, [true, false], |spec, on| spec.cache.read_ahead.on_arrival = on),
        advice: "reads of sectors shortly before those just read, on the same track",
    },
    Policy {
        key: "cache.read_ahead.resume_on_hit",
        alternatives: |spec| each(spec, [true, false], |spec, on| spec.cache.read_ahead.resume_on_hit = on),
        advice: STREAMS,
    },
    Policy {
        key: "cache.read_ahead.max",
        alternatives: |spec| {
            let sizes =
                around(spec.cache.read_ahead.max, spec).chain([segment_bytes(spec), READ_AHEAD_UNLIMITED]);
            each(spec, sizes, |spec, size| spec.cache.read_ahead.max = Bytes(size))
        },
        advice: "a long pause after a sequential read, then a read at each of several distances ahead",
    },
    Policy {
        key: "cache.read_ahead.min",
        alternatives: |spec| {
            each(spec, [0, 8, 32, 128, 512, 2048], |spec, kib| {
                spec.cache.read_ahead.min = Bytes((kib << 10).min(spec.cache.read_ahead.max.0));
            })
        },
        advice: "reads elsewhere that are issued directly after a sequential read",
    },
    Policy {
        key: "cache.segments.consumed",
        alternatives: |spec| {
            each(spec, [Consumed::Keep, Consumed::Overwrite, Consumed::Discard], |spec, fate| {
                spec.cache.segments.consumed = fate;
            })
        },
        advice: REREADS,
    },
    Policy {
        key: "cache.segments.count",
        alternatives: |spec| {
            let count = spec.cache.segments.count;
            let near = [count - 1, count + 1, count / 2, count * 2, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
            each(spec, near.into_iter().filter(|count| (1..=SEGMENTS_MAX).contains(count)), |spec, count| {
                let segment = segment_bytes(spec);
                spec.cache.size = Bytes(segment * u64::from(count));
                spec.cache.segments.count = count;
            })
        },
        advice: MANY_STREAMS,
    },
    Policy {
        key: "cache.size",
        alternatives: |spec| {
            let count = u64::from(spec.cache.segments.count);
            let track = longest_track_bytes(spec);
            let sizes = around(Bytes(segment_bytes(spec)), spec).chain([track, 2 * track]);
            each(spec, sizes, |spec, size| spec.cache.size = Bytes(size * count))
        },
        advice: "a long pause after a sequential read, then reads ahead of and behind it",
    },
    Policy {
        key: "cache.segments.mode",
        alternatives: |spec| {
            let modes = [SegmentMode::Fixed, SegmentMode::Adaptive];
            each(spec, modes, |spec, mode| spec.cache.segments.mode = mode)
        },
        advice: MANY_STREAMS,
    },
    Policy {
        key: "cache.segments.replacement",
        alternatives: |spec| {
            let policies = [
                Replacement::Lru,
                Replacement::Fifo,
                Replacement::ConsumedFirst,
                Replacement::LeastRecentlySequential,
            ];
            each(spec, policies, |spec, policy| spec.cache.segments.replacement = policy)
        },
        advice: MANY_STREAMS,
    },
    Policy {
        key: "cache.write.enabled",
        alternatives: |spec| each(spec, [true, false], |spec, on| spec.cache.write.enabled = on),
        advice: "small random writes",
    },
    Policy {
        key: "cache.write.share",
        alternatives: |spec| {
            let shares = [WriteShare::Shared, WriteShare::Separate];
            each(spec, shares, |spec, share| spec.cache.write.share = share)
        },
        advice: "writes between the reads of sequential streams",
    },
    Policy {
        key: "cache.write.limit",
        alternatives: |spec| {
            let sizes = around(spec.cache.write.limit, spec);
            each(spec, sizes, |spec, size| spec.cache.write.limit = Bytes(size))
        },
        advice: BURSTS,
    },
    Policy {
        key: "cache.write.high_watermark",
        alternatives: |spec| {
            each(spec, [0.0, 0.25, 0.5, 0.75, 1.0], |spec, share: f64| {
                spec.cache.write.high_watermark = share;
                spec.cache.write.low_watermark = spec.cache.write.low_watermark.min(share);
            })
        },
        advice: BURSTS,
    },
    Policy {
        key: "cache.write.low_watermark",
        alternatives: |spec| {
            each(spec, [0.0, 0.25, 0.5, 0.75], |spec, share: f64| {
                spec.cache.write.low_watermark = share.min(spec.cache.write.high_watermark);
            })
        },
        advice: BURSTS,
    },
    Policy {
        key: "cache.write.idle_delay",
        alternatives: |spec| {
            each(spec, [0, 1, 3, 10, 30, 100, 300, 1000], |spec, ms| {
                spec.cache.write.idle_delay = Nanos(ms * 1_000_000);
            })
        },
        advice: "reads after writes, with pauses of several lengths between them",
    },
    Policy {
        key: "cache.write.max_age",
        alternatives: |spec| {
            each(spec, [0, 10, 100, 1000, 10_000], |spec, ms| {
                spec.cache.write.max_age = Nanos(ms * 1_000_000);
            })
        },
        advice: "reads without a pause for seconds after writes",
    },
    Policy {
        key: "cache.write.coalesce",
        alternatives: |spec| each(spec, [true, false], |spec, on| spec.cache.write.coalesce = on),
        advice: "bursts of small sequential writes",
    },
    Policy {
        key: "cache.write.on_cached",
        alternatives: |spec| {
            let effects = [WriteOnCached::Invalidate, WriteOnCached::Update];
            each(spec, effects, |spec, effect| spec.cache.write.on_cached = effect)
        },
        advice: READS_OF_WRITTEN,
    },
    Policy {
        key: "cache.write.keep",
        alternatives: |spec| each(spec, [true, false], |spec, on| spec.cache.write.keep = on),
        advice: READS_OF_WRITTEN,
    },
    Policy {
        key: "interface.overlap",
        alternatives: |spec| each(spec, [true, false], |spec, on| spec.interface.overlap = on),
        advice: "large reads",
    },
    Policy {
        key: "interface.immediate_partial",
        alternatives: |spec| each(spec, [true, false], |spec, on| spec.interface.immediate_partial = on),
        advice: "large reads whose beginning is in the cache",
    },
];

/// Policies that only requests in a queue reveal.
const QUEUE_POLICIES: &[Policy] = &[
    Policy {
        key: "queue.depth",
        alternatives: |spec| {
            each(spec, [1, 2, 4, 8, 16, 32, 64, 128, 256], |spec, depth| spec.queue.depth = depth)
        },
        advice: QUEUED,
    },
    Policy {
        key: "queue.policy",
        alternatives: |spec| {
            let policies = [
                QueuePolicy::Fcfs,
                QueuePolicy::Sstf,
                QueuePolicy::Look,
                QueuePolicy::CLook,
                QueuePolicy::Sptf,
            ];
            each(spec, policies, |spec, policy| spec.queue.policy = policy)
        },
        advice: QUEUED,
    },
    Policy {
        key: "queue.window",
        alternatives: |spec| each(spec, [2, 4, 8, 16, 32, 256], |spec, window| spec.queue.window = window),
        advice: QUEUED,
    },
];

const READ_AHEAD_MODES: [ReadAheadMode; 6] = [
    ReadAheadMode::Off,
    ReadAheadMode::TrackEnd,
    ReadAheadMode::NextTrack,
    ReadAheadMode::CylinderEnd,
    ReadAheadMode::Fixed,
    ReadAheadMode::Segment,
];
/// Exceeds any buffer: only the other policies limit the read-ahead.
const READ_AHEAD_UNLIMITED: u64 = 1 << 30;
/// More segments than any trace of one host can tell apart.
const SEGMENTS_MAX: u32 = 1024;

/// Returns the policies that a trace can decide; those of the queue only if requests `queue`.
pub(crate) fn policies(queue: bool) -> impl Iterator<Item = &'static Policy> {
    POLICIES.iter().chain(QUEUE_POLICIES.iter().filter(move |_| queue))
}

/// Returns drives to begin a search from: the given one with each combination of the policies that depend on one
/// another most, so that one of them cannot hide the others.
pub(crate) fn beginnings(spec: &DriveSpec) -> Vec<DriveSpec> {
    let mut all = Vec::new();
    for mode in READ_AHEAD_MODES {
        for after_sequential in 0..2 {
            for on_arrival in [false, true] {
                for consumed in [Consumed::Keep, Consumed::Discard] {
                    let mut other = spec.clone();
                    let ahead = &mut other.cache.read_ahead;
                    (ahead.mode, ahead.after_sequential) = (mode, after_sequential);
                    ahead.on_arrival = on_arrival;
                    other.cache.segments.consumed = consumed;
                    all.push(other);
                }
            }
        }
    }
    all
}

/// Returns the given drive and one per value, without duplicates and without impossible ones.
fn each<T: Copy>(
    spec: &DriveSpec,
    values: impl IntoIterator<Item = T>,
    set: impl Fn(&mut DriveSpec, T),
) -> Vec<DriveSpec> {
    let mut all = vec![spec.clone()];
    for value in values {
        let mut other = spec.clone();
        set(&mut other, value);
        if !all.contains(&other) && other.check().is_ok() {
            all.push(other);
        }
    }
    all
}

fn segment_bytes(spec: &DriveSpec) -> u64 {
    spec.cache.size.0 / u64::from(spec.cache.segments.count)
}

fn longest_track_bytes(spec: &DriveSpec) -> u64 {
    let longest = spec.geometry.zones.iter().map(|zone| zone.sectors_per_track).max().unwrap_or(1);
    u64::from(longest) * spec.geometry.sector.0
}

/// Returns sizes from a quarter to four times the given one, in whole sectors.
fn around(size: Bytes, spec: &DriveSpec) -> impl Iterator<Item = u64> {
    // Near ones for a search that goes on, far ones to leave a plateau.
    const SIZE_FACTORS: [f64; 8] = [0.25, 0.5, 0.707, 0.9, 1.1, 1.414, 2.0, 4.0];
    let sector = spec.geometry.sector.0;
    SIZE_FACTORS.into_iter().map(move |factor| {
        let sectors = (size.0 as f64 * factor / sector as f64).round().max(1.0);
        sectors as u64 * sector
    })
}
