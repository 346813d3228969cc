//! A device whose users have rates, and how each of them fares.

use std::collections::BTreeMap;
use std::ops::Bound;

use sakiyomi_model::{Bytes, Completion, Device, Full, Nanos, Outcome, Request};
use sakiyomi_regulate::{DeviceReport, Owner, Rate, RateError, Regulated, Report, Settings, Timing};

use super::backing::Backing;
use super::behind::Behind;

/// About so many owners without a rate are remembered at most, and so long where there is room.
const REMEMBERED_MAX: usize = 1024;
const REMEMBERED: Nanos = Nanos(60_000_000_000);

/// Means are over about so many I/Os.
const RECENT: u64 = 128;

/// A regulated device. Requests carry their owner as their stream; owner 0 is nobody.
pub(crate) struct Kept {
    device: Regulated<Behind>,
    owners: BTreeMap<u32, Figures>,
    /// With so many it is looked for some to forget.
    room: usize,
    timings: Vec<Timing>,
    /// What is part of an I/O's time, but not of ours.
    path: Nanos,
    past: Past,
}

/// How an owner fares.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// I/Os that have ended since it was first seen, or since its rate was set.
    pub(crate) ios: u64,
    pub(crate) unanswered: u64,
    /// Of the last ones.
    pub(crate) mean_ns: f64,
    variance: f64,
    last: Nanos,
}

/// How all rates together were kept since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Past {
    /// How often an owner was given a rate.
    pub given: u64,
    /// I/Os of owners with a rate.
    pub ios: u64,
    /// Those of them that took longer than they were to.
    pub late: u64,
    /// The sum of actual over ideal time.
    pub accuracy_sum: f64,
}

/// All that there is to see.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) device: DeviceReport,
    /// How long the device was busy, by its own account.
    pub(crate) busy: Nanos,
    pub(crate) past: Past,
    /// By their numbers; with a report where they have a rate.
    pub(crate) owners: Vec<(u32, Figures, Option<Report>)>,
    /// There are more behind those.
    pub(crate) more: bool,
}

impl Figures {
    pub(crate) fn cov(&self) -> f64 {
        if self.mean_ns > 0.0 { self.variance.max(0.0).sqrt() / self.mean_ns } else { 0.0 }
    }

    fn ended(&mut self, took: Nanos) {
        self.ios += 1;
        let weight = 1.0 / self.ios.min(RECENT) as f64;
        let off = took.0 as f64 - self.mean_ns;
        self.mean_ns += weight * off;
        self.variance = (1.0 - weight) * (self.variance + weight * off * off);
    }
}

impl Kept {
    pub(crate) fn new(behind: Behind, sector: Bytes, settings: Settings) -> Kept {
        let mut device = Regulated::new(behind, sector, settings);
        device.keep_timings();
        Kept {
            device,
            owners: BTreeMap::new(),
            room: REMEMBERED_MAX,
            timings: Vec::new(),
            path: settings.path,
            past: Past::default(),
        }
    }

    /// Gives a rate; says whether it is only kept as well as can be.
    pub(crate) fn set(
        &mut self,
        now: Nanos,
        owner: u32,
        rate: Rate,
        best_effort: bool,
    ) -> Result<bool, RateError> {
        if best_effort {
            self.device.set_rate_anyway(now, Owner(owner), rate);
        } else {
            self.device.set_rate(now, Owner(owner), rate)?;
        }
        self.past.given += 1;
        let figures = self.owners.entry(owner).or_default();
        *figures = Figures { unanswered: figures.unanswered, last: now, ..Figures::default() };
        Ok(self.device.regulator().report(Owner(owner)).is_some_and(|report| report.best_effort))
    }

    /// Takes a rate back.
    pub(crate) fn clear(&mut self, now: Nanos, owner: u32) {
        self.device.clear_rate(now, Owner(owner));
    }

    /// The owner is no more.
    pub(crate) fn gone(&mut self, now: Nanos, owner: u32) {
        self.device.owner_gone(now, Owner(owner));
        self.owners.remove(&owner);
    }

    /// How things are; of owners the first `most` with a higher number than `after`, all or those that have a rate.
    pub(crate) fn look(&self, now: Nanos, after: u32, all: bool, most: usize) -> Seen {
        let regulator = self.device.regulator();
        let behind = self.owners.range((Bound::Excluded(after), Bound::Unbounded));
        let looked = behind.map(|(&owner, figures)| (owner, *figures, regulator.report(Owner(owner))));
        let mut owners = looked.filter(|(.., report)| all || report.is_some());
        let first = owners.by_ref().take(most).collect();
        let more = owners.next().is_some();
        let device = regulator.device_report();
        Seen { device, busy: self.busy(now), past: self.past, owners: first, more }
    }

    pub(super) fn busy(&self, now: Nanos) -> Nanos {
        self.device.device().busy(now)
    }

    pub(super) fn arrived(&mut self, request: &Request) {
        let (owner, now) = (request.stream.0, request.arrival);
        if !self.owners.contains_key(&owner) && self.owners.len() >= self.room {
            self.make_room(now);
            // Those who stay are not gone through again for each one who comes.
            self.room = self.owners.len() + REMEMBERED_MAX;
        }
        let figures = self.owners.entry(owner).or_default();
        figures.unanswered += 1;
        figures.last = now;
    }

    /// Who has no rate and has not been seen for long is forgotten; if those are few, all who wait for nothing.
    fn make_room(&mut self, now: Nanos) {
        for believed in [REMEMBERED, Nanos::ZERO] {
            let regulator = self.device.regulator();
            self.owners.retain(|&owner, figures| {
                figures.unanswered > 0
                    || now.saturating_sub(figures.last) < believed
                    || regulator.report(Owner(owner)).is_some()
            });
            if self.owners.len() - regulator.device_report().regulated.min(self.owners.len())
                < REMEMBERED_MAX / 2
            {
                break;
            }
        }
    }

    /// It is answered `now`, which may be later than it was to be: the thread wakes up late on a busy machine.
    pub(super) fn ended(&mut self, completion: &Completion, now: Nanos) {
        if completion.outcome == Outcome::Cancelled
            && let Some(files) = self.files()
        {
            files.forget(completion.request.id);
        }
        let Some(figures) = self.owners.get_mut(&completion.request.stream.0) else { return };
        figures.unanswered = figures.unanswered.saturating_sub(1);
        if completion.outcome == Outcome::Done {
            figures.ended(now.saturating_sub(completion.submitted));
            let late = now.saturating_sub(completion.finish);
            let ideal = self.device.answered_late(Owner(completion.request.stream.0), late);
            if let Some(ideal) = ideal {
                self.past.accuracy_sum += late.0 as f64 / ideal.0.max(1) as f64;
            }
        }
    }

    /// What was regulated and has ended since the last time is told of.
    pub(super) fn account(&mut self) {
        let mut timings = std::mem::take(&mut self.timings);
        self.device.take_timings(&mut timings);
        for timing in timings.drain(..) {
            self.past.ios += 1;
            let took = timing.took + self.path;
            self.past.late += u64::from(took > timing.ideal);
            self.past.accuracy_sum += took.0 as f64 / timing.ideal.0.max(1) as f64;
        }
        self.timings = timings;
    }

    pub(super) fn files(&mut self) -> Option<&mut Backing> {
        match self.device.device_mut() {
            Behind::Emulated(_) => None,
            Behind::Files(files) => Some(files),
        }
    }
}

impl Device for Kept {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        self.device.submit(now, request)
    }

    fn next_event(&self) -> Option<Nanos> {
        self.device.next_event()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.device.advance(now, done);
    }
}
