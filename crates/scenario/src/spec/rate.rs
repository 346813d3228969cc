//! The I/O rate requested by a program, as on the command line: a percentage, or a time per I/O.

use sakiyomi_model::Nanos;
use sakiyomi_regulate::{Percent, Rate};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A requested I/O rate: `20`, or `"every 40ms"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateChoice {
    /// Percentage of the device, 1 to 100; 0 for none: not regulated.
    Percent(u32),
    /// Time per I/O, independent of the device's service time; greater than zero.
    Every(Nanos),
}

impl RateChoice {
    /// Returns the rate; `None` if nothing is requested, or the value is invalid.
    pub(crate) fn rate(self) -> Option<Rate> {
        match self {
            RateChoice::Percent(percent) => Percent::new(percent).ok().map(Rate::Percent),
            RateChoice::Every(time) => (!time.is_zero()).then_some(Rate::Every(time)),
        }
    }

    /// Returns whether the value is valid.
    pub(super) fn is_possible(self) -> bool {
        self == RateChoice::Percent(0) || self.rate().is_some()
    }
}

/// Prefix of a time.
const EVERY: &str = "every ";

impl Serialize for RateChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            RateChoice::Percent(percent) => serializer.serialize_u32(*percent),
            RateChoice::Every(time) => serializer.collect_str(&format_args!("{EVERY}{time}")),
        }
    }
}

impl<'de> Deserialize<'de> for RateChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RateChoice, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "write percent of the device, such as 20, or `every 40ms`")]
        enum Raw {
            Percent(u32),
            Text(String),
        }
        let text = match Raw::deserialize(deserializer)? {
            Raw::Percent(percent) => return Ok(RateChoice::Percent(percent)),
            Raw::Text(text) => text,
        };
        let wrong = || format!("`{text}`: write percent of the device, such as 20, or `{EVERY}40ms`");
        let read = match text.strip_prefix(EVERY) {
            Some(time) => time.trim().parse().ok().map(RateChoice::Every),
            None => text.trim_end_matches('%').trim_end().parse().ok().map(RateChoice::Percent),
        };
        read.ok_or_else(|| serde::de::Error::custom(wrong()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Scenario;

    fn scenario(rate: &str) -> Result<Scenario, String> {
        let text =
            format!("name = 'x'\n[drive]\nfixed = 'latency=1ms'\n[[process]]\nname = 'p'\nrate = {rate}\n");
        Scenario::from_toml(&text, "x.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn percent_and_times_are_read_as_on_the_command_line_and_read_back() {
        let percent = RateChoice::Percent;
        let every = RateChoice::Every(Nanos::MILLISECOND * 40);
        for (text, choice) in [
            ("20", percent(20)),
            ("'20'", percent(20)),
            ("'20%'", percent(20)),
            ("0", percent(0)),
            ("'every 40ms'", every),
            ("'every 0.04s'", every),
        ] {
            let read = scenario(text).unwrap();
            assert_eq!(read.process[0].rate, Some(choice), "{text}");
            assert_eq!(Scenario::from_toml(&read.to_toml(), "again").unwrap(), read);
        }
        assert_eq!(percent(0).rate(), None);
        assert_eq!(every.rate(), Some(Rate::Every(Nanos::MILLISECOND * 40)));
    }

    #[test]
    fn what_is_no_rate_is_refused_with_what_to_write() {
        for (text, sentence) in [
            (
                "101",
                "process.0.rate: 1 to 100 percent of the device, or 0 for none; or a time, as `every 40ms`",
            ),
            ("'every 0s'", "process.0.rate: 1 to 100 percent"),
            ("'fast'", "`fast`: write percent of the device, such as 20, or `every 40ms`"),
            ("'every now'", "`every now`: write percent"),
            ("'40ms'", "`40ms`: write percent"),
            ("-1", "write percent of the device"),
            ("2.5", "write percent of the device"),
        ] {
            let error = scenario(text).unwrap_err();
            assert!(error.contains(sentence), "{text}: {error}");
        }
    }
}
