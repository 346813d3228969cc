//! A model check of what tasks of different threads say to each other: loom runs each of these in every order in which
//! threads can take locks and wake up, up to a number of times that one is stopped in favour of another.

use loom::sync::Arc;
use loom::thread;

use super::caller::Caller;
use super::edges::{Edges, Linked};
use super::failure::{Cause, Failure};
use super::live::Live;
use super::tasks::{Device, Tasks};
use crate::queues::Queues;
use crate::sync::model::check;
use crate::sync::{AtomicUsize, Ordering};

/// A task that does nothing.
#[derive(Clone)]
struct Node(Arc<Edges<Node>>);

impl Linked for Node {
    fn edges(&self) -> &Edges<Self> {
        &self.0
    }
}

impl Node {
    fn new(before: usize) -> Node {
        Node(Arc::new(Edges::new(before)))
    }

    /// Says how many have become active by this.
    fn end(&self, result: Result<(), Failure>) -> usize {
        self.0.end(result).after.into_iter().filter(|next| next.0.let_go(1)).count()
    }
}

#[test]
fn a_task_becomes_active_once_when_the_last_before_it_ends_or_it_is_made() {
    check(3, || {
        let before = [Node::new(0), Node::new(0)];
        let ends = before.clone().map(|node| thread::spawn(move || node.end(Ok(()))));
        let last = Node::new(before.len());
        let ended = before.iter().filter(|node| !node.0.then(&last)).count();
        let made = usize::from(last.0.let_go(1 + ended as u32));
        let ends: usize = ends.map(|end| end.join().unwrap()).iter().sum();
        assert_eq!(made + ends, 1);
        assert!(!last.0.is_broken());
    });
}

#[test]
fn a_task_that_becomes_active_knows_of_every_failure_before_it() {
    check(3, || {
        let before = [Node::new(0), Node::new(0)];
        let [bad, good] = before.clone();
        let last = Node::new(before.len());
        let failed = thread::spawn(move || bad.end(Err(Failure::new("bad", Cause::failed("bad")))));
        let ended = thread::spawn(move || good.end(Ok(())));
        let gone = before.iter().filter(|node| !node.0.then(&last)).count();
        if last.0.let_go(1 + gone as u32) {
            assert!(last.0.is_broken() && last.0.failure().is_some());
        }
        failed.join().unwrap();
        ended.join().unwrap();
        assert!(last.0.is_broken());
    });
}

#[test]
fn who_is_about_to_sleep_sees_the_end_or_is_woken_by_it() {
    check(3, || {
        let node = Node::new(0);
        let ends = node.clone();
        let end = thread::spawn(move || ends.0.end(Ok(())).is_watched);
        node.0.watch();
        let is_seen = node.0.has_ended();
        assert!(end.join().unwrap() || is_seen);
    });
}

#[test]
fn a_caller_that_waits_until_few_are_live_is_woken() {
    for most in [0, 1] {
        check(3, move || {
            let run = Arc::new((Live::new(2), Queues::<u32>::new(1, 1)));
            run.0.count_made(Some(0));
            run.0.count_made(Some(0));
            // One of the run's, and one that is none.
            let ends = [Some(1), None].map(|thread| {
                let run = Arc::clone(&run);
                thread::spawn(move || {
                    if run.0.count_ended(thread) {
                        run.1.wake(0);
                    }
                })
            });
            let (live, queues) = (&run.0, &run.1);
            assert_eq!(live.awaiting(most, || queues.next(0, || live.number() <= most)), None);
            ends.into_iter().for_each(|end| end.join().unwrap());
            assert_eq!(live.number(), 0);
        });
    }
}

/// A run of two threads that compute, of which this is the caller's.
fn run(main: impl FnOnce(&Arc<Tasks<'static>>)) {
    let tasks = Arc::new(Tasks::new(2));
    let server = Arc::clone(&tasks);
    let other = thread::spawn(move || {
        let _place = server.enter(1);
        server.work_until(1, || false);
    });
    let place = tasks.enter(0);
    main(&tasks);
    tasks.work_until_live(0);
    tasks.queues.close();
    drop(place);
    other.join().unwrap();
    assert_eq!(tasks.live(), 0);
    assert!(tasks.take_failure().is_none());
}

#[test]
fn a_run_of_two_threads_does_its_tasks_in_their_order_and_ends() {
    check(3, || {
        let order = Arc::new(AtomicUsize::new(0));
        let next = |wanted| {
            let order = Arc::clone(&order);
            move |_: &Tasks<'_>| assert_eq!(order.fetch_add(1, Ordering::Relaxed), wanted)
        };
        run(|tasks| {
            let first = tasks.task("first").spawn(next(0));
            tasks.task("second").wait_for(&first).spawn(next(1)).forget();
        });
        assert_eq!(order.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn a_caller_is_woken_when_there_is_room_and_by_what_it_waits_for() {
    for (live_max, fails) in [(1, false), (2, false), (2, true)] {
        check(2, move || {
            run(|tasks| {
                let caller = Caller::new(tasks, live_max);
                let first = caller.task("first").on(Device::Thread(1));
                let first = first.try_spawn(move |_| if fails { Err("first") } else { Ok(2) });
                let second = caller.task("second").on(Device::Thread(1)).with(first).spawn(|two, _| two + 1);
                let three = caller.wait(second);
                assert_eq!(
                    three.map_err(|failure| failure.task),
                    if fails { Err("first".into()) } else { Ok(3) }
                );
            });
        });
    }
}
