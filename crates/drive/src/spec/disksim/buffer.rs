//! Buffer fields: segments, read-ahead, writes.

use sakiyomi_model::{Bytes, Nanos};

use super::fields::DiskFields;
use super::syntax::Fault;
use crate::spec::{
    CacheSpec, Consumed, QueueSpec, ReadAheadMode, ReadAheadSpec, SegmentMode, SegmentSpec, WriteShare,
    WriteSpec,
};

/// Translates the buffer fields.
pub(super) fn cache(
    fields: &DiskFields,
    queue: &QueueSpec,
    longest_track: u32,
    warnings: &mut Vec<String>,
) -> Result<CacheSpec, Fault> {
    if fields.segments.value == 0 || fields.segment_sectors.value == 0 {
        return Err(fields.segments.fault("no buffer; a drive has a segment of at least a sector"));
    }
    let mut segment = u64::from(fields.segment_sectors.value) * 512;
    let mut read_ahead = read_ahead(fields, warnings)?;
    // Read-ahead of a track needs segments that hold a track.
    let track = u64::from(longest_track) * 512;
    if read_ahead.mode == ReadAheadMode::NextTrack && segment.min(read_ahead.max.0) < track {
        let blocks = longest_track;
        warnings.push(fields.segment_sectors.warning(format!(
            "Buffer continuous read = 4 reads a track ahead, and tracks have up to {blocks} blocks; segments and Maximum read-ahead (blks) are made as large"
        )));
        segment = segment.max(track);
        read_ahead.max = read_ahead.max.max(Bytes(track));
    }
    let write = write(fields, segment, warnings)?;
    // A segment reserved for writes is not available to reads, even if writes are not acknowledged from it.
    let apart = u32::from(fields.separate_write_segment.value);
    let count = fields.segments.value - apart;
    if count == 0 {
        return Err(fields
            .separate_write_segment
            .fault("the only segment is for writes, none is left for reads"));
    }
    let kept = if write.enabled { fields.segments.value } else { count };
    let mut consumed = if fields.over_requested.value { Consumed::Discard } else { Consumed::Keep };
    match fields.caching.value {
        0 => warnings
            .push(fields.caching.warning("data of the last commands stays in the buffer and can give hits")),
        1 => {}
        2 => consumed = Consumed::Discard,
        other => return Err(fields.caching.fault(format!("{other}; expected 0, 1 or 2"))),
    }
    if queue.depth > 1 && !fields.sneaky_full_hits.value {
        let instead = "a full hit is served before the command that uses the mechanism completes";
        warnings.push(format!("{} = 0: {instead}", fields.sneaky_full_hits.key));
    }
    Ok(CacheSpec {
        size: Bytes(segment.saturating_mul(u64::from(kept))),
        segments: SegmentSpec { mode: SegmentMode::Fixed, count, consumed, ..SegmentSpec::default() },
        read_ahead,
        write,
        ..CacheSpec::default()
    })
}

fn read_ahead(fields: &DiskFields, warnings: &mut Vec<String>) -> Result<ReadAheadSpec, Fault> {
    let mode = match fields.continuous_read.value {
        0 => ReadAheadMode::Off,
        1 => ReadAheadMode::TrackEnd,
        2 => ReadAheadMode::CylinderEnd,
        3 => ReadAheadMode::Segment,
        4 => {
            let begins = if fields.over_requested.value { "any read" } else { "a second sequential read" };
            warnings.push(fields.continuous_read.warning(format!(
                "read-ahead begins after {begins}, by Read-ahead over requested = {}",
                u8::from(fields.over_requested.value)
            )));
            ReadAheadMode::NextTrack
        }
        other => return Err(fields.continuous_read.fault(format!("{other}; expected 0 to 4"))),
    };
    // A segment holds no more than its size.
    let max = fields.read_ahead_max.value.0.unwrap_or(fields.segment_sectors.value);
    let min = fields.read_ahead_min.value;
    if min > max {
        return Err(fields
            .read_ahead_min
            .fault(format!("{min} is more than Maximum read-ahead (blks) = {max}")));
    }
    let (any, immediate) = (fields.read_any_free.value, fields.immediate_read.value);
    if any != immediate {
        warnings.push(format!(
            "{} = {} and {} = {}: both as 1; a read begins where the head settles, and the sectors that pass before the request are kept",
            fields.read_any_free.key,
            u8::from(any),
            fields.immediate_read.key,
            u8::from(immediate)
        ));
    }
    Ok(ReadAheadSpec {
        mode,
        min: Bytes(u64::from(min) * 512),
        max: Bytes(u64::from(max) * 512),
        on_arrival: any || immediate,
        // Data kept for rereading is not replaced by a speculative read-ahead.
        after_sequential: u32::from(mode == ReadAheadMode::NextTrack && !fields.over_requested.value),
        resume_on_hit: fields.read_ahead_on_idle_hit.value,
        ..ReadAheadSpec::default()
    })
}

fn write(fields: &DiskFields, segment: u64, warnings: &mut Vec<String>) -> Result<WriteSpec, Fault> {
    let most = fields.write_segments.value.0.unwrap_or(fields.segments.value);
    if most > fields.segments.value {
        let all = fields.segments.value;
        return Err(fields
            .write_segments
            .fault(format!("{most} is more than Number of buffer segments = {all}")));
    }
    let enabled = match fields.fast_write.value {
        0 => false,
        1 => {
            let instead =
                "any write that fits completes when its data is in the buffer, not only a sequential one";
            warnings.push(fields.fast_write.warning(instead));
            true
        }
        2 => true,
        other => return Err(fields.fast_write.fault(format!("{other}; expected 0, 1 or 2"))),
    };
    if enabled && fields.write_hit_stops_read_ahead.value {
        let key = fields.write_hit_stops_read_ahead.key;
        warnings.push(format!("{key} = 1: read-ahead continues until destaging needs the arm"));
    }
    let (share, limit) = if fields.separate_write_segment.value {
        (WriteShare::Separate, segment)
    } else {
        (WriteShare::Shared, segment.saturating_mul(u64::from(most.max(1))))
    };
    Ok(WriteSpec {
        enabled,
        share,
        limit: Bytes(limit),
        // Data in the buffer is written at once, with precedence over everything else.
        high_watermark: 0.0,
        low_watermark: 0.0,
        idle_delay: Nanos::ZERO,
        max_age: Nanos::ZERO,
        coalesce: fields.combine_writes.value,
        destage_max: Bytes(limit),
        keep: fields.hits_on_written.value,
        ..WriteSpec::default()
    })
}
