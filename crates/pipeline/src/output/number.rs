//! Floats and times as text. Pure.

use std::io::Write;

use arrow_schema::TimeUnit;
use sakiyomi_expression::calendar::{DAY_SECONDS, per_second};
use sakiyomi_expression::format::{append_date, append_digits};

/// Appends a number so that it is read back as the same; whole ones with one decimal place.
pub(super) fn append_float(out: &mut Vec<u8>, value: f64) {
    // Writing to memory does not fail.
    let _ = write!(out, "{value:?}");
}

/// Appends a time as `YYYY-MM-DDTHH:MM:SS[.fff]Z`, with the digits of its unit.
pub(super) fn append_timestamp(out: &mut Vec<u8>, value: i64, unit: TimeUnit) {
    let per_second = per_second(unit);
    let (seconds, part) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    append_date(out, seconds.div_euclid(DAY_SECONDS));
    out.push(b'T');
    let clock = seconds.rem_euclid(DAY_SECONDS);
    for (index, part) in [clock / 3600, clock / 60 % 60, clock % 60].into_iter().enumerate() {
        if index > 0 {
            out.push(b':');
        }
        append_digits(out, part.unsigned_abs(), 2);
    }
    let width = match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    if width > 0 {
        out.push(b'.');
        append_digits(out, part.unsigned_abs(), width);
    }
    out.push(b'Z');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(append: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        append(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn floats_are_read_back() {
        assert_eq!(text(|out| append_float(out, 0.1)), "0.1");
        assert_eq!(text(|out| append_float(out, 2.0)), "2.0");
    }

    #[test]
    fn times_have_the_digits_of_their_unit() {
        let time = |value, unit| text(|out| append_timestamp(out, value, unit));
        assert_eq!(time(951_825_600, TimeUnit::Second), "2000-02-29T12:00:00Z");
        assert_eq!(time(-1, TimeUnit::Millisecond), "1969-12-31T23:59:59.999Z");
        assert_eq!(time(1, TimeUnit::Nanosecond), "1970-01-01T00:00:00.000000001Z");
    }
}
