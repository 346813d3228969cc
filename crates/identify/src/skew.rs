//! Skew of tracks, by the phase of the spindle.
//!
//! An access to the medium ends when its last sector has passed under the head, whatever command, seek and wait took
//! before. From the end of one request to the end of the next, the platters so have turned by the angle between two
//! sectors, and by whole turns. With the right skew what is left over is the same for all pairs of a kind; the longer
//! the mean of what is left over, as unit vectors, the better the skew.

use std::f64::consts::TAU;

use sakiyomi_drive::Geometry;
use sakiyomi_drive::spec::{DriveSpec, GeometrySpec, Layout};
use sakiyomi_model::{Lba, Op};

use sakiyomi_validate::Measured;

/// Revolutions between the two ends of a pair: with the speed known to about 1e-4, the angle is known to about a
/// hundredth of a revolution.
const PAIR_MAX_TURNS: f64 = 32.0;
/// Pairs from which a skew is found. Fewer determine nothing, and more only take time.
const PAIR_COUNTS: std::ops::RangeInclusive<usize> = 50..=2_000;
/// The first search tries whole sectors, on pairs at most this many cylinders apart, for which an error of half a
/// sector per cylinder is small.
const FIRST_SEARCH_CYLINDERS: i64 = 8;
/// Last step of the search: geometries are given in thousandths of a sector.
const STEP_MIN_SECTORS: f64 = 1.0 / 512.0;
/// Coherence of the phases, 1 if all are equal, from which a skew is accepted; the best of many skews by chance stays
/// below.
const COHERENCE_MIN: f64 = 0.6;
/// Gain of coherence over the present skew from which a new one is accepted.
const COHERENCE_GAIN_MIN: f64 = 0.1;

/// Two successive requests on different tracks of a zone.
struct Pair {
    /// Turns from the end of one to the end of the other, less the angle between them if there were no skew.
    left_over: f64,
    /// Heads from one to the other, and cylinders.
    steps: [i64; 2],
    /// By what they are, reads or writes: the time from the medium to the end of the request is another.
    kind: usize,
}

/// Sectors of skew by head and by cylinder, from a cylinder's first track to the next one's.
type Skew = [f64; 2];

/// Returns the drive with the skew that predicts best where the platters stand; `None` where the trace does not
/// tell, or the drive has it right. Under a serpentine layout it is not looked for. `check` returns `None` to end the search,
/// which then finds nothing.
pub(crate) fn skewed(
    start: &DriveSpec,
    measured: &[Measured],
    check: &dyn Fn() -> Option<()>,
) -> Option<DriveSpec> {
    if start.geometry.layout == Layout::Serpentine {
        return None;
    }
    let mut spec = start.clone();
    for zone in 0..spec.geometry.zones.len() {
        check()?;
        let given = pairs(start, measured, zone, false);
        let plain = pairs(start, measured, zone, true);
        if !PAIR_COUNTS.contains(&plain.len()) {
            continue;
        }
        let track = f64::from(start.geometry.zones[zone].sectors_per_track);
        let skew = best(&plain, track, check)?;
        let found = foretold(&plain, skew, track, i64::MAX);
        if found < COHERENCE_MIN || found < foretold(&given, [0.0; 2], track, i64::MAX) + COHERENCE_GAIN_MIN {
            continue;
        }
        let heads = f64::from(start.geometry.heads);
        let thousandths = |skew: f64| (skew.rem_euclid(track) * 1000.0).round() / 1000.0;
        let by_track = thousandths(skew[0]);
        spec.geometry.zones[zone].track_skew = Some(by_track);
        spec.geometry.zones[zone].cylinder_skew = Some(thousandths(skew[1] - (heads - 1.0) * by_track));
    }
    (spec != *start).then_some(spec)
}

fn best(pairs: &[Pair], track: f64, check: &dyn Fn() -> Option<()>) -> Option<Skew> {
    let whole = 0..track as u32;
    let mut best = ([0.0; 2], f64::MIN);
    for head in whole.clone() {
        check()?;
        for by in whole.clone() {
            let skew = [f64::from(head), f64::from(by)];
            let found = foretold(pairs, skew, track, FIRST_SEARCH_CYLINDERS);
            if found > best.1 {
                best = (skew, found);
            }
        }
    }
    let mut skew = best.0;
    let mut step = 0.5;
    while step >= STEP_MIN_SECTORS {
        // With this many samples, a step is an eighth of a revolution.
        skew = climbed(pairs, skew, step, track, (track / step / 8.0) as i64);
        step /= 2.0;
    }
    Some(skew)
}

/// Goes on by `step` while that is better.
fn climbed(pairs: &[Pair], from: Skew, step: f64, track: f64, reach: i64) -> Skew {
    let mut best = (from, foretold(pairs, from, track, reach));
    loop {
        let [head, cylinder] = best.0;
        let around = [
            [head + step, cylinder],
            [head - step, cylinder],
            [head, cylinder + step],
            [head, cylinder - step],
        ];
        let before = best.1;
        for skew in around {
            let found = foretold(pairs, skew, track, reach);
            if found > best.1 {
                best = (skew, found);
            }
        }
        if best.1 <= before {
            return best.0;
        }
    }
}

/// Returns how well a skew predicts the phase of pairs no further apart than `reach` cylinders: 1 if always.
fn foretold(pairs: &[Pair], skew: Skew, track: f64, reach: i64) -> f64 {
    let mut sums = [(0.0, 0.0); 4];
    let mut count = 0usize;
    for pair in pairs.iter().filter(|pair| pair.steps[1].abs() <= reach) {
        let [heads, cylinders] = pair.steps;
        let skewed = (heads as f64 * skew[0] + cylinders as f64 * skew[1]) / track;
        let (sin, cos) = (TAU * (pair.left_over - skewed)).sin_cos();
        let sum = &mut sums[pair.kind];
        *sum = (sum.0 + cos, sum.1 + sin);
        count += 1;
    }
    let length: f64 = sums.iter().map(|(cos, sin)| cos.hypot(*sin)).sum();
    length / count.max(1) as f64
}

/// Returns the pairs within a zone; `plain`: as if it had no skew.
fn pairs(start: &DriveSpec, measured: &[Measured], zone: usize, plain: bool) -> Vec<Pair> {
    let mut spec = start.geometry.clone();
    if plain {
        let own = &mut spec.zones[zone];
        (own.track_skew, own.cylinder_skew) = (Some(0.0), Some(0.0));
    }
    let geometry = Geometry::new(&spec, &start.servo);
    let within = cylinders(&spec, zone);
    let ends = measured.iter().map(|request| (request, end(&geometry, &spec, request)));
    let successive = ends.clone().zip(ends.skip(1));
    let found = successive.filter_map(|((before, from), (after, to))| {
        let ((from, from_angle), (to, to_angle)) = (from?, to?);
        let turns = (after.ended().0 as f64 - before.ended().0 as f64) / geometry.revolution().0 as f64;
        let steps = [to[0] - from[0], to[1] - from[1]];
        let counts = within.contains(&from[1]) && within.contains(&to[1]) && steps != [0, 0];
        (counts && (0.0..PAIR_MAX_TURNS).contains(&turns)).then(|| Pair {
            left_over: (turns - (to_angle - from_angle)).rem_euclid(1.0),
            steps,
            kind: usize::from(before.op == Op::Read) * 2 + usize::from(after.op == Op::Read),
        })
    });
    found.take(*PAIR_COUNTS.end()).collect()
}

fn cylinders(spec: &GeometrySpec, zone: usize) -> std::ops::Range<i64> {
    let mut next = 0;
    for zone in &spec.zones[..=zone] {
        next = zone.first_cylinder.unwrap_or(next) + zone.cylinders;
    }
    i64::from(next - spec.zones[zone].cylinders)..i64::from(next)
}

/// Head, in the order of addresses, and cylinder of a request's last sector; and in turns, the angle of its end.
fn end(geometry: &Geometry, spec: &GeometrySpec, request: &Measured) -> Option<([i64; 2], f64)> {
    let last = request.extent.end().0.checked_sub(1).filter(|last| *last < geometry.capacity().0)?;
    let run = geometry.run(Lba(last), 1);
    let turned = spec.layout == Layout::Zigzag && run.cylinder % 2 == 1;
    let head = if turned { spec.heads - 1 - run.head } else { run.head };
    let angle = (run.angle.0 as f64 / geometry.revolution().0 as f64) + 1.0 / f64::from(run.track_sectors);
    Some(([i64::from(head), i64::from(run.cylinder)], angle))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{self, read};
    use sakiyomi_model::Nanos;
    use sakiyomi_validate::follow_on;

    const SMALL: &str = r#"
        name = "small"
        queue.depth = 1
        cache.read_ahead.mode = "off"
        cache.write.enabled = false
        [geometry]
        sector = "512B"
        heads = 4
        zones = [{ cylinders = 1000, sectors_per_track = 90 }]
        [servo]
        rpm = 4500
        head_switch = "1ms"
        seek = { curve = "datasheet", track_to_track = "2ms", average = "12ms", full_stroke = "25ms" }
    "#;

    fn with(settings: &[(&str, &str)]) -> DriveSpec {
        sample::spec(SMALL, settings)
    }

    /// Reads and writes near and far, as a drive serves them.
    fn measured_on(spec: &DriveSpec) -> Vec<Measured> {
        let mut place = 0;
        sample::served(spec, 300, |number| {
            let chance = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            place =
                if number.is_multiple_of(3) { chance % 350_000 } else { (place + chance % 2_000) % 350_000 };
            let op = if number % 5 < 2 { Op::Write } else { Op::Read };
            Measured { op, think: Nanos(number * 7_654_321 % 20_000_000), ..read(place, 4, 0) }
        })
    }

    #[test]
    fn a_skew_is_found_by_the_ends_of_requests_alone() {
        for layout in ["cylinder", "zigzag"] {
            let layout = ("geometry.layout", layout);
            let real = with(&[
                layout,
                ("geometry.zones.0.track_skew", "34"),
                ("geometry.zones.0.cylinder_skew", "47"),
            ]);
            // The drive's times of commands and seeks are not known.
            let start = with(&[layout, ("interface.overhead.read_miss", "3ms")]);
            let found = skewed(&start, &measured_on(&real), &|| Some(())).unwrap();
            let zone = &found.geometry.zones[0];
            let near = |skew: Option<f64>, real: f64| (skew.unwrap() - real).abs() < 0.1;
            assert!(near(zone.track_skew, 34.0) && near(zone.cylinder_skew, 47.0), "{zone:?}");
        }
    }

    #[test]
    fn a_skew_that_is_right_or_that_nothing_tells_of_stays() {
        let spec = with(&[]);
        let mut requests = measured_on(&spec);
        assert_eq!(skewed(&spec, &requests, &|| Some(())), None);
        assert_eq!(skewed(&with(&[("geometry.layout", "serpentine")]), &requests, &|| Some(())), None);
        assert_eq!(
            skewed(&with(&[("geometry.zones.0.track_skew", "70")]), &requests[..40], &|| Some(())),
            None
        );
        for (number, request) in (0u64..).zip(&mut requests) {
            request.think = Nanos((number.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 20) % 40_000_000);
        }
        follow_on(&mut requests);
        assert_eq!(skewed(&with(&[("geometry.zones.0.track_skew", "70")]), &requests, &|| Some(())), None);
    }
}
