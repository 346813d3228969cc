//! Times in text: ISO 8601, and the form of web server logs. Pure.

use arrow_schema::TimeUnit;
use sakiyomi_expression::calendar::{DAY_SECONDS, days_of, per_second};

/// Digits of a fraction in nanoseconds.
const FRACTION_DIGITS_MAX: usize = 9;

/// A moment: seconds since 1970-01-01 UTC, and nanoseconds of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) seconds: i64,
    pub(super) nanos: u32,
}

impl Moment {
    /// Returns the number of units since 1970-01-01, rounded down; none beyond 64 bits.
    pub(super) fn in_unit(self, unit: TimeUnit) -> Option<i64> {
        let per_second = per_second(unit);
        let part = i64::from(self.nanos) / (1_000_000_000 / per_second);
        self.seconds.checked_mul(per_second)?.checked_add(part)
    }
}

/// Returns the number of some digits.
fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0_i64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| value * 10 + i64::from(digit))
    })
}

fn below(text: &[u8], limit: i64) -> Option<i64> {
    digits(text).filter(|&value| value < limit)
}

/// Returns a date `2026-11-23`, as days since 1970-01-01.
pub(super) fn date(text: &[u8]) -> Option<i64> {
    let [_, _, _, _, b'-', m1, m2, b'-', d1, d2] = *text else { return None };
    days_of(digits(&text[..4])?, digits(&[m1, m2])?, digits(&[d1, d2])?)
}

/// Returns a time `2026-11-23T12:00:00.5Z`, with a blank instead of `T`, with an offset such as `+01:00`, or without
/// any, which is UTC; or `23/Nov/2026:12:00:00 +0000` as in the logs of web servers.
pub(super) fn time(text: &[u8]) -> Option<Moment> {
    if text.get(2) == Some(&b'/') { log_time(text) } else { iso_time(text) }
}

fn iso_time(text: &[u8]) -> Option<Moment> {
    let (day, rest) = text.split_at_checked(10)?;
    let days = date(day)?;
    if rest.is_empty() {
        return Some(Moment { seconds: days * DAY_SECONDS, nanos: 0 });
    }
    let (clock, rest) = rest.split_at_checked(9)?;
    let [b'T' | b't' | b' ', h1, h2, b':', m1, m2, b':', s1, s2] = *clock else { return None };
    let clock = clock_seconds([h1, h2, m1, m2, s1, s2])?;
    let (nanos, zone) = match rest {
        [b'.' | b',', fraction @ ..] => {
            let length = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let kept = length.min(FRACTION_DIGITS_MAX);
            let nanos = digits(&fraction[..kept])? * 10_i64.pow((FRACTION_DIGITS_MAX - kept) as u32);
            if length == 0 {
                return None;
            }
            (nanos as u32, &fraction[length..])
        }
        rest => (0, rest),
    };
    Some(Moment { seconds: days * DAY_SECONDS + clock - zone_seconds(zone)?, nanos })
}

fn log_time(text: &[u8]) -> Option<Moment> {
    let (stamp, rest) = text.split_at_checked(20)?;
    let [d1, d2, b'/', n1, n2, n3, b'/', _, _, _, _, b':', h1, h2, b':', m1, m2, b':', s1, s2] = *stamp
    else {
        return None;
    };
    let month = match [n1, n2, n3] {
        [b'J', b'a', b'n'] => 1,
        [b'F', b'e', b'b'] => 2,
        [b'M', b'a', b'r'] => 3,
        [b'A', b'p', b'r'] => 4,
        [b'M', b'a', b'y'] => 5,
        [b'J', b'u', b'n'] => 6,
        [b'J', b'u', b'l'] => 7,
        [b'A', b'u', b'g'] => 8,
        [b'S', b'e', b'p'] => 9,
        [b'O', b'c', b't'] => 10,
        [b'N', b'o', b'v'] => 11,
        [b'D', b'e', b'c'] => 12,
        _ => return None,
    };
    let days = days_of(digits(&stamp[7..11])?, month, digits(&[d1, d2])?)?;
    let clock = clock_seconds([h1, h2, m1, m2, s1, s2])?;
    let zone = rest.strip_prefix(b" ").unwrap_or(rest);
    Some(Moment { seconds: days * DAY_SECONDS + clock - zone_seconds(zone)?, nanos: 0 })
}

/// A leap second counts as the second after it.
fn clock_seconds([h1, h2, m1, m2, s1, s2]: [u8; 6]) -> Option<i64> {
    Some(below(&[h1, h2], 24)? * 3600 + below(&[m1, m2], 60)? * 60 + below(&[s1, s2], 61)?)
}

fn zone_seconds(zone: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match *zone {
        [] | [b'Z' | b'z'] => return Some(0),
        [sign, h1, h2, b':', m1, m2] | [sign, h1, h2, m1, m2] => (sign, [h1, h2], [m1, m2]),
        [sign, h1, h2] => (sign, [h1, h2], [b'0', b'0']),
        _ => return None,
    };
    let seconds = below(&hours, 24)? * 3600 + below(&minutes, 60)? * 60;
    match sign {
        b'+' => Some(seconds),
        b'-' => Some(-seconds),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_logs_and_of_iso_8601_are_read_in_any_zone() {
        let at = |text: &str| time(text.as_bytes()).map(|moment| (moment.seconds, moment.nanos));
        assert_eq!(at("1970-01-01"), Some((0, 0)));
        assert_eq!(at("2000-02-29 12:00:00"), Some((951_825_600, 0)));
        assert_eq!(at("2000-02-29T12:00:00.25Z"), Some((951_825_600, 250_000_000)));
        assert_eq!(at("2000-02-29T13:00:00+01:00"), Some((951_825_600, 0)));
        assert_eq!(at("29/Feb/2000:04:00:00 -0800"), Some((951_825_600, 0)));
        assert_eq!(at("1969-12-31T23:59:59.5"), Some((-1, 500_000_000)));
        let wrong = ["", "1999-02-29", "2000-02-29T24:00:00", "2000-02-29T12:00:00.", "29/Fex/2000:04:00:00"];
        for text in wrong.iter().chain(&["2000-02-29T12:00:00X", "2000-02-29 1"]) {
            assert_eq!(at(text), None, "{text}");
        }
    }

    #[test]
    fn units_round_down() {
        let moment = Moment { seconds: -1, nanos: 999_999_999 };
        assert_eq!(moment.in_unit(TimeUnit::Second), Some(-1));
        assert_eq!(moment.in_unit(TimeUnit::Millisecond), Some(-1));
        assert_eq!(Moment { seconds: i64::MAX, nanos: 0 }.in_unit(TimeUnit::Nanosecond), None);
    }
}
