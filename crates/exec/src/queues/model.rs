//! A model check of [`super`]: loom runs each of these in every order in which threads can take locks and wake up, up to
//! a number of times that one is stopped in favour of another, and tells of one in which nobody can go on.

use super::*;
use crate::sync::model::check;
use loom::sync::Arc;
use loom::thread;

pub(super) mod system {
    /// What is seen by a second look is what the first would have seen later.
    pub(in crate::queues) const LOOKS: usize = 1;

    /// To yield would let the others come to where nothing is on its way.
    pub(in crate::queues) fn pause(_: usize) {}

    /// Every order is tried whatever the time.
    pub(in crate::queues) fn now() -> u64 {
        0
    }
}

/// Takes tasks until there are no more, and says how many there were.
fn serve(queues: &Queues<u32>, me: usize) -> usize {
    std::iter::from_fn(|| queues.next(me, || false)).count()
}

#[test]
fn a_task_that_is_added_while_a_thread_goes_to_sleep_is_done() {
    for (whose, priority) in [
        (For::Any(None), Priority::Normal),
        (For::Any(None), Priority::High),
        (For::Any(None), Priority::Low),
        (For::Any(Some(0)), Priority::Normal),
        (For::Thread(0), Priority::Normal),
    ] {
        check(3, move || {
            let queues = Arc::new(Queues::new(1, 0));
            let server = Arc::clone(&queues);
            let thread = thread::spawn(move || assert_eq!(server.next(0, || false), Some(7)));
            queues.push(7, whose, priority);
            thread.join().unwrap();
        });
    }
}

#[test]
fn every_task_is_done_once_when_one_thread_steals_from_another() {
    check(3, || {
        let queues = Arc::new(Queues::new(2, 0));
        queues.push(1, For::Any(Some(0)), Priority::Normal);
        queues.push(2, For::Any(Some(0)), Priority::Normal);
        let thief = Arc::clone(&queues);
        let thread = thread::spawn(move || serve(&thief, 1));
        let own = usize::from(queues.take(0, 0).is_some());
        queues.close();
        let stolen = thread.join().unwrap();
        let left = std::iter::from_fn(|| queues.take(0, 0)).count();
        assert_eq!(own + stolen + left, 2);
    });
}

#[test]
fn who_waits_for_something_to_be_enough_is_woken() {
    check(3, || {
        let queues = Arc::new(Queues::<u32>::new(1, 0));
        let live = Arc::new(AtomicUsize::new(1));
        let (waker, ended) = (Arc::clone(&queues), Arc::clone(&live));
        let thread = thread::spawn(move || {
            ended.store(0, Ordering::Relaxed);
            waker.wake(0);
        });
        assert_eq!(queues.next(0, || live.load(Ordering::Relaxed) == 0), None);
        thread.join().unwrap();
    });
}

#[test]
fn closing_ends_every_thread() {
    check(3, || {
        let queues = Arc::new(Queues::<u32>::new(1, 1));
        let threads: Vec<_> = (0..2)
            .map(|me| {
                let queues = Arc::clone(&queues);
                thread::spawn(move || assert_eq!(serve(&queues, me), 0))
            })
            .collect();
        queues.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn what_was_stolen_is_not_left_to_a_thief_that_is_busy_with_one_of_them() {
    check(3, || {
        let queues = Arc::new(Queues::new(2, 0));
        (0..3).for_each(|task| queues.push(task, For::Any(Some(0)), Priority::Normal));
        let thief = Arc::clone(&queues);
        let thread = thread::spawn(move || assert!(thief.take(1, 0).is_some()));
        // Nobody else runs the other two.
        assert!(queues.next(0, || false).is_some() && queues.next(0, || false).is_some());
        thread.join().unwrap();
    });
}
