//! Parts of dates and times.

use arrow_schema::DataType;

use crate::calendar::{DAY_SECONDS, date_of, days_of, per_second};
use crate::node::Part;

/// 0001-01-01, in days from 1970-01-01; the kernel decides about earlier days.
const DAYS_MIN: i64 = -719_162;
/// 9999-12-31, in days from 1970-01-01; the kernel decides about later days.
const DAYS_MAX: i64 = 2_932_896;

/// How many units of a type are a second, or that it counts days.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    Days,
    PerSecond(i64),
}

impl Clock {
    /// Returns the unit of a date, or of a timestamp without a time zone.
    pub(super) fn of(data_type: &DataType) -> Option<Clock> {
        match data_type {
            DataType::Date32 => Some(Clock::Days),
            DataType::Timestamp(unit, None) => Some(Clock::PerSecond(per_second(*unit))),
            _ => None,
        }
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
        Part::Year => date_of(days).0,
        Part::Quarter => (date_of(days).1 - 1) / 3 + 1,
        Part::Month => date_of(days).1,
        Part::Day => date_of(days).2,
        Part::DayOfYear => days - days_of(date_of(days).0, 1, 1)? + 1,
        Part::Week => return None,
    })
}
