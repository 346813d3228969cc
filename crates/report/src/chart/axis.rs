//! Axes: the position of a value between the two ends of a picture, and the labeled ticks.
//!
//! Only positions between 0 and 1 are passed on, so that no value, however large, overflows the drawing's arithmetic.

use std::f64::consts::SQRT_2;

use crate::number;

const MICROSECOND: f64 = 1e3;
const SECOND: f64 = 1e9;
const MINUTE: f64 = 60.0 * SECOND;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// Lowest start of a logarithmic time axis: a little below one nanosecond, the shortest time above zero.
const LOG_AXIS_MIN_NS: f64 = 0.9;
/// Smallest CPU time per GB that a logarithmic axis shows.
const CPU_PER_GB_MIN_SECONDS: f64 = 1e-6;
/// Rates beyond this are not drawn to scale.
const RATE_MAX_BYTES_PER_S: f64 = 1e18;
/// Numbers of cores beyond this are not drawn to scale.
const CORES_MAX: f64 = 1000.0;
/// Approximate maximum number of labeled sizes.
const SIZE_LABELS_MAX: usize = 14;
/// Factor by which a logarithmic axis extends beyond the values.
const LOG_MARGIN: f64 = 1.2;

/// Approximate number of ticks of a horizontal axis.
const X_TICKS: f64 = 10.0;
/// Approximate number of ticks of a vertical axis.
const Y_TICKS: f64 = 5.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Linear,
    Log,
    /// Named rows.
    Rows,
}

/// A labeled position on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    /// From 0 to 1.
    pub(crate) place: f64,
    pub(crate) label: String,
}

/// An axis of a picture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    /// The quantity, with its unit unless the ticks show it.
    pub(crate) title: String,
    pub(crate) ticks: Vec<Tick>,
    scale: Scale,
    from: f64,
    to: f64,
}

impl Axis {
    /// Returns the position of a value: 0 at the start, 1 at the end; values beyond are clamped.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let (from, to, value) = match self.scale {
            Scale::Linear | Scale::Rows => (self.from, self.to, value),
            Scale::Log => (self.from.ln(), self.to.ln(), value.max(f64::MIN_POSITIVE).ln()),
        };
        let place = (value - from) / (to - from);
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }

    /// Returns the number of its rows; `None` if it is not an axis of rows.
    pub(crate) fn row_count(&self) -> Option<usize> {
        (self.scale == Scale::Rows).then_some(self.ticks.len())
    }

    /// Returns the axis with another title.
    pub(crate) fn titled(self, title: String) -> Axis {
        Axis { title, ..self }
    }

    /// Creates an axis for a span of the simulated time line.
    pub(crate) fn time(title: &'static str, from_ns: u64, to_ns: u64) -> Axis {
        let (from, to) = (from_ns as f64, (to_ns as f64).max(from_ns as f64 * (1.0 + 1e-12) + 1.0));
        Axis::linear(title, from, to, time_step(to - from, X_TICKS), |ns| number::round_duration(ns as u64))
    }

    /// Creates an axis of durations from zero to a little beyond `max_ns`.
    pub(crate) fn spans(title: &'static str, max_ns: f64) -> Axis {
        let to = if max_ns > 0.0 { max_ns * 1.02 } else { MICROSECOND };
        Axis::linear(title, 0.0, to, time_step(to, X_TICKS), |ns| number::round_duration(ns as u64))
    }

    /// Creates an axis of time differences around zero, in nanoseconds, as wide as the values.
    pub(crate) fn signed_spans(title: &'static str, values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = extent(values.chain([0.0])).unwrap_or_default();
        let margin = ((high - low) * 0.05).max(MICROSECOND / 2.0);
        let (low, high) = (low - margin, high + margin);
        Axis::linear(title, low, high, time_step(high - low, Y_TICKS), |ns| {
            let sign = if ns < 0.0 { "−" } else { "" };
            format!("{sign}{}", number::round_duration(ns.abs().round() as u64))
        })
    }

    /// Creates an axis of counts from zero to `max`, rounded up to a tick.
    pub(crate) fn counts(title: &'static str, max: f64) -> Axis {
        let step = nice_step(max.max(1.0), Y_TICKS).max(1.0);
        let to = (max.max(1.0) / step).ceil() * step;
        Axis::linear(title, 0.0, to, step, number::round_count)
    }

    /// Creates an axis of shares from 0 to 1.
    pub(crate) fn shares(title: &'static str) -> Axis {
        Axis::linear(title, 0.0, 1.0, 0.25, number::whole_percent)
    }

    /// Creates an axis of shares around the given ones.
    pub(crate) fn shares_around(title: &'static str, values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = extent(values.map(|value| value.clamp(0.0, 1.0))).unwrap_or((0.0, 1.0));
        let margin = ((high - low) * 0.15).max(0.02);
        let (low, high) = ((low - margin).max(0.0), (high + margin).min(1.0));
        Axis::linear(title, low, high, nice_step(high - low, X_TICKS).max(0.01), number::whole_percent)
    }

    /// Creates a logarithmic axis of durations. Zero is placed at the lower end.
    pub(crate) fn log_spans(title: &'static str, values: impl Iterator<Item = f64>) -> Axis {
        let positive = values.filter(|&value| value > 0.0);
        let (low, high) = extent(positive).unwrap_or((MICROSECOND, SECOND));
        Axis::log(title, (low, high), LOG_AXIS_MIN_NS, |ns| number::round_duration(ns.round() as u64))
    }

    /// Creates a logarithmic axis of CPU seconds per GB. Zero is placed at the lower end.
    pub(crate) fn log_cpu_per_gb(title: &str, values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = extent(values.filter(|&value| value > 0.0)).unwrap_or((0.01, 1.0));
        let sensible = |value: f64| value.clamp(CPU_PER_GB_MIN_SECONDS, 1.0 / CPU_PER_GB_MIN_SECONDS);
        Axis::log(title, (sensible(low), sensible(high)), CPU_PER_GB_MIN_SECONDS / 2.0, number::round_decimal)
    }

    /// Creates an axis of bytes per second from zero on.
    pub(crate) fn rates(title: &str, values: impl Iterator<Item = f64>) -> Axis {
        let (_, high) = extent(values).unwrap_or_default();
        let to = if high > 0.0 { high.min(RATE_MAX_BYTES_PER_S) * 1.04 } else { 1e6 };
        Axis::linear(title, 0.0, to, nice_step(to, X_TICKS), number::round_rate)
    }

    /// Creates a logarithmic axis of sizes with powers of two.
    pub(crate) fn log_sizes(title: &str, values: impl Iterator<Item = u64>) -> Axis {
        let (low, high) = extent(values.map(|bytes| bytes.max(1) as f64)).unwrap_or((4096.0, 4096.0));
        let (from, to) = (low / SQRT_2, high * SQRT_2);
        let mut axis = Axis { title: title.to_owned(), ticks: Vec::new(), scale: Scale::Log, from, to };
        let exponents = from.log2().ceil() as i32..=(high * SQRT_2).log2().floor() as i32;
        let stride = 1 + exponents.clone().count() / SIZE_LABELS_MAX;
        for exponent in exponents.step_by(stride) {
            let bytes = 2f64.powi(exponent);
            axis.ticks.push(Tick { place: axis.place(bytes), label: number::round_bytes(bytes as u64) });
        }
        axis
    }

    /// Creates an axis of CPU time over elapsed time: 100 % is one fully used core.
    pub(crate) fn cores(title: &str, values: impl Iterator<Item = f64>) -> Axis {
        let (_, high) = extent(values).unwrap_or_default();
        let to = high.clamp(1.0, CORES_MAX) * 1.04;
        Axis::linear(title, 0.0, to, nice_step(to, X_TICKS).max(0.1), number::whole_percent)
    }

    /// Creates an axis of speed-ups as ratios: around zero and the values, limited to ten.
    pub(crate) fn gains(title: &str, values: impl Iterator<Item = f64>) -> Axis {
        let (low, high) =
            extent(values.map(|value| value.clamp(-1.0, 10.0)).chain([0.0])).unwrap_or_default();
        let margin = ((high - low) * 0.08).max(0.01);
        let (low, high) = (low - margin, high + margin);
        let label = |ratio| number::whole_percent(ratio).replace('-', "−");
        Axis::linear(title, low, high, nice_step(high - low, X_TICKS).max(0.01), label)
    }

    /// Creates a horizontal axis of numbers of any kind: as wide as the values.
    pub(crate) fn numbers(title: &str, values: impl Iterator<Item = f64>) -> Axis {
        Axis::numbers_in(title, values, X_TICKS)
    }

    /// Creates a vertical axis of numbers of any kind, with fewer ticks.
    pub(crate) fn heights(title: &str, values: impl Iterator<Item = f64>) -> Axis {
        Axis::numbers_in(title, values, Y_TICKS)
    }

    fn numbers_in(title: &str, values: impl Iterator<Item = f64>, ticks: f64) -> Axis {
        let sensible = |value: f64| value.clamp(-RATE_MAX_BYTES_PER_S, RATE_MAX_BYTES_PER_S);
        let (low, high) = extent(values).map_or((0.0, 1.0), |(low, high)| (sensible(low), sensible(high)));
        let span = (high - low).max(high.abs().max(low.abs()) * 1e-6).max(1e-6);
        // An axis of values from 0 on begins at 0.
        let from = if low == 0.0 { 0.0 } else { low - span * 0.06 };
        let to = high + span * 0.06;
        Axis::linear(title, from, to, nice_step(to - from, ticks), number::round_decimal)
    }

    /// Creates an axis of sizes from zero on, in steps of a power of two.
    pub(crate) fn sizes(title: &str, values: impl Iterator<Item = u64>) -> Axis {
        let (_, high) = extent(values.map(|bytes| bytes as f64)).unwrap_or_default();
        let to = high.clamp(4096.0, RATE_MAX_BYTES_PER_S) * 1.05;
        let step = 2f64.powf((to / Y_TICKS).log2().ceil());
        Axis::linear(title, 0.0, to, step, |bytes| number::round_bytes(bytes as u64))
    }

    /// Creates an axis of named rows from the top down.
    pub(crate) fn rows(labels: Vec<String>) -> Axis {
        let count = labels.len().max(1) as f64;
        let mut axis =
            Axis { title: String::new(), ticks: Vec::new(), scale: Scale::Rows, from: count, to: 0.0 };
        axis.ticks = (labels.into_iter().enumerate())
            .map(|(row, label)| Tick { place: axis.place(row as f64 + 0.5), label })
            .collect();
        axis
    }

    /// Creates an axis of decades around the extent, from `least` on.
    fn log(title: &str, (low, high): (f64, f64), least: f64, label: impl Fn(f64) -> String) -> Axis {
        // Extends from at most half to at least twice the middle, so that it contains a tick, and adds a margin.
        let middle = (low * high).sqrt();
        let from = (low / LOG_MARGIN).min(middle / 2.0).max(least);
        let to = (high * LOG_MARGIN).max(middle * 2.0);
        let decades = (to / from).log10();
        let digits: &[f64] = match decades {
            ..1.0 => &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
            ..1.6 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let mut axis = Axis { title: title.to_owned(), ticks: Vec::new(), scale: Scale::Log, from, to };
        let first = from.log10().floor() as i32;
        for exponent in first..=to.log10().ceil() as i32 {
            for &digit in digits {
                let value = digit * 10f64.powi(exponent);
                if (from..=to).contains(&value) {
                    axis.ticks.push(Tick { place: axis.place(value), label: label(value) });
                }
            }
        }
        axis
    }

    fn linear(title: &str, from: f64, to: f64, step: f64, label: impl Fn(f64) -> String) -> Axis {
        let mut axis = Axis { title: title.to_owned(), ticks: Vec::new(), scale: Scale::Linear, from, to };
        axis.ticks = multiples(from, to, step)
            .map(|value| Tick { place: axis.place(value), label: label(value) })
            .collect();
        axis
    }
}

/// Returns the smallest and the largest of the finite values.
fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |extent, value| match extent {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

/// Returns the multiples of `step` from `from` to `to`.
fn multiples(from: f64, to: f64, step: f64) -> impl Iterator<Item = f64> {
    /// Bounds the loop if the step is so small that adding it does not change the value.
    const TICKS_MAX: usize = 40;
    let first = (from / step - 1e-9).ceil();
    (0..TICKS_MAX)
        .map(move |index| (first + index as f64) * step)
        .take_while(move |&value| value <= to + step * 1e-9)
}

/// Returns the smallest of 1, 2 or 5 times a power of ten of which `span` has at most `ticks`.
fn nice_step(span: f64, ticks: f64) -> f64 {
    round_up(span / ticks)
}

/// Returns the smallest customary time step of which `span_ns` has at most `ticks`.
fn time_step(span_ns: f64, ticks: f64) -> f64 {
    /// Steps between ticks, in nanoseconds.
    const TIME_STEPS: [f64; 14] = [
        10.0 * SECOND,
        30.0 * SECOND,
        MINUTE,
        2.0 * MINUTE,
        5.0 * MINUTE,
        10.0 * MINUTE,
        20.0 * MINUTE,
        30.0 * MINUTE,
        HOUR,
        2.0 * HOUR,
        3.0 * HOUR,
        6.0 * HOUR,
        12.0 * HOUR,
        DAY,
    ];
    let least = span_ns / ticks;
    if least <= 5.0 * SECOND {
        round_up(least).max(1.0)
    } else {
        TIME_STEPS.into_iter().find(|&step| step >= least).unwrap_or_else(|| round_up(least / DAY) * DAY)
    }
}

/// Returns the next of 1, 2, 5, 10, 20, … that is not below the value.
fn round_up(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|digit| digit * decade)
        .find(|&step| step >= value * 0.999_999)
        .unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round() {
        let time = Axis::time("", 0, 1000 * SECOND as u64);
        assert_eq!(labels(&time)[..3], ["0", "2 min", "4 min"]);
        assert_eq!(labels(&Axis::counts("", 183.0)), ["0", "50", "100", "150", "200"]);
        assert_eq!(labels(&Axis::shares("")), ["0 %", "25 %", "50 %", "75 %", "100 %"]);
        let log = Axis::log_spans("", [80e3, 450e6].into_iter());
        assert_eq!(labels(&log), ["100 µs", "1 ms", "10 ms", "100 ms"]);
        let signed = Axis::signed_spans("", [-1.2e6, 0.4e6].into_iter());
        assert_eq!(labels(&signed), ["−1 ms", "−500 µs", "0"]);
        let narrow = Axis::log_spans("", [2.1e6, 3.9e6].into_iter());
        assert_eq!(labels(&narrow), ["1.5 ms", "2 ms", "3 ms", "5 ms"]);
        assert_eq!(labels(&Axis::rates("", [2.1e9].into_iter()))[..3], ["0", "500 MB/s", "1 GB/s"]);
        let sizes = Axis::log_sizes("", [4096, 65_536].into_iter());
        assert_eq!(labels(&sizes), ["4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB"]);
        assert!((0.85..0.95).contains(&sizes.place(65_536.0)));
        assert_eq!(labels(&Axis::cores("", [1.9].into_iter()))[..3], ["0 %", "20 %", "40 %"]);
        let cpu = Axis::log_cpu_per_gb("", [0.02, 0.4].into_iter());
        assert_eq!(labels(&cpu), ["0.02", "0.05", "0.1", "0.2"]);
    }

    #[test]
    fn rows_go_from_the_top_down() {
        let rows = Axis::rows(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!([rows.place(0.0), rows.place(1.0), rows.place(2.0)], [1.0, 0.5, 0.0]);
        assert_eq!(rows.row_count(), Some(2));
    }

    fn is_sound(axis: &Axis) -> bool {
        let ascending = axis.ticks.windows(2).all(|pair| pair[0].place <= pair[1].place);
        ascending
            && (1..=40).contains(&axis.ticks.len())
            && axis.ticks.iter().all(|tick| (0.0..=1.0).contains(&tick.place))
    }

    proptest! {
        #[test]
        fn axes_of_any_extent_are_sound(from: u64, span: u64, share: f64) {
            let to = from.saturating_add(span);
            prop_assert!(is_sound(&Axis::time("", from / 4, to.max(from / 2 + 10))) || from > 1 << 40);
            prop_assert!(is_sound(&Axis::time("", 0, span)));
            prop_assert!(is_sound(&Axis::spans("", span as f64)));
            prop_assert!(is_sound(&Axis::counts("", span as f64)));
            prop_assert!(is_sound(&Axis::shares_around("", [share].into_iter())));
            prop_assert!(is_sound(&Axis::gains("", [share].into_iter())));
            prop_assert!(is_sound(&Axis::sizes("", [from, to].into_iter())));
            prop_assert!(is_sound(&Axis::log_spans("", [from as f64, to as f64].into_iter())));
            prop_assert!(is_sound(&Axis::log_sizes("", [from, to].into_iter())));
            for value in [share, from as f64] {
                prop_assert!(is_sound(&Axis::rates("", [value].into_iter())));
                prop_assert!(is_sound(&Axis::cores("", [value].into_iter())));
                prop_assert!(is_sound(&Axis::numbers("", [value, 1.0].into_iter())));
                prop_assert!(is_sound(&Axis::heights("", [value, 1.0].into_iter())));
                prop_assert!(is_sound(&Axis::log_cpu_per_gb("", [value, 1.0].into_iter())));
            }
            prop_assert!(is_sound(&Axis::signed_spans("", [-(from as f64), span as f64].into_iter())));
        }

        #[test]
        fn any_value_has_a_place(value in proptest::num::f64::ANY, max: u64) {
            for axis in [Axis::counts("", max as f64), Axis::log_spans("", [max as f64].into_iter())] {
                prop_assert!((0.0..=1.0).contains(&axis.place(value)));
            }
        }

        #[test]
        fn larger_values_are_never_placed_lower(a: u64, b: u64, max: u64) {
            let (low, high) = (a.min(b) as f64, a.max(b) as f64);
            for axis in [Axis::counts("", max as f64), Axis::log_spans("", [max as f64].into_iter())] {
                prop_assert!(axis.place(low) <= axis.place(high));
            }
        }
    }
}
