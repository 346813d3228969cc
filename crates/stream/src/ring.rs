//! Rings between segments: bounded, one producer, one consumer, never blocking.
//!
//! A producer that finds its ring full keeps the item and pauses its segment, so that its worker can go on with
//! others, and with the consumer of the ring if that is its own. Neither end knows on which worker the other is;
//! the [`Link`] says whom to wake.

#[cfg(all(test, loom))]
mod model;

use std::collections::VecDeque;
use std::sync::Arc;

#[cfg(all(test, loom))]
use model::{Consumer, Producer, PushError, RingBuffer};
#[cfg(not(all(test, loom)))]
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::board::Context;
use crate::counters::HighWater;
use crate::item::Item;
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

/// Makes a ring of so many slots, both of whose ends belong to `worker`.
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
    /// Items that found the ring full: the outputs of one tuple at most, or of one fusion.
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

    /// Sends what was kept; whether all has been sent.
    pub(crate) fn flush(&mut self, cx: &mut Context) -> bool {
        if self.pending.is_empty() {
            return true;
        }
        // Before the look at the ring, as in `waker.rs`: either it has room now, or the consumer sees the flag.
        self.link.full.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while let Some(item) = self.pending.pop_front() {
            match self.producer.push(item) {
                Ok(()) => {
                    cx.progress += 1;
                    self.wake_consumer(cx);
                }
                Err(PushError::Full(item)) => {
                    self.pending.push_front(item);
                    return false;
                }
            }
        }
        self.link.full.store(false, Ordering::Relaxed);
        true
    }

    /// The items that were kept.
    pub(crate) fn into_pending(self) -> VecDeque<Item<T>> {
        self.pending
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

    /// Items at which the producer is woken: half of the ring, so that it does not park again after a few items, and
    /// the consumer has enough to do until it is awake.
    pub(crate) fn wake_up_at(&self) -> usize {
        self.slots / 2
    }

    /// Wakes the producer if it waits for room and the ring has fallen to half. To be called after some items have
    /// been taken. A ring that is fuller than that does not stay so: its consumer goes on to take items.
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
    use crate::waker::Rest;

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
        board.wakers[0].announce(Rest::Parked);
        for left in (0..RING_SLOTS).rev() {
            assert!(inlet.pop().is_some());
            inlet.wake_producer(&consumer);
            assert_eq!(board.wakers[0].is_woken(), left <= RING_SLOTS / 2, "{left} left");
        }
    }
}
