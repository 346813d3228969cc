//! What is counted: of the whole run, and of a chunk.

use sakiyomi_model::{Breakdown, Bytes, Class, Completion, Nanos, Op, WriteClass};

use super::{Join, Latency};
use crate::usage::Usage;

/// The place of a class in [`Class::ALL`], without looking for it.
fn index(class: Class) -> usize {
    match class {
        Class::Read(read) => read as usize,
        Class::Write(WriteClass::Absorbed) => 5,
        Class::Write(WriteClass::Media) => 6,
        Class::Flush => 7,
        Class::Discard => 8,
        Class::Refused => 9,
    }
}

/// How many of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commands ended.
    pub commands: u64,
    /// By class, in the order of [`Class::ALL`].
    pub by_class: [u64; Class::ALL.len()],
    /// Bytes of reads.
    pub read_bytes: Bytes,
    /// Bytes of writes.
    pub written_bytes: Bytes,
}

impl Counts {
    fn add(&mut self, completion: &Completion, bytes: Bytes) {
        self.commands += 1;
        self.by_class[index(completion.class)] += 1;
        match completion.request.op {
            Op::Read => self.read_bytes += bytes,
            Op::Write => self.written_bytes += bytes,
            Op::Flush | Op::Discard => {}
        }
    }

    fn merge(&mut self, other: &Counts) {
        self.commands += other.commands;
        self.by_class.iter_mut().zip(other.by_class).for_each(|(own, more)| *own += more);
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
    }

    /// Commands of one class.
    #[must_use]
    pub fn of(&self, class: Class) -> u64 {
        self.by_class[index(class)]
    }

    /// All reads.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.by_class[..5].iter().sum()
    }

    /// All writes.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.by_class[5] + self.by_class[6]
    }

    /// Share of the reads that were full or active hits; zero of none.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        let hits = self.by_class[0] + self.by_class[1];
        if self.reads() == 0 { 0.0 } else { hits as f64 / self.reads() as f64 }
    }
}

/// The whole run.
#[derive(Clone, Debug)]
pub struct Tally {
    /// How many of what.
    pub counts: Counts,
    /// Response times by class, in the order of [`Class::ALL`]: from the host's wish to the end.
    pub by_class: Vec<Latency>,
    /// Times in the device, of all commands.
    pub device: Latency,
    /// Waits in the host's queue, of all commands.
    pub host_wait: Latency,
    /// Where the time in the device went: sums by class.
    pub breakdown: [Breakdown; Class::ALL.len()],
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            counts: Counts::default(),
            by_class: vec![Latency::default(); Class::ALL.len()],
            device: Latency::default(),
            host_wait: Latency::coarse(),
            breakdown: [Breakdown::default(); Class::ALL.len()],
        }
    }
}

impl Tally {
    pub(super) fn add(&mut self, completion: &Completion, bytes: Bytes) {
        let class = index(completion.class);
        self.counts.add(completion, bytes);
        self.by_class[class].record(completion.response_time());
        self.device.record(completion.device_time());
        self.host_wait.record(completion.submitted.saturating_sub(completion.request.arrival));
        let (sum, part) = (&mut self.breakdown[class], &completion.breakdown);
        sum.queue += part.queue;
        sum.overhead += part.overhead;
        sum.seek += part.seek;
        sum.rotation += part.rotation;
        sum.transfer += part.transfer;
    }

    /// Response times of all classes for which `which` holds.
    #[must_use]
    pub fn response(&self, which: impl Fn(Class) -> bool) -> Latency {
        let mut all = Latency::default();
        let chosen = Class::ALL.iter().zip(&self.by_class).filter(|(class, _)| which(**class));
        chosen.for_each(|(_, latency)| all.merge(latency));
        all
    }
}

/// A chunk, or neighbouring chunks joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// When it began.
    pub start: Nanos,
    /// When it closed.
    pub end: Nanos,
    /// How many of what ended in it.
    pub counts: Counts,
    /// Sum of the response times of all commands that ended in it.
    pub response_sum: Nanos,
    /// The response time that 99 % did not exceed, to 1 %; of joined chunks, the worst one's.
    pub response_p99: Nanos,
    /// The longest response time.
    pub response_max: Nanos,
    /// The mechanism's account; its times add up to `end - start` exactly.
    pub usage: Usage,
    /// The most requests that waited in the host at once, as seen when commands ended.
    pub backlog_max: u64,
}

impl Point {
    pub(super) fn new(start: Nanos) -> Point {
        Point {
            start,
            end: start,
            counts: Counts::default(),
            response_sum: Nanos::ZERO,
            response_p99: Nanos::ZERO,
            response_max: Nanos::ZERO,
            usage: Usage::default(),
            backlog_max: 0,
        }
    }

    pub(super) fn add(&mut self, completion: &Completion, bytes: Bytes, backlog: usize) {
        self.counts.add(completion, bytes);
        self.response_sum = self.response_sum.saturating_add(completion.response_time());
        self.response_max = self.response_max.max(completion.response_time());
        self.backlog_max = self.backlog_max.max(backlog as u64);
    }

    /// Mean response time; zero of none.
    #[must_use]
    pub fn response_mean(&self) -> Nanos {
        if self.counts.commands == 0 { Nanos::ZERO } else { self.response_sum / self.counts.commands }
    }
}

impl Join for Point {
    fn join(&mut self, next: &Point) {
        self.end = next.end;
        self.counts.merge(&next.counts);
        self.response_sum = self.response_sum.saturating_add(next.response_sum);
        self.response_p99 = self.response_p99.max(next.response_p99);
        self.response_max = self.response_max.max(next.response_max);
        self.usage = self.usage + next.usage;
        self.backlog_max = self.backlog_max.max(next.backlog_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_is_counted_in_its_place() {
        assert!((0..).zip(Class::ALL).all(|(place, class)| index(class) == place));
    }
}
