//! Threads that each do one read at a time, for the methods whose system calls wait.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::{Done, Method, Read};

/// What a thread does with a read: one system call that says how many bytes came.
pub(super) type Call = Box<dyn FnMut(&mut Read) -> io::Result<usize> + Send>;

/// Reads that are taken on for each thread: one that it does, and one that waits for it.
pub(super) const AHEAD: usize = 2;

/// Reads wait for a thread in one queue.
pub(super) struct Threads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    in_flight: usize,
    room: usize,
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
    /// One thread for each call.
    pub(super) fn start(name: &str, calls: Vec<Call>) -> io::Result<Threads> {
        let room = AHEAD * calls.len();
        let mut threads = Threads { shared: Arc::default(), threads: Vec::new(), in_flight: 0, room };
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
        self.room - self.in_flight
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
        let at_least = at_least.min(self.in_flight);
        let mut state = self.shared.lock();
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
