//! Counters and response times of a run, and of a chunk.

use sakiyomi_model::{Breakdown, Bytes, Class, Completion, Detail, Nanos, Op, WriteClass};

use super::{Join, Latency};
use crate::usage::Usage;

/// Counters by class: one for each of [`Class::ALL`], and one for commands of unknown class.
const CLASS_COUNTERS: usize = Class::ALL.len() + 1;

/// Returns the index of a class in [`Class::ALL`]; the last counter's if the class is unknown.
fn slot(class: Option<Class>) -> usize {
    let Some(class) = class else { return CLASS_COUNTERS - 1 };
    match class {
        Class::Read(read) => read as usize,
        Class::Write(WriteClass::Absorbed) => 5,
        Class::Write(WriteClass::Media) => 6,
        Class::Flush => 7,
        Class::Discard => 8,
        Class::Refused => 9,
    }
}

/// Numbers of commands and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Finished commands.
    pub commands: u64,
    /// Commands by class, in the order of [`Class::ALL`]; the last counter is for commands of unknown class.
    pub by_class: [u64; CLASS_COUNTERS],
    /// Bytes read.
    pub read_bytes: Bytes,
    /// Bytes written.
    pub written_bytes: Bytes,
}

impl Counts {
    fn add(&mut self, completion: &Completion, bytes: Bytes) {
        self.commands += 1;
        self.by_class[slot(completion.class())] += 1;
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

    /// Returns the number of commands of a class.
    #[must_use]
    pub fn of(&self, class: Class) -> u64 {
        self.by_class[slot(Some(class))]
    }

    /// Returns the number of reads of known class.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.by_class[..5].iter().sum()
    }

    /// Returns the number of writes of known class.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.by_class[5] + self.by_class[6]
    }

    /// Returns the number of commands of unknown class, which are neither hits nor misses.
    #[must_use]
    pub fn unclassed(&self) -> u64 {
        self.by_class[slot(None)]
    }

    /// Returns the share of full and active hits among the reads of known class; zero if there are none.
    #[must_use]
    pub fn hit_ratio(&self) -> f64 {
        let hits = self.by_class[0] + self.by_class[1];
        if self.reads() == 0 { 0.0 } else { hits as f64 / self.reads() as f64 }
    }
}

/// Counters and response times of the whole run.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Numbers of commands and bytes.
    pub counts: Counts,
    /// Response times by class, in the order of [`Class::ALL`], followed by those of unknown class.
    pub by_class: Vec<Latency>,
    /// Device times of all commands.
    pub device: Latency,
    /// Waits in the host's queue of all commands.
    pub host_wait: Latency,
    /// Sums of the device time's parts by class, for commands of known class.
    pub breakdown: [Breakdown; Class::ALL.len()],
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            counts: Counts::default(),
            by_class: vec![Latency::default(); CLASS_COUNTERS],
            device: Latency::default(),
            host_wait: Latency::coarse(),
            breakdown: [Breakdown::default(); Class::ALL.len()],
        }
    }
}

impl Tally {
    pub(super) fn add(&mut self, completion: &Completion, bytes: Bytes) {
        self.counts.add(completion, bytes);
        self.by_class[slot(completion.class())].record(completion.response_time());
        self.device.record(completion.device_time());
        self.host_wait.record(completion.submitted.saturating_sub(completion.request.arrival));
        let Some(Detail { class, breakdown: part }) = completion.detail else { return };
        let sum = &mut self.breakdown[slot(Some(class))];
        sum.queue += part.queue;
        sum.overhead += part.overhead;
        sum.seek += part.seek;
        sum.rotation += part.rotation;
        sum.transfer += part.transfer;
    }

    /// Returns the response times of all classes that satisfy `which`; `None` stands for the unknown class.
    #[must_use]
    pub fn response(&self, which: impl Fn(Option<Class>) -> bool) -> Latency {
        let mut all = Latency::default();
        let classes = Class::ALL.into_iter().map(Some).chain([None]);
        let chosen = classes.zip(&self.by_class).filter(|(class, _)| which(*class));
        chosen.for_each(|(_, latency)| all.merge(latency));
        all
    }
}

/// A chunk, or neighboring chunks merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Start of the interval.
    pub start: Nanos,
    /// End of the interval.
    pub end: Nanos,
    /// Commands that finished in it, and their bytes.
    pub counts: Counts,
    /// Sum of the response times of these commands.
    pub response_sum: Nanos,
    /// 99th percentile of the response time, accurate to 1 %; for merged chunks the largest one.
    pub response_p99: Nanos,
    /// Maximum response time.
    pub response_max: Nanos,
    /// Time and seek counts of the mechanism; the times add up to `end - start` exactly.
    pub usage: Usage,
    /// Maximum number of requests waiting in the host, sampled when commands finished.
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

    /// Returns the mean response time; zero if there are no commands.
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
    use sakiyomi_model::{Extent, Lba, Outcome, ReadClass, Request, RequestId, Sectors, StreamId};

    #[test]
    fn each_class_is_counted_in_its_place() {
        assert!((0..).zip(Class::ALL).all(|(place, class)| slot(Some(class)) == place));
    }

    #[test]
    fn a_command_of_unknown_class_is_neither_a_hit_nor_a_miss() {
        let extent = Extent::new(Lba(0), Sectors(8));
        let (id, stream, arrival) = (RequestId(0), StreamId(0), Nanos(1));
        let request = Request { id, stream, op: Op::Read, fua: false, extent, arrival };
        let (submitted, finish) = (arrival, Nanos(1_000_001));
        let unknown = Completion { request, submitted, finish, outcome: Outcome::Done, detail: None };
        let breakdown = Breakdown { transfer: Nanos(1_000_000), ..Breakdown::default() };
        let hit = Detail { class: Class::Read(ReadClass::FullHit), breakdown };
        let mut tally = Tally::default();
        tally.add(&unknown, Bytes(4096));
        tally.add(&Completion { detail: Some(hit), ..unknown }, Bytes(4096));
        let counts = &tally.counts;
        assert_eq!((counts.commands, counts.unclassed(), counts.reads(), counts.hit_ratio()), (2, 1, 1, 1.0));
        assert!(Class::ALL.iter().all(|&class| counts.of(class) == u64::from(class == hit.class)));
        assert_eq!(tally.response(|_| true).count(), 2);
        assert_eq!(tally.response(|class| matches!(class, Some(Class::Read(_)))).count(), 1);
        let sum = tally.breakdown.iter().map(|parts| parts.transfer.0).sum::<u64>();
        assert_eq!(sum, 1_000_000, "no time is ascribed to a part of a device that does not tell");
    }
}
