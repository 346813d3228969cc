//! Rings between segments: bounded, one producer, one consumer, never blocking.
//!
//! A producer that finds its ring full keeps the item and pauses its segment, so that its worker can continue with
//! others, and with the consumer of the ring if that is its own. Neither end knows on which worker the other is;
//! the [`Link`] names the worker to wake.

#[cfg(not(all(test, loom)))]
mod chunks;
#[cfg(all(test, loom))]
mod model;

use std::collections::VecDeque;
use std::sync::Arc;
use std::{iter, mem};

#[cfg(all(test, loom))]
use model::{Consumer, Producer, PushError, RingBuffer, chunks};
#[cfg(not(all(test, loom)))]
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::board::Context;
use crate::counters::HighWater;
use crate::item::{Item, Run};
use crate::sync::{AtomicBool, AtomicUsize, Ordering, fence};

/// Workers at the ends of a ring.
pub(crate) struct Link {
    /// Worker of the consumer.
    pub(crate) consumer: AtomicUsize,
    /// Worker of the producer.
    pub(crate) producer: AtomicUsize,
    /// The producer found the ring full and wants to be woken.
    full: AtomicBool,
}

/// Makes a ring of this number of slots, both of whose ends belong to `worker`.
pub(crate) fn ring<T>(slots: usize, worker: usize, high_water: Arc<HighWater>) -> (Outlet<T>, Inlet<T>) {
    let (producer, consumer) = RingBuffer::new(slots);
    let link = Arc::new(Link {
        consumer: AtomicUsize::new(worker),
        producer: AtomicUsize::new(worker),
        full: AtomicBool::new(false),
    });
    let outlet = Outlet { producer, pending: VecDeque::new(), link: Arc::clone(&link) };
    (outlet, Inlet { consumer, link, slots, high_water })
}

/// The producer's end.
pub(crate) struct Outlet<T> {
    producer: Producer<Item<T>>,
    /// Items that found the ring full: the outputs of one run at most, or of one fusion.
    pending: VecDeque<Item<T>>,
    link: Arc<Link>,
}

impl<T> Outlet<T> {
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Sends an item, or keeps it if the ring is full.
    pub(crate) fn push(&mut self, item: Item<T>, cx: &mut Context) {
        if !self.pending.is_empty() {
            return self.pending.push_back(item);
        }
        match self.producer.push(item) {
            Ok(()) => self.wake_consumer(cx),
            Err(PushError::Full(item)) => {
                self.pending.push_back(item);
                cx.pauses += 1;
            }
        }
    }

    /// Like [`Outlet::push`] for each tuple of a run.
    pub(crate) fn push_run(&mut self, mut run: Run<'_, T>, cx: &mut Context) {
        let count = run.tuples.len();
        let mut items = run.drain().map(Item::Tuple);
        if self.pending.is_empty() {
            let sent = chunks::push(&mut self.producer, count, &mut items);
            if sent > 0 {
                self.wake_consumer(cx);
            }
            if sent == count {
                return;
            }
            cx.pauses += 1;
        }
        self.pending.extend(items);
    }

    /// Sends what was kept; whether all has been sent.
    pub(crate) fn flush(&mut self, cx: &mut Context) -> bool {
        if self.pending.is_empty() {
            return true;
        }
        // Before the look at the ring, as in `waker.rs`: either it has room now, or the consumer sees the flag.
        self.link.full.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let (count, pending) = (self.pending.len(), &mut self.pending);
        let sent = chunks::push(&mut self.producer, count, &mut iter::from_fn(|| pending.pop_front()));
        if sent > 0 {
            cx.progress += sent as u64;
            self.wake_consumer(cx);
        }
        if sent < count {
            return false;
        }
        self.link.full.store(false, Ordering::Relaxed);
        true
    }

    /// Takes the items that were kept.
    pub(crate) fn take_pending(&mut self) -> VecDeque<Item<T>> {
        mem::take(&mut self.pending)
    }

    fn wake_consumer(&self, cx: &Context) {
        // A consumer on this very worker stored its place here, so that this load cannot be out of date.
        if self.link.consumer.load(Ordering::Relaxed) != cx.worker {
            fence(Ordering::SeqCst);
            cx.board.wakers[self.link.consumer.load(Ordering::Relaxed)].wake();
        }
    }
}

/// The consumer's end.
pub(crate) struct Inlet<T> {
    consumer: Consumer<Item<T>>,
    link: Arc<Link>,
    slots: usize,
    high_water: Arc<HighWater>,
}

impl<T> Inlet<T> {
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Items in the ring; notes their largest number.
    pub(crate) fn backlog(&self) -> usize {
        let backlog = self.consumer.slots();
        self.high_water.note(backlog);
        backlog
    }

    pub(crate) fn pop(&mut self) -> Option<Item<T>> {
        self.consumer.pop().ok()
    }

    /// Takes at most `count` tuples that follow each other; none if nothing has come, or a mark is next.
    pub(crate) fn pop_run<'a>(&mut self, count: usize, tuples: &'a mut Vec<(T, u64)>) -> Option<Run<'a, T>> {
        let (mut first, mut next) = (None, 0);
        let follows = |item: &Item<T>| match item {
            Item::Tuple(tuple) => {
                let follows = first.is_none() || tuple.sequence == next;
                first.get_or_insert(tuple.sequence);
                next = tuple.sequence + 1;
                follows
            }
            Item::Mark(_) => false,
        };
        chunks::pop(&mut self.consumer, count, follows, |item| {
            if let Item::Tuple(tuple) = item {
                tuples.push((tuple.value, tuple.arrival_ns));
            }
        });
        Some(Run { first: first?, tuples })
    }

    /// Items at which the producer is woken: half of the ring, so that it does not park again after a few items, and
    /// the consumer has enough to do until it is awake.
    pub(crate) fn wake_up_at(&self) -> usize {
        self.slots / 2
    }

    /// Wakes the producer if it waits for room and the ring has fallen to half. To be called after some items have
    /// been taken. A ring that is fuller than that does not stay so: its consumer continues to take items.
    pub(crate) fn wake_producer(&self, cx: &Context) {
        if self.consumer.slots() > self.wake_up_at() {
            return;
        }
        fence(Ordering::SeqCst);
        if self.link.full.load(Ordering::Relaxed) {
            cx.board.wakers[self.link.producer.load(Ordering::Relaxed)].wake();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::board::Board;
    use crate::tuple::Tuple;
    use crate::waker::WaitState;

    const RING_SLOTS: usize = 8;

    #[test]
    fn a_producer_that_waits_is_woken_when_the_ring_has_fallen_to_half() {
        let board = Arc::new(Board::new(2, 0));
        let (mut producer, consumer) =
            (Context::new(0, Arc::clone(&board)), Context::new(1, Arc::clone(&board)));
        let (mut outlet, mut inlet) = ring(RING_SLOTS, 0, Arc::default());
        inlet.link().consumer.store(1, Ordering::Relaxed);
        for sequence in 0..=RING_SLOTS as u64 {
            outlet.push(Item::Tuple(Tuple { value: (), arrival_ns: 0, sequence }), &mut producer);
        }
        assert!(!outlet.flush(&mut producer));
        board.wakers[0].announce(WaitState::Parked);
        for left in (0..RING_SLOTS).rev() {
            assert!(inlet.pop().is_some());
            inlet.wake_producer(&consumer);
            assert_eq!(board.wakers[0].is_woken(), left <= RING_SLOTS / 2, "{left} left");
        }
    }

    fn tuple(sequence: u64) -> Item<u64> {
        Item::Tuple(Tuple { value: sequence * 10, arrival_ns: 0, sequence })
    }

    /// Returns the first number of a run and its values.
    fn next_run(inlet: &mut Inlet<u64>, count: usize) -> Option<(u64, Vec<u64>)> {
        let mut tuples = Vec::new();
        let first = inlet.pop_run(count, &mut tuples).map(|run| run.first)?;
        Some((first, tuples.into_iter().map(|(value, _)| value).collect()))
    }

    #[test]
    fn a_run_ends_at_its_length_at_a_mark_and_at_a_number_that_does_not_follow() {
        let mut cx = Context::new(0, Arc::new(Board::new(1, 0)));
        let (mut outlet, mut inlet) = ring(RING_SLOTS, 0, Arc::default());
        let stamp = crate::item::Stamp { arrival_ns: 0, sequence: 3 };
        [tuple(0), tuple(1), tuple(2)].into_iter().for_each(|item| outlet.push(item, &mut cx));
        outlet.push(Item::Mark(crate::item::Mark::End(stamp)), &mut cx);
        [tuple(4), tuple(4), tuple(6)].into_iter().for_each(|item| outlet.push(item, &mut cx));
        assert_eq!(next_run(&mut inlet, 2), Some((0, vec![0, 10])));
        assert_eq!(next_run(&mut inlet, 2), Some((2, vec![20])));
        assert_eq!(next_run(&mut inlet, 2), None);
        assert!(matches!(inlet.pop(), Some(Item::Mark(_))));
        for first in [4, 4, 6] {
            assert_eq!(next_run(&mut inlet, 2), Some((first, vec![first * 10])));
        }
        assert_eq!(next_run(&mut inlet, 2), None);
    }

    #[test]
    fn a_run_that_finds_no_room_is_kept_and_sent_in_its_order() {
        let mut cx = Context::new(0, Arc::new(Board::new(1, 0)));
        let (mut outlet, mut inlet) = ring(RING_SLOTS, 0, Arc::default());
        let mut sent = 0;
        for count in [5, 7, 9] {
            let mut tuples = (sent..sent + count).map(|number| (number * 10, 0)).collect();
            outlet.push_run(Run { first: sent, tuples: &mut tuples }, &mut cx);
            assert!(tuples.is_empty());
            sent += count;
        }
        assert_eq!(cx.pauses, 1, "the first that found no room");
        let mut received = 0;
        while received < sent {
            outlet.flush(&mut cx);
            let (first, values) = next_run(&mut inlet, 64).expect("the ring was filled");
            assert_eq!(first, received);
            received += values.len() as u64;
            assert_eq!(values, (first..received).map(|number| number * 10).collect::<Vec<_>>());
        }
        assert!(outlet.flush(&mut cx) && inlet.pop().is_none());
    }
}
