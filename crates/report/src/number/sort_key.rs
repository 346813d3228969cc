//! Sort key of formatted numbers, by which tables are sorted.

/// Units of [`super`]'s texts, and of sizes on the command line.
const UNITS: [(&str, f64); 40] = [
    ("ns", 1e-9),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("min", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
    ("%", 0.01),
    ("points", 0.01),
    ("B", 1.0),
    ("bytes", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("PB", 1e15),
    ("EB", 1e18),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
    ("PiB", 1.125_899_906_842_624e15),
    ("EiB", 1.152_921_504_606_847e18),
    ("K", 1024.0),
    ("M", 1_048_576.0),
    ("G", 1_073_741_824.0),
    ("T", 1_099_511_627_776.0),
    ("B/s", 1.0),
    ("kB/s", 1e3),
    ("MB/s", 1e6),
    ("GB/s", 1e9),
    ("TB/s", 1e12),
    ("PB/s", 1e15),
    ("EB/s", 1e18),
    ("million", 1e6),
    ("thousand", 1e3),
    ("×", 1.0),
    ("k", 1e3),
    ("×)", 1.0),
    ("faster", 1.0),
];

/// Returns the number that a text begins with, in its base unit: `2 min 27 s` is 147, `128KiB` 131,072. `None` if it
/// does not begin with a number.
pub(crate) fn sort_key(text: &str) -> Option<f64> {
    let (sign, text) = match text.strip_prefix(['−', '-']) {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let (first, rest) = number_and_unit(text)?;
    // A long time has two units.
    let second = number_and_unit(rest.trim_start()).filter(|_| is_time(text)).map_or(0.0, |(value, _)| value);
    Some(sign * (first + second))
}

/// Parses the value; returns it with the text after its unit.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(text.len());
    let value: f64 = text[..end].replace(',', "").parse().ok()?;
    let rest = text[end..].trim_start();
    let unit = rest.split(char::is_whitespace).next().unwrap_or_default();
    match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, scale)) => Some((value * scale, &rest[unit.len()..])),
        None => Some((value, rest)),
    }
}

fn is_time(text: &str) -> bool {
    [" min ", " h ", " d "].iter().any(|unit| text.contains(unit))
}

#[cfg(test)]
mod tests {
    use super::super::{bytes, count, duration, percent, rate, round_bytes, signed_percent};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_of_tables_have_keys() {
        let keys = [
            ("2 min 27 s", 147.0),
            ("1 h 3 min", 3780.0),
            ("1,234", 1234.0),
            ("128KiB", 131_072.0),
            ("3 at 975", 3.0),
            ("1.03–2.19", 1.03),
        ];
        for (text, key) in keys {
            assert_eq!(sort_key(text), Some(key), "{text}");
        }
        assert_eq!((sort_key("–"), sort_key("auto"), sort_key("")), (None, None, None));
        assert!((sort_key("−54.5 %").unwrap() + 0.545).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn larger_numbers_never_sort_lower(a: u64, b: u64, shift in 0u32..64) {
            let (low, high) = (a.min(b) >> shift, a.max(b) >> shift);
            for words in [duration, bytes, round_bytes, count] {
                let (below, above) = (sort_key(&words(low)).unwrap(), sort_key(&words(high)).unwrap());
                prop_assert!(below <= above * (1.0 + 1e-9), "{} {}", words(low), words(high));
            }
        }

        #[test]
        fn larger_shares_and_rates_never_sort_lower(a in 0.0..1e12f64, b in 0.0..1e12f64) {
            let (low, high) = (a.min(b), a.max(b));
            for words in [rate, |value: f64| percent(value / 1e12), |value: f64| signed_percent(value / 1e12)] {
                let (below, above) = (sort_key(&words(low)).unwrap(), sort_key(&words(high)).unwrap());
                prop_assert!(below <= above * (1.0 + 1e-9), "{} {}", words(low), words(high));
            }
        }

        #[test]
        fn any_text_is_read_without_harm(text: String) {
            let _ = sort_key(&text);
        }
    }
}
