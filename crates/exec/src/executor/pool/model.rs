//! Model checks of [`super`], of the queues and of sleeping: loom runs each scenario in all orders of taking locks and
//! waking up, up to a limit of preemptions, and reports deadlocks.

use loom::thread::{self, JoinHandle};

use super::*;
use crate::queues::{For, Priority, Queues};
use crate::sync::model::check;

/// A run whose tasks are counted; the last one wakes the caller, or closes the pool if the run has no caller.
struct Counted {
    pool: Arc<Pool<Counted>>,
    queues: Queues<u32>,
    seat: Arc<Seat>,
    left: AtomicUsize,
    closes: bool,
}

impl Counted {
    /// Starts an active run of `tasks` tasks.
    fn start(pool: &Arc<Pool<Counted>>, tasks: usize, closes: bool) -> Arc<Counted> {
        let run = Arc::new(Counted {
            pool: Arc::clone(pool),
            queues: Queues::new(pool.computing(), pool.lanes()),
            seat: Arc::new(Seat::new()),
            left: AtomicUsize::new(tasks),
            closes,
        });
        pool.add(Arc::clone(&run));
        run
    }

    /// Adds a task as a run does.
    fn push(&self, whose: For, priority: Priority) {
        self.queues.push(7, whose, priority);
        match whose {
            For::Any(_) => self.pool.wake_for_any(self),
            For::Thread(0) => self.pool.wake_caller(self),
            For::Thread(index) => self.pool.wake_thread(index),
            For::Lane(lane) => self.pool.wake_lane(lane),
        }
    }

    fn is_done(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    fn wait(&self) {
        self.pool.serve_until(self, || self.is_done());
    }
}

impl Served for Counted {
    type Task = u32;

    fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }

    fn find(&self, server: Server, look: Look) -> Option<Found<u32>> {
        self.queues.find(server, look)
    }

    fn find_only_bound(&self, server: Server, look: Look) -> Option<Found<u32>> {
        self.queues.find_only_bound(server, look)
    }

    fn serve(&self, server: Server, _: usize, _: u32, mut enough: impl FnMut() -> bool) {
        loop {
            if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                if self.closes { self.pool.close() } else { self.pool.wake_caller(self) }
            }
            if enough() || self.queues.find(server, Look::Own).is_none() {
                return;
            }
        }
    }
}

fn pool(computing: usize, lanes: &[usize]) -> Arc<Pool<Counted>> {
    Arc::new(Pool::new(computing, lanes))
}

/// Starts the pool's threads.
fn serve(pool: &Arc<Pool<Counted>>) -> Vec<JoinHandle<()>> {
    let servers: Vec<_> = pool.servers().collect();
    let serve = |(server, index)| {
        let pool = Arc::clone(pool);
        thread::spawn(move || pool.serve(server, index))
    };
    servers.into_iter().map(serve).collect()
}

fn join(threads: Vec<JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_task_of_a_run_that_starts_while_a_thread_goes_to_sleep_is_done() {
    for (whose, priority) in [
        (For::Any(None), Priority::Normal),
        (For::Any(None), Priority::High),
        (For::Any(None), Priority::Low),
        (For::Any(Some(0)), Priority::Normal),
        (For::Thread(1), Priority::Normal),
    ] {
        check(3, move || {
            let pool = pool(2, &[]);
            let threads = serve(&pool);
            let run = Counted::start(&pool, 1, true);
            run.push(whose, priority);
            // The caller runs no tasks itself.
            join(threads);
            assert!(run.is_done());
            pool.remove(&run);
        });
    }
}

#[test]
fn a_task_of_a_lane_that_is_added_while_its_thread_goes_to_sleep_is_done() {
    check(3, || {
        let pool = pool(1, &[1]);
        let threads = serve(&pool);
        let run = Counted::start(&pool, 1, true);
        run.push(For::Lane(0), Priority::Normal);
        join(threads);
        assert!(run.is_done());
        pool.remove(&run);
    });
}

#[test]
fn a_caller_that_waits_for_a_lane_is_woken_by_the_end() {
    check(3, || {
        let pool = pool(1, &[1]);
        let threads = serve(&pool);
        let run = Counted::start(&pool, 1, false);
        run.push(For::Lane(0), Priority::Normal);
        run.wait();
        pool.remove(&run);
        pool.close();
        join(threads);
    });
}

#[test]
fn every_task_is_done_once_when_one_thread_steals_from_the_caller() {
    check(3, || {
        let pool = pool(2, &[]);
        let run = Counted::start(&pool, 2, false);
        let threads = serve(&pool);
        run.push(For::Any(Some(0)), Priority::Normal);
        run.push(For::Any(Some(0)), Priority::Normal);
        run.wait();
        assert_eq!(run.left.load(Ordering::Relaxed), 0);
        assert!(run.queues.find(Server::Computes(0), Look::Last).is_none());
        pool.remove(&run);
        pool.close();
        join(threads);
    });
}

#[test]
fn what_was_stolen_is_not_left_to_a_thief_that_is_busy_with_one_of_them() {
    check(3, || {
        let pool = pool(2, &[]);
        // The thief takes one task and does not return for the others.
        let run = Counted::start(&pool, 2, false);
        (0..3).for_each(|_| run.push(For::Any(Some(0)), Priority::Normal));
        let thief = Arc::clone(&run);
        let thread = thread::spawn(move || {
            let found = thief.find(Server::Computes(1), Look::Woken).unwrap();
            if found.has_stolen_more {
                thief.pool.wake_for_any(&*thief);
            }
        });
        run.wait();
        thread.join().unwrap();
        pool.remove(&run);
    });
}

#[test]
fn two_runs_at_once_are_both_served_by_one_thread() {
    check(2, || {
        let pool = pool(2, &[]);
        let threads = serve(&pool);
        let call = |pool: &Arc<Pool<Counted>>| {
            let run = Counted::start(pool, 1, false);
            run.push(For::Thread(1), Priority::Normal);
            run.wait();
            pool.remove(&run);
        };
        let other = Arc::clone(&pool);
        let caller = thread::spawn(move || call(&other));
        call(&pool);
        caller.join().unwrap();
        pool.close();
        join(threads);
    });
}

#[test]
fn a_thread_that_waits_for_a_run_of_its_own_does_what_only_it_may_do() {
    check(3, || {
        let pool = pool(2, &[]);
        let inner = Arc::clone(&pool);
        // This thread acts as thread 1 of the executor, within one of its tasks.
        let thread = thread::spawn(move || {
            let _home = Home::enter(inner.id, Server::Computes(1), 1);
            let run = Counted::start(&inner, 1, false);
            run.push(For::Thread(1), Priority::Normal);
            run.wait();
            inner.remove(&run);
        });
        thread.join().unwrap();
    });
}

#[test]
fn a_thread_that_waits_for_a_run_is_woken_for_what_another_run_binds_to_it() {
    check(2, || {
        let pool = pool(2, &[]);
        let outer = Counted::start(&pool, 1, false);
        let inner = Counted::start(&pool, 1, false);
        let (thread_pool, waits) = (Arc::clone(&pool), Arc::clone(&inner));
        let thread = thread::spawn(move || {
            let _home = Home::enter(thread_pool.id, Server::Computes(1), 1);
            waits.wait();
        });
        outer.push(For::Thread(1), Priority::Normal);
        outer.wait();
        // Only now may that thread continue.
        inner.push(For::Thread(0), Priority::Normal);
        thread.join().unwrap();
        pool.remove(&outer);
        pool.remove(&inner);
    });
}

#[test]
fn closing_ends_every_thread() {
    check(3, || {
        let pool = pool(2, &[1]);
        let threads = serve(&pool);
        pool.close();
        join(threads);
    });
}
