//! Service times of the device, measured during operation.
//!
//! Section 4.3: the service time of a request is `min(T3 - T2, interval between successive T3)`: the time from issue to
//! completion if it was alone in the device, otherwise the time since the previous completion.
//!
//! A drive that chooses among many requests is faster than one without a choice, so times are also kept by the number
//! of requests to choose from; this gives the time to drain a queue of given length. For a device that serves requests
//! in parallel, the time from issue to completion is kept instead, by the number of requests in the device.
//! Measurements show which kind a device is ([`parallel`]).

mod mean;
mod parallel;
mod shape;

use std::collections::VecDeque;

use sakiyomi_model::{Bytes, Nanos, Op};

use crate::rate::Share;
use crate::settings::{Serves, Settings, Window};
use mean::Mean;
use parallel::Parallel;
use shape::Shape;

/// Greatest queue depth that is distinguished; greater ones count as this.
pub(crate) const DEPTH_MAX: usize = 32;
/// Size classes: up to 4 KiB, 8 KiB, … and all above 4 MiB.
const SIZE_CLASSES: usize = 12;
/// Classes of operations.
const OPERATION_CLASSES: usize = 3;

/// A class of requests with similar service times: same operation, similar size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind(u8);

impl Kind {
    pub(crate) fn of(op: Op, size: Bytes) -> Kind {
        let pages = size.0.div_ceil(4096).max(1);
        let size = (u64::BITS - (pages - 1).leading_zeros()) as usize;
        let operation = match op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Flush | Op::Discard => 2,
        };
        Kind((operation * SIZE_CLASSES + size.min(SIZE_CLASSES - 1)) as u8)
    }

    pub(crate) fn is_write(self) -> bool {
        (SIZE_CLASSES..2 * SIZE_CLASSES).contains(&usize::from(self.0))
    }

    pub(crate) fn is_read(self) -> bool {
        usize::from(self.0) < SIZE_CLASSES
    }
}

/// A request that the device has completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) kind: Kind,
    /// Time of issue, T2.
    pub(crate) issued: Nanos,
    /// Time of completion, T3.
    pub(crate) done: Nanos,
    /// Number of requests from which the device could choose when it started this one.
    pub(crate) choice: usize,
    /// Number of requests in the device, including this one, when it was issued.
    pub(crate) beside: usize,
    /// Whether the mechanism was busy with another request all the time, and still is.
    pub(crate) bypassed: bool,
}

/// Service times of the device.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    window: Window,
    calibrated: Option<Nanos>,
    /// Mean service time of a device with a profile.
    fixed: Option<Nanos>,
    path: Nanos,
    told: Serves,
    /// Whether the device serves several requests in parallel, as far as known.
    several: bool,
    parallel: Parallel,
    /// Number of measured requests from which fresh samples with few requests in the device are needed.
    look_at: u64,
    looked: u64,
    last_done: Option<Nanos>,
    recent: VecDeque<u64>,
    recent_sum: u64,
    all: Mean,
    kinds: Vec<Mean>,
    by_depth: Vec<Mean>,
    shape: Shape,
    seen: u64,
    changes: u64,
}

/// I/Os before the first test whether the device serves several requests at a time, for which few must be in the
/// device.
const FIRST_TEST_IOS: u64 = 256;
/// I/Os between two such tests.
const TEST_PERIOD_IOS: u64 = 16_384;
/// I/Os between two tests at least, even if service times have changed.
const TEST_SPACING_MIN_IOS: u64 = 4096;
/// I/Os after which a test ends without a result: owners that always have several requests in the device prevent it.
const TEST_MAX_IOS: u64 = 256;
/// I/Os of a kind from which its service time is known well enough to recognize outliers.
const KIND_KNOWN_IOS: u32 = 4;
/// Ratio to the mean service time of its kind from which an I/O is an outlier.
const OUTLIER_MIN_RATIO: f64 = 3.0;
/// I/Os over which the service time at a queue depth is averaged.
const DEPTH_MEAN_IOS: u32 = 512;
/// I/Os between two updates of the device's shape.
const SHAPE_UPDATE_IOS: u64 = 16;

impl Service {
    pub(crate) fn new(settings: &Settings) -> Service {
        let length = match settings.window {
            Window::Last(length) | Window::Adaptive(length) => length.max(1),
        };
        Service {
            window: settings.window,
            calibrated: settings.service,
            fixed: None,
            path: settings.path,
            told: settings.serves,
            several: settings.serves == Serves::Several,
            parallel: Parallel::new(),
            look_at: if settings.serves == Serves::Several { 0 } else { FIRST_TEST_IOS },
            looked: 0,
            last_done: None,
            recent: VecDeque::new(),
            recent_sum: 0,
            all: Mean::new(length),
            kinds: vec![Mean::new(length); OPERATION_CLASSES * SIZE_CLASSES],
            by_depth: vec![Mean::new(DEPTH_MEAN_IOS); DEPTH_MAX + 1],
            shape: Shape::default(),
            seen: 0,
            changes: 0,
        }
    }

    /// Fixes the mean service time of all kinds, which is then no longer measured.
    pub(crate) fn fix(&mut self, service: Nanos) {
        self.fixed = Some(service);
    }

    pub(crate) fn done(&mut self, sample: Sample) {
        let alone = sample.done.saturating_sub(sample.issued);
        let interval = self.last_done.map_or(alone, |last| sample.done.saturating_sub(last));
        let thesis = matches!(self.window, Window::Last(_));
        if thesis || !sample.bypassed {
            self.passed(sample.done);
        }
        self.seen += 1;
        if self.told != Serves::OneByOne {
            self.find_out(alone, interval, sample);
        }
        match (self.window, self.several) {
            (Window::Last(length), _) => self.remember(alone.min(interval).0, length.max(1) as usize),
            (_, false) => self.learn(alone.min(interval), sample),
            (_, true) => self.learn_beside(alone, sample.kind, sample.beside),
        }
    }

    fn find_out(&mut self, stay: Nanos, interval: Nanos, sample: Sample) {
        match sample.beside {
            // Writes end when a cache has them, and show nothing.
            _ if !sample.kind.is_read() => {}
            // Later requests may have been done before it.
            1 if interval >= stay => self.parallel.alone(sample.kind, stay),
            // Among more than two requests a disk chooses the nearest, which takes less than one alone.
            2 if sample.choice <= 2 && !sample.bypassed => {
                self.parallel.pair(sample.kind, stay, interval);
            }
            _ => {}
        }
        if self.seen >= self.look_at
            && (self.wants_few().is_none() || self.seen >= self.look_at + TEST_MAX_IOS)
        {
            self.parallel.look_again();
            (self.looked, self.look_at) = (self.seen, self.seen + TEST_PERIOD_IOS);
        }
        let several = self.parallel.serves_several().filter(|several| *several != self.several);
        if let Some(several) = several.filter(|_| self.told == Serves::Measured) {
            self.become_another(several);
        }
    }

    /// Discards the measurements, whose meaning has changed; only the time of a request alone remains valid.
    fn become_another(&mut self, several: bool) {
        self.several = several;
        self.changes += 1;
        self.shape = Shape::default();
        self.by_depth.fill(Mean::new(DEPTH_MEAN_IOS));
        for index in 0..self.kinds.len() {
            if let Some(one) = self.parallel.time_of_one(Kind(index as u8)) {
                self.kinds[index].restart(one);
            }
        }
        let known = self.kinds.iter().filter(|kind| !kind.is_empty());
        let (sum, count) = known.fold((0.0, 0), |(sum, count), kind| (sum + kind.get(), count + 1));
        self.all.restart(sum / f64::from(count.max(1)));
    }

    /// Returns the limit of requests in the device while it must be measured with few.
    pub(crate) fn wants_few(&self) -> Option<usize> {
        if self.told == Serves::OneByOne || self.seen < self.look_at {
            return None;
        }
        self.parallel.wants(self.told == Serves::Measured)
    }

    /// Returns the parallelism of the device, as far as known.
    pub(crate) fn parallelism(&self) -> f64 {
        if self.several { self.shape.parallelism() } else { 1.0 }
    }

    /// Records a completion whose time is not evaluated: the next interval begins here.
    pub(crate) fn passed(&mut self, done: Nanos) {
        self.last_done = Some(self.last_done.map_or(done, |last| last.max(done)));
    }

    /// Returns whether a read took so much longer than others of its kind that the device must have done something
    /// else first.
    pub(crate) fn is_far_beyond(&self, kind: Kind, issued: Nanos, done: Nanos) -> bool {
        let of_kind = &self.kinds[usize::from(kind.0)];
        let begun = self.last_done.map_or(issued, |last| last.max(issued));
        kind.is_read()
            && of_kind.has(KIND_KNOWN_IOS)
            && done.saturating_sub(begun).0 as f64 > OUTLIER_MIN_RATIO * of_kind.get()
    }

    /// Marks all means to be replaced by the next measurement.
    pub(crate) fn forget(&mut self) {
        self.kinds.iter_mut().chain([&mut self.all]).for_each(Mean::forget);
    }

    /// Returns the mean service time of a kind; zero while nothing is known.
    pub(crate) fn mean(&self, kind: Kind) -> Nanos {
        let of_kind = &self.kinds[usize::from(kind.0)];
        if matches!(self.window, Window::Last(_)) || of_kind.is_empty() {
            return self.mean_of_all();
        }
        Nanos(of_kind.get() as u64)
    }

    /// Returns the service time from which the ideal time of a kind is computed.
    pub(crate) fn counted(&self, kind: Kind) -> Nanos {
        self.calibrated.unwrap_or_else(|| self.mean(kind))
    }

    /// Returns the service time from which the ideal time of requests of any kind is computed.
    pub(crate) fn counted_of_all(&self) -> Nanos {
        self.calibrated.unwrap_or_else(|| self.mean_of_all())
    }

    /// Returns the mean service time of all kinds.
    pub(crate) fn mean_of_all(&self) -> Nanos {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        match self.window {
            Window::Last(_) => Nanos(self.recent_sum / (self.recent.len() as u64).max(1)),
            Window::Adaptive(_) => Nanos(self.all.get() as u64),
        }
    }

    /// Returns how long the device may take for a request of an owner with this share: its ideal time without the path.
    pub(crate) fn time_for(&self, share: Share) -> Nanos {
        share.ideal(self.counted_of_all()).saturating_sub(self.path)
    }

    /// Returns the time to drain `load` requests with a serial service time of `work`, plus `deviations` standard
    /// deviations.
    pub(crate) fn drain(&self, load: usize, work: Nanos, deviations: f64) -> Nanos {
        match self.window {
            Window::Last(_) => work,
            Window::Adaptive(_) => {
                Nanos((self.shape.time(load, deviations) * work.0 as f64 / load.max(1) as f64).max(0.0) as u64)
            }
        }
    }

    /// Returns the number of changes of the device so far.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns whether the device serves several requests in parallel.
    pub(crate) fn serves_several(&self) -> bool {
        self.several
    }

    /// Returns whether the times of a parallel device have been measured sufficiently.
    pub(crate) fn knows_several(&self) -> bool {
        self.several && self.seen >= 64
    }

    /// Returns the number of measured requests.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    fn remember(&mut self, took: u64, length: usize) {
        self.recent.push_back(took);
        self.recent_sum += took;
        if self.recent.len() > length {
            self.recent_sum -= self.recent.pop_front().expect("it is not empty");
        }
    }

    fn learn(&mut self, took: Nanos, sample: Sample) {
        let kind = &mut self.kinds[usize::from(sample.kind.0)];
        let (changed, mean) = (kind.push(took.0 as f64), kind.get());
        self.all.push(took.0 as f64);
        if changed {
            self.changed();
        }
        if sample.bypassed {
            return;
        }
        let relative = if mean > 0.0 { took.0 as f64 / mean } else { 1.0 };
        self.by_depth[sample.choice.clamp(1, DEPTH_MAX)].push(relative);
        if self.seen.is_multiple_of(SHAPE_UPDATE_IOS) || self.seen < 64 {
            self.shape = Shape::one_by_one(&self.by_depth);
        }
    }

    /// Reacts to a change of the times, which may mean another device.
    fn changed(&mut self) {
        self.changes += 1;
        if self.told == Serves::Measured {
            self.parallel.forget_pairs();
            self.look_at = self.look_at.min(self.seen.max(self.looked + TEST_SPACING_MIN_IOS));
        }
    }

    /// Updates the means of a parallel device. The time with few requests in the device counts as that of one; times
    /// with more are scaled by the known shape.
    fn learn_beside(&mut self, took: Nanos, kind: Kind, beside: usize) {
        let beside = beside.clamp(1, DEPTH_MAX);
        let as_if_few = took.0 as f64 / self.shape.time(beside, 0.0);
        self.all.push(as_if_few);
        let kind = &mut self.kinds[usize::from(kind.0)];
        let changed = kind.push(as_if_few);
        self.by_depth[beside].push(took.0 as f64);
        if self.seen.is_multiple_of(SHAPE_UPDATE_IOS) || self.seen < 64 {
            self.shape = Shape::beside(&self.by_depth);
        }
        if changed {
            self.changed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_powers_of_two_of_pages() {
        let size = |bytes| Kind::of(Op::Read, Bytes(bytes)).0;
        assert_eq!([0, 512, 4096, 4097, 8192, 65_536, 1 << 40].map(size), [0, 0, 0, 1, 1, 4, 11]);
        assert_eq!(Kind::of(Op::Write, Bytes(4096)).0, 12);
    }

    #[test]
    fn the_time_of_one_is_the_shorter_of_its_stay_and_the_interval() {
        let settings = Settings { window: Window::Last(10), ..Settings::default() };
        let mut service = Service::new(&settings);
        let kind = Kind::of(Op::Read, Bytes(4096));
        // Two at once: the service time of the second one begins at the completion of the first one.
        let sample = |issued, done| Sample {
            kind,
            issued: Nanos(issued),
            done: Nanos(done),
            choice: 1,
            beside: 1,
            bypassed: false,
        };
        service.done(sample(0, 10));
        service.done(sample(0, 30));
        assert_eq!(service.mean(kind), Nanos(15));
        // After a pause the interval does not count.
        service.done(sample(1000, 1015));
        assert_eq!(service.mean(kind), Nanos(15));
        (0..10).for_each(|n| service.done(sample(2000 + n * 7, 2007 + n * 7)));
        assert_eq!(service.mean(kind), Nanos(7));
    }
}
