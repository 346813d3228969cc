//! The automatic limit: how far ahead pays.
//!
//! Progress is divided into *rounds*, in each of which the program advances by half of the limit. After a round in
//! which it waited for I/O more than a twentieth of the time, the limit doubles, if
//!
//! - the last doubling made the program faster, as it does if the device serves several requests at a time, or if
//!   larger runs save seeks; or
//! - the limit is less than the *horizon*, twice the data on which the program computes in the time of its longest
//!   wait: as much must lie ahead to bridge such a wait (Patterson et al., SOSP 1995, call it the prefetch horizon); or
//! - the program waits less than half of the time, so that its device can nearly keep up, and the limit is less than
//!   the data on which it computes in two seconds.
//!
//! None of these helps a device that is always busy, where a longer distance would only be a longer queue: a program
//! that waits more than half of the time gets no more than its device delivers in half a second. Rounds without waiting
//! let the limit decay slowly, as in the streaming reads of PostgreSQL. Eviction of data before its use halves the
//! limit, and keeps it there for some time.

use sakiyomi_model::Nanos;

/// Smallest limit, which is also the first one.
pub(super) const LIMIT_MIN_BYTES: u64 = 512 << 10;
/// Largest single fetch. What has been requested may exceed the limit by this much.
pub(super) const FETCH_MAX_BYTES: u64 = 512 << 10;
/// Consecutive rounds in which doubling the limit was not justified, after which reading ahead itself is tested.
const FLAT_ROUNDS_MIN: u32 = 3;
/// Consecutive rounds without waiting before the limit decays, initially; four times as many after each decay that made
/// the program wait.
const CALM_ROUNDS_MIN: u32 = 16;
/// Limit of the rounds without waiting that are required.
const CALM_ROUNDS_MAX: u32 = 1024;

/// Position of the program, and its times then.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    now: Nanos,
    at: u64,
    cpu_time: Nanos,
    io_wait: Nanos,
}

/// Conclusion from an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conclusion {
    GoOn,
    /// The program waits nearly all the time, and a longer distance does not help: perhaps none would be as good.
    TryAlone {
        /// Its speed with reading ahead, in bytes per second.
        with: u64,
    },
}

#[derive(Debug)]
pub(super) struct Pace {
    most: u64,
    limit: u64,
    round: Mark,
    /// Its state when it last moved.
    moved: Mark,
    longest_wait: Nanos,
    /// Speed when the limit last doubled, in bytes per second.
    rate_before: u64,
    /// Bytes per second of CPU time.
    compute_rate: u64,
    flat: u32,
    calm: u32,
    calm_wanted: u32,
    /// The limit before it decayed.
    before_decay: Option<u64>,
    /// A maximum of the limit, the end of its validity, and the duration of the next one: data further ahead was
    /// evicted.
    ceiling: (u64, Nanos, Nanos),
    next_trial: Nanos,
    trial_pause: Nanos,
}

/// Returns bytes per second.
pub(super) fn rate(bytes: u64, time: Nanos) -> u64 {
    let per_second = u128::from(bytes) * 1_000_000_000 / u128::from(time.0.max(1));
    u64::try_from(per_second).unwrap_or(u64::MAX)
}

/// Returns the bytes transferred at a rate in a time.
fn amount(rate: u64, time: Nanos) -> u64 {
    let bytes = u128::from(rate) * u128::from(time.0) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl Pace {
    pub(super) fn new(most: u64) -> Pace {
        Pace {
            most,
            limit: LIMIT_MIN_BYTES.min(most),
            round: Mark::default(),
            moved: Mark::default(),
            longest_wait: Nanos::ZERO,
            rate_before: 0,
            compute_rate: 0,
            flat: 0,
            calm: 0,
            calm_wanted: CALM_ROUNDS_MIN,
            before_decay: None,
            ceiling: (u64::MAX, Nanos::ZERO, Nanos(5_000_000_000)),
            next_trial: Nanos::ZERO,
            trial_pause: Nanos(10_000_000_000),
        }
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the computing time for a number of bytes, in nanoseconds.
    pub(super) fn time_for(&self, bytes: u64) -> u64 {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.compute_rate.max(1));
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// Starts reading ahead.
    pub(super) fn begin(&mut self, now: Nanos, at: u64, cpu_time: Nanos, io_wait: Nanos) {
        self.limit = LIMIT_MIN_BYTES.min(self.most);
        (self.flat, self.calm, self.rate_before) = (0, 0, 0);
        (self.calm_wanted, self.before_decay) = (CALM_ROUNDS_MIN, None);
        self.longest_wait = Nanos::ZERO;
        self.resume(now, at, cpu_time, io_wait);
    }

    /// Continues reading ahead after a trial, which is not repeated soon.
    pub(super) fn resume(&mut self, now: Nanos, at: u64, cpu_time: Nanos, io_wait: Nanos) {
        self.round = Mark { now, at, cpu_time, io_wait };
        self.moved = self.round;
        self.flat = 0;
    }

    /// Reacts to data that was evicted before its use.
    pub(super) fn shrink(&mut self, now: Nanos) {
        self.limit = (self.limit / 2).max(LIMIT_MIN_BYTES).min(self.most);
        let hold = self.ceiling.2;
        self.ceiling = (self.limit, now + hold, Nanos(hold.0.saturating_mul(2).min(60_000_000_000)));
        (self.calm, self.before_decay) = (0, None);
    }

    pub(super) fn see(&mut self, now: Nanos, at: u64, cpu_time: Nanos, io_wait: Nanos) -> Conclusion {
        let mark = Mark { now, at, cpu_time, io_wait };
        if at > self.moved.at {
            self.longest_wait = self.longest_wait.max(io_wait.saturating_sub(self.moved.io_wait));
            self.moved = mark;
        }
        if at.saturating_sub(self.round.at) < self.limit / 2 {
            return Conclusion::GoOn;
        }
        let told = self.end_round(mark);
        self.round = mark;
        told
    }

    fn end_round(&mut self, mark: Mark) -> Conclusion {
        let Mark { now, at, cpu_time, io_wait } = self.round;
        let (took, went) = (mark.now.saturating_sub(now), mark.at - at);
        let io_wait = mark.io_wait.saturating_sub(io_wait).0;
        let rate = rate(went, took);
        self.learn_compute_rate(went, mark.cpu_time.saturating_sub(cpu_time));
        if io_wait.saturating_mul(20) <= took.0 {
            self.stay_calm();
            return Conclusion::GoOn;
        }
        self.calm = 0;
        let half_busy = io_wait.saturating_mul(2) > took.0;
        let held = if mark.now < self.ceiling.1 { self.ceiling.0 } else { u64::MAX };
        let queue = if half_busy { amount(rate, Nanos(500_000_000)).max(LIMIT_MIN_BYTES) } else { u64::MAX };
        let most = self.most.min(held).min(queue);
        let horizon = amount(self.compute_rate, self.longest_wait).saturating_mul(2);
        if let Some(before) = self.before_decay.take() {
            self.calm_wanted = (self.calm_wanted * 4).min(CALM_ROUNDS_MAX);
            self.limit = before.min(most).max(self.limit);
            return Conclusion::GoOn;
        }
        let faster = rate > self.rate_before.saturating_add(self.rate_before / 20);
        let keeps_up = !half_busy && self.limit < amount(self.compute_rate, Nanos(2_000_000_000));
        if self.limit < most && (faster || self.limit < horizon || keeps_up) {
            self.limit = self.limit.saturating_mul(2).min(most);
            self.rate_before = rate;
            self.flat = 0;
            return Conclusion::GoOn;
        }
        self.flat = self.flat.saturating_add(1);
        let mostly_waits = u128::from(io_wait) * 100 > u128::from(took.0) * 85;
        if self.flat >= FLAT_ROUNDS_MIN && mostly_waits && mark.now >= self.next_trial {
            self.next_trial = mark.now + self.trial_pause;
            self.trial_pause = Nanos(self.trial_pause.0.saturating_mul(2).min(300_000_000_000));
            return Conclusion::TryAlone { with: rate };
        }
        Conclusion::GoOn
    }

    /// Updates the compute rate, a moving mean over some four rounds.
    fn learn_compute_rate(&mut self, went: u64, cpu_time: Nanos) {
        let now = rate(went, cpu_time.max(Nanos(1_000)));
        self.compute_rate = if self.compute_rate == 0 { now } else { self.compute_rate / 4 * 3 + now / 4 };
    }

    fn stay_calm(&mut self) {
        self.flat = 0;
        self.calm += 1;
        if self.calm >= self.calm_wanted {
            self.calm = 0;
            self.before_decay = Some(self.limit);
            // At most by one piece, so that the distance never exceeds the limit plus one piece.
            let less = (self.limit / 8).min(FETCH_MAX_BYTES);
            self.limit = (self.limit - less).max(LIMIT_MIN_BYTES.min(self.most));
            self.longest_wait = self.longest_wait / 2;
        }
    }
}
