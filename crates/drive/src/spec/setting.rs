//! Values of keys in their base units, for the columns of result tables.

use sakiyomi_model::Bytes;
use toml::{Table, Value};

use super::{DriveSpec, Explanation, SignedNanos, explain};

/// Value of a key of a drive.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// A boolean.
    Flag(bool),
    /// A count: sectors, cylinders, commands.
    Integer(i64),
    /// A ratio, revolutions per minute, or an angle in sectors.
    Fraction(f64),
    /// A size in bytes.
    Bytes(i64),
    /// A rate in bytes per second.
    BytesPerSecond(i64),
    /// A duration in nanoseconds, negative for some keys.
    Nanos(i64),
    /// A name, a list or a table, in TOML syntax.
    Text(String),
}

impl Setting {
    /// Returns the suffix of the column's name: the unit, if the value has one.
    #[must_use]
    pub fn unit_suffix(&self) -> &'static str {
        match self {
            Setting::Bytes(_) => "_bytes",
            Setting::BytesPerSecond(_) => "_bytes_per_s",
            Setting::Nanos(_) => "_ns",
            Setting::Flag(_) | Setting::Integer(_) | Setting::Fraction(_) | Setting::Text(_) => "",
        }
    }
}

impl DriveSpec {
    /// Returns the value that [`set`](DriveSpec::set) stored for `text`, in its base unit. Keys that the drive's TOML
    /// omits at their defaults are parsed from `text`.
    #[must_use]
    pub fn setting(&self, key: &str, text: &str) -> Setting {
        let table = Table::try_from(self).expect("a drive is plain data");
        let value = find(&Value::Table(table), key).unwrap_or_else(|| as_toml(text));
        in_base_unit(explanation(key), value)
    }
}

/// Returns the explanation of a key, which may be that of another table with the same keys.
fn explanation(key: &str) -> Option<&'static Explanation> {
    let entry = explain().iter().find(|entry| entry.matches(key))?;
    match entry.values.strip_prefix("table as ") {
        Some(table) if key != entry.key => explanation(&key.replacen(entry.key, table, 1)),
        _ => Some(entry),
    }
}

/// Parses the text as a TOML value, or else returns it as a string.
fn as_toml(text: &str) -> Value {
    let parsed: Option<Table> = toml::from_str(&format!("value = {text}")).ok();
    let value = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn find(value: &Value, key: &str) -> Option<Value> {
    let found = key.split('.').try_fold(value, |at, part| match at {
        Value::Table(table) => table.get(part),
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        _ => None,
    });
    found.cloned()
}

fn in_base_unit(explanation: Option<&Explanation>, value: Value) -> Setting {
    let text = match value {
        Value::Boolean(flag) => return Setting::Flag(flag),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => return Setting::Fraction(number),
        Value::String(text) => text,
        other => return Setting::Text(other.to_string()),
    };
    let bytes = || text.parse::<Bytes>().ok().and_then(|bytes| i64::try_from(bytes.0).ok());
    let setting = match explanation.map_or("", |entry| entry.values) {
        "bytes per second" | "bytes per second, 0: never" => bytes().map(Setting::BytesPerSecond),
        "size" | "256 B to 4 KiB" | "512 B to 64 KiB" => bytes().map(Setting::Bytes),
        values if values.starts_with("duration") => signed_nanos(&text).map(Setting::Nanos),
        _ => text.parse().ok().map(Setting::Integer),
    };
    setting.unwrap_or(Setting::Text(text))
}

fn signed_nanos(text: &str) -> Option<i64> {
    let nanos: Option<SignedNanos> = Value::String(text.to_owned()).try_into().ok();
    nanos.map(|nanos| nanos.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{BUILTIN, builtin};

    fn is_number_with(text: &str, units: &[&str]) -> bool {
        let number = units.iter().find_map(|unit| text.strip_suffix(unit));
        number.is_some_and(|number| number.parse::<f64>().is_ok())
    }

    #[test]
    fn every_key_of_every_drive_has_its_base_unit() {
        let mut seen = 0;
        for drive in BUILTIN {
            let spec = drive.spec();
            for (key, text) in spec.entries() {
                let setting = spec.setting(&key, &text);
                let fits = match &setting {
                    Setting::Bytes(_) | Setting::BytesPerSecond(_) => {
                        is_number_with(&text, &["KiB", "MiB", "GiB", "B"])
                    }
                    Setting::Nanos(_) => is_number_with(&text, &["ns", "us", "ms", "s"]),
                    Setting::Integer(number) => text == number.to_string(),
                    Setting::Fraction(number) => text.parse() == Ok(*number),
                    Setting::Flag(flag) => text == flag.to_string(),
                    Setting::Text(_) => !text.starts_with(|c: char| c.is_ascii_digit()) || key == "name",
                };
                assert!(fits, "{} {key} = {text}: {setting:?}", drive.id);
                seen += 1;
            }
        }
        assert!(seen > 500, "{seen}");
    }

    #[test]
    fn a_setting_is_what_set_made_of_the_text() {
        let set = |key: &str, text: &str| {
            let mut spec = builtin("deskstar-7k250").unwrap().spec();
            spec.set(key, text).unwrap();
            spec.setting(key, text)
        };
        for (key, text, expected) in [
            ("cache.read_ahead.max", "256K", Setting::Bytes(262_144)),
            ("cache.read_ahead.max", "0", Setting::Bytes(0)),
            ("geometry.sector", "4KiB", Setting::Bytes(4096)),
            ("interface.link_rate", "150MB", Setting::BytesPerSecond(150_000_000)),
            ("queue.age_limit", "0", Setting::Nanos(0)),
            ("queue.age_limit", "1.5ms", Setting::Nanos(1_500_000)),
            ("servo.write_settle", "-0.2ms", Setting::Nanos(-200_000)),
            ("servo.seek_write.average", "9ms", Setting::Nanos(9_000_000)),
            ("interface.overhead.read_hit.after_write", "20us", Setting::Nanos(20_000)),
            ("cache.segments.count", "16", Setting::Integer(16)),
            ("servo.rpm", "5400", Setting::Fraction(5400.0)),
            ("servo.lost_turns", "0.25", Setting::Fraction(0.25)),
            ("cache.write.enabled", "false", Setting::Flag(false)),
            ("queue.policy", "look", Setting::Text("look".to_owned())),
            // Omitted from the drive's TOML, because it is the default.
            ("geometry.zones.0.spares", "0", Setting::Integer(0)),
        ] {
            assert_eq!(set(key, text), expected, "{key} = {text}");
        }
    }
}
