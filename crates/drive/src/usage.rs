//! What the mechanism does with its time, to the nanosecond: five activities that add up to the elapsed time.

use std::collections::VecDeque;

use sakiyomi_model::Nanos;

/// What the mechanism is doing when it is not idle. A seek is the time until the head arrives: arm movement, settling, rotational wait,
/// head and cylinder switches within a transfer (Hosogi 2013, section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    ReadSeek,
    ReadData,
    WriteSeek,
    WriteData,
}

/// Time by activity, in nanoseconds; the sum is the time observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskTime {
    /// Nothing to do.
    pub idle: Nanos,
    /// On the way to data to read.
    pub read_seek: Nanos,
    /// Reading, read-ahead included.
    pub read_data: Nanos,
    /// On the way to the place to write.
    pub write_seek: Nanos,
    /// Writing.
    pub write_data: Nanos,
}

impl DiskTime {
    /// All five together.
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

/// How often the arm was sent to a new place, by what for. Switches within a transfer do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seeks {
    /// For purged and pure misses, and for resumed read-ahead.
    pub read: u64,
    /// For near misses: those a longer read-ahead would save.
    pub read_near_miss: u64,
    /// For writes to the medium.
    pub write: u64,
}

impl Seeks {
    /// All together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.read + self.read_near_miss + self.write
    }
}

/// The mechanism's account since the drive was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time by activity.
    pub time: DiskTime,
    /// Positionings.
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

/// Books activities as they are planned, and settles them as time goes by. A plan may be cut short, because a command
/// ends a read-ahead; nothing before the cut changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    settled_until: Nanos,
    settled: DiskTime,
    pub(crate) seeks: Seeks,
    /// Ends of the planned activities, ascending; between them the mechanism is never idle.
    planned: VecDeque<(Nanos, Activity)>,
}

impl Ledger {
    /// Time by activity from the start until `now`, which lies neither before the last call of [`settle`](Self::settle)
    /// nor beyond anything that may still be cut.
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

    /// Books what was planned until `now`.
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

    /// Plans an activity from the end of the last one, or from `now` where the mechanism is idle, until `end`.
    pub(crate) fn plan(&mut self, now: Nanos, end: Nanos, activity: Activity) {
        if self.planned.is_empty() {
            self.settle(now);
        }
        match self.planned.back_mut() {
            Some(last) if last.1 == activity => last.0 = end,
            _ => self.planned.push_back((end, activity)),
        }
    }

    /// Nothing planned after `at` happens.
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
