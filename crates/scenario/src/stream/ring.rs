//! A bounded ring between two cores, and what waits for room in it.

use std::collections::VecDeque;

use super::time::NEVER_PS;

/// A tuple in a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// When the tuple of the input that it stems from was meant to arrive.
    pub(super) origin_ps: u64,
    /// When it came into the ring.
    pub(super) sent_ps: u64,
    /// When it can be taken.
    pub(super) ready_ps: u64,
    /// Its number among the tuples of an ordered channel; [`NO_TICKET`] without one.
    pub(super) ticket: u64,
    /// Whether it came from another cache domain.
    pub(super) is_far: bool,
}

/// The tuple need not be put in order with others.
pub(super) const NO_TICKET: u64 = u64::MAX;

/// Work that continues when a ring has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    /// A core with outputs.
    Core(usize),
    /// An ordered channel with outputs.
    Order(usize),
    /// A source.
    Input(usize),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    queue: VecDeque<Entry>,
    /// Whether a tuple that was taken is in progress: it keeps its slot.
    is_taken: bool,
    /// Tuples taken so far.
    taken: u64,
    /// When the last tuple came.
    pub(super) last_sent_ps: u64,
    pub(super) waiters: Vec<Waiter>,
    /// Tuples up to a marker of a repartition, that in progress included.
    pub(super) before_marker: usize,
    /// Tuples in the ring at the time of the last release, and the most that there were.
    occupied: usize,
    pub(super) high_water: usize,
    /// Tuples at the front of the queue that `occupied` counts.
    counted: usize,
    /// How often a tuple found it full.
    pub(super) times_full: u64,
}

impl Ring {
    /// Tuples that have a slot, those that are sent by a burst that has begun included.
    pub(super) fn len(&self) -> usize {
        self.queue.len() + usize::from(self.is_taken)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn front(&self) -> Option<&Entry> {
        self.queue.front()
    }

    /// Returns the number of the tuple among all of the ring.
    pub(super) fn push(&mut self, entry: Entry) -> u64 {
        self.last_sent_ps = entry.sent_ps;
        self.queue.push_back(entry);
        self.taken + self.queue.len() as u64 - 1
    }

    pub(super) fn take(&mut self, now_ps: u64) -> Option<Entry> {
        self.count(now_ps);
        let entry = self.queue.pop_front()?;
        self.taken += 1;
        self.counted -= 1;
        self.is_taken = true;
        Some(entry)
    }

    /// The tuple that was taken is done.
    pub(super) fn release(&mut self, now_ps: u64) {
        self.count(now_ps);
        self.occupied -= 1;
        self.is_taken = false;
    }

    /// The tuple of a number can be taken from now on; whether it is the next one.
    pub(super) fn complete(&mut self, number: u64, now_ps: u64) -> bool {
        let index = number.checked_sub(self.taken).and_then(|index| usize::try_from(index).ok());
        let Some(index) = index.filter(|&index| index < self.queue.len()) else { return false };
        debug_assert_eq!(self.queue[index].ready_ps, NEVER_PS, "completed twice");
        self.queue[index].ready_ps = now_ps;
        index == 0
    }

    /// Counts the tuples that have come until now. A burst sends its tuples in advance, so the number of those in the ring
    /// is known when the next one leaves: the times at which tuples come ascend.
    pub(super) fn count(&mut self, now_ps: u64) {
        while self.queue.get(self.counted).is_some_and(|entry| entry.sent_ps <= now_ps) {
            self.counted += 1;
            self.occupied += 1;
        }
        self.high_water = self.high_water.max(self.occupied);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(sent_ps: u64) -> Entry {
        Entry { origin_ps: 0, sent_ps, ready_ps: sent_ps, ticket: NO_TICKET, is_far: false }
    }

    #[test]
    fn the_high_water_counts_tuples_when_they_come_and_not_when_they_are_announced() {
        let mut ring = Ring::default();
        for sent_ps in [10, 20, 30] {
            ring.push(entry(sent_ps));
        }
        for done_ps in [15, 25, 35] {
            ring.take(done_ps - 5).unwrap();
            ring.release(done_ps);
        }
        assert_eq!((ring.high_water, ring.len()), (1, 0));
        for sent_ps in [40, 41, 42] {
            ring.push(entry(sent_ps));
        }
        ring.take(41).unwrap();
        ring.release(50);
        assert_eq!((ring.high_water, ring.len()), (3, 2));
    }
}
