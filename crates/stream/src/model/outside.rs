//! Model checks of input from threads that are not workers, and of naps.

use std::collections::VecDeque;

use super::*;
use crate::waker::{WaitState, Waker};
use crate::wakeup::Wakeup;

type Inbox = Arc<Mutex<VecDeque<u64>>>;

/// Values from another thread, then the end.
struct Outside {
    inbox: Inbox,
    wakeup: Wakeup,
    taken: u64,
}

impl Source for Outside {
    type Out = u64;

    fn next(&mut self, _: u64) -> Next<u64> {
        if self.taken == TUPLE_COUNT {
            return Next::End;
        }
        match lock(&self.inbox).pop_front() {
            Some(value) => {
                self.taken += 1;
                Next::Value { value, arrival_ns: 0 }
            }
            None => Next::At(u64::MAX),
        }
    }

    fn wakeup(&self) -> Option<Wakeup> {
        Some(self.wakeup.clone())
    }
}

/// Starts workers of which the first has a source and a sink, and a thread that sends to the source.
fn start_outside(workers: usize) -> (Chain, JoinHandle<()>) {
    let collected = Arc::new(Mutex::new(Vec::new()));
    let (inbox, wakeup): (Inbox, Wakeup) = (Arc::new(Mutex::new(VecDeque::new())), Wakeup::new());
    let source = Outside { inbox: Arc::clone(&inbox), wakeup: wakeup.clone(), taken: 0 };
    let builder = StreamBuilder::new(1);
    builder.source("outside", source).sink("sink", Collect(Arc::clone(&collected)));
    let mut segment = builder.build().expect("a chain").sources.remove(0);
    let board = Arc::new(Board::new(workers, 1));
    let mailboxes = Arc::new(Mailboxes::new(Arc::clone(&board)));
    tree::connect(segment.root(), &board);
    install(&mailboxes, 0, segment);
    let threads = start(&board, &mailboxes);
    let sender = thread::spawn(move || {
        for value in 1..=TUPLE_COUNT {
            lock(&inbox).push_back(value);
            wakeup.notify();
        }
    });
    (Chain { threads, board, mailboxes, collected }, sender)
}

#[test]
fn input_from_outside_wakes_the_worker() {
    check(2, || {
        let (chain, sender) = start_outside(1);
        sender.join().expect("it does not panic");
        chain.finish();
    });
}

#[test]
fn input_from_outside_wakes_the_worker_to_which_its_source_moves() {
    check(1, || {
        let (chain, sender) = start_outside(2);
        chain.change(0, |reply| Mail::Move { head: OperatorId(0), to: 1, reply });
        sender.join().expect("it does not panic");
        chain.finish();
    });
}

#[test]
fn a_worker_that_parks_after_a_nap_is_woken_for_input() {
    check(3, || {
        let waker = Arc::new(Waker::new());
        let inbox: Inbox = Arc::new(Mutex::new(VecDeque::new()));
        let sender = thread::spawn({
            let (waker, inbox) = (Arc::clone(&waker), Arc::clone(&inbox));
            move || {
                for value in 0..2 {
                    lock(&inbox).push_back(value);
                    crate::sync::fence(crate::sync::Ordering::SeqCst);
                    waker.wake_for_input();
                }
            }
        });
        let take = || lock(&inbox).drain(..).count();
        // A nap, which ends by itself: loom has no clock.
        waker.announce(WaitState::Napping);
        let mut taken = take();
        waker.retract();
        taken += take();
        while taken < 2 {
            waker.announce(WaitState::Parked);
            let found = take();
            if found == 0 {
                waker.park(None);
            }
            waker.retract();
            taken += found + take();
        }
        sender.join().expect("it does not panic");
    });
}
