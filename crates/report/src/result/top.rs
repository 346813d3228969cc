//! A regulated device and its users, over the observed time.

mod chart;

use serde::{Deserialize, Serialize};

use super::mount::{mean, sum};
use super::{IorateDevice, IorateOwner, iorate};
use crate::chart::Chart;
use crate::document::Machine;
use crate::glossary;
use crate::number::{count, duration, percent, whole_percent};
use crate::section::{Fact, Finding, Glossary, Present, Section};

/// Result of `iorate top`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopResult {
    /// The requested file or directory.
    pub mount: String,
    /// The device at the last poll.
    pub device: IorateDevice,
    /// Users of the device, each in its state at the last poll; further ones are counted together.
    pub owners: Vec<IorateOwner>,
    /// Intervals between polls in order of time; joined if there are more than 2,000.
    pub windows: Vec<TopWindow>,
}

/// An interval between two polls, or several joined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopWindow {
    /// Start on the device's time line, in nanoseconds.
    pub start_ns: u64,
    /// End, likewise.
    pub end_ns: u64,
    /// Requests that the device answered.
    pub requests: u64,
    /// Busy time of the device in nanoseconds; absent if it is unknown.
    pub busy_ns: Option<u64>,
    /// Maximum of the requests in the device at the end of an interval.
    pub in_device_max: u64,
    /// Maximum of the requests that waited for admission at the end of an interval.
    pub waiting_max: u64,
    /// I/O of each owner, without idle owners.
    pub owners: Vec<TopShare>,
    /// I/Os of issuers that are not among the owners.
    pub others_ios: u64,
}

/// I/O of an owner in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopShare {
    /// The number of the owner.
    pub number: u64,
    /// I/Os that ended.
    pub ios: u64,
    /// Mean of actual over ideal time of its most recent I/Os; absent without a rate.
    pub accuracy_ratio: Option<f64>,
}

impl TopWindow {
    /// Joins the following window.
    pub fn join(&mut self, next: &TopWindow) {
        self.end_ns = next.end_ns;
        self.requests = self.requests.saturating_add(next.requests);
        self.busy_ns = sum(self.busy_ns, next.busy_ns);
        self.in_device_max = self.in_device_max.max(next.in_device_max);
        self.waiting_max = self.waiting_max.max(next.waiting_max);
        self.others_ios = self.others_ios.saturating_add(next.others_ios);
        for share in &next.owners {
            match self.owners.iter_mut().find(|known| known.number == share.number) {
                Some(known) => known.join(share),
                None => self.owners.push(*share),
            }
        }
    }

    /// Returns the I/O of an owner in this window.
    #[must_use]
    pub fn share(&self, number: u64) -> Option<&TopShare> {
        self.owners.iter().find(|share| share.number == number)
    }
}

impl TopShare {
    fn join(&mut self, next: &TopShare) {
        let accuracy = |of: &TopShare| of.accuracy_ratio.map(|ratio| (ratio, of.ios));
        self.accuracy_ratio = mean(accuracy(self), accuracy(next));
        self.ios = self.ios.saturating_add(next.ios);
    }
}

impl Present for TopResult {
    const SCHEMA: &'static str = "sakiyomi.iorate-top/2";

    fn title(&self) -> String {
        format!("{} under {}", self.device.name, self.mount)
    }

    fn verdict(&self) -> Vec<Finding> {
        Finding::whole(verdict(self))
    }

    fn settings(&self) -> Vec<Fact> {
        let device = &self.device;
        let bypass = device
            .bypass
            .as_ref()
            .map(|bypass| format!("{}, {} of all requests", bypass.device, percent(bypass.share_ratio)));
        [
            Fact::new("Device", device.name.as_str()),
            Fact::time("Service time", device.service_ns),
            Fact::new("Policy", format!("{}, allowance {}", device.policy, device.allowance)),
        ]
        .into_iter()
        .chain(bypass.map(|bypass| Fact::new("Bypass", bypass)))
        .collect()
    }

    fn sections(&self) -> Vec<Section> {
        vec![Section::Table(iorate::owners(&self.owners))]
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        chart::charts(self)
    }

    fn glossary(&self) -> Glossary {
        glossary::TOP
    }
}

/// Returns sentences about a regulated device.
fn verdict(result: &TopResult) -> Vec<String> {
    let (Some(first), Some(last)) = (result.windows.first(), result.windows.last()) else {
        return vec!["The device did no I/O between two updates.".to_owned()];
    };
    let elapsed_ns = last.end_ns.saturating_sub(first.start_ns);
    let requests = result.windows.iter().fold(0, |sum: u64, window| sum.saturating_add(window.requests));
    let busy =
        result.windows.iter().try_fold(0, |sum: u64, window| Some(sum.saturating_add(window.busy_ns?)));
    let busy = busy.filter(|_| elapsed_ns > 0).map(|busy| busy as f64 / elapsed_ns as f64);
    let mut sentences = vec![format!(
        "The device answered {} requests in {}{}.",
        count(requests),
        duration(elapsed_ns),
        busy.map_or_else(String::new, |busy| format!(" and was busy {} of it", whole_percent(busy.min(1.0))))
    )];
    let rated = result.owners.iter().filter(|owner| owner.has_rate());
    sentences.extend(rated.filter_map(accuracy).take(SENTENCE_OWNERS_MAX));
    sentences
}

/// Maximum owners that are described in sentences; the table has the others.
const SENTENCE_OWNERS_MAX: usize = 4;

fn accuracy(owner: &IorateOwner) -> Option<String> {
    let ratio = owner.accuracy_ratio?;
    Some(format!(
        "The last I/Os of {} took {ratio:.3} times their ideal time; {} of {} were late.",
        owner.name,
        count(owner.late),
        count(owner.ios)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_windows_keep_who_did_how_much() {
        let window = |shares: &[(u64, u64, Option<f64>)]| TopWindow {
            requests: 7,
            owners: shares
                .iter()
                .map(|&(number, ios, accuracy_ratio)| TopShare { number, ios, accuracy_ratio })
                .collect(),
            ..TopWindow::default()
        };
        let mut joined = window(&[(1, 10, Some(1.0))]);
        joined.join(&window(&[(1, 30, Some(1.2)), (2, 5, None)]));
        assert_eq!(joined.requests, 14);
        let first = joined.share(1).unwrap();
        assert!(first.ios == 40 && (first.accuracy_ratio.unwrap() - 1.15).abs() < 1e-12);
        assert_eq!(joined.share(2).map(|share| share.ios), Some(5));
        assert_eq!(joined.share(3), None);
    }
}
