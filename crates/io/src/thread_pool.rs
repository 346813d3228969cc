//! Threads that each run one job at a time, for blocking system calls.
//!
//! Handing a job to a sleeping thread, and being woken when it is done, costs microseconds on both sides: as much CPU
//! time as a direct read of a megabyte. That pays if the caller has work of its own meanwhile. A caller that always
//! returns at once, because the storage is slower, has no work to overlap with the job; it runs one job itself while
//! it waits, and one thread fewer is kept awake. No more jobs run at the same time than there are threads, and a
//! caller that only waits pays the cost of a plain system call.
//!
//! | pool | submitters | completion of a job |
//! |---|---|---|
//! | `ThreadPool` (for engines) | one, which may help | collected by the submitter |
//! | [`JobPool`] | any number | handled by the job itself |

mod jobs;
#[cfg(all(test, loom))]
mod model;

use std::collections::VecDeque;
use std::io;
use std::sync::PoisonError;
use std::time::Duration;

pub use jobs::{Job, JobPool};
use system::{Arc, Condvar, Instant, JoinHandle, Mutex, MutexGuard, thread};

/// Threads and locks of the system, or of loom, which explores every order in which they can interleave.
mod system {
    #[cfg(all(test, loom))]
    pub(super) use super::model::system::*;
    #[cfg(not(all(test, loom)))]
    pub(super) use std::{
        sync::{Arc, Condvar, Mutex, MutexGuard},
        thread::{self, JoinHandle},
        time::Instant,
    };
}

/// The function that a thread runs on a job; it returns the number of bytes moved.
pub(crate) type Call<J> = Box<dyn FnMut(&mut J) -> io::Result<usize> + Send>;

/// A completed job, successful or not.
pub(crate) struct CompletedJob<J> {
    pub(crate) job: J,
    pub(crate) result: io::Result<usize>,
    /// Duration of the job on its thread.
    pub(crate) took: Duration,
}

/// Threads that take jobs from one queue.
pub(crate) struct ThreadPool<J> {
    shared: Arc<Shared<J>>,
    threads: Vec<JoinHandle<()>>,
    in_flight: usize,
    ahead: usize,
    /// The function that the caller runs on a job, if it helps.
    own: Option<Call<J>>,
    away: CallerInterval,
}

struct Shared<J> {
    state: Mutex<State<J>>,
    work: Condvar,
    ended: Condvar,
    room: Condvar,
}

struct State<J> {
    todo: VecDeque<J>,
    done: Vec<CompletedJob<J>>,
    /// Number of completions for which the caller sleeps; 0 while it does not sleep.
    wanted: usize,
    /// Number of threads that run or look for a job.
    awake: usize,
    /// Number of threads that should be awake.
    needed: usize,
    /// Number of submitters that sleep until there is room for a job.
    blocked: usize,
    stopping: bool,
}

impl<J> Shared<J> {
    fn new(threads: usize) -> Shared<J> {
        let (todo, done) = (VecDeque::new(), Vec::new());
        let (awake, needed) = (threads, threads);
        let state = State { todo, done, wanted: 0, awake, needed, blocked: 0, stopping: false };
        Shared { state: Mutex::new(state), work: Condvar::new(), ended: Condvar::new(), room: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        // No code under the lock can panic halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes threads until `needed` are awake, but no more than there are jobs.
    fn call_up(&self, state: &mut State<J>, needed: usize) {
        state.needed = needed;
        let missing = needed.saturating_sub(state.awake);
        (0..missing.min(state.todo.len())).for_each(|_| self.work.notify_one());
    }
}

/// Measures the caller's time between two visits.
struct CallerInterval {
    left: Option<Instant>,
    /// The longest recent absence; it decays.
    longest: Duration,
}

/// Minimum work of the caller for which a hand-over pays: a little more than the hand-over takes.
const HANDOVER_MIN_TIME: Duration = Duration::from_micros(10);

impl CallerInterval {
    /// Assumes that a new caller has work of its own.
    fn new() -> CallerInterval {
        CallerInterval { left: None, longest: 100 * HANDOVER_MIN_TIME }
    }

    fn is_back(&mut self) {
        if let Some(left) = self.left.take() {
            self.was_gone(left.elapsed());
        }
    }

    fn was_gone(&mut self, time: Duration) {
        self.longest = time.max(self.longest * 3 / 4);
    }

    fn is_worthwhile(&self) -> bool {
        self.longest >= HANDOVER_MIN_TIME
    }

    fn leaves(&mut self) {
        self.left = Some(Instant::now());
    }
}

impl<J: Send + 'static> ThreadPool<J> {
    /// Starts one thread for each call, with up to `ahead` jobs accepted at a time. With a call of its `own`, the
    /// caller helps while it waits.
    pub(crate) fn new(
        name: &str,
        calls: Vec<Call<J>>,
        own: Option<Call<J>>,
        ahead: usize,
    ) -> io::Result<ThreadPool<J>> {
        let shared = Arc::new(Shared::new(calls.len()));
        let mut pool =
            ThreadPool { shared, threads: Vec::new(), in_flight: 0, ahead, own, away: CallerInterval::new() };
        for call in calls {
            let shared = Arc::clone(&pool.shared);
            // If a thread cannot be started, dropping `pool` ends those already started.
            let thread = thread::Builder::new().name(name.to_owned()).spawn(move || serve(&shared, call))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }
}

impl<J> ThreadPool<J> {
    /// Returns the number of jobs that it accepts now.
    pub(crate) fn room(&self) -> usize {
        self.ahead - self.in_flight
    }

    /// Returns the number of jobs that the caller has not reaped, completed or not.
    #[cfg(any(test, loom))]
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Submits a job. If the caller helps, a thread may not begin it before the caller leaves or waits
    /// ([`ThreadPool::finish`]).
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn start(&mut self, job: J) {
        assert!(self.room() > 0, "more jobs than fit");
        self.in_flight += 1;
        self.away.is_back();
        let mut state = self.shared.lock();
        state.todo.push_back(job);
        if self.own.is_none() {
            self.shared.call_up(&mut state, self.threads.len());
        }
    }

    /// Waits until at least `at_least` of the submitted jobs, or all if there are fewer, are done. Appends these and
    /// any others that are done, in the order of completion. With 0 it does not wait. The caller is then considered
    /// away until its next visit.
    pub(crate) fn finish(&mut self, at_least: usize, ended: &mut Vec<CompletedJob<J>>) {
        self.away.is_back();
        let mut state = self.shared.lock();
        let threads = self.threads.len();
        let enough = at_least.min(self.in_flight);
        while state.done.len() < enough {
            let helps = self.own.as_mut().filter(|_| state.awake < threads);
            let Some((call, job)) = helps.and_then(|call| Some((call, state.todo.pop_front()?))) else {
                state.wanted = enough;
                state = self.shared.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            self.shared.call_up(&mut state, threads - 1);
            drop(state);
            let done = done(job, call);
            state = self.shared.lock();
            state.done.push(done);
        }
        state.wanted = 0;
        self.in_flight -= state.done.len();
        ended.append(&mut state.done);
        if self.own.is_some() {
            // A caller that returns at once runs one job itself while it waits.
            self.shared.call_up(&mut state, threads - usize::from(!self.away.is_worthwhile()));
            self.away.leaves();
        }
    }
}

impl<J> Drop for ThreadPool<J> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        state.todo.clear();
        drop(state);
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has already reported it.
            let _ = thread.join();
        }
    }
}

/// Main loop of a thread.
fn serve<J>(shared: &Shared<J>, mut call: Call<J>) {
    while let Some(job) = next(shared) {
        let done = done(job, &mut call);
        let mut state = shared.lock();
        state.done.push(done);
        let enough = state.wanted > 0 && state.done.len() >= state.wanted;
        if enough {
            state.wanted = 0;
            drop(state);
            shared.ended.notify_one();
        }
    }
}

fn done<J>(mut job: J, call: &mut Call<J>) -> CompletedJob<J> {
    let begun = Instant::now();
    let result = call(&mut job);
    CompletedJob { job, result, took: begun.elapsed() }
}

/// Returns the next job; `None` when the pool stops and no job is left.
fn next<J>(shared: &Shared<J>) -> Option<J> {
    let mut state = shared.lock();
    loop {
        let is_needed = state.awake <= state.needed;
        if let Some(job) = is_needed.then(|| state.todo.pop_front()).flatten() {
            if state.blocked > 0 {
                shared.room.notify_one();
            }
            return Some(job);
        }
        if state.stopping {
            return None;
        }
        state.awake -= 1;
        if state.wanted > 0 && !state.todo.is_empty() {
            // The waiting caller can run it now.
            shared.ended.notify_one();
        }
        state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.awake += 1;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts how many jobs run at the same time, and on which threads.
    #[derive(Clone, Default)]
    struct Watch {
        now: Arc<AtomicUsize>,
        most: Arc<AtomicUsize>,
        by_caller: Arc<AtomicUsize>,
    }

    impl Watch {
        fn call(&self, takes: Duration) -> Call<u32> {
            let (watch, caller) = (self.clone(), thread::current().id());
            Box::new(move |_: &mut u32| {
                watch.most.fetch_max(1 + watch.now.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                watch.by_caller.fetch_add(usize::from(thread::current().id() == caller), Ordering::SeqCst);
                thread::sleep(takes);
                watch.now.fetch_sub(1, Ordering::SeqCst);
                Ok(0)
            })
        }
    }

    /// Runs all jobs for a caller that computes for `work` after each visit; returns them in the order of completion.
    fn all_done(threads: usize, helps: bool, jobs: u32, work: Duration, watch: &Watch) -> Vec<u32> {
        let takes = Duration::from_micros(200);
        let calls = (0..threads).map(|_| watch.call(takes)).collect();
        let mut pool =
            ThreadPool::new("test", calls, helps.then(|| watch.call(takes)), 2 * threads + 3).unwrap();
        let (mut todo, mut order, mut ended) = (0..jobs, Vec::new(), Vec::new());
        loop {
            while pool.room() > 0
                && let Some(job) = todo.next()
            {
                pool.start(job);
            }
            if pool.in_flight() == 0 {
                return order;
            }
            pool.finish(1, &mut ended);
            pool.finish(0, &mut ended);
            order.extend(ended.drain(..).map(|ended| ended.job));
            thread::sleep(work);
        }
    }

    #[test]
    fn every_job_is_done_once_and_no_more_at_a_time_than_there_are_threads() {
        for threads in [1, 2, 4] {
            for helps in [false, true] {
                for work in [Duration::ZERO, Duration::from_micros(300)] {
                    let watch = Watch::default();
                    let mut order = all_done(threads, helps, 200, work, &watch);
                    order.sort_unstable();
                    assert!(order.into_iter().eq(0..200));
                    assert!(watch.most.load(Ordering::SeqCst) <= threads);
                }
            }
        }
    }

    #[test]
    fn one_thread_keeps_the_order_whoever_does_the_jobs() {
        for work in [Duration::ZERO, Duration::from_micros(300)] {
            assert!(all_done(1, true, 300, work, &Watch::default()).into_iter().eq(0..300));
        }
    }

    #[test]
    fn who_always_comes_back_at_once_does_the_jobs_himself() {
        let watch = Watch::default();
        let calls = vec![watch.call(Duration::from_micros(50))];
        let mut pool = ThreadPool::new("test", calls, Some(watch.call(Duration::ZERO)), 4).unwrap();
        let mut ended = Vec::new();
        for job in 0..100 {
            pool.away.longest = Duration::ZERO;
            pool.start(job);
            pool.finish(0, &mut ended);
            pool.finish(1, &mut ended);
        }
        // The thread may have begun one job before the caller's behavior was measured, and one more before it took
        // effect.
        assert!(watch.by_caller.load(Ordering::SeqCst) >= 95);
    }

    #[test]
    fn a_caller_that_only_ever_waits_does_its_share_itself() {
        let watch = Watch::default();
        let calls = vec![watch.call(Duration::from_micros(50))];
        let mut pool = ThreadPool::new("test", calls, Some(watch.call(Duration::ZERO)), 4).unwrap();
        let mut ended = Vec::new();
        for job in 0..100 {
            pool.away.longest = Duration::ZERO;
            pool.start(job);
            pool.finish(1, &mut ended);
        }
        // The thread may have begun one job before the caller's behavior was measured, and one more before it took
        // effect.
        assert!(watch.by_caller.load(Ordering::SeqCst) >= 95);
    }

    #[test]
    fn how_long_a_caller_is_gone_is_learned_at_once_and_forgotten_slowly() {
        let mut away = CallerInterval::new();
        assert!(away.is_worthwhile());
        (0..20).for_each(|_| away.was_gone(Duration::from_micros(1)));
        assert!(!away.is_worthwhile());
        away.was_gone(Duration::from_micros(50));
        (0..5).for_each(|_| away.was_gone(Duration::from_micros(1)));
        assert!(away.is_worthwhile());
    }

    #[test]
    fn dropping_it_ends_the_threads_and_forgets_the_rest() {
        let watch = Watch::default();
        let calls = vec![watch.call(Duration::from_millis(1))];
        let mut pool = ThreadPool::new("test", calls, None, 1000).unwrap();
        (0..1000).for_each(|job| pool.start(job));
        drop(pool);
        assert!(watch.most.load(Ordering::SeqCst) <= 1);
    }
}
