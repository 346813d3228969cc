//! Rates of records.

use std::str::FromStr;

use anyhow::{Context, Result};
use sakiyomi_pipeline::parse_rate;

/// Records per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate(pub(super) f64);

impl FromStr for Rate {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Rate> {
        let rate = parse_rate(text).filter(|rate| *rate > 0.0);
        rate.map(Rate).context("give a rate in records per second above 0, such as 5000, 200k or 1.5M")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_suffixes_of_thousands() {
        let parsed = |text: &str| text.parse::<Rate>().map(|Rate(rate)| rate).ok();
        for (text, rate) in [("5000", 5e3), ("200k", 2e5), ("200k/s", 2e5), ("1.5M", 1.5e6), ("2G/s", 2e9)] {
            assert_eq!(parsed(text), Some(rate), "{text}");
        }
        for mistake in ["", "k", "0", "-5", "NaN", "inf", "1e400", "5 MB", "5m"] {
            assert_eq!(parsed(mistake), None, "{mistake}");
        }
    }
}
