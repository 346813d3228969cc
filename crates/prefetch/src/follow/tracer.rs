//! When to trace, and how much: the kernel tells what is touched in the page cache, and each event costs the program.
//!
//! A program that gets bytes, or waits for I/O, while no position moves that would explain it, reads by `pread` or
//! through a mapping. Only then is tracing begun, and it ends when nothing comes of it. What is left is bounded by
//! [`Allowance`].

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use sakiyomi_linux::process::Process;
use sakiyomi_linux::tracefs::{self, Instance, Touch};
use sakiyomi_model::Nanos;

use super::program::Spent;

/// How long tracing goes on while nothing comes of it, and how soon it is tried again: twice as long each time, at most so.
const PATIENCE: Nanos = Nanos(2_000_000_000);
const LONGEST: Nanos = Nanos(60_000_000_000);

/// How soon to look again while events are told.
const SOON: Nanos = Nanos(4_000_000);

/// Signs that a program reads in a way that moves no position.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signs {
    /// When nothing was to be seen, and when a sign was seen for the first time.
    from: Sight,
    first: Option<(Sign, Sight)>,
}

/// What a program has done, all in sum.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sight {
    pub(super) at: Nanos,
    pub(super) spent: Spent,
    /// How far it has moved positions, in bytes.
    pub(super) moved: u64,
    /// Pages of mappings that it had to have mapped.
    pub(super) faults: u64,
}

/// What a program seems to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// It gets bytes.
    Reads,
    /// It waits for pages.
    Faults,
}

/// What must be waited for between two looks for a sign.
const WAITED: Nanos = Nanos(8_000_000);

impl Signs {
    /// Whether there can be something to see, which asks for the number of faults.
    pub(super) fn waits(&self, spent: Spent) -> bool {
        spent.waited.saturating_sub(self.from.spent.waited) >= WAITED
    }

    /// Gives a sign, and since when there was nothing else. It must be seen to go on: positions and amounts are not seen
    /// at the same instant, and who waits for the first bytes of a file has none yet.
    pub(super) fn see(&mut self, sight: Sight) -> Option<(Sign, Nanos)> {
        const WINDOW: Nanos = Nanos(200_000_000);
        const FAULTS: u64 = 2;
        let sign = sight.sign_since(&self.from);
        let since = self.from.at;
        let (mut goes_on, mut is_over) = (false, sight.at.saturating_sub(since) > WINDOW);
        if let Some((before, first)) = self.first.filter(|(before, _)| sign == Some(*before)) {
            let more = match before {
                Sign::Reads => sight.spent.read > first.spent.read,
                Sign::Faults => sight.faults.saturating_sub(first.faults) >= FAULTS,
            };
            let waited = sight.spent.waited.saturating_sub(first.spent.waited) >= WAITED / 2;
            goes_on = waited && more;
            // What it got before it began to wait says nothing.
            is_over |= waited && before == Sign::Reads;
        } else {
            self.first = sign.map(|sign| (sign, sight));
        }
        if goes_on || is_over {
            *self = Signs { from: sight, first: None };
        }
        sign.filter(|_| goes_on).map(|sign| (sign, since))
    }
}

impl Sight {
    fn sign_since(&self, from: &Sight) -> Option<Sign> {
        const BYTES: u64 = 64 << 10;
        let got = |sight: &Sight| sight.spent.read.unwrap_or(0);
        let read = got(self).saturating_sub(got(from));
        let went = self.moved.saturating_sub(from.moved);
        let unexplained = read.saturating_sub(went);
        match () {
            () if self.spent.waited.saturating_sub(from.spent.waited) < WAITED => None,
            () if unexplained >= BYTES && unexplained >= read / 2 => Some(Sign::Reads),
            () if read < BYTES && went == 0 => Some(Sign::Faults),
            () => None,
        }
    }
}

/// How many events may be told: 60,000 a second, 0.15 µs each, are less than a hundredth of a core.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    /// Less than none where more were told than were allowed.
    events: i64,
    at: Nanos,
}

impl Allowance {
    const MOST: i64 = 3_000;
    /// Time for which one more is allowed.
    const EACH: u64 = 1_000_000_000 / 60_000;

    fn refill(&mut self, now: Nanos) {
        let more = now.saturating_sub(self.at).0 / Allowance::EACH;
        self.at += Nanos(more * Allowance::EACH);
        self.events = self.events.saturating_add_unsigned(more).min(Allowance::MOST);
    }

    /// So many have been told. Says whether more may be. What is owed is bounded, and so is the rest.
    fn take(&mut self, now: Nanos, events: u64) -> bool {
        self.refill(now);
        self.events = self.events.saturating_sub_unsigned(events).max(-Allowance::MOST);
        self.events > 0
    }

    /// When half of all is there again.
    fn due(&self) -> Nanos {
        let missing = (Allowance::MOST / 2).saturating_sub(self.events).max(0);
        self.at + Nanos(missing.unsigned_abs() * Allowance::EACH)
    }
}

#[derive(Debug)]
enum State {
    /// It has not been needed.
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
    /// Events are told.
    is_on: bool,
    /// They are wanted, but too many were told: not before this.
    rests_until: Option<Nanos>,
    allowance: Allowance,
    /// When something last came of it.
    useful: Nanos,
    not_before: Nanos,
    patience: Nanos,
    /// Events were not told for some time.
    has_gap: bool,
}

impl Tracer {
    pub(super) fn new() -> Tracer {
        Tracer {
            state: State::Never,
            is_on: false,
            rests_until: None,
            allowance: Allowance { events: Allowance::MOST, at: Nanos::ZERO },
            useful: Nanos::ZERO,
            not_before: Nanos::ZERO,
            patience: PATIENCE,
            has_gap: false,
        }
    }

    /// Whether it might be begun now, if there were signs.
    pub(super) fn is_idle(&self, now: Nanos) -> bool {
        let can =
            matches!(self.state, State::Never) || matches!(self.state, State::Made(_)) && !self.is_wanted();
        can && now >= self.not_before
    }

    fn is_wanted(&self) -> bool {
        self.is_on || self.rests_until.is_some()
    }

    /// Begins to trace these processes and all that they start.
    pub(super) fn begin(&mut self, processes: Vec<u32>, now: Nanos) {
        self.useful = now;
        match &self.state {
            State::Never => {
                let (sender, receiver) = channel();
                let body = move || drop(sender.send(start(&processes)));
                self.state = match thread::Builder::new().name("trace".to_owned()).spawn(body) {
                    Ok(_) => State::Starting(receiver),
                    Err(error) => State::Refused(format!("no thread for tracing ({error})")),
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
            self.state = State::Refused(format!("tracing cannot be switched ({error})"));
        }
        self.is_on = on && matches!(self.state, State::Made(_));
    }

    /// Appends what was told since the last look; says whether some of it is missing.
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

    /// Whether something comes of it now. After some time in which nothing does, it ends.
    pub(super) fn judge(&mut self, now: Nanos, is_useful: bool) {
        if !self.is_wanted() {
            return;
        }
        if is_useful {
            self.useful = now;
            self.patience = PATIENCE;
        } else if now.saturating_sub(self.useful) > PATIENCE {
            self.switch(false);
            self.rests_until = None;
            self.not_before = now + self.patience;
            self.patience = Nanos(self.patience.0 * 2).min(LONGEST);
        }
    }

    /// When to look again; none if there is nothing to look for.
    pub(super) fn due(&self, now: Nanos) -> Option<Nanos> {
        match &self.state {
            State::Starting(_) => Some(now + SOON),
            State::Made(_) if self.is_on => Some(now + SOON),
            _ => self.rests_until,
        }
    }

    /// Why positions could not be had by tracing, if they could not.
    pub(super) fn refusal(&self) -> Option<String> {
        match &self.state {
            State::Refused(why) => Some(why.clone()),
            State::Never => tracefs::check().err(),
            State::Starting(_) | State::Made(_) => None,
        }
    }
}

impl Drop for Tracer {
    /// What is being made is removed, too, before the process ends.
    fn drop(&mut self) {
        if let State::Starting(receiver) = &self.state {
            drop(receiver.recv());
        }
    }
}

/// Makes an instance and names all threads of these processes and of their children, until none is missing.
fn start(processes: &[u32]) -> Result<Instance, String> {
    const TIMES: usize = 4;
    let instance = Instance::create()?;
    let mut named = std::collections::BTreeSet::new();
    for _ in 0..TIMES {
        let new: Vec<u32> =
            threads_of(processes).into_iter().filter(|thread| !named.contains(thread)).collect();
        if new.is_empty() {
            break;
        }
        instance.follow(&new).map_err(|error| format!("threads cannot be named for tracing ({error})"))?;
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
        // Those that are followed are there already.
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

    fn sight(at: u64, waited: u64, read: u64, moved: u64, faults: u64) -> Sight {
        let spent = Spent { waited: Nanos(waited * MILLISECOND), read: Some(read << 10), ..Spent::default() };
        Sight { at: Nanos(at * MILLISECOND), spent, moved: moved << 10, faults }
    }

    /// What is seen each 5 ms of a program that does so much in each.
    fn first_sign(waited: u64, read: u64, moved: u64, faults: u64) -> Option<Sign> {
        let mut signs = Signs::default();
        (1..400u64).find_map(|step| {
            let seen = signs.see(sight(5 * step, step * waited, step * read, step * moved, step * faults));
            seen.map(|(sign, _)| sign)
        })
    }

    #[test]
    fn only_who_waits_for_what_no_position_explains_gives_a_sign() {
        assert_eq!(first_sign(3, 64, 0, 0), Some(Sign::Reads));
        assert_eq!(first_sign(3, 64, 64, 0), None, "by read");
        assert_eq!(first_sign(0, 64, 0, 0), None, "it does not wait");
        assert_eq!(first_sign(3, 0, 0, 1), Some(Sign::Faults), "it gets nothing and waits all the same");
        assert_eq!(first_sign(3, 0, 0, 0), None, "it waits for what is no mapping");
        assert_eq!(first_sign(3, 64, 64, 9), None, "it needs memory");
        assert_eq!(first_sign(3, 64, 60, 0), None, "a little goes through a pipe");
    }

    #[test]
    fn who_waits_for_the_first_bytes_of_a_file_gives_no_sign() {
        let mut signs = Signs::default();
        // A hundred pages of the program itself.
        assert!(signs.see(sight(1, 1, 4, 0, 100)).is_none());
        for at in 9..12 {
            assert!(signs.see(sight(at, at - 1, 4, 0, 100)).is_none());
        }
        assert!(signs.see(sight(12, 10, 128, 128, 101)).is_none());
        assert!(signs.see(sight(22, 20, 256, 256, 102)).is_none());
    }

    #[test]
    fn what_was_got_at_the_start_does_not_hide_who_waits_for_pages() {
        let mut signs = Signs::default();
        assert!((0..10).all(|at| signs.see(sight(at, 0, at * 100, 0, at * 50)).is_none()));
        let found = (10..60).find_map(|at| signs.see(sight(at, at - 10, 900, 0, 450 + at / 5)));
        assert_eq!(found.map(|(sign, _)| sign), Some(Sign::Faults));
    }

    #[test]
    fn a_position_that_is_seen_late_is_no_sign() {
        let mut signs = Signs::default();
        assert!(signs.see(sight(1, 10, 128, 0, 0)).is_none());
        assert!(signs.see(sight(2, 10, 128, 128, 0)).is_none());
        assert!(signs.see(sight(3, 20, 256, 128, 0)).is_none());
    }

    #[test]
    fn no_more_events_are_told_than_are_allowed() {
        let mut allowance = Allowance { events: Allowance::MOST, at: Nanos::ZERO };
        let (mut now, mut told) = (0, 0);
        // A million a second, looked at each millisecond.
        while now < 1000 * MILLISECOND {
            now += MILLISECOND;
            told += 1000;
            if !allowance.take(Nanos(now), 1000) {
                now = allowance.due().0.max(now);
                allowance.refill(Nanos(now));
                assert!(allowance.events > 0, "a rest has an end");
            }
        }
        assert!(told < 60_000 + 2 * Allowance::MOST.unsigned_abs(), "{told}");
    }
}
