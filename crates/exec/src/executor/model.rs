//! Model checks of the synchronization between tasks on different threads: loom runs each in all orders of taking locks
//! and waking up, up to a number of preemptions.

use loom::sync::Arc;
use loom::thread;

use super::edges::{Edges, Linked};
use super::failure::{Cause, Failure};
use super::pool::Pool;
use super::{Caller, Executor, Lane, Tasks};
use crate::sync::model::check;
use crate::sync::{AtomicUsize, Ordering};

/// A task without a function.
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

    /// Returns how many tasks have become active.
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
            let run = Arc::new(Tasks::new(std::sync::Arc::new(Pool::new(1, &[1]))));
            run.count_made();
            run.count_made();
            // A thread of the run, and another thread.
            let ends = [Some(1), None].map(|index| {
                let run = Arc::clone(&run);
                thread::spawn(move || {
                    let _place = index.map(|index| run.enter(index));
                    run.count_ended(false);
                })
            });
            run.work_until_live(most);
            assert!(run.live() <= most);
            ends.into_iter().for_each(|end| end.join().unwrap());
            assert_eq!(run.live(), 0);
        });
    }
}

/// Runs `main` on an executor with the calling thread, one more compute thread, and `lane` I/O threads.
fn on_threads(lane: usize, main: impl FnOnce(&Executor<'static>)) {
    let lanes: Vec<usize> = (lane > 0).then_some(lane).into_iter().collect();
    let pool = std::sync::Arc::new(Pool::new(2, &lanes));
    let servers: Vec<_> = pool.servers().collect();
    let serve = |(server, index)| {
        let pool = std::sync::Arc::clone(&pool);
        thread::spawn(move || pool.serve(server, index))
    };
    let threads: Vec<_> = servers.into_iter().map(serve).collect();
    let executor = Executor { pool, live_max: 2, threads: Vec::new() };
    main(&executor);
    drop(executor);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_run_does_its_tasks_in_their_order_and_ends() {
    check(2, || {
        let order = Arc::new(AtomicUsize::new(0));
        let next = |wanted| {
            let order = Arc::clone(&order);
            move |_: &Tasks<'_>| assert_eq!(order.fetch_add(1, Ordering::Relaxed), wanted)
        };
        on_threads(0, |executor| {
            let end = executor.run(|tasks| {
                let first = tasks.task("first").spawn(next(0));
                tasks.task("second").wait_for(&first).spawn(next(1)).forget();
            });
            assert!(end.is_ok());
        });
        assert_eq!(order.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn runs_one_after_the_other_end_while_threads_park_and_are_woken() {
    check(2, || {
        on_threads(0, |executor| {
            for number in 0..2 {
                let one = executor
                    .run(|tasks| tasks.wait(tasks.task("one").on(Lane::Pinned(1)).spawn(move |_| number)));
                assert_eq!(one.unwrap().unwrap(), number);
            }
        });
    });
}

#[test]
fn a_caller_is_woken_when_there_is_room_and_by_what_it_waits_for() {
    for (live_max, fails) in [(1, false), (2, false), (2, true)] {
        check(2, move || {
            on_threads(0, |executor| {
                let run = Executor::start(executor);
                let caller = Caller::new(run.tasks(), live_max);
                let first = caller.task("first").on(Lane::Pinned(1));
                let first = first.try_spawn(move |_| if fails { Err("first") } else { Ok(2) });
                let second = caller.task("second").on(Lane::Pinned(1)).with(first).spawn(|two, _| two + 1);
                let three = caller.wait(second);
                assert_eq!(
                    three.map_err(|failure| failure.task),
                    if fails { Err("first".into()) } else { Ok(3) }
                );
            });
        });
    }
}

#[test]
fn a_panic_ends_its_run_and_no_other() {
    check(2, || {
        on_threads(0, |executor| {
            let bad = Executor::start(executor);
            // Without the panic hook, which would print a message for each order.
            let panics = |_: &Tasks<'_>| std::panic::resume_unwind(Box::new(String::from("bad")));
            bad.task("bad").on(Lane::Pinned(1)).spawn(panics).forget();
            let good = executor.run(|tasks| tasks.wait(tasks.task("good").on(Lane::Pinned(1)).spawn(|_| 1)));
            assert_eq!(good.unwrap().unwrap(), 1);
            assert_eq!(bad.finish().unwrap_err().task, "bad");
        });
    });
}

#[test]
fn a_run_that_is_dropped_ends_with_tasks_still_queued() {
    check(2, || {
        let ran = Arc::new(AtomicUsize::new(0));
        on_threads(0, |executor| {
            let run = Executor::start(executor);
            for lane in [Lane::Pinned(1), Lane::Compute] {
                let ran = Arc::clone(&ran);
                run.task("one").on(lane).spawn(move |_| ran.fetch_add(1, Ordering::Relaxed)).forget();
            }
            drop(run);
        });
        // Everything that they held has been dropped.
        assert!(ran.load(Ordering::Relaxed) <= 2);
        assert_eq!(Arc::strong_count(&ran), 1);
    });
}

#[test]
fn a_task_of_a_lane_hands_over_to_one_that_computes() {
    check(1, || {
        on_threads(1, |executor| {
            let two = executor.run(|tasks| {
                let one = tasks.task("one").on(Lane::Io(0)).spawn(|_| 1);
                tasks.wait(tasks.task("two").with(one).spawn(|one, _| one + 1))
            });
            assert_eq!(two.unwrap().unwrap(), 2);
        });
    });
}
