//! The seconds of a mount, joined so that their number stays bounded however long it lasts.

use sakiyomi_drive::observe::{Join, Series};
use sakiyomi_mount::Past;
use sakiyomi_mount::Snapshot;
use sakiyomi_report::result::MountWindow;

/// Windows of a mount: the changes between consecutive samples.
#[derive(Default)]
pub(crate) struct Course(Series<Window>);

struct Window(MountWindow);

impl Join for Window {
    fn join(&mut self, next: &Window) {
        self.0.join(&next.0);
    }
}

impl Course {
    /// Adds the window between two samples.
    pub(crate) fn add(&mut self, before: &Snapshot, now: &Snapshot) {
        if now.at > before.at {
            self.0.push(Window(between(before, now)));
        }
    }

    /// Returns all windows, in order.
    pub(crate) fn finish(self) -> Vec<MountWindow> {
        self.0.finish().points().iter().map(|window| window.0).collect()
    }
}

fn between(before: &Snapshot, now: &Snapshot) -> MountWindow {
    let (old, new) = (&before.totals, &now.totals);
    let (reads, hits) = new.reads_and_hits();
    let (reads_before, hits_before) = old.reads_and_hits();
    let answered = new.response.count().saturating_sub(old.response.count());
    let spent = new.response.total().saturating_sub(old.response.total());
    let past = now.rates.as_ref().map_or(Past::default(), |rates| rates.past);
    let past_before = before.rates.as_ref().map_or(Past::default(), |rates| rates.past);
    let rated_ios = past.ios - past_before.ios;
    MountWindow {
        start_ns: before.at.0,
        end_ns: now.at.0,
        accesses: new.accesses - old.accesses,
        read_bytes: new.read_bytes - old.read_bytes,
        written_bytes: new.written_bytes - old.written_bytes,
        response_mean_ns: spent.0.checked_div(answered),
        in_flight_max: new.in_flight,
        reads: reads - reads_before,
        hits: hits - hits_before,
        busy_ns: before.busy.zip(now.busy).map(|(before, now)| now.saturating_sub(before).0),
        rated_ios,
        accuracy_ratio: super::result::ratio(past.accuracy_sum - past_before.accuracy_sum, rated_ios as f64),
    }
}

#[cfg(test)]
mod tests {
    use sakiyomi_model::Nanos;
    use sakiyomi_mount::Totals;

    use super::*;

    fn snapshot(second: u64) -> Snapshot {
        let mut totals = Totals { accesses: 10 * second, read_bytes: 4096 * second, ..Totals::default() };
        for _ in 0..second {
            totals.response.record(Nanos(5_000_000));
        }
        Snapshot {
            at: Nanos(second * 1_000_000_000),
            busy: Some(Nanos(second * 500_000_000)),
            totals,
            rates: None,
        }
    }

    #[test]
    fn windows_are_what_came_between_looks() {
        let mut course = Course::default();
        course.add(&snapshot(1), &snapshot(3));
        course.add(&snapshot(3), &snapshot(3));
        let windows = course.finish();
        let [window] = windows.as_slice() else { panic!("{windows:?}") };
        assert_eq!((window.start_ns, window.end_ns), (1_000_000_000, 3_000_000_000));
        assert_eq!((window.accesses, window.read_bytes), (20, 8192));
        assert_eq!((window.response_mean_ns, window.busy_ns), (Some(5_000_000), Some(1_000_000_000)));
    }

    #[test]
    fn a_day_of_seconds_stays_bounded_and_loses_nothing() {
        let (mut course, mut before) = (Course::default(), snapshot(0));
        for second in 1..=10_000 {
            let now = Snapshot { totals: Totals { accesses: second, ..Totals::default() }, ..snapshot(0) };
            let now = Snapshot { at: Nanos(second), ..now };
            course.add(&before, &now);
            before = now;
        }
        let windows = course.finish();
        assert!(windows.len() <= 2001, "{}", windows.len());
        assert_eq!(windows.iter().map(|window| window.accesses).sum::<u64>(), 10_000);
        assert!(windows.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns));
    }
}
