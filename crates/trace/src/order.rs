//! Re-ordering of a nearly ordered stream by time, in bounded memory.
//!
//! An entry, a record or an event, is delayed until one more than the window later has been read, since no later entry
//! can then precede it. Entries with equal times keep the file's order. Entries in order wait in a queue; only
//! stragglers go through a heap.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use sakiyomi_model::Nanos;

use crate::record::Record;

/// Maximum number of records in memory, for any window: about 100 MB.
pub(crate) const HELD_RECORDS_MAX: usize = 1 << 20;

/// An entry of a stream that is put in order of time.
pub(crate) trait Timed {
    fn time(&self) -> Nanos;
}

impl Timed for Record {
    fn time(&self) -> Nanos {
        self.time
    }
}

/// A record that is too late to be re-ordered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// It is this far back, which exceeds the window.
    Window(Nanos),
    /// It precedes a record already released because [`HELD_RECORDS_MAX`] were held.
    Full,
}

struct Straggler<T> {
    number: u64,
    record: T,
}

impl<T: Timed> Straggler<T> {
    fn key(&self) -> (Nanos, u64) {
        (self.record.time(), self.number)
    }
}

impl<T: Timed> PartialEq for Straggler<T> {
    fn eq(&self, other: &Straggler<T>) -> bool {
        self.key() == other.key()
    }
}
impl<T: Timed> Eq for Straggler<T> {}
impl<T: Timed> PartialOrd for Straggler<T> {
    fn partial_cmp(&self, other: &Straggler<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T: Timed> Ord for Straggler<T> {
    fn cmp(&self, other: &Straggler<T>) -> Ordering {
        self.key().cmp(&other.key())
    }
}

pub(crate) struct Reorder<T = Record> {
    window: Nanos,
    held_max: usize,
    /// In order of time and, by construction, of number.
    in_order: VecDeque<Straggler<T>>,
    stragglers: BinaryHeap<Reverse<Straggler<T>>>,
    next_number: u64,
    newest: Nanos,
    /// Time of the last record released.
    released: Nanos,
}

impl<T: Timed> Reorder<T> {
    pub(crate) fn new(window: Nanos) -> Reorder<T> {
        Reorder::with_capacity(window, HELD_RECORDS_MAX)
    }

    fn with_capacity(window: Nanos, held_max: usize) -> Reorder<T> {
        Reorder {
            window,
            held_max,
            in_order: VecDeque::new(),
            stragglers: BinaryHeap::new(),
            next_number: 0,
            newest: Nanos::ZERO,
            released: Nanos::ZERO,
        }
    }

    /// Adds the next record of the file.
    pub(crate) fn push(&mut self, record: T) -> Result<(), Late> {
        let time = record.time();
        let back = self.newest.saturating_sub(time);
        if back > self.window {
            return Err(Late::Window(back));
        }
        if time < self.released {
            return Err(Late::Full);
        }
        self.newest = self.newest.max(time);
        let entry = Straggler { number: self.next_number, record };
        self.next_number += 1;
        if self.in_order.back().is_some_and(|last| last.record.time() > time) {
            self.stragglers.push(Reverse(entry));
        } else {
            self.in_order.push_back(entry);
        }
        Ok(())
    }

    /// Returns the next record in order, if no later record of the file can precede it.
    pub(crate) fn pop_ready(&mut self) -> Option<T> {
        let first = self.first()?;
        let full = self.in_order.len() + self.stragglers.len() >= self.held_max;
        if full || self.newest.saturating_sub(first) > self.window { self.pop() } else { None }
    }

    /// Returns the next record in order, after the end of the file.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let straggler_first = match (self.stragglers.peek(), self.in_order.front()) {
            (Some(Reverse(straggler)), Some(other)) => straggler < other,
            (Some(_), None) => true,
            _ => false,
        };
        let entry = if straggler_first {
            self.stragglers.pop().map(|Reverse(entry)| entry)
        } else {
            self.in_order.pop_front()
        }?;
        self.released = entry.record.time();
        Some(entry.record)
    }

    fn first(&self) -> Option<Nanos> {
        let straggler = self.stragglers.peek().map(|Reverse(entry)| entry.record.time());
        let other = self.in_order.front().map(|entry| entry.record.time());
        straggler.into_iter().chain(other).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sakiyomi_model::{Bytes, Op};

    fn record(time: u64, line: u64) -> Record {
        Record { line, ..Record::new(Nanos(time), Op::Read, Bytes(0), Bytes(512)) }
    }

    fn run(mut reorder: Reorder, records: &[Record]) -> Result<Vec<Record>, Late> {
        let mut out = Vec::new();
        for &record in records {
            reorder.push(record)?;
            out.extend(std::iter::from_fn(|| reorder.pop_ready()));
        }
        out.extend(std::iter::from_fn(|| reorder.pop()));
        Ok(out)
    }

    #[test]
    fn a_record_beyond_the_window_is_refused_with_its_distance() {
        let records = [record(100, 1), record(89, 2)];
        assert_eq!(run(Reorder::new(Nanos(10)), &records), Err(Late::Window(Nanos(11))));
        assert!(run(Reorder::new(Nanos(11)), &records).is_ok());
    }

    #[test]
    fn no_more_than_the_capacity_is_held() {
        let reorder = || Reorder::with_capacity(Nanos::SECOND, 2);
        assert!(run(reorder(), &[record(2, 1), record(1, 2), record(3, 3)]).is_ok());
        assert_eq!(run(reorder(), &[record(2, 1), record(3, 2), record(1, 3)]), Err(Late::Full));
    }

    proptest! {
        #[test]
        fn disorder_within_the_window_comes_out_as_a_stable_sort(
            gaps in prop::collection::vec(0u64..30, 0..200),
            shifts in prop::collection::vec(0u64..50, 200),
        ) {
            // Ascending times, each moved forward by less than the window, so that none is further back than the
            // window.
            let mut base = 0;
            let mut records = Vec::new();
            for (at, gap) in gaps.iter().enumerate() {
                base += gap;
                records.push(record(base + shifts[at], at as u64));
            }
            let mut sorted = records.clone();
            sorted.sort_by_key(|record| record.time);
            prop_assert_eq!(run(Reorder::new(Nanos(50)), &records).unwrap(), sorted);
        }
    }
}
