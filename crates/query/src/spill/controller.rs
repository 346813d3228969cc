//! Choice of the compression of spilled data while it is written (pure: the time comes with each event).
//!
//! Follows the self-regulating compression of Kuschewski, Giceva, Neumann, Leis, "Spilling Without Killing Performance"
//! (SIGMOD 2025): compress more while the writers wait for the device, less while the CPU is the bottleneck. Instead of
//! one step up or down, the level is computed from what each level was measured to cost:
//!
//! `cost(l) = max((P + C_l) / n, D * R_l) + max((P + U_l) / n, D * R_l)` nanoseconds per byte of data, written and read
//!
//! with the time `P` in which the `n` busy threads produce a byte, compress (`C`) and restore (`U`) it, the ratio `R`,
//! and the time `D` in which the device takes a byte. `D` is known only while the writers wait for the device; otherwise
//! it is an upper bound. Three rules keep the price of knowledge small:
//!
//! - No chunk is compressed before the writers have waited for the device.
//! - Other levels are tried on single chunks while the writers wait, when their CPU time costs nothing, and not at all
//!   if they would not pay at any ratio. Intervals between trials double, until the ratio of the data changes.
//! - While the CPU limits compressed spilling, the next lower level is tried for a moment, at intervals that double: the
//!   device may have become faster.

use super::level::{LEVEL_COUNT, Level};

/// A chunk that was handed to the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// The level that compressed it, whatever came of it.
    pub(crate) level: Level,
    pub(crate) raw_bytes: u64,
    pub(crate) stored_bytes: u64,
    /// Time to compress it.
    pub(crate) compress_ns: u64,
    /// Time that the thread waited for the device.
    pub(crate) waited_ns: u64,
    /// Time since the thread handed over its previous chunk; `None` after a pause.
    pub(crate) produced_ns: Option<u64>,
    /// Now.
    pub(crate) now_ns: u64,
}

/// The choice of levels, and what it is based on.
#[derive(Debug)]
pub(crate) struct Controller {
    threads: f64,
    current: Level,
    /// Measured costs; known for [`Level::None`].
    costs: [Option<Cost>; LEVEL_COUNT],
    trials: [Trials; LEVEL_COUNT],
    window: Window,
    /// Time in which the device takes a byte, in nanoseconds.
    device: Option<f64>,
    /// Time in which a thread produces a byte, and the number of busy threads.
    produce: f64,
    busy: f64,
    /// Whether the writers waited for the device in the last window.
    is_full: bool,
    /// Levels of the next chunks.
    queue: Vec<Level>,
    /// Ratio of the current level when other levels were tried last.
    ratio_tried: f64,
    /// Windows of a lower level that are left.
    lower_windows: u32,
    written: u64,
}

/// Cost of a level, per byte of data.
#[derive(Clone, Copy, Debug)]
struct Cost {
    compress_ns: f64,
    ratio: f64,
}

/// Trials of a level.
#[derive(Clone, Copy, Debug, Default)]
struct Trials {
    /// Bytes of data written before the next trial.
    next: u64,
    interval: u64,
}

/// Sums over some chunks.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    begun_ns: u64,
    last_ns: u64,
    chunks: f64,
    raw: f64,
    stored: f64,
    produced_ns: f64,
    compress_ns: f64,
    waited_ns: f64,
}

/// Minimum data of a window, and chunks for each thread: twice the writes in flight of a sort.
const WINDOW_BYTES: f64 = (4 << 20) as f64;
/// See [`WINDOW_BYTES`].
const WINDOW_CHUNKS: f64 = 8.0;

/// Share of the threads' time in which they wait for a device that is the bottleneck.
const FULL_SHARE: f64 = 0.05;

/// A pause of all writers after which a window starts again.
const PAUSE_NS: u64 = 100_000_000;

/// Weight of a new measurement.
const MEASUREMENT_WEIGHT: f64 = 0.25;

/// Chunks of a first trial.
const FIRST_TRIAL_CHUNKS: usize = 2;

/// Data between two trials of a level: first, and at most.
const TRIAL_BYTES: u64 = 32 << 20;
/// See [`TRIAL_BYTES`].
const TRIAL_MAX_BYTES: u64 = 512 << 20;

/// Data between two attempts of a lower level: first, and at most.
const LOWER_BYTES: u64 = 128 << 20;
/// See [`LOWER_BYTES`].
const LOWER_MAX_BYTES: u64 = 8 << 30;

/// Maximum windows of an attempt: the first one fills the device's queue.
const LOWER_WINDOWS: u32 = 2;

/// Share of the threads' time in which they wait at a lower level, after which the attempt has failed.
const LOWER_SHARE: f64 = 0.25;

/// Relative gain below which the level stays.
const LEVEL_GAIN_MIN_RATIO: f64 = 0.03;

/// Change of the ratio after which other levels are tried again.
const RATIO_DRIFT: f64 = 0.2;

impl Controller {
    /// Creates a controller for a number of threads; begins without compression.
    pub(crate) fn new(threads: usize) -> Controller {
        let mut costs = [None; LEVEL_COUNT];
        costs[Level::None as usize] = Some(Cost { compress_ns: 0.0, ratio: 1.0 });
        Controller {
            threads: threads.max(1) as f64,
            current: Level::None,
            costs,
            trials: [Trials { next: 0, interval: TRIAL_BYTES }; LEVEL_COUNT],
            window: Window::default(),
            device: None,
            produce: 0.0,
            busy: 0.0,
            is_full: false,
            queue: Vec::new(),
            ratio_tried: 1.0,
            lower_windows: 0,
            written: 0,
        }
    }

    /// Returns the level of the next chunk.
    pub(crate) fn next(&mut self) -> Level {
        self.queue.pop().unwrap_or(self.current)
    }

    /// Takes a chunk into account.
    pub(crate) fn record(&mut self, chunk: Written) {
        self.written += chunk.raw_bytes;
        self.learn(&chunk);
        self.window.add(&chunk);
        let has_failed = self.lower_windows > 0 && self.window.waited_ns > LOWER_SHARE * self.window.all();
        if has_failed {
            self.lower_windows = 0;
            self.choose();
        }
        if self.window.raw >= WINDOW_BYTES && self.window.chunks >= WINDOW_CHUNKS * self.threads {
            self.end_window();
            self.window = Window { begun_ns: chunk.now_ns, last_ns: chunk.now_ns, ..Window::default() };
        } else if chunk.level != self.current && self.queue.is_empty() && self.lower_windows == 0 {
            self.choose();
        }
    }

    /// Updates the cost of the chunk's level.
    fn learn(&mut self, chunk: &Written) {
        if chunk.level == Level::None || chunk.raw_bytes == 0 {
            return;
        }
        let raw = chunk.raw_bytes as f64;
        let new =
            Cost { compress_ns: chunk.compress_ns as f64 / raw, ratio: chunk.stored_bytes as f64 / raw };
        let cost = &mut self.costs[chunk.level as usize];
        *cost = Some(match *cost {
            None => new,
            // A thread that was preempted is slow without a reason in the data.
            Some(old) => Cost {
                compress_ns: mean(old.compress_ns, new.compress_ns.min(2.0 * old.compress_ns)),
                ratio: mean(old.ratio, new.ratio),
            },
        });
    }

    fn end_window(&mut self) {
        let window = self.window;
        let elapsed = (window.last_ns - window.begun_ns).max(1) as f64;
        let all = window.all().max(1.0);
        let (busy, produce) = ((all / elapsed).clamp(1.0, self.threads), window.produced_ns / window.raw);
        let is_first = self.busy == 0.0;
        self.busy = if is_first { busy } else { mean(self.busy, busy) };
        self.produce = if is_first { produce } else { mean(self.produce, produce) };
        let device = elapsed / window.stored.max(1.0);
        let is_full = window.waited_ns > FULL_SHARE * all;
        self.device = match self.device {
            Some(known) if is_full && self.is_full => Some(mean(known, device)),
            None if is_full && self.is_full => Some(device),
            // The device's queue is still being filled, or has chunks of the previous level.
            known if is_full => known,
            known => known.map(|known| known.min(device)),
        };
        self.is_full = is_full;
        if self.lower_windows > 0 && !is_full {
            // The device has become faster: the next lower level follows at once if it is better as well.
            self.trials[Level::None as usize] = Trials { next: self.written, interval: 2 * LOWER_BYTES };
        }
        self.lower_windows = self.lower_windows.saturating_sub(1);
        if self.lower_windows == 0 || !is_full {
            self.lower_windows = 0;
            self.choose();
        }
        match is_full {
            true if self.device.is_some() => self.try_levels(),
            true => {}
            false => self.try_lower(),
        }
    }

    /// Changes to the best level that is known, if it gains enough.
    fn choose(&mut self) {
        let costs = Level::ALL.map(|level| self.cost(level).unwrap_or(f64::INFINITY));
        let best = Level::ALL.into_iter().min_by(|a, b| costs[*a as usize].total_cmp(&costs[*b as usize]));
        let best = best.unwrap_or(Level::None);
        if costs[best as usize] < costs[self.current as usize] * (1.0 - LEVEL_GAIN_MIN_RATIO) {
            self.change(best);
            self.ratio_tried = self.costs[best as usize].map_or(1.0, |cost| cost.ratio);
        }
    }

    fn change(&mut self, level: Level) {
        self.current = level;
        self.is_full = false;
    }

    /// Returns the time to write and read a byte with a level, in nanoseconds.
    fn cost(&self, level: Level) -> Option<f64> {
        self.costs[level as usize].map(|cost| self.cost_of(level, cost))
    }

    fn cost_of(&self, level: Level, cost: Cost) -> f64 {
        let device = self.device.unwrap_or(0.0) * cost.ratio;
        let restore = cost.compress_ns * level.restore_share();
        let write = ((self.produce + cost.compress_ns) / self.busy).max(device);
        let read = ((self.produce + restore) / self.busy).max(device);
        write + read
    }

    /// Schedules trials of other levels that may pay.
    fn try_levels(&mut self) {
        let ratio = self.costs[self.current as usize].map_or(1.0, |cost| cost.ratio);
        if (ratio - self.ratio_tried).abs() > RATIO_DRIFT * self.ratio_tried {
            self.trials = [Trials { next: 0, interval: TRIAL_BYTES }; LEVEL_COUNT];
            self.ratio_tried = ratio;
        }
        let now = self.cost(self.current).unwrap_or(f64::INFINITY);
        for level in Level::ALL {
            let known = self.costs[level as usize];
            let hoped = known.map_or(Cost { compress_ns: level.min_ns_per_byte(), ratio: 0.0 }, |known| {
                Cost { compress_ns: 0.7 * known.compress_ns, ratio: 0.5 * known.ratio }
            });
            let is_due = self.written >= self.trials[level as usize].next;
            if level == self.current || level == Level::None || !is_due || self.cost_of(level, hoped) >= now {
                continue;
            }
            let chunks = if known.is_none() { FIRST_TRIAL_CHUNKS } else { 1 };
            self.queue.extend(std::iter::repeat_n(level, chunks));
            self.trials[level as usize].delay(self.written, TRIAL_MAX_BYTES);
        }
    }

    /// Begins to attempt the next lower level.
    fn try_lower(&mut self) {
        let Some(lower) = self.current.lower() else { return };
        let trials = &mut self.trials[Level::None as usize];
        if trials.next == 0 {
            *trials = Trials { next: self.written + LOWER_BYTES, interval: 2 * LOWER_BYTES };
        }
        if self.written >= trials.next {
            trials.delay(self.written, LOWER_MAX_BYTES);
            self.change(lower);
            self.lower_windows = LOWER_WINDOWS;
        }
    }
}

impl Trials {
    /// Schedules the next trial after an interval, and doubles it.
    fn delay(&mut self, written: u64, max: u64) {
        self.next = written + self.interval;
        self.interval = (2 * self.interval).min(max);
    }
}

impl Window {
    /// Returns the time of all threads.
    fn all(&self) -> f64 {
        self.produced_ns + self.compress_ns + self.waited_ns
    }

    /// Adds a chunk.
    fn add(&mut self, chunk: &Written) {
        let idle = chunk.now_ns.saturating_sub(self.last_ns + chunk.waited_ns + chunk.compress_ns);
        if self.chunks == 0.0 && self.last_ns == 0 || idle > PAUSE_NS {
            // The first chunk only tells when the window begins.
            *self = Window { begun_ns: chunk.now_ns, last_ns: chunk.now_ns, ..Window::default() };
            return;
        }
        self.last_ns = self.last_ns.max(chunk.now_ns);
        self.chunks += 1.0;
        self.raw += chunk.raw_bytes as f64;
        self.stored += chunk.stored_bytes as f64;
        self.produced_ns += chunk.produced_ns.unwrap_or(0) as f64;
        self.compress_ns += chunk.compress_ns as f64;
        self.waited_ns += chunk.waited_ns as f64;
    }
}

fn mean(old: f64, new: f64) -> f64 {
    old + MEASUREMENT_WEIGHT * (new - old)
}

#[cfg(test)]
mod tests;
