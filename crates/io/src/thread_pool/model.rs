//! A model check of [`super`]: loom runs each scenario in every order in which threads can take locks and wake up, up
//! to a limit of preemptions, and reports deadlocks.

use super::*;
use loom::model::Builder;

pub(super) mod system {
    pub(in crate::thread_pool) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub(in crate::thread_pool) use loom::thread::{self, JoinHandle};

    use std::time::Duration;

    /// A clock that stands still, so that every run of a model is the same.
    #[derive(Clone, Copy, Debug)]
    pub(in crate::thread_pool) struct Instant;

    impl Instant {
        pub(in crate::thread_pool) fn now() -> Instant {
            Instant
        }

        pub(in crate::thread_pool) fn elapsed(self) -> Duration {
            Duration::ZERO
        }
    }
}

/// A step of the caller.
#[derive(Clone, Copy, Debug)]
enum Step {
    Start,
    /// Waits for this many jobs; with 0, reaps those that have ended without waiting.
    Finish(usize),
    /// Makes the pool assume that the caller is away for this long between visits.
    Away(Duration),
}

use Step::{Away as Gone, Finish, Start};

const LONG: Step = Gone(Duration::from_secs(1));
const SHORT: Step = Gone(Duration::ZERO);

/// Returns a job function that checks that no more jobs run at the same time than there are threads.
fn call(now: &Arc<Mutex<usize>>, threads: usize) -> Call<u32> {
    let now = Arc::clone(now);
    Box::new(move |_: &mut u32| {
        let mut held = now.lock().unwrap();
        *held += 1;
        assert!(*held <= threads, "more at a time than there are threads");
        drop(held);
        thread::yield_now();
        *now.lock().unwrap() -= 1;
        Ok(0)
    })
}

/// Performs the steps, then drops the pool with all remaining jobs; each completion must be returned once.
fn run(threads: usize, helps: bool, ahead: usize, steps: &[Step]) {
    let now = Arc::new(Mutex::new(0));
    let calls = (0..threads).map(|_| call(&now, threads)).collect();
    let mut pool = ThreadPool::new("model", calls, helps.then(|| call(&now, threads)), ahead).unwrap();
    let (mut started, mut ended) = (0, Vec::new());
    for step in steps {
        match *step {
            Start => {
                pool.start(started);
                started += 1;
            }
            Finish(at_least) => {
                let before = ended.len();
                let enough = at_least.min(pool.in_flight());
                pool.finish(at_least, &mut ended);
                assert!(ended.len() - before >= enough);
                assert_eq!(pool.in_flight() + ended.len(), started as usize);
            }
            Gone(time) => pool.away.longest = time,
        }
    }
    drop(pool);
    let mut jobs: Vec<u32> = ended.iter().map(|ended| ended.job).collect();
    assert!(threads > 1 || jobs.is_sorted(), "one thread keeps the order");
    jobs.sort_unstable();
    jobs.dedup();
    assert_eq!(jobs.len(), ended.len(), "a job was done twice");
}

/// Explores every order with at most `stops` preemptions per execution.
fn check(threads: usize, helps: bool, stops: usize, steps: &'static [Step]) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(stops);
    builder.check(move || run(threads, helps, 3, steps));
}

#[test]
fn a_caller_that_waits_for_all_gets_all() {
    for helps in [false, true] {
        check(1, helps, 5, &[Start, Start, Finish(2)]);
        check(2, helps, 3, &[Start, Start, Start, Finish(3)]);
    }
}

#[test]
fn a_caller_that_leaves_and_comes_back_gets_the_next() {
    const WORKS: &[Step] = &[LONG, Start, Finish(0), Start, Finish(1), LONG, Finish(0), Finish(1)];
    const WAITS: &[Step] = &[SHORT, Start, Finish(0), Start, Finish(1), SHORT, Finish(0), Finish(1)];
    for helps in [false, true] {
        check(1, helps, 5, WORKS);
        check(1, helps, 5, WAITS);
        check(2, helps, 3, WAITS);
    }
}

#[test]
fn a_caller_that_gets_or_loses_work_of_its_own_is_not_forgotten() {
    const GETS: &[Step] = &[SHORT, Start, Start, Finish(0), LONG, Finish(0), Start, Finish(3)];
    const LOSES: &[Step] = &[LONG, Start, Start, Finish(0), SHORT, Finish(0), Start, Finish(3)];
    check(1, true, 5, GETS);
    check(1, true, 5, LOSES);
    check(2, true, 3, GETS);
    check(2, true, 3, LOSES);
}

#[test]
fn it_can_be_dropped_whatever_is_left() {
    for helps in [false, true] {
        check(1, helps, 5, &[]);
        check(1, helps, 5, &[Start, Start]);
        check(2, helps, 3, &[LONG, Start, Start, Finish(0)]);
        check(2, helps, 3, &[SHORT, Start, Start, Start, Finish(1)]);
    }
}

/// A job that counts the runs.
struct Count(Arc<Mutex<usize>>);

impl Job for Count {
    fn perform(self) {
        *self.0.lock().unwrap() += 1;
    }
}

#[test]
fn jobs_of_several_submitters_are_all_performed_however_full_the_queue_is() {
    for (threads, stops) in [(1, 3), (2, 2)] {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(stops);
        builder.check(move || {
            let performed = Arc::new(Mutex::new(0));
            let pool = Arc::new(JobPool::new("model", threads, 1).unwrap());
            let (other, counted) = (Arc::clone(&pool), Arc::clone(&performed));
            let submitter = thread::spawn(move || {
                (0..2).for_each(|_| other.submit(Count(Arc::clone(&counted))));
            });
            pool.submit(Count(Arc::clone(&performed)));
            submitter.join().unwrap();
            drop(pool);
            assert_eq!(*performed.lock().unwrap(), 3);
        });
    }
}
