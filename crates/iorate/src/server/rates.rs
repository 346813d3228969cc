//! The owners of a regulated device: their rates and statistics.

use std::collections::BTreeMap;
use std::ops::Bound;

use sakiyomi_model::{Completion, Device, Nanos, Outcome, Request, RequestId};
use sakiyomi_regulate::{
    DeviceReport, Owner, Rate, RateError, RegulatedDevice, Regulator, Report, Requested, Timing,
};

/// A device of any kind, regulated or not.
pub type LiveDevice = RegulatedDevice<Box<dyn Device + Send>>;

/// Maximum number of owners without a rate whose statistics are kept.
const UNRATED_OWNERS_MAX: usize = 1024;
/// Time for which owners without a rate are remembered if there is room.
const UNRATED_OWNER_TTL: Nanos = Nanos(60_000_000_000);

/// I/Os over which the means of an owner are taken.
const MEAN_WINDOW_IOS: u64 = 128;

/// State available to a query on the device's thread: the device and the statistics of its owners. Requests carry their
/// owner as their stream; owner 0 is the kernel and unknown threads.
pub struct Rates<'a> {
    device: &'a mut LiveDevice,
    owners: &'a mut OwnerTable,
}

/// A query or change of rates, executed on the device's thread at the instant of its submission. It must not block.
pub type RateQuery = Box<dyn FnOnce(&mut Rates<'_>, Nanos) + Send>;

/// The device's thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Statistics of owners.
#[derive(Debug)]
pub struct OwnerTable {
    by_number: BTreeMap<u32, OwnerStats>,
    /// Number of owners at which idle ones are evicted.
    eviction_at: usize,
    timings: Vec<Timing>,
    /// Processes of the requests in progress, and the arrivals of these.
    processes: BTreeMap<RequestId, (u32, Nanos)>,
    /// Time of an I/O on the path to the regulator and back.
    path: Nanos,
    past: Past,
}

/// Statistics of an owner.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnerStats {
    /// I/Os completed since its first I/O, or since its rate was set.
    pub ios: u64,
    /// Requests in flight.
    pub unanswered: u64,
    /// Mean time of the last 128 I/Os.
    pub mean_ns: f64,
    variance: f64,
    last: Nanos,
}

/// Statistics of all rates since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Past {
    /// Number of rates set.
    pub given: u64,
    /// I/Os of owners with a rate.
    pub ios: u64,
    /// I/Os among them that exceeded their ideal time.
    pub late: u64,
    /// Sum of the ratios of actual to ideal time.
    pub accuracy_sum: f64,
}

/// The state of the device and of some of its owners.
#[derive(Clone, Debug)]
pub struct RatesSnapshot {
    /// The device.
    pub device: DeviceReport,
    /// Busy time of the device, as the device reports it.
    pub busy: Nanos,
    /// All rates since the start.
    pub past: Past,
    /// Owners by number; with a report if they have a rate.
    pub owners: Vec<(u32, OwnerStats, Option<Report>)>,
    /// Whether there are owners with higher numbers.
    pub more: bool,
}

impl<'a> Rates<'a> {
    /// Makes the state of a device with a regulator.
    #[must_use]
    pub fn new(device: &'a mut LiveDevice, owners: &'a mut OwnerTable) -> Rates<'a> {
        Rates { device, owners }
    }

    /// Sets a rate; returns whether it is best effort, because it cannot be guaranteed.
    ///
    /// # Errors
    /// If the rate cannot be kept; the reason, and the best that can.
    pub fn set(
        &mut self,
        now: Nanos,
        owner: u32,
        rate: impl Into<Requested>,
        best_effort: bool,
    ) -> Result<bool, RateError> {
        let rate = rate.into();
        if best_effort {
            self.device.set_rate_anyway(now, Owner(owner), rate)?;
        } else {
            self.device.set_rate(now, Owner(owner), rate)?;
        }
        self.owners.past.given += 1;
        let stats = self.owners.by_number.entry(owner).or_default();
        *stats = OwnerStats { unanswered: stats.unanswered, last: now, ..OwnerStats::default() };
        Ok(self.regulator().report(Owner(owner)).is_some_and(|report| report.best_effort))
    }

    /// Returns the part of the device that a rate takes, in percent.
    #[must_use]
    pub fn percent(&self, rate: Rate) -> f64 {
        match rate {
            Rate::Percent(percent) => f64::from(percent.get()),
            Rate::Every(time) => 100.0 * self.regulator().service_time().0 as f64 / time.0.max(1) as f64,
        }
    }

    /// Returns the sum of the rates of some owners, in percent of the device.
    #[must_use]
    pub fn percent_of(&self, owners: &[u32]) -> f64 {
        let reports = owners.iter().filter_map(|&owner| self.regulator().report(Owner(owner)));
        reports.map(|report| self.percent(report.rate)).sum()
    }

    /// Removes a rate.
    pub fn clear(&mut self, now: Nanos, owner: u32) {
        self.device.clear_rate(now, Owner(owner));
    }

    /// Removes an owner that has ended.
    pub fn gone(&mut self, now: Nanos, owner: u32) {
        self.device.owner_gone(now, Owner(owner));
        self.owners.by_number.remove(&owner);
    }

    /// Returns the processes that have waited for an I/O since before an instant, in ascending order.
    #[must_use]
    pub fn waiting_processes(&self, since: Nanos) -> Vec<u32> {
        // Requests are numbered in order of arrival.
        let old = self.owners.processes.values().take_while(|(_, arrival)| *arrival < since);
        let mut processes: Vec<u32> = old.map(|(process, _)| *process).collect();
        processes.sort_unstable();
        processes.dedup();
        processes
    }

    /// Cancels the requests of a process: each is answered at once, or when the device has done what it has of it.
    pub fn cancel_of(&mut self, now: Nanos, process: u32) {
        let of_process = self.owners.processes.iter().filter(|(_, (of, _))| *of == process);
        let requests: Vec<RequestId> = of_process.map(|(id, _)| *id).collect();
        requests.into_iter().for_each(|id| self.device.cancel(now, id));
    }

    /// Returns the state of the device and of the first `max` owners with a number higher than `after`: all, or only
    /// those with a rate.
    pub fn snapshot(&self, now: Nanos, after: u32, all: bool, max: usize) -> RatesSnapshot {
        let regulator = self.regulator();
        let behind = self.owners.by_number.range((Bound::Excluded(after), Bound::Unbounded));
        let looked = behind.map(|(&owner, stats)| (owner, *stats, regulator.report(Owner(owner))));
        let mut owners = looked.filter(|(.., report)| all || report.is_some());
        let first = owners.by_ref().take(max).collect();
        let more = owners.next().is_some();
        let (device, busy) = (regulator.device_report(), self.device.busy(now));
        RatesSnapshot { device, busy, past: self.owners.past, owners: first, more }
    }

    fn regulator(&self) -> &Regulator {
        self.device.regulator().expect("only a device with a regulator has owners")
    }
}

impl OwnerTable {
    /// Makes the table for a device with this `regulator`.
    #[must_use]
    pub fn new(regulator: &Regulator) -> OwnerTable {
        OwnerTable {
            by_number: BTreeMap::new(),
            eviction_at: UNRATED_OWNERS_MAX,
            timings: Vec::new(),
            processes: BTreeMap::new(),
            path: regulator.settings().path,
            past: Past::default(),
        }
    }

    /// Counts the arrival of a request of a process.
    pub fn on_arrival(&mut self, request: &Request, process: u32, regulator: &Regulator) {
        let (owner, now) = (request.stream.0, request.arrival);
        if process != 0 {
            self.processes.insert(request.id, (process, now));
        }
        if !self.by_number.contains_key(&owner) && self.by_number.len() >= self.eviction_at {
            self.evict(now, regulator);
            // Avoids rescanning the survivors on every arrival.
            self.eviction_at = self.by_number.len() + UNRATED_OWNERS_MAX;
        }
        let stats = self.by_number.entry(owner).or_default();
        stats.unanswered += 1;
        stats.last = now;
    }

    /// Removes owners without rates and outstanding requests that have been idle for long; if those are few, all
    /// without rates and outstanding requests.
    fn evict(&mut self, now: Nanos, regulator: &Regulator) {
        for ttl in [UNRATED_OWNER_TTL, Nanos::ZERO] {
            self.by_number.retain(|&owner, stats| {
                stats.unanswered > 0
                    || now.saturating_sub(stats.last) < ttl
                    || regulator.report(Owner(owner)).is_some()
            });
            let rated = regulator.device_report().regulated;
            if self.by_number.len().saturating_sub(rated) < UNRATED_OWNERS_MAX / 2 {
                break;
            }
        }
    }

    /// Counts a reply sent at `now`, which is later than planned if the thread was woken late on a busy machine.
    pub fn on_completion(&mut self, completion: &Completion, now: Nanos, device: &mut LiveDevice) {
        let owner = completion.request.stream.0;
        self.processes.remove(&completion.request.id);
        let Some(stats) = self.by_number.get_mut(&owner) else { return };
        stats.unanswered = stats.unanswered.saturating_sub(1);
        if completion.outcome == Outcome::Done {
            stats.add(now.saturating_sub(completion.submitted));
            let late = now.saturating_sub(completion.finish);
            if let Some(ideal) = device.answered_late(Owner(owner), late) {
                self.past.accuracy_sum += late.0 as f64 / ideal.0.max(1) as f64;
            }
        }
    }

    /// Counts the regulated I/Os completed since the last call.
    pub fn count(&mut self, device: &mut LiveDevice) {
        device.take_timings(&mut self.timings);
        for timing in self.timings.drain(..) {
            self.past.ios += 1;
            let took = timing.took + self.path;
            self.past.late += u64::from(took > timing.ideal);
            self.past.accuracy_sum += took.0 as f64 / timing.ideal.0.max(1) as f64;
        }
    }
}

impl OwnerStats {
    /// Returns the coefficient of variation of the time.
    #[must_use]
    pub fn cov(&self) -> f64 {
        if self.mean_ns > 0.0 { self.variance.max(0.0).sqrt() / self.mean_ns } else { 0.0 }
    }

    fn add(&mut self, took: Nanos) {
        self.ios += 1;
        let weight = 1.0 / self.ios.min(MEAN_WINDOW_IOS) as f64;
        let off = took.0 as f64 - self.mean_ns;
        self.mean_ns += weight * off;
        self.variance = (1.0 - weight) * (self.variance + weight * off * off);
    }
}
