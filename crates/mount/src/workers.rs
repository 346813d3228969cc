//! Threads for system calls that wait, so that nobody else has to.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Jobs that wait for a thread at most; who brings another one waits.
const QUEUE_MAX: usize = 1024;

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads; when it is dropped, what was brought is still done.
#[derive(Debug)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    room: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    stopping: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                self.room.notify_one();
                job();
                state = self.lock();
            } else if state.stopping {
                return;
            } else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl Workers {
    /// So many threads.
    ///
    /// # Errors
    /// If they cannot be started.
    pub(crate) fn start(count: usize) -> io::Result<Workers> {
        let mut workers = Workers { shared: Arc::default(), threads: Vec::new() };
        for _ in 0..count {
            let shared = Arc::clone(&workers.shared);
            // Threads that were started already end with `workers` if this one cannot be.
            let thread = thread::Builder::new().name("backing".to_owned()).spawn(move || shared.serve())?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    /// Has a job done. Not to be called by a job.
    pub(crate) fn run(&self, job: Job) {
        let mut state = self.shared.lock();
        while state.jobs.len() >= QUEUE_MAX {
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.jobs.push_back(job);
        drop(state);
        self.shared.work.notify_one();
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.work.notify_all();
        // A job may have been the last to hold them: its thread ends by itself then.
        let own = thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != own) {
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}
