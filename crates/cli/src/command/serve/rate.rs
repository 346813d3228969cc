//! Rates on the command line: `20%`, `40ms`, `slow=40ms`.

use std::str::FromStr;

use sakiyomi_model::Nanos;
use sakiyomi_nbd::{Percent, Rate};

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RateArg(pub(crate) Rate);

/// A rate, perhaps of a named export.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExportRate {
    pub(crate) export: Option<String>,
    pub(crate) rate: RateArg,
}

/// Longest time of an I/O that a rate may specify, as for `iorate`.
const RATE_TIME_MAX: Nanos = Nanos(3_600_000_000_000);

impl FromStr for RateArg {
    type Err = String;

    fn from_str(text: &str) -> Result<RateArg, String> {
        let malformed =
            || format!("`{text}` is not a rate: give 1% to 100%, or a time of at most an hour, such as 40ms");
        let percent = text.strip_suffix('%').map(str::trim);
        if percent.is_some() || text.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = percent.unwrap_or(text).parse::<u32>().map_err(|_| malformed())?;
            let percent = Percent::new(number).map_err(|_| malformed())?;
            return Ok(RateArg(Rate::Percent(percent)));
        }
        let time = text.parse::<Nanos>().map_err(|_| malformed())?;
        if time == Nanos::ZERO || time > RATE_TIME_MAX {
            Err(malformed())
        } else {
            Ok(RateArg(Rate::Every(time)))
        }
    }
}

impl FromStr for ExportRate {
    type Err = String;

    fn from_str(text: &str) -> Result<ExportRate, String> {
        // Rates contain no `=`, and names of exports may.
        let (export, rate) = match text.rsplit_once('=') {
            Some((export, rate)) => (Some(export.to_owned()), rate),
            None => (None, text),
        };
        Ok(ExportRate { export, rate: rate.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_percentage_or_a_time_of_a_named_export_or_of_the_only_one() {
        let percent = RateArg(Rate::Percent(Percent::new(20).unwrap()));
        let every = RateArg(Rate::Every(Nanos(40_000_000)));
        assert_eq!(["20%", "20", "20 %"].map(|text| text.parse()), [Ok(percent), Ok(percent), Ok(percent)]);
        assert_eq!("40ms".parse(), Ok(every));
        assert_eq!("a=b=40ms".parse(), Ok(ExportRate { export: Some("a=b".to_owned()), rate: every }));
        assert_eq!("=20%".parse(), Ok(ExportRate { export: Some(String::new()), rate: percent }));
        assert_eq!("20%".parse(), Ok(ExportRate { export: None, rate: percent }));
        for text in ["", "0", "101%", "-1%", "40", "0ms", "2h", "x", "fast", "4000000000000s"] {
            let is_rate = text.parse::<RateArg>().is_ok();
            assert_eq!(is_rate, text == "40", "{text}");
        }
    }
}
