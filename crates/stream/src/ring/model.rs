//! A ring for loom: with the orders of `rtrb`, whose own tests check its memory accesses.

use std::sync::Arc;

use crate::sync::{AtomicUsize, Mutex, Ordering, lock};

struct Ring<T> {
    slots: Vec<Mutex<Option<T>>>,
    head: AtomicUsize,
    tail: AtomicUsize,
}

pub(super) struct RingBuffer;

impl RingBuffer {
    #[allow(clippy::new_ret_no_self)]
    pub(super) fn new<T>(slots: usize) -> (Producer<T>, Consumer<T>) {
        let slots = (0..slots).map(|_| Mutex::new(None)).collect();
        let ring = Arc::new(Ring { slots, head: AtomicUsize::new(0), tail: AtomicUsize::new(0) });
        (Producer { ring: Arc::clone(&ring), tail: 0 }, Consumer { ring, head: 0 })
    }
}

pub(super) enum PushError<T> {
    Full(T),
}

pub(super) struct Producer<T> {
    ring: Arc<Ring<T>>,
    tail: usize,
}

impl<T> Producer<T> {
    pub(super) fn push(&mut self, item: T) -> Result<(), PushError<T>> {
        if self.tail - self.ring.head.load(Ordering::Acquire) == self.ring.slots.len() {
            return Err(PushError::Full(item));
        }
        let before = lock(&self.ring.slots[self.tail % self.ring.slots.len()]).replace(item);
        assert!(before.is_none(), "an item is overwritten");
        self.tail += 1;
        self.ring.tail.store(self.tail, Ordering::Release);
        Ok(())
    }
}

pub(super) struct Consumer<T> {
    ring: Arc<Ring<T>>,
    head: usize,
}

impl<T> Consumer<T> {
    pub(super) fn slots(&self) -> usize {
        self.ring.tail.load(Ordering::Acquire) - self.head
    }

    pub(super) fn pop(&mut self) -> Result<T, ()> {
        if self.slots() == 0 {
            return Err(());
        }
        let item = lock(&self.ring.slots[self.head % self.ring.slots.len()]).take();
        self.head += 1;
        self.ring.head.store(self.head, Ordering::Release);
        Ok(item.expect("an item was stored before its tail"))
    }
}

/// A model with the interface of `ring/chunks.rs`.
pub(super) mod chunks {
    use super::{Consumer, Ordering, Producer, lock};

    pub(in crate::ring) fn push<T>(
        producer: &mut Producer<T>,
        count: usize,
        items: &mut impl Iterator<Item = T>,
    ) -> usize {
        let slots = producer.ring.slots.len();
        let room = slots - (producer.tail - producer.ring.head.load(Ordering::Acquire));
        let sent = count.min(room);
        for item in items.take(sent) {
            let before = lock(&producer.ring.slots[producer.tail % slots]).replace(item);
            assert!(before.is_none(), "an item is overwritten");
            producer.tail += 1;
        }
        if sent > 0 {
            producer.ring.tail.store(producer.tail, Ordering::Release);
        }
        sent
    }

    pub(in crate::ring) fn pop<T>(
        consumer: &mut Consumer<T>,
        count: usize,
        mut is_taken: impl FnMut(&T) -> bool,
        mut take: impl FnMut(T),
    ) {
        let (slots, head) = (consumer.ring.slots.len(), consumer.head);
        for _ in 0..count.min(consumer.slots()) {
            let item = lock(&consumer.ring.slots[consumer.head % slots]).take_if(|item| is_taken(item));
            let Some(item) = item else { break };
            take(item);
            consumer.head += 1;
        }
        if consumer.head > head {
            consumer.ring.head.store(consumer.head, Ordering::Release);
        }
    }
}
