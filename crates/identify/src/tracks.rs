//! Tracks at a place of a disk, from the angles at which single sectors lie.
//!
//! A read that was not served from a cache ends when its sector has passed under the head, so that the ends of reads,
//! modulo the period of rotation, are the angles of their sectors. Along a track the angle grows by one turn divided by
//! the sectors of the track; from a track to the next one it jumps by the skew. The jump from a cylinder to the next one
//! is another where the drive moves the arm longer than it switches heads, and then its period counts the heads: what
//! Skippy finds from the times of strides (Talagala et al., 2000), without depending on overheads.

use sakiyomi_model::{Lba, Nanos};

use crate::rotation::Rotation;

/// Tracks at a place of a disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracks {
    /// First sector that was read.
    pub start: Lba,
    /// Last sector that was read.
    pub end: Lba,
    /// Sectors that pass under the head in a revolution.
    pub sectors_per_track: f64,
    /// Bounds at the level of 95 %.
    pub interval: [f64; 2],
    /// Angle from a track to the next one of its cylinder, in sectors; `None` if no boundary between tracks was seen.
    pub track_skew: Option<f64>,
    /// Angle from a cylinder to the next one, in sectors, where it differs from the track's.
    pub cylinder_skew: Option<f64>,
    /// Tracks of a cylinder, where both skews differ.
    pub heads: Option<u32>,
}

/// A read of a single sector that was not served from a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    /// The sector.
    pub(crate) sector: u64,
    /// The end of the read.
    pub(crate) end: Nanos,
}

/// Successive sectors of a track, with their angles in revolutions, continued beyond one.
struct Segment {
    sectors: Vec<f64>,
    angles: Vec<f64>,
}

/// Reads without which the sectors of a track are not estimated.
const READS_MIN: usize = 16;
/// Deviation of an angle from its track from which it lies on another one, in revolutions.
const JUMP_MIN: f64 = 0.02;
/// The same, as a multiple of the usual deviation of angles.
const JUMP_NOISE_RATIO: f64 = 6.0;
/// Usual deviation of angles above which the ends of reads say nothing about them.
const NOISE_MAX: f64 = 0.03;
/// Sectors of a track on which an angle is extrapolated to the next one.
const SEGMENT_MIN: usize = 3;
/// Quantile 97.5 % of the normal distribution, and a little for the few degrees of freedom.
const NORMAL_QUANTILE: f64 = 2.1;

/// Returns the tracks of some reads; `None` if their angles do not lie on tracks.
pub(crate) fn tracks(mut reads: Vec<Passed>, rotation: &Rotation) -> Option<Tracks> {
    reads.sort_unstable_by_key(|read| read.sector);
    reads.dedup_by_key(|read| read.sector);
    if reads.len() < READS_MIN {
        return None;
    }
    let period = rotation.turn_ns();
    let angles: Vec<f64> = reads.iter().map(|read| (read.end.0 as f64 / period).fract()).collect();
    let sectors: Vec<f64> = reads.iter().map(|read| (read.sector - reads[0].sector) as f64).collect();
    let step = median((1..sectors.len()).map(|at| sectors[at] - sectors[at - 1]).collect());
    let is_next = |at: &usize| sectors[*at] - sectors[*at - 1] == step;
    let turns: Vec<f64> =
        (1..sectors.len()).filter(is_next).map(|at| (angles[at] - angles[at - 1]).rem_euclid(1.0)).collect();
    if turns.len() < READS_MIN / 2 {
        return None;
    }
    let slope = median(turns.clone()) / step;
    let noise = median(turns.iter().map(|turn| signed(turn - slope * step).abs()).collect());
    if slope <= 0.0 || noise > NOISE_MAX {
        return None;
    }
    let limit = (noise * JUMP_NOISE_RATIO).max(JUMP_MIN);
    let (slope, error, segments) = refined(&sectors, &angles, slope, limit)?;
    let jumps = jumps(&segments, slope, limit);
    let track = 1.0 / slope;
    let half = NORMAL_QUANTILE * error * track * track;
    let skews = skews(&jumps, limit);
    Some(Tracks {
        start: Lba(reads[0].sector),
        end: Lba(reads[reads.len() - 1].sector),
        sectors_per_track: track,
        interval: [track - half, track + half],
        track_skew: skews.as_ref().map(|skews| skews.track * track),
        cylinder_skew: skews.as_ref().and_then(|skews| skews.cylinder).map(|skew| skew * track),
        heads: skews.and_then(|skews| skews.heads),
    })
}

/// Improves the angle per sector by lines through the segments, and divides anew by it; returns its standard error, too.
fn refined(sectors: &[f64], angles: &[f64], mut slope: f64, limit: f64) -> Option<(f64, f64, Vec<Segment>)> {
    /// Each round divides by the slope of the one before.
    const SLOPE_ROUNDS: usize = 3;
    let mut found = None;
    for _ in 0..SLOPE_ROUNDS {
        let segments = segments(sectors, angles, slope, limit);
        let (mut squares, mut products, mut count) = (0.0, 0.0, 0.0);
        for Segment { sectors, angles } in &segments {
            let (sector, angle) = (mean(sectors), mean(angles));
            squares += sectors.iter().map(|at| (at - sector).powi(2)).sum::<f64>();
            products += sectors.iter().zip(angles).map(|(at, of)| (at - sector) * (of - angle)).sum::<f64>();
            count += sectors.len() as f64;
        }
        let freedom = count - segments.len() as f64 - 1.0;
        if squares <= 0.0 || freedom < 1.0 {
            return None;
        }
        slope = products / squares;
        let residuals: f64 = segments.iter().map(|segment| segment.residuals(slope)).sum();
        // A timer is read in nanoseconds at best.
        let error = (residuals / freedom / squares).sqrt().max(slope * 1e-7);
        found = Some((slope, error, segments));
    }
    found.filter(|(slope, ..)| *slope > 0.0)
}

/// Divides the reads where their angles leave the track. Single reads off it were disturbed, and are left out.
fn segments(sectors: &[f64], angles: &[f64], slope: f64, limit: f64) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    let mut open = Segment { sectors: vec![sectors[0]], angles: vec![angles[0]] };
    for (sector, angle) in sectors.iter().zip(angles).skip(1) {
        let (last, at) = (*open.sectors.last().expect("a read"), *open.angles.last().expect("a read"));
        let on_track = at + slope * (sector - last);
        let off = signed(angle - on_track);
        if off.abs() > limit {
            segments
                .push(std::mem::replace(&mut open, Segment { sectors: vec![*sector], angles: vec![*angle] }));
        } else {
            open.sectors.push(*sector);
            open.angles.push(on_track + off);
        }
    }
    segments.push(open);
    segments.retain(|segment| segment.sectors.len() >= SEGMENT_MIN);
    segments
}

impl Segment {
    /// Returns the angle of the track's line at a sector.
    fn angle_at(&self, sector: f64, slope: f64) -> f64 {
        mean(&self.angles) + slope * (sector - mean(&self.sectors))
    }

    fn residuals(&self, slope: f64) -> f64 {
        self.sectors
            .iter()
            .zip(&self.angles)
            .map(|(at, angle)| (angle - self.angle_at(*at, slope)).powi(2))
            .sum()
    }
}

/// Returns the jumps between successive tracks, in revolutions: 0 to 1. Segments of one track have none.
fn jumps(segments: &[Segment], slope: f64, limit: f64) -> Vec<f64> {
    let jumps = segments.windows(2).map(|pair| {
        let sector = pair[1].sectors[0];
        (pair[1].angle_at(sector, slope) - pair[0].angle_at(sector, slope)).rem_euclid(1.0)
    });
    jumps.filter(|jump| signed(*jump).abs() > limit / 2.0).collect()
}

/// Skews in revolutions, and the number of heads that their order tells.
struct Skews {
    track: f64,
    cylinder: Option<f64>,
    heads: Option<u32>,
}

fn skews(jumps: &[f64], limit: f64) -> Option<Skews> {
    if jumps.is_empty() {
        return None;
    }
    let mut sorted = jumps.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let gap = |at: &usize| sorted[*at] - sorted[at - 1];
    let widest =
        (1..sorted.len()).max_by(|a, b| gap(a).total_cmp(&gap(b))).filter(|at| gap(at) > limit / 2.0);
    let Some(widest) = widest else {
        return Some(Skews { track: median(sorted), cylinder: None, heads: None });
    };
    let border = (sorted[widest] + sorted[widest - 1]) / 2.0;
    // Cylinders change at regular distances, tracks at the others.
    let places = |is_above: bool| -> Vec<usize> {
        (0..jumps.len()).filter(|at| (jumps[*at] > border) == is_above).collect()
    };
    let of = |places: &[usize]| median(places.iter().map(|at| jumps[*at]).collect());
    let (above, below) = (places(true), places(false));
    let (few, many) = if above.len() <= below.len() { (above, below) } else { (below, above) };
    let distances: Vec<usize> = few.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let heads = distances.first().copied().filter(|first| distances.iter().all(|other| other == first));
    // With two heads both kinds are as many: the arm takes longer than the heads.
    let (few, many) = if few.len() == many.len() && of(&few) < of(&many) { (many, few) } else { (few, many) };
    let heads = heads.filter(|heads| *heads >= 2).and_then(|heads| u32::try_from(heads).ok());
    Some(Skews { track: of(&many), cylinder: heads.map(|_| of(&few)), heads })
}

/// A difference of angles, from -1/2 to 1/2.
fn signed(turns: f64) -> f64 {
    turns - turns.round()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Bounds of a length beyond the usual ones, at a place on the border of two zones.
const BORDER_WIDTH_RATIO: f64 = 20.0;

/// Successive tracks of the same length.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    /// First sector of the zone: at least, and at most.
    pub start: [Lba; 2],
    /// Sectors of a track.
    pub sectors_per_track: f64,
    /// Bounds at the level of 95 %.
    pub interval: [f64; 2],
    /// Angle from a track to the next one of its cylinder, in sectors, where it was seen.
    pub track_skew: Option<f64>,
    /// Angle from a cylinder to the next one, in sectors, where it was seen and differs.
    pub cylinder_skew: Option<f64>,
}

/// Joins places with tracks of the same length to zones; zones without a place between them are not seen. The places are
/// in the order of their sectors.
#[must_use]
pub fn zones(places: &[Tracks]) -> Vec<Zone> {
    // The angles of a place on the border of two zones fit no single length.
    let usual = if places.is_empty() { 0.0 } else { median(places.iter().map(width).collect()) };
    let clear: Vec<&Tracks> =
        places.iter().filter(|place| width(place) <= BORDER_WIDTH_RATIO * usual).collect();
    let groups = clear.chunk_by(|a, b| are_same(a, b));
    let mut last = None;
    let zones = groups.map(|group| {
        let narrow = *group.iter().min_by(|a, b| width(a).total_cmp(&width(b))).expect("a place");
        let of = |skew: fn(&Tracks) -> Option<f64>| {
            let known: Vec<f64> = group.iter().copied().filter_map(skew).collect();
            (!known.is_empty()).then(|| median(known))
        };
        // A place may lie on the border.
        let start = last.map_or([Lba(0); 2], |last| [last, group[0].end]);
        last = Some(group[group.len() - 1].start);
        Zone {
            start,
            sectors_per_track: narrow.sectors_per_track,
            interval: narrow.interval,
            track_skew: of(|place| place.track_skew),
            cylinder_skew: of(|place| place.cylinder_skew),
        }
    });
    zones.collect()
}

/// Returns the number of heads that most places tell.
#[must_use]
pub fn heads(places: &[Tracks]) -> Option<u32> {
    let mut all: Vec<u32> = places.iter().filter_map(|place| place.heads).collect();
    all.sort_unstable();
    all.chunk_by(|a, b| a == b).max_by_key(|group| group.len()).map(|group| group[0])
}

/// Whether the tracks of two places can have the same length.
pub(crate) fn are_same(a: &Tracks, b: &Tracks) -> bool {
    let apart = (a.sectors_per_track - b.sectors_per_track).abs();
    apart < 0.5_f64.max((width(a) + width(b)) / 2.0)
}

/// Width of the interval of a place's length.
pub(crate) fn width(tracks: &Tracks) -> f64 {
    tracks.interval[1] - tracks.interval[0]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    const PERIOD: f64 = 8_333_333.0;

    /// Reads of every `step`-th sector of a disk with `track` sectors on a track, with a noise of the ends.
    fn reads(track: u64, skews: [f64; 2], heads: u64, step: u64, count: u64, noise: f64) -> Vec<Passed> {
        let mut random = Pcg64::seed_from_u64(track);
        let mut chance = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        let read = |at: u64| {
            let sector = 77 + at * step;
            let (number, within) = (sector / track, sector % track);
            let (cylinder, head) = (number / heads, number % heads);
            let skewed = (cylinder * (heads - 1) + head) as f64 * skews[0] + cylinder as f64 * skews[1];
            let angle = ((within as f64 + skewed) / track as f64).fract();
            let end = ((count - at) as f64 * 1.1).floor() + angle + noise * chance();
            Passed { sector, end: Nanos((end * PERIOD) as u64) }
        };
        (0..count).map(read).collect()
    }

    fn rotation() -> Rotation {
        Rotation { rpm: 60e9 / PERIOD, interval: [7199.9, 7200.1], coherence: 1.0 }
    }

    proptest! {
        #[test]
        fn tracks_skews_and_heads_are_found(
            track in 200u64..3000,
            by_track in 0.08f64..0.25,
            more in 0.06f64..0.3,
            heads in 2u64..9,
        ) {
            let skews = [by_track * track as f64, (by_track + more) * track as f64];
            let found = tracks(reads(track, skews, heads, track / 12, 300, 0.01), &rotation()).unwrap();
            let [low, high] = found.interval;
            prop_assert!((found.sectors_per_track / track as f64 - 1.0).abs() < 0.004, "{found:?}");
            prop_assert!(high - low < 0.01 * track as f64, "{found:?}");
            prop_assert_eq!(found.heads, Some(heads as u32), "{:?}", found);
            let near = |found: Option<f64>, skew: f64| found.is_some_and(|found| (found - skew).abs() < 0.01 * track as f64);
            prop_assert!(near(found.track_skew, skews[0]), "{found:?}, {skews:?}");
            prop_assert!(near(found.cylinder_skew, skews[1]), "{found:?}, {skews:?}");
        }
    }

    #[test]
    fn ends_without_angles_tell_nothing() {
        let mut random = Pcg64::seed_from_u64(1);
        let mut read =
            |at: u64| Passed { sector: at * 40, end: Nanos(at * 9_000_000 + random.next_u64() % 8_000_000) };
        let reads = (0..200).map(&mut read).collect();
        assert_eq!(tracks(reads, &rotation()), None);
    }
}
