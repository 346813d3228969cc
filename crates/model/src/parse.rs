//! Parsing and printing of sizes and durations, such as `64KiB`, `1.5MB`, `8ms`, on the command line and in files.
//!
//! `KiB MiB GiB TiB` are powers of 1024, `kB MB GB TB` powers of 1000, and a bare `K M G T` is a power of 1024, as in
//! GNU `dd` and `sort -S`. A duration needs a unit; a size without one is in bytes. Printed values parse back to the
//! same value.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::units::{Bytes, Nanos};

/// A size or duration that cannot be parsed, with an example of the expected format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind}: {problem}; write it like {example}")]
pub struct ParseUnitError {
    text: String,
    kind: &'static str,
    problem: &'static str,
    example: &'static str,
}

const SIZE_UNITS: [(&str, u64); 18] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("t", 1 << 40),
    ("g", 1 << 30),
    ("m", 1 << 20),
    ("k", 1 << 10),
    ("B", 1),
    ("", 1),
];

const TIME_UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
    ("s", 1_000_000_000),
];

/// Parses `text` as a decimal number followed by one of `units`, in integer arithmetic: no binary fraction is rounded.
fn parse(text: &str, units: &[(&str, u64)]) -> Result<u64, &'static str> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = (text[..split].replace('_', ""), text[split..].trim());
    let &(_, scale) = units.iter().find(|(name, _)| *name == unit).ok_or(if unit.is_empty() {
        "the unit is missing"
    } else if unit.starts_with('-') {
        "it may not be negative"
    } else {
        "the unit is unknown"
    })?;
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err("the number is missing");
    }
    if fraction.contains('.') || fraction.len() > 18 {
        return Err("the number is malformed");
    }
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| "the number is too large")?;
    let divisor = 10u128.pow(fraction.len() as u32);
    let scaled = digits.checked_mul(u128::from(scale)).ok_or("the number is too large")?;
    u64::try_from(scaled / divisor).map_err(|_| "the number is too large")
}

/// Prints `value` in the largest of `units` in which it is exact with at most three decimals, else in the smallest.
fn print(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    for &(name, scale) in units {
        if value < scale || value == 0 && scale > 1 {
            continue;
        }
        let thousandths = u128::from(value) * 1000;
        if thousandths.is_multiple_of(u128::from(scale)) {
            let thousandths = thousandths / u128::from(scale);
            let fraction = format!("{:03}", thousandths % 1000);
            let fraction = fraction.trim_end_matches('0');
            let dot = if fraction.is_empty() { "" } else { "." };
            return f.pad(&format!("{}{dot}{fraction}{name}", thousandths / 1000));
        }
    }
    f.pad(&format!("{value}{}", units.last().map_or("", |unit| unit.0)))
}

impl FromStr for Bytes {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Bytes, ParseUnitError> {
        parse(text.trim(), &SIZE_UNITS).map(Bytes).map_err(|problem| ParseUnitError {
            text: text.to_owned(),
            kind: "size",
            problem,
            example: "4096, 64KiB, 1.5MiB or 2GB",
        })
    }
}

impl FromStr for Nanos {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Nanos, ParseUnitError> {
        let text = text.trim();
        let read = if text == "0" { Ok(0) } else { parse(text, &TIME_UNITS) };
        read.map(Nanos).map_err(|problem| ParseUnitError {
            text: text.to_owned(),
            kind: "duration",
            problem,
            example: "250us, 1.5ms, 10s or 2min",
        })
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 5] =
            [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
        print(f, self.0, &UNITS)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
        print(f, self.0, &UNITS)
    }
}

/// Deserializes a quantity from a string, or from an integer if `from_number` accepts it.
struct QuantityVisitor<T> {
    expecting: &'static str,
    from_number: fn(u64) -> Option<T>,
}

impl<T: FromStr<Err = ParseUnitError>> Visitor<'_> for QuantityVisitor<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        (self.from_number)(number).ok_or_else(|| E::invalid_type(de::Unexpected::Unsigned(number), &self))
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        let quantity = u64::try_from(number).ok().and_then(self.from_number);
        quantity.ok_or_else(|| E::invalid_type(de::Unexpected::Signed(number), &self))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        deserializer.deserialize_any(QuantityVisitor {
            expecting: "a size such as \"64KiB\", or a number of bytes",
            from_number: |n| Some(Bytes(n)),
        })
    }
}

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
        deserializer.deserialize_any(QuantityVisitor {
            expecting: "a duration with its unit such as \"1.5ms\"",
            from_number: |n| (n == 0).then_some(Nanos::ZERO),
        })
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Nanos {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_follow_the_standards_and_gnu() {
        let read = |text: &str| text.parse::<Bytes>().unwrap().0;
        assert_eq!(read("4096"), 4096);
        assert_eq!(read("64KiB"), 65_536);
        assert_eq!(read("64k"), 65_536);
        assert_eq!(read("1 MB"), 1_000_000);
        assert_eq!(read("1.5MiB"), 1_572_864);
        assert_eq!(read("16TB"), 16_000_000_000_000);
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!("1.5ms".parse::<Nanos>().unwrap(), Nanos(1_500_000));
        assert_eq!("0".parse::<Nanos>().unwrap(), Nanos::ZERO);
        let error = "15".parse::<Nanos>().unwrap_err().to_string();
        assert_eq!(
            error,
            "`15` is not a duration: the unit is missing; write it like 250us, 1.5ms, 10s or 2min"
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "KiB", "-1", "1..2", "9999999999T", "1e3", "NaN", "1 KiB x", "٣"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_back(value: u64) {
            prop_assert_eq!(Bytes(value).to_string().parse::<Bytes>().unwrap(), Bytes(value));
            prop_assert_eq!(Nanos(value).to_string().parse::<Nanos>().unwrap(), Nanos(value));
        }

        #[test]
        fn any_text_is_read_or_refused_without_panic(text: String) {
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<Nanos>();
        }
    }
}
