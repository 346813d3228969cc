//! Decides when and how much to trace: the kernel reports touches of the page cache, and each event costs the program
//! time.
//!
//! Tracing starts only when [`signs`](super::signs) show a need, and ends when it has no use. Its remaining cost is
//! bounded by [`Allowance`].

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use sakiyomi_model::Nanos;
use sakiyomi_os::process::Process;
use sakiyomi_os::tracefs::{self, Instance, Touch};

/// Tracing stops when nothing has come of it for this long. The first pause after that is as long.
const USELESS_TIMEOUT: Nanos = Nanos(2_000_000_000);
/// Limit of the pause before tracing is tried again, which doubles each time.
const PAUSE_MAX: Nanos = Nanos(60_000_000_000);

/// Time between two polls of the trace while tracing is on.
const POLL_PERIOD: Nanos = Nanos(4_000_000);

/// Budget of events: 60,000 per second, 0.15 µs each, are less than a hundredth of a core.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    /// Negative if more were reported than allowed.
    events: i64,
    at: Nanos,
}

impl Allowance {
    /// Events that may be read at once: those of 50 ms.
    const EVENTS_MAX: i64 = 3_000;
    /// Time for which one more event is allowed.
    const NS_PER_EVENT: u64 = 1_000_000_000 / 60_000;

    fn refill(&mut self, now: Nanos) {
        let more = now.saturating_sub(self.at).0 / Allowance::NS_PER_EVENT;
        self.at += Nanos(more * Allowance::NS_PER_EVENT);
        self.events = self.events.saturating_add_unsigned(more).min(Allowance::EVENTS_MAX);
    }

    /// Deducts reported events. Returns whether more are allowed. Debt and credit are bounded.
    fn take(&mut self, now: Nanos, events: u64) -> bool {
        self.refill(now);
        self.events = self.events.saturating_sub_unsigned(events).max(-Allowance::EVENTS_MAX);
        self.events > 0
    }

    /// Returns when half of the budget is available again.
    fn due(&self) -> Nanos {
        let missing = (Allowance::EVENTS_MAX / 2).saturating_sub(self.events).max(0);
        self.at + Nanos(missing.unsigned_abs() * Allowance::NS_PER_EVENT)
    }
}

#[derive(Debug)]
enum State {
    /// Not needed so far.
    Never,
    /// An instance is being made, which takes time.
    Starting(Receiver<Result<Instance, String>>),
    Made(Instance),
    Refused(String),
}

/// Tracing of all programs that are followed.
#[derive(Debug)]
pub(super) struct Tracer {
    state: State,
    /// Whether events are reported.
    is_on: bool,
    /// Events are wanted, but too many were reported: paused until this time.
    rests_until: Option<Nanos>,
    allowance: Allowance,
    /// Last time at which tracing was useful.
    useful: Nanos,
    not_before: Nanos,
    patience: Nanos,
    /// Whether events were not reported for some time.
    has_gap: bool,
}

impl Tracer {
    pub(super) fn new() -> Tracer {
        Tracer {
            state: State::Never,
            is_on: false,
            rests_until: None,
            allowance: Allowance { events: Allowance::EVENTS_MAX, at: Nanos::ZERO },
            useful: Nanos::ZERO,
            not_before: Nanos::ZERO,
            patience: USELESS_TIMEOUT,
            has_gap: false,
        }
    }

    /// Returns whether tracing might begin now, given signs of a need. True even if the system refuses it, so that
    /// the programs that need it are known.
    pub(super) fn is_idle(&self, now: Nanos) -> bool {
        let can = match self.state {
            State::Never | State::Refused(_) => true,
            State::Made(_) => !self.is_wanted(),
            State::Starting(_) => false,
        };
        can && now >= self.not_before
    }

    pub(super) fn is_refused(&self) -> bool {
        matches!(self.state, State::Refused(_))
    }

    fn is_wanted(&self) -> bool {
        self.is_on || self.rests_until.is_some()
    }

    /// Starts tracing these processes and their future descendants.
    pub(super) fn begin(&mut self, processes: Vec<u32>, now: Nanos) {
        self.useful = now;
        match &self.state {
            State::Never => {
                let (sender, receiver) = channel();
                let body = move || drop(sender.send(start(&processes)));
                self.state = match thread::Builder::new().name("trace".to_owned()).spawn(body) {
                    Ok(_) => State::Starting(receiver),
                    Err(error) => State::Refused(format!("cannot start a thread for tracing ({error})")),
                };
            }
            State::Made(_) => {
                self.has_gap = true;
                self.switch(true);
            }
            State::Starting(_) | State::Refused(_) => {}
        }
    }

    fn switch(&mut self, on: bool) {
        if let State::Made(instance) = &mut self.state
            && let Err(error) = instance.switch(on)
        {
            self.state = State::Refused(format!("cannot change the traced events ({error})"));
        }
        self.is_on = on && matches!(self.state, State::Made(_));
    }

    /// Appends the touches since the last poll; returns whether some are missing.
    pub(super) fn take(&mut self, now: Nanos, touches: &mut Vec<Touch>) -> bool {
        if let State::Starting(receiver) = &self.state {
            match receiver.try_recv() {
                Ok(Ok(instance)) => {
                    self.state = State::Made(instance);
                    self.useful = now;
                    self.switch(true);
                }
                Ok(Err(why)) => self.state = State::Refused(why),
                Err(TryRecvError::Disconnected) => {
                    self.state = State::Refused("tracing has failed".to_owned())
                }
                Err(TryRecvError::Empty) => {}
            }
            return false;
        }
        if self.rests_until.is_some_and(|until| now >= until) {
            self.rests_until = None;
            self.allowance.refill(now);
            self.switch(true);
            return true;
        }
        let State::Made(instance) = &mut self.state else { return false };
        if !self.is_on {
            return false;
        }
        let taken = instance.take(touches);
        if !self.allowance.take(now, taken.events) {
            self.switch(false);
            self.rests_until = Some(self.allowance.due());
        }
        taken.lost | std::mem::take(&mut self.has_gap)
    }

    /// Records whether tracing is useful now; ends it after some time without use.
    pub(super) fn judge(&mut self, now: Nanos, is_useful: bool) {
        if !self.is_wanted() {
            return;
        }
        if is_useful {
            self.useful = now;
            self.patience = USELESS_TIMEOUT;
        } else if now.saturating_sub(self.useful) > USELESS_TIMEOUT {
            self.switch(false);
            self.rests_until = None;
            self.not_before = now + self.patience;
            self.patience = Nanos(self.patience.0 * 2).min(PAUSE_MAX);
        }
    }

    /// Returns the time of the next poll; `None` if there is nothing to poll.
    pub(super) fn due(&self, now: Nanos) -> Option<Nanos> {
        match &self.state {
            State::Starting(_) => Some(now + POLL_PERIOD),
            State::Made(_) if self.is_on => Some(now + POLL_PERIOD),
            _ => self.rests_until,
        }
    }

    /// Returns the reason for which tracing is not possible, if any.
    pub(super) fn refusal(&self) -> Option<String> {
        match &self.state {
            State::Refused(why) => Some(why.clone()),
            State::Never => tracefs::check().err(),
            State::Starting(_) | State::Made(_) => None,
        }
    }
}

/// Makes an instance and registers all threads of these processes and of their children, until none is missing.
fn start(processes: &[u32]) -> Result<Instance, String> {
    /// Scans for threads that were started during the scan before. A program that starts threads all the time would
    /// have no last one; new threads are traced as children of traced ones.
    const SCANS_MAX: usize = 4;
    let mut instance = Instance::create()?;
    let mut named = std::collections::BTreeSet::new();
    for _ in 0..SCANS_MAX {
        let new: Vec<u32> =
            threads_of(processes).into_iter().filter(|thread| !named.contains(thread)).collect();
        if new.is_empty() {
            break;
        }
        instance.follow(&new).map_err(|error| format!("cannot set the threads to trace ({error})"))?;
        named.extend(new);
    }
    Ok(instance)
}

fn threads_of(processes: &[u32]) -> Vec<u32> {
    let (mut all, mut next) = (Vec::new(), processes.to_vec());
    while let Some(number) = next.pop() {
        let Ok(process) = Process::open(number) else { continue };
        let threads = process.threads().unwrap_or_default();
        let from = next.len();
        process.children(&threads, &mut next);
        // Children that are followed are registered already.
        let mut kept = next.split_off(from);
        kept.retain(|child| !all.contains(child) && !processes.contains(child));
        next.extend(kept);
        all.extend(threads);
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    #[test]
    fn no_more_events_are_told_than_are_allowed() {
        let mut allowance = Allowance { events: Allowance::EVENTS_MAX, at: Nanos::ZERO };
        let (mut now, mut told) = (0, 0);
        // A million per second, polled every millisecond.
        while now < 1000 * MILLISECOND {
            now += MILLISECOND;
            told += 1000;
            if !allowance.take(Nanos(now), 1000) {
                now = allowance.due().0.max(now);
                allowance.refill(Nanos(now));
                assert!(allowance.events > 0, "a rest has an end");
            }
        }
        assert!(told < 60_000 + 2 * Allowance::EVENTS_MAX.unsigned_abs(), "{told}");
    }
}
