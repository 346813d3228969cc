//! Threads that each do one read at a time, for the methods whose system calls wait.
//!
//! Waking a thread that sleeps costs both sides microseconds, as much as a direct read of a megabyte costs the CPU. So
//! reads queue ahead of each thread, which need not sleep between them; and a caller that finds nothing ready time after
//! time, because the storage is the slower one, is woken for ever more blocks together. It loses nothing by that: it
//! would have waited for them anyway.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::{Done, Method, Read};

/// What a thread does with a read: one system call that says how many bytes came.
pub(super) type Call = Box<dyn FnMut(&mut Read) -> io::Result<usize> + Send>;

/// Memory that reads may take up beyond those that threads are at, in bytes, and how many they are at most.
const QUEUE_BYTES: usize = 8 << 20;
const QUEUE_MAX: usize = 8;

/// Reads of `block` bytes that are taken on for some threads: what they do, and what waits for them or for the caller.
pub(super) fn ahead(threads: usize, block: usize) -> usize {
    threads + (QUEUE_BYTES / block).min(QUEUE_MAX).max(threads)
}

/// Reads wait for a thread in one queue.
pub(super) struct Threads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    in_flight: usize,
    ahead: usize,
    /// How many ends the caller sleeps for when it finds none; doubled each time in a row.
    batch: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    todo: VecDeque<Read>,
    done: Vec<Done>,
    /// How many ends the caller sleeps for, 0 while it does not.
    wanted: usize,
    /// Threads that sleep for want of work.
    idle: usize,
    stopping: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Threads {
    /// One thread for each call, with `ahead` reads taken on at a time.
    pub(super) fn start(name: &str, calls: Vec<Call>, ahead: usize) -> io::Result<Threads> {
        let mut threads =
            Threads { shared: Arc::default(), threads: Vec::new(), in_flight: 0, ahead, batch: 1 };
        for call in calls {
            let shared = Arc::clone(&threads.shared);
            // Threads that were started already end with `threads` if this one cannot be.
            let thread = thread::Builder::new().name(name.to_owned()).spawn(move || serve(&shared, call))?;
            threads.threads.push(thread);
        }
        Ok(threads)
    }
}

impl Method for Threads {
    fn room(&self) -> usize {
        self.ahead - self.in_flight
    }

    fn start(&mut self, read: Read) {
        assert!(self.room() > 0, "more reads than fit");
        self.in_flight += 1;
        let mut state = self.shared.lock();
        state.todo.push_back(read);
        if state.idle > 0 {
            self.shared.work.notify_one();
        }
    }

    fn finish(&mut self, at_least: usize, done: &mut Vec<Done>) -> io::Result<()> {
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
        done.append(&mut state.done);
        Ok(())
    }
}

impl Drop for Threads {
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
fn serve(shared: &Shared, mut call: Call) {
    while let Some(mut read) = next(shared) {
        let begun = Instant::now();
        let result = call(&mut read);
        let done = Done { read, result, took: begun.elapsed() };
        let mut state = shared.lock();
        state.done.push(done);
        if state.wanted > 0 && state.done.len() >= state.wanted {
            state.wanted = 0;
            shared.ended.notify_one();
        }
    }
}

/// The next read, none when there will be no more.
fn next(shared: &Shared) -> Option<Read> {
    let mut state = shared.lock();
    loop {
        if state.stopping {
            return None;
        }
        if let Some(read) = state.todo.pop_front() {
            return Some(read);
        }
        state.idle += 1;
        state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
    }
}
