//! Threads that each do one job at a time, for system calls that wait.
//!
//! Waking a thread that sleeps costs both sides microseconds, as much as a direct read of a megabyte costs the CPU. So
//! jobs queue ahead of each thread, which need not sleep between them; and a caller that finds nothing done time after
//! time, because the storage is the slower one, is woken for ever more jobs together. It loses nothing by that: it would
//! have waited for them anyway.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What a thread does with a job; it says how many bytes were moved.
pub(crate) type Call<J> = Box<dyn FnMut(&mut J) -> io::Result<usize> + Send>;

/// A job that has been done, well or not.
pub(crate) struct Ended<J> {
    pub(crate) job: J,
    pub(crate) result: io::Result<usize>,
    /// From its start on a thread to its end.
    pub(crate) took: Duration,
}

/// Jobs wait for a thread in one queue.
pub(crate) struct Crew<J> {
    shared: Arc<Shared<J>>,
    threads: Vec<JoinHandle<()>>,
    in_flight: usize,
    ahead: usize,
    /// How many ends the caller sleeps for when it finds none; doubled each time in a row.
    batch: usize,
}

struct Shared<J> {
    state: Mutex<State<J>>,
    work: Condvar,
    ended: Condvar,
}

struct State<J> {
    todo: VecDeque<J>,
    done: Vec<Ended<J>>,
    /// How many ends the caller sleeps for, 0 while it does not.
    wanted: usize,
    /// Threads that sleep for want of work.
    idle: usize,
    stopping: bool,
}

impl<J> Shared<J> {
    fn new() -> Shared<J> {
        let state = State { todo: VecDeque::new(), done: Vec::new(), wanted: 0, idle: 0, stopping: false };
        Shared { state: Mutex::new(state), work: Condvar::new(), ended: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        // Nothing that is done under the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Send + 'static> Crew<J> {
    /// One thread for each call, with `ahead` jobs taken on at a time.
    pub(crate) fn new(name: &str, calls: Vec<Call<J>>, ahead: usize) -> io::Result<Crew<J>> {
        let shared = Arc::new(Shared::new());
        let mut crew = Crew { shared, threads: Vec::new(), in_flight: 0, ahead, batch: 1 };
        for call in calls {
            let shared = Arc::clone(&crew.shared);
            // Threads that were started already end with `crew` if this one cannot be.
            let thread = thread::Builder::new().name(name.to_owned()).spawn(move || serve(&shared, call))?;
            crew.threads.push(thread);
        }
        Ok(crew)
    }
}

impl<J> Crew<J> {
    /// How many jobs it takes on now.
    pub(crate) fn room(&self) -> usize {
        self.ahead - self.in_flight
    }

    /// How many jobs it has, done or not, that were not asked for.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Takes on a job.
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn start(&mut self, job: J) {
        assert!(self.room() > 0, "more jobs than fit");
        self.in_flight += 1;
        let mut state = self.shared.lock();
        state.todo.push_back(job);
        if state.idle > 0 {
            self.shared.work.notify_one();
        }
    }

    /// Waits until at least `at_least` jobs are done, or all that were begun, and gives them and any others that are
    /// done; in the order of their ends.
    pub(crate) fn finish(&mut self, at_least: usize, ended: &mut Vec<Ended<J>>) {
        let mut state = self.shared.lock();
        let starved = at_least > 0 && state.done.is_empty();
        // Half of them, so that the threads have the other half to go on with.
        self.batch = if starved { (2 * self.batch).min(self.in_flight / 2).max(1) } else { 1 };
        let at_least = at_least.max(if starved { self.batch } else { 0 }).min(self.in_flight);
        while state.done.len() < at_least {
            state.wanted = at_least;
            state = self.shared.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.wanted = 0;
        self.in_flight -= state.done.len();
        ended.append(&mut state.done);
    }
}

impl<J> Drop for Crew<J> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        state.todo.clear();
        drop(state);
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}

/// The life of a thread.
fn serve<J>(shared: &Shared<J>, mut call: Call<J>) {
    while let Some(mut job) = next(shared) {
        let begun = Instant::now();
        let result = call(&mut job);
        let done = Ended { job, result, took: begun.elapsed() };
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

/// The next job, none when there will be no more.
fn next<J>(shared: &Shared<J>) -> Option<J> {
    let mut state = shared.lock();
    loop {
        if state.stopping {
            return None;
        }
        if let Some(job) = state.todo.pop_front() {
            return Some(job);
        }
        state.idle += 1;
        state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
    }
}
