//! Time accounting of the mechanism, in nanoseconds: five activities whose times add up to the elapsed time.

use std::collections::VecDeque;

use sakiyomi_model::Nanos;

/// Activity of the mechanism while it is not idle. Seeking is the time until the head is over its first sector: arm
/// movement, settling, rotational latency, and head and cylinder switches within a transfer (Hosogi 2013, section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    ReadSeek,
    ReadData,
    WriteSeek,
    WriteData,
}

/// Time by activity; the sum is the time observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskTime {
    /// Idle.
    pub idle: Nanos,
    /// Positioning for reads.
    pub read_seek: Nanos,
    /// Media transfer of reads, read-ahead included.
    pub read_data: Nanos,
    /// Positioning for writes.
    pub write_seek: Nanos,
    /// Media transfer of writes.
    pub write_data: Nanos,
}

impl DiskTime {
    /// Returns the sum of all five.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.idle + self.read_seek + self.read_data + self.write_seek + self.write_data
    }

    fn part(&mut self, activity: Activity) -> &mut Nanos {
        match activity {
            Activity::ReadSeek => &mut self.read_seek,
            Activity::ReadData => &mut self.read_data,
            Activity::WriteSeek => &mut self.write_seek,
            Activity::WriteData => &mut self.write_data,
        }
    }
}

/// Number of seeks by cause. Switches within a transfer are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seeks {
    /// Purged and pure misses, and resumed read-ahead.
    pub read: u64,
    /// Near misses, which a longer read-ahead would avoid.
    pub read_near_miss: u64,
    /// Writes to the medium.
    pub write: u64,
}

impl Seeks {
    /// Returns the sum of all three.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.read + self.read_near_miss + self.write
    }
}

/// Time and seek counts of the mechanism since the drive was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time by activity.
    pub time: DiskTime,
    /// Seeks by cause.
    pub seeks: Seeks,
}

macro_rules! difference {
    ($name:ident { $($field:ident),* }) => {
        impl std::ops::Sub for $name {
            type Output = $name;
            fn sub(self, earlier: $name) -> $name {
                $name { $($field: self.$field - earlier.$field),* }
            }
        }
        impl std::ops::Add for $name {
            type Output = $name;
            fn add(self, other: $name) -> $name {
                $name { $($field: self.$field + other.$field),* }
            }
        }
    };
}
difference!(DiskTime { idle, read_seek, read_data, write_seek, write_data });
difference!(Seeks { read, read_near_miss, write });
difference!(Usage { time, seeks });

/// Records activities when they are planned, and settles them as time passes. A plan may be cut when a command ends a
/// read-ahead; times before the cut do not change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    settled_until: Nanos,
    settled: DiskTime,
    pub(crate) seeks: Seeks,
    /// End times of the planned activities, ascending, without idle time between them.
    planned: VecDeque<(Nanos, Activity)>,
}

impl Ledger {
    /// Returns the time by activity until `now`, which lies neither before the last [`settle`](Self::settle) nor after
    /// a time at which the plan may still be cut.
    pub(crate) fn time(&self, now: Nanos) -> DiskTime {
        let mut time = self.settled;
        let mut from = self.settled_until;
        for &(end, activity) in &self.planned {
            let until = end.min(now);
            *time.part(activity) += until.saturating_sub(from);
            from = from.max(until);
        }
        time.idle += now.saturating_sub(from);
        time
    }

    /// Settles the planned activities until `now`.
    pub(crate) fn settle(&mut self, now: Nanos) {
        let mut from = self.settled_until;
        while let Some(&(end, activity)) = self.planned.front() {
            let until = end.min(now);
            *self.settled.part(activity) += until.saturating_sub(from);
            from = from.max(until);
            if end > now {
                break;
            }
            self.planned.pop_front();
        }
        self.settled.idle += now.saturating_sub(from);
        self.settled_until = now.max(self.settled_until);
    }

    /// Plans an activity from the end of the last one, or from `now` if the mechanism is idle, until `end`.
    pub(crate) fn plan(&mut self, now: Nanos, end: Nanos, activity: Activity) {
        if self.planned.is_empty() {
            self.settle(now);
        }
        match self.planned.back_mut() {
            Some(last) if last.1 == activity => last.0 = end,
            _ => self.planned.push_back((end, activity)),
        }
    }

    /// Discards everything planned after `at`.
    pub(crate) fn cut(&mut self, at: Nanos) {
        while let Some(&(end, activity)) = self.planned.back() {
            if end <= at {
                break;
            }
            self.planned.pop_back();
            let start = self.planned.back().map_or(self.settled_until, |before| before.0);
            if start < at {
                self.planned.push_back((at, activity));
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_plans_and_idle_gaps_add_up_to_the_time_elapsed() {
        let mut ledger = Ledger::default();
        ledger.plan(Nanos(100), Nanos(150), Activity::ReadSeek);
        ledger.plan(Nanos(100), Nanos(300), Activity::ReadData);
        assert_eq!(ledger.time(Nanos(200)).read_data, Nanos(50));
        ledger.cut(Nanos(220));
        ledger.settle(Nanos(220));
        ledger.plan(Nanos(220), Nanos(250), Activity::WriteSeek);
        let time = ledger.time(Nanos(1000));
        assert_eq!(time.total(), Nanos(1000));
        assert_eq!(
            time,
            DiskTime {
                idle: Nanos(850),
                read_seek: Nanos(50),
                read_data: Nanos(70),
                write_seek: Nanos(30),
                write_data: Nanos(0),
            }
        );
    }

    #[test]
    fn a_cut_at_a_boundary_leaves_what_came_before() {
        let mut ledger = Ledger::default();
        ledger.plan(Nanos(0), Nanos(10), Activity::ReadSeek);
        ledger.plan(Nanos(0), Nanos(20), Activity::ReadData);
        ledger.cut(Nanos(10));
        assert_eq!(ledger.time(Nanos(30)).read_seek, Nanos(10));
        assert_eq!(ledger.time(Nanos(30)).read_data, Nanos::ZERO);
    }
}
