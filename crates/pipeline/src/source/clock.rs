//! Event times of rows, and the watermarks that follow from them. Pure.

use arrow_schema::{DataType, TimeUnit};
use sakiyomi_expression::calendar::per_second;
use sakiyomi_expression::row::Value;

use crate::row::Row;
use crate::spec::Late;

/// Rows between two watermarks while rows come without a pause: a watermark costs about as much as a row in each operator.
const WATERMARK_ROWS: u32 = 64;

/// Event time between two watermarks of an idle source: windows are hardly shorter.
const IDLE_STEP_NS: u64 = 10_000_000;

/// Treatment of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is emitted; also if it is late, and windows allow its lateness.
    OnTime,
    /// It is dropped.
    Late,
    /// It has no event time that can be used.
    NoTime,
}

/// Reads event times and says when watermarks are due: the largest time less the declared disorder.
#[derive(Clone, Debug)]
pub(crate) struct EventClock {
    column: usize,
    unit_ns: u64,
    out_of_order_ns: u64,
    late: Late,
    max_ns: u64,
    watermark_ns: u64,
    /// Rows since the last watermark.
    rows: u32,
    /// Time without rows after which event time continues with the clock.
    idle_ns: Option<u64>,
}

/// Nanoseconds of a unit of a column of times; none if it has another type.
pub(crate) fn unit_ns(data_type: &DataType) -> Option<u64> {
    let unit = match data_type {
        DataType::Timestamp(unit, None) => *unit,
        _ => return None,
    };
    Some((per_second(TimeUnit::Nanosecond) / per_second(unit)).unsigned_abs())
}

/// Returns the event time of a row in nanoseconds since 1970; none if it is null or beyond the range of 64 bits.
#[inline]
pub(crate) fn event_ns(row: &Row, column: usize, unit_ns: u64) -> Option<u64> {
    match row.value(column) {
        Value::Int(time) => u64::try_from(time).ok()?.checked_mul(unit_ns),
        _ => None,
    }
}

impl EventClock {
    /// Returns a clock by a column of rows, of this type.
    pub(crate) fn new(column: usize, data_type: &DataType, out_of_order_ns: u64, late: Late) -> EventClock {
        let unit_ns = unit_ns(data_type).unwrap_or(1);
        let (max_ns, watermark_ns, rows, idle_ns) = (0, 0, 0, None);
        EventClock { column, unit_ns, out_of_order_ns, late, max_ns, watermark_ns, rows, idle_ns }
    }

    /// Returns the clock, with an event time that advances after `idle_ns` without rows.
    pub(crate) fn with_idle(self, idle_ns: Option<u64>) -> EventClock {
        EventClock { idle_ns, ..self }
    }

    /// Returns whether the event time continues without rows.
    pub(crate) fn goes_on(&self) -> bool {
        self.idle_ns.is_some()
    }

    /// Returns the next watermark after a time without rows: that of a row which came before the idle time and is as
    /// much later than the last one. Rows that come after it with earlier event times are late.
    pub(crate) fn idle(&mut self, silence_ns: u64) -> Option<u64> {
        let beyond_ns = silence_ns.checked_sub(self.idle_ns?)?;
        let next_ns = self.max_ns.saturating_add(beyond_ns).saturating_sub(self.out_of_order_ns);
        let is_due = self.max_ns > 0 && next_ns >= self.watermark_ns.saturating_add(IDLE_STEP_NS);
        is_due.then(|| {
            self.watermark_ns = next_ns;
            next_ns
        })
    }

    /// Returns the latest event time and the last watermark, in nanoseconds.
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.max_ns, self.watermark_ns)
    }

    /// Goes on from what [`EventClock::position`] was.
    pub(crate) fn set_position(&mut self, (max_ns, watermark_ns): (u64, u64)) {
        (self.max_ns, self.watermark_ns, self.rows) = (max_ns, watermark_ns, 0);
    }

    /// Takes note of a row.
    #[inline]
    pub(crate) fn note(&mut self, row: &Row) -> Verdict {
        let Some(time_ns) = event_ns(row, self.column, self.unit_ns) else { return Verdict::NoTime };
        self.max_ns = self.max_ns.max(time_ns);
        self.rows += 1;
        let lateness_ns = match self.late {
            Late::Drop => 0,
            Late::Allow { lateness_ns } => lateness_ns,
        };
        if time_ns.saturating_add(lateness_ns) < self.watermark_ns { Verdict::Late } else { Verdict::OnTime }
    }

    /// Returns the next watermark, if enough rows have come since the last one.
    #[inline]
    pub(crate) fn due(&mut self) -> Option<u64> {
        if self.rows < WATERMARK_ROWS {
            return None;
        }
        self.flush()
    }

    /// Returns the next watermark, if it is later than the last one.
    pub(crate) fn flush(&mut self) -> Option<u64> {
        self.rows = 0;
        let next_ns = self.max_ns.saturating_sub(self.out_of_order_ns);
        (next_ns > self.watermark_ns).then(|| {
            self.watermark_ns = next_ns;
            next_ns
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(late: Late) -> EventClock {
        EventClock::new(0, &DataType::Timestamp(TimeUnit::Millisecond, None), 2_000_000, late)
    }

    fn row(time_ms: i64) -> Row {
        Row::of([Value::Int(time_ms)])
    }

    #[test]
    fn watermarks_follow_the_largest_time_by_the_disorder_and_what_is_earlier_is_late() {
        let mut clock = clock(Late::Drop);
        assert_eq!(clock.flush(), None);
        assert_eq!(clock.note(&row(10)), Verdict::OnTime);
        assert_eq!(clock.note(&row(5)), Verdict::OnTime, "no watermark has been emitted");
        assert_eq!(clock.due(), None);
        assert_eq!(clock.flush(), Some(8_000_000));
        assert_eq!(clock.flush(), None);
        assert_eq!(clock.note(&row(8)), Verdict::OnTime);
        assert_eq!(clock.note(&row(7)), Verdict::Late);
        assert_eq!(clock.note(&row(-1)), Verdict::NoTime);
        assert_eq!(clock.note(&Row::of([Value::Null])), Verdict::NoTime);
    }

    #[test]
    fn rows_within_the_allowed_lateness_pass() {
        let mut clock = clock(Late::Allow { lateness_ns: 3_000_000 });
        clock.note(&row(10));
        clock.flush();
        assert_eq!(clock.note(&row(5)), Verdict::OnTime);
        assert_eq!(clock.note(&row(4)), Verdict::Late);
    }

    #[test]
    fn event_time_goes_on_with_the_clock_after_the_idle_time() {
        let mut clock = clock(Late::Drop).with_idle(Some(1_000_000_000));
        assert_eq!(clock.idle(5_000_000_000), None, "no row has come");
        clock.note(&row(10_000));
        assert_eq!(clock.idle(1_000_000_000), Some(9_998_000_000));
        assert_eq!(clock.idle(1_005_000_000), None, "too little time has passed");
        assert_eq!(clock.idle(4_000_000_000), Some(12_998_000_000));
        assert_eq!(clock.note(&row(12_997)), Verdict::Late);
        assert_eq!(clock.note(&row(13_500)), Verdict::OnTime);
        assert_eq!(clock.flush(), Some(13_498_000_000));
    }

    #[test]
    fn a_watermark_is_due_after_some_rows() {
        let mut clock = clock(Late::Drop);
        let due = (1..=200).filter(|&time| {
            clock.note(&row(1000 + time));
            clock.due().is_some()
        });
        assert_eq!(due.count(), 3);
    }
}
