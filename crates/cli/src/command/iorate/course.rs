//! Windows of `iorate top`, joined so that their number stays bounded however long it runs.

use sakiyomi_drive::observe::{Join, Series};
use sakiyomi_report::result::{IorateOwner, TopShare, TopWindow};
use sakiyomi_report::{IorateResult, TopResult};

/// Owners with a rate that are listed separately; the others are counted together.
const RATED_MAX: usize = 24;
/// Owners without a rate that are listed separately; the others are counted together.
const UNRATED_MAX: usize = 8;

/// Samples of a device, in order of time.
#[derive(Default)]
pub(crate) struct Course {
    series: Series<Window>,
    before: Option<IorateResult>,
    owners: Vec<IorateOwner>,
}

struct Window(TopWindow);

impl Join for Window {
    fn join(&mut self, next: &Window) {
        self.0.join(&next.0);
    }
}

impl Course {
    /// Adds the next sample of all users of the device.
    pub(crate) fn add(&mut self, now: &IorateResult) {
        if let Some(before) = self.before.take().filter(|before| now.at_ns > before.at_ns) {
            let window = self.between(&before, now);
            self.series.push(Window(window));
        }
        self.before = Some(now.clone());
    }

    /// Returns the result; `None` without samples.
    pub(crate) fn finish(self) -> Option<TopResult> {
        let last = self.before?;
        Some(TopResult {
            mount: last.mount,
            device: last.device,
            owners: self.owners,
            windows: self.series.finish().points().iter().map(|window| window.0.clone()).collect(),
        })
    }

    fn between(&mut self, before: &IorateResult, now: &IorateResult) -> TopWindow {
        let busy = before.device.busy_ns.zip(now.device.busy_ns);
        let mut window = TopWindow {
            start_ns: before.at_ns,
            end_ns: now.at_ns,
            requests: now.device.requests.saturating_sub(before.device.requests),
            busy_ns: busy.map(|(before, now)| now.saturating_sub(before)),
            in_device_max: now.device.in_device,
            waiting_max: now.device.waiting,
            ..TopWindow::default()
        };
        for owner in &now.owners {
            let earlier = before.owners.iter().find(|earlier| earlier.number == owner.number);
            // A rate that is set again counts from zero.
            let ios = owner.ios.checked_sub(earlier.map_or(0, |earlier| earlier.ios)).unwrap_or(owner.ios);
            if ios == 0 && !owner.has_rate() {
                continue;
            }
            if !self.is_known(owner) {
                window.others_ios += ios;
            } else if ios > 0 {
                window.owners.push(TopShare {
                    number: owner.number,
                    ios,
                    accuracy_ratio: owner.accuracy_ratio,
                });
            }
        }
        window
    }

    /// Returns whether an owner is listed separately; updates its last state.
    fn is_known(&mut self, owner: &IorateOwner) -> bool {
        if let Some(known) = self.owners.iter_mut().find(|known| known.number == owner.number) {
            known.clone_from(owner);
            return true;
        }
        let alike = self.owners.iter().filter(|known| known.has_rate() == owner.has_rate()).count();
        let has_room = alike < if owner.has_rate() { RATED_MAX } else { UNRATED_MAX };
        if has_room {
            self.owners.push(owner.clone());
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sakiyomi_iorate::protocol::{Owner, Target};

    use super::super::result;
    use super::*;
    use crate::command::iorate::canned::{owner, view};

    fn look(second: u64, owners: Vec<Owner>) -> IorateResult {
        let mut view = view(owners);
        view.at_ns = second * 1_000_000_000;
        view.device.requests = second * 100;
        result::result(Path::new("/mnt"), &view, None)
    }

    fn process(number: u32, rated: bool, ios: u64) -> Owner {
        let owner = owner(number.into(), Target::Process { pid: number });
        Owner { ios, rate: owner.rate.filter(|_| rated), ..owner }
    }

    #[test]
    fn windows_say_who_did_how_much() {
        let mut course = Course::default();
        course.add(&look(1, vec![process(1, true, 10)]));
        course.add(&look(2, vec![process(1, true, 30), process(2, false, 5), process(3, false, 0)]));
        course.add(&look(3, vec![process(1, true, 4)]));
        let result = course.finish().unwrap();
        let shares: Vec<Vec<(u64, u64)>> = result
            .windows
            .iter()
            .map(|window| window.owners.iter().map(|share| (share.number, share.ios)).collect())
            .collect();
        assert_eq!(shares, [vec![(1, 20), (2, 5)], vec![(1, 4)]]);
        assert_eq!(result.windows.iter().map(|window| window.requests).sum::<u64>(), 200);
        assert_eq!(result.owners.iter().map(|owner| owner.number).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn a_crowd_is_counted_together_and_nothing_is_lost() {
        let mut course = Course::default();
        course.add(&look(0, Vec::new()));
        for second in 1..=5000 {
            let crowd = (0..4).map(|place| process(second as u32 * 10 + place, false, 1));
            course.add(&look(second, crowd.collect()));
        }
        let result = course.finish().unwrap();
        assert_eq!(result.owners.len(), UNRATED_MAX);
        assert!(result.windows.len() <= 2001, "{}", result.windows.len());
        let ios =
            |window: &TopWindow| window.others_ios + window.owners.iter().map(|share| share.ios).sum::<u64>();
        assert_eq!(result.windows.iter().map(ios).sum::<u64>(), 20_000);
    }

    #[test]
    fn without_a_look_there_is_nothing() {
        assert_eq!(Course::default().finish(), None);
    }
}
