//! The proleptic Gregorian calendar (Howard Hinnant, "chrono-compatible low-level date algorithms"). Days are counted
//! from 1970-01-01; leap seconds are not counted.

use arrow_schema::TimeUnit;

/// Seconds of a day.
pub const DAY_SECONDS: i64 = 86_400;

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

/// Days of 400 years, after which the calendar repeats itself.
const ERA_DAYS: i64 = 146_097;

/// Returns how many of a unit are a second.
pub fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Returns the year, month (1 to 12) and day of the month of a day, which is at most 10¹⁸ days away from 1970
/// (`civil_from_days`). The year before year 1 is 0.
#[inline]
pub fn date_of(days: i64) -> (i64, i64, i64) {
    // Years begin in March, so that a leap day is the last of its year.
    let days = days + EPOCH_DAYS;
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Returns the day of a date, if it exists, in a year that is at most 10¹⁵ years away from 1970 (`days_from_civil`).
#[inline]
pub fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if !(1..=days).contains(&day) {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * ERA_DAYS + day_of_era - EPOCH_DAYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_inverse() {
        for days in (-800_000..4_000_000).step_by(97) {
            let (year, month, day) = date_of(days);
            assert_eq!(days_of(year, month, day), Some(days));
        }
    }

    #[test]
    fn days_follow_each_other() {
        let mut previous = date_of(-200_000);
        for days in -199_999..200_000 {
            let (year, month, day) = date_of(days);
            let follows = match previous {
                (y, 12, 31) => (year, month, day) == (y + 1, 1, 1),
                (y, m, d) if day == 1 => (year, month) == (y, m + 1) && days_of(y, m, d + 1).is_none(),
                (y, m, d) => (year, month, day) == (y, m, d + 1),
            };
            assert!(follows, "{previous:?}, {:?}", (year, month, day));
            previous = (year, month, day);
        }
        assert_eq!(date_of(0), (1970, 1, 1));
    }

    #[test]
    fn dates_that_do_not_exist_have_no_day() {
        assert_eq!(days_of(2000, 2, 29), Some(11_016));
        for (year, month, day) in [(1900, 2, 29), (2023, 2, 29), (2024, 4, 31), (2024, 13, 1), (2024, 1, 0)] {
            assert_eq!(days_of(year, month, day), None, "{year}-{month}-{day}");
        }
    }
}
