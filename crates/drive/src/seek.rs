//! Seek time by distance in cylinders. Every curve is tabulated once, when the drive is built.

use sakiyomi_model::Nanos;

use crate::spec::{SeekSpec, ServoSpec};

/// Tabulates the seek time: `table[d]` nanoseconds over `d` cylinders. `table[0]` is the time of a new access with the
/// arm already on the cylinder: 0 unless measured.
#[must_use]
pub(crate) fn table(spec: &SeekSpec, cylinders: u32) -> Vec<u32> {
    let curve = Curve::new(spec, cylinders);
    // One entry beyond the longest seek, so that a drive with one cylinder has a single-cylinder seek time for its
    // skew.
    (0..=cylinders).map(|distance| curve.at(distance)).collect()
}

/// Returns the seek time over a distance, on a drive with `cylinders` cylinders.
pub(crate) fn time(spec: &SeekSpec, cylinders: u32, distance: u32) -> Nanos {
    Nanos(Curve::new(spec, cylinders).at(distance).into())
}

/// Returns the single-cylinder seek time, the larger of reading and writing, which the default cylinder skew covers.
pub(crate) fn single_cylinder(servo: &ServoSpec) -> Nanos {
    let single = |seek: &SeekSpec| match seek {
        SeekSpec::Datasheet { track_to_track, .. } => *track_to_track,
        other => Nanos(Curve::new(other, 1).at(1).into()),
    };
    let read = single(&servo.seek);
    servo.seek_write.as_ref().map_or(read, |write| read.max(single(write)))
}

/// A seek curve with its constants.
enum Curve<'a> {
    /// α√(d-1) + β(d-1) + t_min.
    Lee([f64; 3]),
    TwoPiece {
        threshold: u32,
        short: [f64; 2],
        long: [f64; 2],
        first: &'a [Nanos],
    },
    Points(&'a [(u32, Nanos)]),
}

impl Curve<'_> {
    fn new(spec: &SeekSpec, cylinders: u32) -> Curve<'_> {
        match spec {
            SeekSpec::Datasheet { track_to_track, average, full_stroke } => Curve::Lee(lee(
                track_to_track.0 as f64,
                average.0 as f64,
                full_stroke.0 as f64,
                f64::from(cylinders.saturating_sub(1).max(1)),
            )),
            SeekSpec::TwoPiece {
                threshold,
                short_base,
                short_per_root,
                long_base,
                long_per_cylinder,
                first,
            } => Curve::TwoPiece {
                threshold: *threshold,
                short: [short_base.0 as f64, short_per_root.0 as f64],
                long: [long_base.0 as f64, long_per_cylinder.0 as f64],
                first,
            },
            SeekSpec::Table { points } => Curve::Points(points),
        }
    }

    fn at(&self, distance: u32) -> u32 {
        if distance == 0 {
            let in_place =
                |points: &[(u32, Nanos)]| points.first().filter(|point| point.0 == 0).map(|point| point.1);
            return match self {
                Curve::Points(points) => in_place(points).map_or(0, |time| time.0 as u32),
                _ => 0,
            };
        }
        let d = f64::from(distance);
        let time = match self {
            Curve::Lee([root, linear, least]) => root * (d - 1.0).sqrt() + linear * (d - 1.0) + least,
            Curve::TwoPiece { first, .. } if distance as usize <= first.len() => {
                first[distance as usize - 1].0 as f64
            }
            Curve::TwoPiece { threshold, short, .. } if distance < *threshold => {
                short[0] + short[1] * d.sqrt()
            }
            Curve::TwoPiece { long, .. } => long[0] + long[1] * d,
            Curve::Points(points) => interpolate(points, distance),
        };
        rounded(time.clamp(0.0, f64::from(u32::MAX / 2)))
    }
}

/// Rounds half up. `f64::round` is a library call per cylinder without an instruction of its own on x86-64.
fn rounded(time: f64) -> u32 {
    let whole = time as u32;
    whole + u32::from(time - f64::from(whole) >= 0.5)
}

/// Fits Lee's curve to the three values of a datasheet (DiskSim manual, section 3.3.1): α = (15 t_avg - 10 t_min - 5
/// t_max) / (3√N), β = (7 t_min - 15 t_avg + 8 t_max) / (3N), N the longest seek.
///
/// If α < 0 or β < 0 the curve would not be monotone; then the square root piece alone connects t_min and t_max.
fn lee(least: f64, average: f64, most: f64, longest: f64) -> [f64; 3] {
    let root = (15.0 * average - 10.0 * least - 5.0 * most) / (3.0 * longest.sqrt());
    let linear = (7.0 * least - 15.0 * average + 8.0 * most) / (3.0 * longest);
    if root >= 0.0 && linear >= 0.0 {
        return [root, linear, least];
    }
    [(most - least) / (longest - 1.0).max(1.0).sqrt(), 0.0, least]
}

/// Interpolates linearly between measured points: constant below the first, extrapolated beyond the last.
fn interpolate(points: &[(u32, Nanos)], distance: u32) -> f64 {
    let after = points.partition_point(|point| point.0 <= distance);
    let line = match after {
        0 => return points[0].1.0 as f64,
        _ if points.len() == 1 => return points[0].1.0 as f64,
        n if n == points.len() => &points[n - 2..],
        n => &points[n - 1..=n],
    };
    let (from, to) = ((f64::from(line[0].0), line[0].1.0 as f64), (f64::from(line[1].0), line[1].1.0 as f64));
    from.1 + (to.1 - from.1) * (f64::from(distance) - from.0) / (to.0 - from.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn millis(x: f64) -> Nanos {
        Nanos::from_secs_f64(x / 1e3)
    }

    #[test]
    fn datasheet_curve_meets_its_ends() {
        let spec = SeekSpec::Datasheet {
            track_to_track: millis(1.1),
            average: millis(8.5),
            full_stroke: millis(15.1),
        };
        let table = table(&spec, 90_000);
        assert_eq!(table[1], 1_100_000);
        // The formula reaches t_max at a distance of N + 1 cylinders; at N it is within a thousandth.
        assert!((f64::from(table[89_999]) / 15.1e6 - 1.0).abs() < 1e-3, "{}", table[89_999]);
    }

    #[test]
    fn datasheet_average_is_the_mean_over_all_pairs_of_cylinders() {
        let spec = SeekSpec::Datasheet {
            track_to_track: millis(0.8),
            average: millis(8.5),
            full_stroke: millis(18.0),
        };
        let (n, table) = (20_000u32, table(&spec, 20_000));
        let pairs = |d: u32| 2.0 * f64::from(n - d);
        let mean =
            (1..n).map(|d| pairs(d) * f64::from(table[d as usize])).sum::<f64>() / f64::from(n).powi(2);
        assert!((mean / 8.5e6 - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn two_pieces_follow_ruemmler_and_wilkes() {
        let spec = SeekSpec::TwoPiece {
            threshold: 616,
            short_base: millis(3.45),
            short_per_root: millis(0.597),
            long_base: millis(10.84),
            long_per_cylinder: millis(0.012),
            first: vec![millis(2.5), millis(4.0)],
        };
        let table = table(&spec, 1449);
        assert_eq!(table[..4], [0, 2_500_000, 4_000_000, 4_484_034]);
        assert_eq!(table[100], 9_420_000);
        assert_eq!(table[1000], 22_840_000);
    }

    #[test]
    fn table_is_interpolated_and_continued() {
        let spec = SeekSpec::Table { points: vec![(1, millis(1.0)), (3, millis(2.0)), (10, millis(9.0))] };
        let table = table(&spec, 12);
        assert_eq!((table[2], table[10], table[12]), (1_500_000, 9_000_000, 11_000_000));
    }

    #[test]
    fn distance_zero_takes_nothing_unless_it_was_measured() {
        let points = |points: &[(u32, f64)]| {
            let points = points.iter().map(|(distance, time)| (*distance, millis(*time))).collect();
            table(&SeekSpec::Table { points }, 4)
        };
        assert_eq!(points(&[(1, 1.0), (3, 2.0)])[..3], [0, 1_000_000, 1_500_000]);
        assert_eq!(points(&[(0, 0.2), (2, 1.0)])[..4], [200_000, 600_000, 1_000_000, 1_400_000]);
        assert_eq!(points(&[(0, 0.2)]), [200_000; 5]);
        let lee = SeekSpec::Datasheet {
            track_to_track: millis(1.0),
            average: millis(8.0),
            full_stroke: millis(15.0),
        };
        assert_eq!(table(&lee, 4)[0], 0);
    }

    proptest! {
        #[test]
        fn datasheet_curves_never_fall(mut points in prop::array::uniform3(1u64..30_000), cylinders in 2u32..5000) {
            points.sort_unstable();
            let [track_to_track, average, full_stroke] = points.map(|us| Nanos(us * 1000));
            let table = table(&SeekSpec::Datasheet { track_to_track, average, full_stroke }, cylinders);
            prop_assert!(table.windows(2).all(|pair| pair[0] <= pair[1]));
        }
    }
}
