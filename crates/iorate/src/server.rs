//! The server's side: rates of processes on a device, set, cleared and listed, subject to permissions and quotas.
//!
//! A front end, such as a file system, hands over the messages of its callers ([`RateServer::answer`]) and asks whose rate
//! a request has ([`RateServer::owner_of`]).
//!
//! | file | content |
//! |---|---|
//! | `server.rs` | calls, and their replies |
//! | `server/messages.rs` | messages in bytes (pure) |
//! | `server/owners.rs` | the owner of a request |
//! | `server/owners/table.rs` | known processes, their rates, trees and groups |
//! | `server/rates.rs` | rates and statistics on the device's thread (pure) |
//! | `server/rights.rs` | permission to set a rate |
//! | `server/process_ref.rs` | a reference to a process |
//! | `server/ended_owners.rs` | statistics of owners that have just ended |
//! | `server/maintenance.rs` | the thread that waits for exits, and samples the backing disk |
//! | `server/bypass.rs` | traffic that bypasses the device (pure) |
//!
//! `sakiyomi-regulate` decides on the device's thread when a request proceeds.

mod bypass;
mod ended_owners;
mod maintenance;
mod messages;
mod owners;
mod process_ref;
mod rates;
mod rights;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use sakiyomi_model::{Nanos, StreamId};
use sakiyomi_os::block_device::Disk;
use sakiyomi_os::process::is_killed;
use sakiyomi_regulate::{Arrivals, Percent, Policy, Rate, RateError, Report, Requested};

use crate::protocol::{self, Bypass, Call, DeviceView, Owner, Refusal, Reply, Set, Target, View};
use crate::quotas::Quotas;
use ended_owners::EndedOwners;
pub use maintenance::MaintenanceThread;
pub use messages::{not_regulated, said};
use owners::{DescriptorLimits, Owners, ResolvedTarget};
pub use rates::{LiveDevice, OwnerStats, OwnerTable, Past, RateQuery, Rates, RatesSnapshot, Stopped};
use rights::{gone, may};

/// Maximum number of owners in a reply; fewer if they do not fit.
const OWNERS_PER_REPLY: usize = 64;

/// Longest path of a group: two of them fit into a reply.
const GROUP_PATH_MAX_BYTES: usize = 1024;

/// Longest time of an I/O that a rate may specify.
const RATE_TIME_MAX: Nanos = Nanos(3_600_000_000_000);

/// Excess of a quota that counts as none: sums of rates by time are not exact.
const QUOTA_TOLERANCE_PERCENT: f64 = 0.01;
/// Time for which an answer of the device's thread is waited for.
const KILLED_ANSWER_TIMEOUT: Duration = Duration::from_millis(50);
/// Time for which a request waits before its process is looked at.
const KILLED_MIN_WAIT: Nanos = Nanos(20_000_000);

/// A regulated device, in whose thread rates are set.
pub trait RatedDevice: fmt::Debug + Send + Sync {
    /// Runs a query on the device's thread.
    ///
    /// # Errors
    /// If the device has stopped; the query is then dropped.
    fn ask(&self, query: RateQuery) -> Result<(), Stopped>;
}

/// Requests that a front end has made to the disk beneath it.
pub trait RequestCount: fmt::Debug + Send + Sync {
    /// Returns their number.
    fn requests(&self) -> u64;
}

/// Sets, removes and shows the rates of processes on a device.
#[derive(Debug)]
pub struct RateServer {
    limits: DescriptorLimits,
    owners: Owners,
    device: Arc<dyn RatedDevice>,
    name: String,
    policy: Policy,
    quotas: Quotas,
    /// Receives a line for each change.
    log: fn(&str),
    /// Held while a rate is set or cleared: keeps the device's thread and the table consistent.
    changes: Mutex<()>,
    ended: EndedOwners,
    beside: Option<Mutex<BackingDisk>>,
}

/// The backing disk, and the number of requests to it through the front end.
#[derive(Debug)]
pub struct BackingDisk {
    disk: Disk,
    issued: Arc<dyn RequestCount>,
    watch: bypass::Watch,
    since: Instant,
    seen: Option<Bypass>,
}

impl BackingDisk {
    /// Watches a disk, to which `issued` counts the requests of the front end.
    #[must_use]
    pub fn new(disk: Disk, issued: Arc<dyn RequestCount>) -> BackingDisk {
        BackingDisk { disk, issued, watch: bypass::Watch::default(), since: Instant::now(), seen: None }
    }

    /// Returns the name of the disk.
    #[must_use]
    pub fn disk(&self) -> String {
        self.disk.name()
    }

    fn sample(&mut self) {
        // Requests of the mount are counted after the disk has completed them, so those in progress briefly count as
        // foreign.
        let Ok(done) = self.disk.completed() else { return };
        let at = self.since.elapsed().as_secs_f64();
        let look = bypass::CounterSample { at, done, ours: self.issued.requests() };
        self.seen = self.watch.sample(look, &self.disk());
    }
}

/// Statistics of the rates of a device.
#[derive(Clone, Debug)]
pub struct RatesSeen {
    /// Owners with a rate.
    pub owners: usize,
    /// Statistics since the start.
    pub past: Past,
    /// I/O that bypasses the device, while detected.
    pub bypass: Option<Bypass>,
}

/// The sender of a message.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Its thread ID according to the kernel.
    pub thread: u32,
    /// Its user ID.
    pub user: u32,
}

impl RateServer {
    /// Makes the server in a process with an open-files limit of `descriptors`. `log` receives a line for each change.
    ///
    /// # Errors
    /// If exits of processes cannot be waited for.
    pub fn new(
        device: Arc<dyn RatedDevice>,
        name: String,
        policy: Policy,
        beside: Option<BackingDisk>,
        descriptors: usize,
        (quotas, log): (Quotas, fn(&str)),
    ) -> io::Result<RateServer> {
        let limits = DescriptorLimits::of(descriptors);
        Ok(RateServer {
            limits,
            owners: Owners::new(limits)?,
            device,
            name,
            policy,
            quotas,
            log,
            changes: Mutex::default(),
            ended: EndedOwners::default(),
            beside: beside.map(Mutex::new),
        })
    }

    /// Returns the owner of a thread's requests.
    #[must_use]
    pub fn owner_of(&self, thread: u32) -> StreamId {
        StreamId(self.owners.of_thread(thread))
    }

    /// Answers a message.
    ///
    /// # Errors
    /// If the device has stopped.
    pub fn answer(&self, caller: Caller, message: &[u8]) -> Result<Reply, Stopped> {
        let process = self.owners.process_of(caller.thread).map(|process| process.pid());
        let call = match messages::understand(message, process) {
            Ok(call) => call,
            Err(refusal) => return Ok(Reply::Refused(refusal)),
        };
        let done = match call {
            Call::Set(set) => self.set(set, caller.user)?,
            Call::Clear(target) => self.clear(&target, caller.user)?,
            Call::Look { after, all } => Ok(Reply::Seen(messages::fitting(self.view(after, all)?))),
            Call::Find(target) => self.find(&target)?.map(Reply::Seen),
        };
        Ok(done.unwrap_or_else(Reply::Refused))
    }

    fn set(&self, set: Set, user: u32) -> Result<Result<Reply, Refusal>, Stopped> {
        let Set { target, rate, best_effort, back_to_back } = set;
        let _changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let prepared = rate_of(rate).and_then(|rate| Ok((rate, self.held_for(&target, user)?)));
        let (rate, held) = match prepared {
            Ok(prepared) => prepared,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Some(refusal) = self.set_by_another(&held, &target, user) {
            return Ok(Err(refusal));
        }
        if let Some(refusal) = self.beyond_quota(&held, rate, user)? {
            return Ok(Err(refusal));
        }
        if self.owners.rated(&held).is_none() && self.owners.is_full() {
            return Ok(Err(Refusal::TooMany { most: self.limits.awaited }));
        }
        let number = self.owners.number(&held);
        let arrivals = if back_to_back { Arrivals::BackToBack } else { Arrivals::Any };
        let requested = Requested { rate, arrivals };
        let given = self.ask(move |rates, now| rates.set(now, number, requested, best_effort))?;
        let best_effort = match given {
            Ok(best_effort) => best_effort,
            Err(error) => return Ok(Err(no_room(error))),
        };
        if self.owners.add(number, held, user).is_err() {
            self.ask(move |rates, now| rates.clear(now, number))?;
            return Ok(Err(gone(&target)));
        }
        let effort = if best_effort { ", best effort" } else { "" };
        (self.log)(&format!("{target} has a rate of {rate}{effort}, set by user {user}"));
        Ok(Ok(Reply::Given { best_effort }))
    }

    /// Returns the refusal if the sum of the rates of the user or of a control group would exceed its quota.
    fn beyond_quota(&self, held: &ResolvedTarget, rate: Rate, user: u32) -> Result<Option<Refusal>, Stopped> {
        if user == 0 {
            return Ok(None);
        }
        let of_user =
            self.quotas.of_user(user).map(|most| (format!("user {user}"), most, self.owners.rated_by(user)));
        let concerned = self.quotas.groups().filter(|(group, _)| held.is_in_group(group));
        let of_groups = concerned
            .map(|(group, most)| (format!("the control group {group}"), most, self.owners.rated_in(group)));
        let number = self.owners.rated(held).map(|(number, _)| number);
        for (who, most, mut owners) in of_user.into_iter().chain(of_groups) {
            owners.retain(|owner| Some(*owner) != number);
            let (used, asked) = self.ask(move |rates, _| (rates.percent_of(&owners), rates.percent(rate)))?;
            if used + asked > f64::from(most) + QUOTA_TOLERANCE_PERCENT {
                return Ok(Some(Refusal::Quota { who, most, used: used.ceil() as u32 }));
            }
        }
        Ok(None)
    }

    /// Returns the refusal if another user set a rate of the target, or of a tree or group that it is part of: that rate
    /// could be raised, or evaded by a nearer one.
    fn set_by_another(&self, held: &ResolvedTarget, target: &Target, user: u32) -> Option<Refusal> {
        let by = self.owners.set_by(held).into_iter().find(|by| user != 0 && *by != user)?;
        Some(Refusal::SetByAnother { what: target.to_string(), user: by })
    }

    fn clear(&self, target: &Target, user: u32) -> Result<Result<Reply, Refusal>, Stopped> {
        let _changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let held = match self.held(target) {
            Ok(held) => held,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Some((number, rated)) = self.owners.rated(&held) else {
            return Ok(Err(Refusal::NoRate { what: target.to_string() }));
        };
        // Root and the user that set it may, even if a group has no process left.
        if ![0, rated.by].contains(&user) {
            return Ok(Err(Refusal::SetByAnother { what: target.to_string(), user: rated.by }));
        }
        self.owners.remove(number);
        self.ask(move |rates, now| rates.clear(now, number))?;
        (self.log)(&format!("the rate of {target} was cleared by user {user}"));
        Ok(Ok(Reply::Cleared))
    }

    /// Returns the state of the device and of the owners with numbers above `after`, as many as fit into one reply.
    fn view(&self, after: u64, all: bool) -> Result<View, Stopped> {
        let mut after = u32::try_from(after).unwrap_or(u32::MAX);
        let (seen, owners) = loop {
            let seen = self.ask(move |rates, now| rates.snapshot(now, after, all, OWNERS_PER_REPLY))?;
            let known = seen.owners.iter().filter_map(|(number, figures, report)| {
                let (target, name) = self.owners.who(*number)?;
                Some(owner(*number, target, name, figures, report.as_ref()))
            });
            let known: Vec<Owner> = known.collect();
            match seen.owners.last() {
                // All of these have ended: an empty view would mean that no owners follow.
                Some((last, ..)) if known.is_empty() && seen.more => after = *last,
                _ => break (seen, known),
            }
        };
        let RatesSnapshot { device: report, busy, more, .. } = seen;
        let device = DeviceView {
            name: self.name.clone(),
            policy: describe(self.policy).to_owned(),
            service_ns: report.service.0,
            allowance: report.allowance,
            parallel_ratio: report.parallelism,
            in_device: report.in_device as u64,
            waiting: report.waiting as u64,
            requests: report.ended,
            busy_ns: Some(busy.0),
            bypass: self.bypass(),
        };
        Ok(View { at_ns: report.at.0, device, owners, more })
    }

    /// Returns statistics of all rates together.
    ///
    /// # Errors
    /// If the device has stopped.
    pub fn seen(&self) -> Result<RatesSeen, Stopped> {
        let seen = self.ask(|rates, now| rates.snapshot(now, u32::MAX, false, 0))?;
        Ok(RatesSeen { owners: seen.device.regulated, past: seen.past, bypass: self.bypass() })
    }

    /// Returns the I/O that bypasses the mount, as of the last sample.
    fn bypass(&self) -> Option<Bypass> {
        self.beside.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).seen.clone()
    }

    /// Samples the backing disk.
    fn look_beside(&self) {
        if let Some(beside) = &self.beside {
            beside.lock().unwrap_or_else(PoisonError::into_inner).sample();
        }
    }

    /// Runs a query on the device's thread.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Rates<'_>, Nanos) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.device.ask(Box::new(move |rates, now| {
            // The receiver exists: the caller waits for it.
            let _ = sender.send(question(rates, now));
        }))?;
        receiver.recv().map_err(|_| Stopped)
    }

    /// Waits until processes have exited or `patience` has passed, and removes their rates.
    fn wait_for_ends(&self, patience: Duration) -> io::Result<()> {
        let ended = self.owners.wait_for_ends(patience)?;
        let _changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        // Remembered first, so that an owner is always found either among the active or among the ended ones.
        for &number in ended.iter().filter(|&&number| self.owners.has_rate(number)) {
            let _ = self.remember(number);
        }
        for number in self.owners.take_ended(&ended) {
            // A device that has stopped keeps no rates.
            let _ = self.ask(move |rates, now| rates.gone(now, number));
        }
        Ok(())
    }

    /// Answers the requests of killed processes, which cannot end before: FUSE has no other way to tell of a signal that
    /// `fuser` passes on.
    fn cancel_killed(&self, channel: &(mpsc::Sender<Vec<u32>>, mpsc::Receiver<Vec<u32>>)) {
        let (sender, receiver) = (channel.0.clone(), &channel.1);
        let asked = self.device.ask(Box::new(move |rates, now| {
            // The receiver exists for as long as the thread that asks.
            let _ = sender.send(rates.waiting_processes(now.saturating_sub(KILLED_MIN_WAIT)));
        }));
        // A device that stops drops the question; the next one takes an answer that comes late.
        let waiting = asked.ok().and_then(|()| receiver.recv_timeout(KILLED_ANSWER_TIMEOUT).ok());
        let waiting = receiver.try_iter().last().or(waiting).unwrap_or_default();
        for process in waiting.into_iter().filter(|&process| is_killed(process)) {
            // A device that has stopped answers nothing.
            let _ = self.ask(move |rates, now| rates.cancel_of(now, process));
        }
    }

    fn held_for(&self, target: &Target, user: u32) -> Result<ResolvedTarget, Refusal> {
        let held = self.held(target)?;
        may(&held, target, user)?;
        Ok(held)
    }

    fn held(&self, target: &Target) -> Result<ResolvedTarget, Refusal> {
        let process = |pid| self.owners.process(pid).ok_or(Refusal::NoProcess { pid });
        match target {
            Target::Process { pid } => process(*pid).map(ResolvedTarget::Process),
            Target::Tree { pid } => process(*pid).map(ResolvedTarget::Tree),
            Target::Group { path } if !path.starts_with('/') || path.len() > GROUP_PATH_MAX_BYTES => {
                let what =
                    format!("a control group has a path from / on of at most {GROUP_PATH_MAX_BYTES} letters");
                Err(Refusal::Malformed { what })
            }
            Target::Group { path } => {
                let path = path.trim_end_matches('/');
                Ok(ResolvedTarget::Group(if path.is_empty() { "/".to_owned() } else { path.to_owned() }))
            }
        }
    }
}

fn owner(number: u32, target: Target, name: String, figures: &OwnerStats, report: Option<&Report>) -> Owner {
    let without = Owner {
        number: number.into(),
        target,
        name,
        rate: None,
        best_effort: false,
        ideal_ns: None,
        ios: figures.ios,
        late: 0,
        mean_ns: figures.mean_ns as u64,
        accuracy_ratio: None,
        cov_ratio: figures.cov(),
        unanswered: figures.unanswered,
    };
    let Some(report) = report else { return without };
    let seen = report.recent.ios > 0;
    // An I/O in flight when the rate was set counts, but not towards its accuracy.
    let (mean_ns, cov_ratio) =
        if seen { (report.recent.took.0, report.recent.cov) } else { (without.mean_ns, without.cov_ratio) };
    Owner {
        rate: Some(match report.rate {
            Rate::Percent(percent) => protocol::Rate::Percent(percent.get()),
            Rate::Every(time) => protocol::Rate::EveryNs(time.0),
        }),
        best_effort: report.best_effort,
        ideal_ns: Some(report.ideal.0),
        late: report.late,
        mean_ns,
        accuracy_ratio: seen.then_some(report.recent.accuracy),
        cov_ratio,
        ..without
    }
}

fn rate_of(rate: protocol::Rate) -> Result<Rate, Refusal> {
    match rate {
        protocol::Rate::Percent(percent) => match Percent::new(percent) {
            Ok(percent) => Ok(Rate::Percent(percent)),
            Err(_) => Err(Refusal::BadRate { asked: format!("{percent} %") }),
        },
        protocol::Rate::EveryNs(time) if time == 0 || time > RATE_TIME_MAX.0 => {
            Err(Refusal::BadRate { asked: Rate::Every(Nanos(time)).to_string() })
        }
        protocol::Rate::EveryNs(time) => Ok(Rate::Every(Nanos(time))),
    }
}

fn no_room(error: RateError) -> Refusal {
    let words = error.to_string();
    let best = match error {
        RateError::NoRoom { best, .. } | RateError::TooFast { best, .. } | RateError::Late { best, .. } => {
            best
        }
        RateError::Unregulated => None,
    };
    let (best_percent, best_every_ns) = match best {
        Some(Rate::Percent(percent)) => (Some(percent.get()), None),
        Some(Rate::Every(time)) => (None, Some(time.0)),
        None => (None, None),
    };
    Refusal::NoRoom { words, best_percent, best_every_ns }
}

fn describe(policy: Policy) -> &'static str {
    match policy {
        Policy::Thesis => "thesis",
        Policy::Deadline => "deadline",
        Policy::Profile => "profile",
    }
}
