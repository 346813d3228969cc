//! One program's progress through one sequence of bytes.

mod distance;

use std::ops::Range;

use sakiyomi_model::Nanos;

use super::access::Access;
use super::pace::{Conclusion, LIMIT_MIN_BYTES, Pace};
use super::{Event, Idle, Limit, State};

/// Fetched ranges end at multiples of this, so that the kernel's own read-ahead finds whole windows (its default window
/// is 128 KiB).
const ALIGNMENT_BYTES: u64 = 128 << 10;
/// Fetches of a stream in flight at a time. Each may block a thread.
const FETCHES_MAX: u32 = 8;
/// Bytes of the file whose residency is checked at a time.
const RESIDENCY_CHECK_BYTES: u64 = 64 << 20;
/// Shortest distance that is useful: below two windows of the kernel, its own read-ahead does as well.
const DISTANCE_MIN_BYTES: u64 = 2 * ALIGNMENT_BYTES;
/// Observation time after which a program is known not to wait for I/O.
const WATCH_PERIOD: Nanos = Nanos(50_000_000);
/// Share of its time that a program must wait for I/O for reading ahead to begin.
const WAIT_MIN_PERCENT: u64 = 2;
/// Size of the first read from which a file may be read ahead at once: a program that requests less than a page does
/// not read a file from beginning to end.
const FIRST_READ_MIN_BYTES: u64 = 4 << 10;
/// Size of a read from which all of it is fetched at once while the program sleeps in it. For less, the kernel's windows
/// and the distance ahead suffice.
pub(crate) const LONG_READ_MIN_BYTES: u64 = 2 * LIMIT_MIN_BYTES;

/// A request of a reading.
pub(super) enum ReadingRequest {
    Fetch(Range<u64>),
    Look(Range<u64>),
}

/// Times of the program so far.
#[derive(Clone, Copy, Debug, Default)]
struct ProgramTimes {
    cpu_time: Nanos,
    io_wait: Nanos,
    read: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Watching,
    Ahead,
    /// Nothing is requested until the program has consumed the data ahead, and then while its speed is measured.
    Probation {
        with: u64,
        alone: Option<(Nanos, u64)>,
    },
    /// Reading ahead does not make the program faster; reconsidered at this time.
    IoBound {
        until: Nanos,
    },
    Refused,
}

/// Whether reading ahead was started at the program's first read, before its access pattern was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// It was not.
    Usual,
    /// It was; proven when the program reaches half of the requested data.
    Unproven,
    Right,
    Wrong,
}

#[derive(Debug)]
pub(super) struct Reading {
    limit: Limit,
    size: u64,
    main: u64,
    prefetch: u64,
    access: Access,
    phase: Phase,
    start: Start,
    /// Whether the program sleeps in its first read.
    waits_for_first: bool,
    /// End of the long read in which the program sleeps; before its position if there is none.
    requested_to: u64,
    pace: Pace,
    spent: ProgramTimes,
    /// Start of the current observation period, and the times then.
    watch: (Nanos, ProgramTimes),
    /// Whether a whole period without waiting was observed.
    does_not_wait: bool,
    /// End of the data found resident.
    resident_to: u64,
    /// End of the data examined.
    looked_to: u64,
    looking: bool,
    calls: u32,
    /// Whether there is too little memory to start.
    cramped: bool,
    begun: Nanos,
    seen: Nanos,
}

impl Reading {
    pub(super) fn new(limit: Limit, now: Nanos, at: u64, size: u64) -> Reading {
        let most = match limit {
            Limit::Fixed { limit, .. } => limit,
            Limit::Auto { most } => most,
        };
        let main = at.min(size);
        Reading {
            limit,
            size,
            main,
            prefetch: main,
            access: Access::at(main),
            phase: Phase::Watching,
            start: Start::Usual,
            waits_for_first: false,
            requested_to: 0,
            pace: Pace::new(most),
            spent: ProgramTimes::default(),
            watch: (now, ProgramTimes::default()),
            does_not_wait: false,
            resident_to: main,
            looked_to: main,
            looking: false,
            calls: 0,
            cramped: false,
            begun: now,
            seen: now,
        }
    }

    pub(super) fn ahead(&self) -> Range<u64> {
        self.main..self.prefetch
    }

    pub(super) fn distance(&self) -> u64 {
        self.prefetch - self.main
    }

    /// Returns whether it takes part in the sharing of memory.
    pub(super) fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Ahead | Phase::Probation { .. })
    }

    pub(super) fn start(&self) -> Start {
        self.start
    }

    pub(super) fn limit(&self) -> u64 {
        match self.limit {
            Limit::Fixed { limit, .. } => limit,
            Limit::Auto { .. } => self.pace.limit(),
        }
    }

    pub(super) fn state(&self) -> State {
        match self.phase {
            Phase::Refused => State::Idle(Idle::Refused),
            Phase::IoBound { .. } => State::Idle(Idle::IoBound),
            Phase::Probation { .. } => State::Probation,
            _ if self.cramped => State::Idle(Idle::NoMemory),
            Phase::Ahead if self.prefetch >= self.size => State::Idle(Idle::Done),
            Phase::Ahead => State::Ahead,
            Phase::Watching if self.main < self.prefetch => State::Ahead,
            Phase::Watching if self.access.was_elsewhere() && !self.access.is_sequential() => {
                State::Idle(Idle::NotSequential)
            }
            Phase::Watching if self.main < self.resident_to => State::Idle(Idle::Resident),
            Phase::Watching if self.does_not_wait => State::Idle(Idle::DoesNotWait),
            Phase::Watching => State::Watching,
        }
    }

    pub(super) fn wake(&self) -> Nanos {
        const MILLISECOND_NS: u64 = 1_000_000;
        let pause = match self.phase {
            Phase::Ahead => match self.limit {
                Limit::Fixed { .. } => MILLISECOND_NS,
                Limit::Auto { .. } => {
                    (self.pace.time_for(self.distance()) / 4).clamp(MILLISECOND_NS / 2, 20 * MILLISECOND_NS)
                }
            },
            Phase::Probation { .. } => 2 * MILLISECOND_NS,
            Phase::Watching if self.seen.saturating_sub(self.begun) < WATCH_PERIOD => MILLISECOND_NS,
            Phase::Watching => match self.state() {
                State::Idle(Idle::NotSequential | Idle::Resident | Idle::NoMemory) => 50 * MILLISECOND_NS,
                State::Idle(_) => 20 * MILLISECOND_NS,
                _ => 5 * MILLISECOND_NS,
            },
            Phase::IoBound { .. } => 100 * MILLISECOND_NS,
            Phase::Refused => 1_000 * MILLISECOND_NS,
        };
        self.seen + Nanos(pause)
    }

    /// Processes an observation.
    pub(super) fn see(&mut self, now: Nanos, event: &Event) {
        match *event {
            Event::Times { cpu_time, io_wait, read, .. } => {
                self.spent = ProgramTimes { cpu_time, io_wait, read }
            }
            Event::Position { at, .. } => self.move_to(now, at),
            Event::Blocked { wants, window, .. } => {
                let is_first = self.main == 0 && self.access.is_fresh();
                let is_longer = LIMIT_MIN_BYTES >= 2 * window && self.size >= DISTANCE_MIN_BYTES;
                self.waits_for_first = is_first && is_longer && wants >= FIRST_READ_MIN_BYTES;
                if wants >= LONG_READ_MIN_BYTES {
                    self.requested_to = self.main.saturating_add(wants);
                }
            }
            Event::Resized { size, .. } => {
                self.size = size;
                self.main = self.main.min(size);
                self.prefetch = self.prefetch.clamp(self.main, size.max(self.main));
            }
            Event::Fetched { done, .. } => {
                self.calls = self.calls.saturating_sub(1);
                if !done {
                    self.phase = Phase::Refused;
                    self.prefetch = self.main;
                }
            }
            Event::Residency { ref range, cached, evicted, .. } => self.found(now, range, cached, evicted),
            Event::Opened { .. } | Event::Closed { .. } | Event::Memory { .. } => {}
        }
    }

    fn move_to(&mut self, now: Nanos, at: u64) {
        self.seen = now;
        let at = at.min(self.size);
        let sought = at < self.main;
        let stays = self.access.see(self.main, at, self.spent.read);
        if at != self.main {
            self.requested_to = 0;
        }
        self.main = at;
        self.prove(sought || !stays);
        if sought || !stays {
            // Requests start again from here: data that is still cached costs nothing.
            self.prefetch = at;
            (self.resident_to, self.looked_to) = (at, at);
            if self.is_active() {
                self.phase = Phase::Watching;
            }
            self.begin_watch(now);
        }
        self.prefetch = self.prefetch.max(at);
    }

    /// Decides whether the start at the first read was right.
    fn prove(&mut self, is_elsewhere: bool) {
        self.waits_for_first &= self.main == 0;
        if self.start == Start::Unproven {
            if is_elsewhere {
                self.start = Start::Wrong;
            } else if self.main >= LIMIT_MIN_BYTES.min(self.size) / 2 {
                self.start = Start::Right;
            }
        }
    }

    fn begin_watch(&mut self, now: Nanos) {
        self.watch = (now, self.spent);
    }

    /// Returns the percentage of the observation period in which the program waited.
    fn waited_percent(&self, now: Nanos) -> u64 {
        let io_wait = self.spent.io_wait.saturating_sub(self.watch.1.io_wait).0;
        io_wait.saturating_mul(100) / now.saturating_sub(self.watch.0).0.max(1)
    }

    fn found(&mut self, now: Nanos, range: &Range<u64>, cached: u64, evicted: u64) {
        self.looking = false;
        let length = range.end - range.start;
        if self.phase == Phase::Watching {
            self.looked_to = self.looked_to.max(range.end);
            if cached.saturating_add(length / 64) >= length {
                self.resident_to = self.resident_to.max(range.end);
            }
            return;
        }
        // The data requested ahead was evicted, or has never arrived.
        let missing = length.saturating_sub(cached);
        if self.phase == Phase::Ahead && (evicted > length / 16 || missing > length / 4) {
            self.pace.shrink(now);
            self.prefetch = self.main;
        }
    }

    /// Requests what is to be done now. At most `share` bytes may lie ahead, and at most `spare` more may be used.
    /// `may_start` allows a start at the program's first read.
    pub(super) fn decide(
        &mut self,
        now: Nanos,
        share: u64,
        spare: u64,
        may_start: bool,
        mut wish: impl FnMut(ReadingRequest),
    ) {
        self.cramped = share.min(spare.saturating_add(self.distance())) < DISTANCE_MIN_BYTES;
        match self.phase {
            Phase::Watching if self.waits_for_first && may_start && !self.cramped => {
                self.start_at_once(LIMIT_MIN_BYTES.min(share).min(spare), &mut wish);
            }
            Phase::Watching => self.watch_on(now, &mut wish),
            Phase::Ahead if matches!(self.limit, Limit::Auto { .. }) => self.keep_pace(now),
            Phase::Probation { with, alone } => self.try_alone(now, with, alone),
            Phase::IoBound { until } => self.wait_for_change(now, until),
            Phase::Ahead | Phase::Refused => {}
        }
        let may_help = matches!(self.phase, Phase::Watching | Phase::Ahead) && !self.cramped;
        if may_help && matches!(self.limit, Limit::Auto { .. }) {
            self.fetch_long_read(share, spare, &mut wish);
        }
        if self.phase == Phase::Ahead && !self.cramped {
            match self.limit {
                Limit::Fixed { limit, step } => self.keep_fixed(limit, step.min(limit), spare, &mut wish),
                Limit::Auto { .. } => self.fill(share, spare, &mut wish),
            }
        }
    }

    fn watch_on(&mut self, now: Nanos, wish: &mut impl FnMut(ReadingRequest)) {
        if !self.access.is_sequential() {
            return;
        }
        // Residency is queried well before the program reaches data that has not been examined.
        let from = self.looked_to.max(self.prefetch);
        if !self.looking && from < self.size && from < self.main + RESIDENCY_CHECK_BYTES / 4 {
            self.looking = true;
            wish(ReadingRequest::Look(from..self.size.min(from + RESIDENCY_CHECK_BYTES)));
        }
        let watched = now.saturating_sub(self.watch.0);
        let waits = self.waited_percent(now) >= WAIT_MIN_PERCENT;
        let unknown = self.looking || self.main < self.resident_to;
        let fixed = matches!(self.limit, Limit::Fixed { .. });
        if !unknown && (fixed || waits && watched.0 > 0) {
            self.phase = Phase::Ahead;
            self.does_not_wait = false;
            self.pace.begin(now, self.main, self.spent.cpu_time, self.spent.io_wait);
        } else if watched >= WATCH_PERIOD {
            self.does_not_wait = !waits;
            self.begin_watch(now);
        }
    }

    fn keep_pace(&mut self, now: Nanos) {
        match self.pace.see(now, self.main, self.spent.cpu_time, self.spent.io_wait) {
            Conclusion::GoOn => {}
            Conclusion::TryAlone { with } => self.phase = Phase::Probation { with, alone: None },
        }
    }

    /// Measures the program without help, and resumes reading ahead if that was faster.
    fn try_alone(&mut self, now: Nanos, with: u64, alone: Option<(Nanos, u64)>) {
        /// Bytes that a trial covers at least: eight times the shortest useful distance.
        const TRIAL_MIN_BYTES: u64 = 2 << 20;
        /// Duration of a trial at least, so that it is not decided by single accesses.
        const TRIAL_MIN_TIME: Nanos = Nanos(50_000_000);
        /// A slow program ends its trial after this time, however few bytes it read.
        const TRIAL_MAX_TIME: Nanos = Nanos(500_000_000);
        let Some((since, from)) = alone else {
            if self.main >= self.prefetch {
                self.phase = Phase::Probation { with, alone: Some((now, self.main)) };
            }
            return;
        };
        let (took, went) = (now.saturating_sub(since), self.main.saturating_sub(from));
        if (took < TRIAL_MIN_TIME || went < TRIAL_MIN_BYTES) && took < TRIAL_MAX_TIME {
            return;
        }
        let rate = super::pace::rate(went, took);
        if rate.saturating_mul(10) >= with.saturating_mul(9) {
            self.phase = Phase::IoBound { until: now + Nanos(30_000_000_000) };
            self.begin_watch(now);
        } else {
            self.phase = Phase::Ahead;
            self.pace.resume(now, self.main, self.spent.cpu_time, self.spent.io_wait);
        }
    }

    /// After reading ahead did not help, waits until the program waits less, or much time has passed.
    fn wait_for_change(&mut self, now: Nanos, until: Nanos) {
        /// Period over which the share of waiting is measured.
        const CHANGE_WATCH_PERIOD: Nanos = Nanos(1_000_000_000);
        if now.saturating_sub(self.watch.0) < CHANGE_WATCH_PERIOD {
            return;
        }
        if self.waited_percent(now) < 60 || now >= until {
            self.phase = Phase::Watching;
            self.does_not_wait = false;
        }
        self.begin_watch(now);
    }
}
