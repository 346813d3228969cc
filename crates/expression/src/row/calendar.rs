//! Parts of dates and times, in the proleptic Gregorian calendar (Hinnant, "chrono-compatible low-level date
//! algorithms", `civil_from_days`).

use arrow_schema::{DataType, TimeUnit};

use crate::node::Part;

/// Seconds of a day; leap seconds are not counted.
pub(super) const DAY_SECONDS: i64 = 86_400;
/// 0001-01-01, in days from 1970-01-01; the kernel decides about earlier days.
const DAYS_MIN: i64 = -719_162;
/// 9999-12-31, in days from 1970-01-01; the kernel decides about later days.
const DAYS_MAX: i64 = 2_932_896;
/// Days of 400 years, after which the calendar repeats itself.
const ERA_DAYS: i64 = 146_097;

/// How many units of a type are a second, or that it counts days.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    Days,
    PerSecond(i64),
}

impl Clock {
    /// The unit of a date, or of a timestamp without a time zone.
    pub(super) fn of(data_type: &DataType) -> Option<Clock> {
        match data_type {
            DataType::Date32 => Some(Clock::Days),
            DataType::Timestamp(unit, None) => Some(Clock::PerSecond(per_second(*unit))),
            _ => None,
        }
    }
}

/// How many of a unit are a second.
pub(super) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Part of a date or timestamp; `None` outside of the years 1 to 9999, and for weeks.
pub(super) fn extract(part: Part, value: i64, clock: Clock) -> Option<i64> {
    let (days, second) = match clock {
        Clock::Days => (value, 0),
        Clock::PerSecond(per_second) => {
            let seconds = value.div_euclid(per_second);
            (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS))
        }
    };
    if !(DAYS_MIN..=DAYS_MAX).contains(&days) {
        return None;
    }
    Some(match part {
        Part::Hour => second / 3600,
        Part::Minute => second / 60 % 60,
        Part::Second => second % 60,
        // 1970-01-01 was a Thursday.
        Part::DayOfWeek => (days + 4).rem_euclid(7),
        Part::Year => civil(days).0,
        Part::Quarter => (civil(days).1 - 1) / 3 + 1,
        Part::Month => civil(days).1,
        Part::Day => civil(days).2,
        Part::DayOfYear => days - days_before(civil(days).0) + 1,
        Part::Week => return None,
    })
}

/// The year, month and day of a number of days from 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years begin in March, so that a leap day is the last of its year.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Days from 1970-01-01 to the first day of a year, which is positive.
fn days_before(year: i64) -> i64 {
    let past = year - 1;
    past * 365 + past / 4 - past / 100 + past / 400 - 719_162
}
