//! Rates of records.

use std::str::FromStr;

use anyhow::{Result, ensure};

/// Records per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate(pub(super) f64);

impl FromStr for Rate {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Rate> {
        let bare = text.trim().trim_end_matches("/s");
        let (digits, factor) = match bare.as_bytes().last() {
            Some(b'k' | b'K') => (&bare[..bare.len() - 1], 1e3),
            Some(b'M') => (&bare[..bare.len() - 1], 1e6),
            Some(b'G') => (&bare[..bare.len() - 1], 1e9),
            _ => (bare, 1.0),
        };
        let rate = digits.parse::<f64>().map_or(f64::NAN, |number| number * factor);
        ensure!(
            rate.is_finite() && rate > 0.0,
            "give a rate in records per second above 0, such as 5000, 200k or 1.5M"
        );
        Ok(Rate(rate))
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
