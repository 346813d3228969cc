//! Numbers for human readers: three significant digits and a scaled unit.
//!
//! Values that are not finite are written as a dash, so that no `NaN` ever reaches a reader.

mod sort_key;

pub(crate) use sort_key::sort_key;

/// Placeholder of a missing value.
pub const NONE: &str = "–";

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Formats a duration: `842 ns`, `14.2 ms`, `16 min 40 s`.
#[must_use]
pub fn duration(ns: u64) -> String {
    if ns < 1000 {
        return format!("{ns} ns");
    }
    for (unit, scale, limit) in [("µs", 1e3, 999.5), ("ms", 1e6, 999.5), ("s", 1e9, 119.5)] {
        let value = ns as f64 / scale;
        if value < limit {
            return format!("{} {unit}", three_digits(value));
        }
    }
    long_duration(
        (ns / NANOS_PER_SECOND).saturating_add(u64::from(ns % NANOS_PER_SECOND >= NANOS_PER_SECOND / 2)),
    )
}

/// Formats a difference of times with its sign: `−12.0 µs`, `+1.50 ms`, `0 ns`.
pub(crate) fn signed_duration(ns: i64) -> String {
    let sign = match ns {
        ..0 => "−",
        0 => "",
        _ => "+",
    };
    format!("{sign}{}", duration(ns.unsigned_abs()))
}

/// Formats seconds with at most two units: `16 min 40 s`, `2 h`, `3 d 4 h`.
fn long_duration(seconds: u64) -> String {
    let (large, small) = match seconds {
        0..3600 => ((seconds / 60, "min"), (seconds % 60, "s")),
        3600..86_400 => ((seconds / 3600, "h"), (seconds % 3600 / 60, "min")),
        _ => ((seconds / 86_400, "d"), (seconds % 86_400 / 3600, "h")),
    };
    let mut text = format!("{} {}", count(large.0), large.1);
    if small.0 > 0 {
        text.push_str(&format!(" {} {}", small.0, small.1));
    }
    text
}

/// Formats a round duration without needless digits, for the ticks of an axis: `0`, `10 ms`, `1.5 s`, `5 min`.
pub(crate) fn round_duration(ns: u64) -> String {
    if ns == 0 {
        return "0".to_owned();
    }
    if ns >= 60 * NANOS_PER_SECOND {
        return long_duration(ns / NANOS_PER_SECOND);
    }
    let units = [("s", NANOS_PER_SECOND), ("ms", 1_000_000), ("µs", 1000), ("ns", 1)];
    let (unit, scale) = units.into_iter().find(|&(_, scale)| ns >= scale).unwrap_or(("ns", 1));
    format!("{} {unit}", ns as f64 / scale as f64)
}

/// Formats bytes per second in powers of 1000: `850 MB/s`, `2.55 GB/s`.
pub(crate) fn rate(bytes_per_s: f64) -> String {
    let (unit, scale) = rate_unit(bytes_per_s);
    match bytes_per_s / scale {
        value if !value.is_finite() => NONE.to_owned(),
        value if value.abs() < 1e6 => format!("{} {unit}", three_digits(value)),
        value => format!("{value:.1e} {unit}"),
    }
}

/// Formats the lowest and the highest of several rates, in the unit of their median: `2.48–2.61` beside `2.55 GB/s`.
pub(crate) fn rate_range(median: f64, min: f64, max: f64) -> String {
    let (_, scale) = rate_unit(median);
    match [min / scale, max / scale] {
        range if range.iter().any(|value| !value.is_finite() || value.abs() >= 1e6) => NONE.to_owned(),
        range => range.map(three_digits).join("–"),
    }
}

/// Formats a round number of bytes per second, for the ticks of an axis: `0`, `500 MB/s`, `2.5 GB/s`.
pub(crate) fn round_rate(bytes_per_s: f64) -> String {
    if bytes_per_s <= 0.0 {
        return "0".to_owned();
    }
    let (unit, scale) = rate_unit(bytes_per_s);
    format!("{} {unit}", round_decimal(bytes_per_s / scale))
}

/// Returns the unit in which a rate has one to three digits before the point, and its value in bytes per second.
fn rate_unit(bytes_per_s: f64) -> (&'static str, f64) {
    let units = [("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)];
    units.into_iter().find(|&(_, scale)| bytes_per_s.abs() >= scale * 0.9995).unwrap_or(("B/s", 1.0))
}

/// Formats a number without needless digits, with up to six decimals: `0.05`, `2.5`.
pub(crate) fn round_decimal(value: f64) -> String {
    ((value * 1e6).round() / 1e6).to_string()
}

/// Formats seconds of CPU time per GB, without the unit: `0.021`, `1.30`.
pub(crate) fn cpu_per_gb(seconds: f64) -> String {
    match seconds {
        seconds if !seconds.is_finite() => NONE.to_owned(),
        seconds if seconds.abs() >= 1e6 => format!("{seconds:.1e}"),
        seconds if seconds.abs() < 0.9995 => format!("{seconds:.3}"),
        seconds => three_digits(seconds),
    }
}

/// Formats a size in powers of 1024 without needless digits: `4 KiB`, `1.5 MiB`.
#[must_use]
pub fn round_bytes(size: u64) -> String {
    let text = bytes(size);
    match text.split_once(' ') {
        Some((value, unit)) if value.contains('.') => {
            format!("{} {unit}", value.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// Formats a size in powers of 1024: `512 B`, `1.20 GiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut units = ["KiB", "MiB", "GiB", "TiB", "PiB"].into_iter();
    for unit in units.by_ref() {
        if value < 1023.5 {
            return format!("{} {unit}", three_digits(value));
        }
        value /= 1024.0;
    }
    format!("{} EiB", three_digits(value))
}

/// Formats a count with separated thousands: `11,427`.
#[must_use]
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with a noun, which is given in the singular: `1 file`, `1,200 files`, `2 processes`.
#[must_use]
pub fn plural(number: u64, name: &str) -> String {
    let ending = match (number, name.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {name}{ending}", count(number))
}

/// Formats a round count, for the ticks of an axis: `500`, `20,000`, `5 M`.
pub(crate) fn round_count(value: f64) -> String {
    for (unit, scale) in [("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)] {
        if value >= scale {
            return format!("{} {unit}", (value / scale * 1000.0).round() / 1000.0);
        }
    }
    // A float-to-integer `as` saturates, and takes NaN to zero.
    count(value.round() as u64)
}

/// Formats a share: `72.4 %`.
#[must_use]
pub fn percent(ratio: f64) -> String {
    percent_to(1, ratio)
}

/// Formats a share without decimals: `72 %`.
pub(crate) fn whole_percent(ratio: f64) -> String {
    match (ratio * 100.0).round() {
        percent if !percent.is_finite() => NONE.to_owned(),
        percent if percent.abs() >= 1e6 => format!("{percent:.1e} %"),
        percent => format!("{} %", percent + 0.0),
    }
}

/// Formats a change with its sign: `+31.0 %`, `−2.4 %`.
pub(crate) fn signed_percent(ratio: f64) -> String {
    let sign = if ratio < 0.0 { "−" } else { "+" };
    match percent(ratio.abs()) {
        text if text == NONE => text,
        text => format!("{sign}{text}"),
    }
}

/// Formats a factor: `2.1`, `61`, `11,427`.
#[must_use]
pub fn times(factor: f64) -> String {
    if !factor.is_finite() {
        NONE.to_owned()
    } else if factor.abs() < 9.95 {
        format!("{factor:.1}")
    } else {
        count(factor.abs().round() as u64)
    }
}

/// Formats a number per second: `19.8`, `1,234`.
pub(crate) fn per_second(rate: f64) -> String {
    match rate {
        rate if !rate.is_finite() => NONE.to_owned(),
        rate if rate.abs() < 99.95 => format!("{rate:.1}"),
        rate => count(rate.abs().round() as u64),
    }
}

/// Formats a bare number with `places` decimals; a dash from 10^9 on, which cannot be meant.
pub(crate) fn decimal(value: f64, places: usize) -> String {
    if value.abs() < 1e9 { format!("{value:.places$}").replace('-', "−") } else { NONE.to_owned() }
}

/// Formats a share with the precision needed for comparison with another one: `99.94 %`.
pub(crate) fn percent_exact(ratio: f64) -> String {
    percent_to(2, ratio)
}

fn percent_to(decimals: usize, ratio: f64) -> String {
    match ratio * 100.0 {
        percent if !percent.is_finite() => NONE.to_owned(),
        percent if percent.abs() >= 1e6 => format!("{percent:.1e} %"),
        percent => format!("{percent:.decimals$} %"),
    }
}

/// Returns the part over the whole; 0 if the whole is 0.
#[must_use]
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn three_digits(value: f64) -> String {
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_scale() {
        let durations = [0, 999, 1000, 999_499, 999_500, 14_230_000, 1_000_000_000, 119_400_000_000];
        let texts: Vec<String> = durations.into_iter().map(duration).collect();
        assert_eq!(texts, ["0 ns", "999 ns", "1.00 µs", "999 µs", "1.00 ms", "14.2 ms", "1.00 s", "119 s"]);
        assert_eq!(duration(1_000_000_000_000), "16 min 40 s");
        assert_eq!(duration(u64::MAX), "213,503 d 23 h");
        assert_eq!([-12_000, 0, 1_500_000].map(signed_duration), ["−12.0 µs", "0 ns", "+1.50 ms"]);
        assert_eq!(signed_duration(i64::MIN), "−106,751 d 23 h");
        assert_eq!([bytes(1023), bytes(1 << 20), bytes(u64::MAX)], ["1023 B", "1.00 MiB", "16.0 EiB"]);
        assert_eq!(
            [plural(1, "file"), plural(1200, "file"), plural(0, "process")],
            ["1 file", "1,200 files", "0 processes"]
        );
        assert_eq!([count(7), count(1000), count(1_234_567)], ["7", "1,000", "1,234,567"]);
        assert_eq!([percent(0.7239), percent(f64::NAN), percent(1.0)], ["72.4 %", NONE, "100.0 %"]);
        assert_eq!(
            [whole_percent(0.724), whole_percent(-0.001), whole_percent(f64::NAN)],
            ["72 %", "0 %", NONE]
        );
        assert_eq!([times(2.06), times(60.7), times(f64::INFINITY)], ["2.1", "61", NONE]);
        assert_eq!([rate(2.547e9), rate(999.9e6), rate(41_000.0)], ["2.55 GB/s", "1.00 GB/s", "41.0 kB/s"]);
        assert_eq!([rate(0.0), rate(f64::NAN), rate(1e300)], ["0.00 B/s", NONE, "1.0e291 GB/s"]);
        assert_eq!(rate_range(1.01e9, 0.981e9, 1.1e9), "0.98–1.10");
        assert_eq!(rate_range(1.0, 0.0, f64::INFINITY), NONE);
        assert_eq!([round_rate(0.0), round_rate(5e8), round_rate(2.5e9)], ["0", "500 MB/s", "2.5 GB/s"]);
        assert_eq!([cpu_per_gb(0.0213), cpu_per_gb(1.3), cpu_per_gb(f64::NAN)], ["0.021", "1.30", NONE]);
        assert_eq!(
            [round_bytes(1 << 20), round_bytes(100 << 10), round_bytes(1536), round_bytes(512)],
            ["1 MiB", "100 KiB", "1.5 KiB", "512 B"]
        );
        assert_eq!(
            [signed_percent(0.31), signed_percent(-0.024), signed_percent(f64::NAN)],
            ["+31.0 %", "−2.4 %", NONE]
        );
        assert_eq!(
            [round_duration(1_500_000_000), round_duration(300 * NANOS_PER_SECOND)],
            ["1.5 s", "5 min"]
        );
        assert_eq!(
            [round_count(20_000.0), round_count(2.5e6), round_count(f64::NAN)],
            ["20,000", "2.5 M", "0"]
        );
    }

    /// Returns the number that a text begins with.
    fn leading(text: &str) -> f64 {
        text.split(' ').next().unwrap().parse().unwrap()
    }

    proptest! {
        #[test]
        fn scaled_numbers_stay_short_and_close(ns in 0u64..119 * NANOS_PER_SECOND) {
            let text = duration(ns);
            let scale = match text.rsplit(' ').next().unwrap() { "ns" => 1.0, "µs" => 1e3, "ms" => 1e6, _ => 1e9 };
            prop_assert!((leading(&text) * scale - ns as f64).abs() <= ns as f64 * 0.005);
            prop_assert!(text.chars().count() <= 7, "{text}");
        }

        #[test]
        fn any_number_has_a_short_text(ns: u64, ratio: f64) {
            prop_assert!(duration(ns).chars().count() <= 14);
            prop_assert!(bytes(ns).chars().count() <= 8);
            prop_assert!(percent(ratio).chars().count() <= 14);
            for text in [rate(ratio), cpu_per_gb(ratio), whole_percent(ratio), signed_percent(ratio), rate_range(ratio, ratio, ratio)] {
                prop_assert!(text.chars().count() <= 24, "{text}");
            }
            for text in [percent(ratio), times(ratio), round_count(ratio), rate(ratio), cpu_per_gb(ratio)] {
                prop_assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            }
        }
    }
}
