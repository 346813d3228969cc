//! How long the device takes for one request, measured while it works.
//!
//! Section 4.3: the time of one is `min(T3 - T2, interval between successive T3)`, which is from its issue to its end
//! where it was alone in the device, and from the end of the one before where it was not.
//!
//! A drive that chooses among many is faster than one that has no choice, so times are also kept by how many there
//! were to choose from: that tells how long so many take when no more come.

use std::collections::VecDeque;

use sakiyomi_model::{Bytes, Nanos, Op};

use crate::settings::Window;

/// The deepest queue that is told apart.
pub(crate) const DEPTHS: usize = 32;
/// Sizes that are told apart: up to 4 KiB, 8 KiB, … and all above 4 MiB.
const SIZES: usize = 12;

/// Requests that take about as long: the same operation, about the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind(u8);

impl Kind {
    pub(crate) fn of(op: Op, size: Bytes) -> Kind {
        let pages = size.0.div_ceil(4096).max(1);
        let size = (pages.next_power_of_two().trailing_zeros() as usize).min(SIZES - 1);
        let row = match op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Flush | Op::Discard => 2,
        };
        Kind((row * SIZES + size) as u8)
    }
}

/// A request that the device has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) kind: Kind,
    /// T2.
    pub(crate) issued: Nanos,
    /// T3.
    pub(crate) done: Nanos,
    /// How many the device could choose from when it took up this one.
    pub(crate) depth: usize,
}

/// The device's service time.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    window: Window,
    last_done: Option<Nanos>,
    recent: VecDeque<u64>,
    recent_sum: u64,
    all: Mean,
    kinds: Vec<Mean>,
    by_depth: Vec<Mean>,
    shape: Shape,
    changes: u64,
}

impl Service {
    pub(crate) fn new(window: Window) -> Service {
        let length = match window {
            Window::Last(length) | Window::Adaptive(length) => length.max(1),
        };
        Service {
            window,
            last_done: None,
            recent: VecDeque::new(),
            recent_sum: 0,
            all: Mean::new(length),
            kinds: vec![Mean::new(length); 3 * SIZES],
            by_depth: vec![Mean::new(SHAPE_LENGTH); DEPTHS + 1],
            shape: Shape::default(),
            changes: 0,
        }
    }

    pub(crate) fn done(&mut self, sample: Sample) {
        let alone = sample.done.saturating_sub(sample.issued);
        let interval = self.last_done.map_or(alone, |last| sample.done.saturating_sub(last));
        self.last_done = Some(self.last_done.map_or(sample.done, |last| last.max(sample.done)));
        let took = alone.min(interval).0;
        match self.window {
            Window::Last(length) => self.remember(took, length.max(1) as usize),
            Window::Adaptive(_) => self.learn(took as f64, sample),
        }
    }

    /// A request has ended whose time says nothing: the next interval begins here.
    pub(crate) fn passed(&mut self, done: Nanos) {
        self.last_done = Some(self.last_done.map_or(done, |last| last.max(done)));
    }

    /// The mean time of one request of a kind; zero while nothing is known.
    pub(crate) fn mean(&self, kind: Kind) -> Nanos {
        match self.window {
            Window::Last(_) => Nanos(self.recent_sum / (self.recent.len() as u64).max(1)),
            Window::Adaptive(_) => {
                let of_kind = &self.kinds[usize::from(kind.0)];
                Nanos((if of_kind.count > 0 { of_kind } else { &self.all }).mean as u64)
            }
        }
    }

    /// The mean time of one request of any kind.
    pub(crate) fn mean_of_all(&self) -> Nanos {
        match self.window {
            Window::Last(_) => Nanos(self.recent_sum / (self.recent.len() as u64).max(1)),
            Window::Adaptive(_) => Nanos(self.all.mean as u64),
        }
    }

    /// How long the device takes for `load` requests when no more come, with `deviations` standard deviations.
    pub(crate) fn drain(&self, load: usize, deviations: f64) -> Nanos {
        if matches!(self.window, Window::Last(_)) {
            return self.mean_of_all() * load as u64;
        }
        let whole = load.min(DEPTHS);
        let beyond = (load - whole) as f64 * self.shape.mean_at(DEPTHS);
        let time = self.shape.mean[whole] + beyond + deviations * self.shape.variance[whole].sqrt();
        Nanos((time * self.all.mean).max(0.0) as u64)
    }

    /// How often the device has become another.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    fn remember(&mut self, took: u64, length: usize) {
        self.recent.push_back(took);
        self.recent_sum += took;
        if self.recent.len() > length {
            self.recent_sum -= self.recent.pop_front().expect("it is not empty");
        }
    }

    fn learn(&mut self, took: f64, sample: Sample) {
        self.all.push(took);
        let kind = &mut self.kinds[usize::from(sample.kind.0)];
        if kind.push(took) {
            self.changes += 1;
        }
        let relative = if kind.mean > 0.0 { took / kind.mean } else { 1.0 };
        self.by_depth[sample.depth.clamp(1, DEPTHS)].push(relative);
        if self.all.seen.is_multiple_of(SHAPE_EVERY) || self.all.seen < 64 {
            self.shape = Shape::of(&self.by_depth);
        }
    }
}

/// Times by depth are averaged over this many.
const SHAPE_LENGTH: u32 = 512;
/// How often sums over depths are made anew, in requests.
const SHAPE_EVERY: u64 = 16;
/// Fewer times than this at a depth are not relied on.
const SHAPE_LEAST: u32 = 16;

/// The time for so many requests when no more come, in mean service times: mean and variance.
#[derive(Clone, Debug)]
struct Shape {
    mean: [f64; DEPTHS + 1],
    variance: [f64; DEPTHS + 1],
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { mean: std::array::from_fn(|n| n as f64), variance: std::array::from_fn(|n| 0.25 * n as f64) }
    }
}

impl Shape {
    fn of(by_depth: &[Mean]) -> Shape {
        let known = |depth: &usize| by_depth[*depth].count >= SHAPE_LEAST;
        let Some(first) = (1..=DEPTHS).find(known) else { return Shape::default() };
        let (mut mean, mut variance) = ([0.0; DEPTHS + 1], [0.0; DEPTHS + 1]);
        let mut nearest = first;
        for depth in 1..=DEPTHS {
            if known(&depth) {
                nearest = depth;
            }
            mean[depth] = mean[depth - 1] + by_depth[nearest].mean;
            variance[depth] = variance[depth - 1] + by_depth[nearest].variance;
        }
        Shape { mean, variance }
    }

    fn mean_at(&self, depth: usize) -> f64 {
        self.mean[depth] - self.mean[depth - 1]
    }
}

/// A mean over about the last `length` values, which begins anew when the values have become others.
#[derive(Clone, Debug)]
struct Mean {
    length: u32,
    count: u32,
    mean: f64,
    variance: f64,
    /// The same over the last few, to see a change early.
    lately: f64,
    seen: u64,
}

/// The last few, for [`Mean::lately`].
const LATELY: u32 = 32;
/// By how many of its own standard deviations the mean of the last few must be off.
const CHANGED: f64 = 5.0;

impl Mean {
    fn new(length: u32) -> Mean {
        Mean { length, count: 0, mean: 0.0, variance: 0.0, lately: 0.0, seen: 0 }
    }

    /// Takes in a value; says whether it shows that the values have become others.
    fn push(&mut self, value: f64) -> bool {
        self.seen += 1;
        self.count = (self.count + 1).min(self.length);
        let weight = 1.0 / f64::from(self.count);
        let off = value - self.mean;
        self.mean += weight * off;
        self.variance = (1.0 - weight) * (self.variance + weight * off * off);
        self.lately += (value - self.lately) / f64::from(self.count.min(LATELY));
        // An average with weight 1/n has the variance 1/(2n - 1).
        let deviation = (self.variance / f64::from(2 * LATELY - 1)).sqrt();
        let changed = self.count >= 4 * LATELY
            && (self.lately - self.mean).abs() > CHANGED * deviation.max(0.01 * self.mean);
        if changed {
            self.count = LATELY;
            self.mean = self.lately;
        }
        changed
    }
}
