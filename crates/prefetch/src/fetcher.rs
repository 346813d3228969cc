//! Threads that carry out blocking operations, so that the deciding thread never waits.
//!
//! Read-ahead blocks when a device's queue is full, and the server of a file system may have died. Therefore threads
//! are started as needed, take jobs in order of arrival, and are never waited for: one that hangs affects no other, and
//! ends when the kernel lets it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

/// An operation that may block.
pub(crate) trait Job: Send + 'static {
    /// Its result.
    type Reply: Send;

    /// Returns the group of which only one job may run at a time, so that the data nearest to a program arrives first;
    /// `None` for no such limit.
    fn turn(&self) -> Option<u32>;

    /// Returns whether its reply wakes the deciding thread. Other replies are taken at its next wake-up.
    fn is_urgent(&self) -> bool {
        true
    }

    /// Carries it out; returns the reply and a job that follows from it immediately.
    fn carry_out(self) -> (Self::Reply, Option<Self>)
    where
        Self: Sized;
}

/// The threads and their queue. Dropping it discards jobs that have not begun.
pub(crate) struct Fetcher<J: Job> {
    shared: Arc<Shared<J>>,
    most_threads: usize,
}

impl<J: Job> fmt::Debug for Fetcher<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("most_threads", &self.most_threads).finish_non_exhaustive()
    }
}

struct Shared<J: Job> {
    state: Mutex<State<J>>,
    work: Condvar,
    /// The deciding thread, woken by replies.
    watcher: Thread,
}

struct State<J: Job> {
    todo: VecDeque<J>,
    /// Groups with a running job.
    busy: Vec<u32>,
    replies: Vec<J::Reply>,
    /// Whether there is a reply that wakes the deciding thread.
    has_urgent: bool,
    threads: usize,
    idle: usize,
    stopping: bool,
}

impl<J: Job> Fetcher<J> {
    /// Makes a fetcher whose replies unpark the calling thread.
    pub(crate) fn new(most_threads: usize) -> Fetcher<J> {
        let (todo, busy, replies) = (VecDeque::new(), Vec::new(), Vec::new());
        let state = State { todo, busy, replies, has_urgent: false, threads: 0, idle: 0, stopping: false };
        let shared = Shared { state: Mutex::new(state), work: Condvar::new(), watcher: thread::current() };
        Fetcher { shared: Arc::new(shared), most_threads }
    }

    /// Queues a job. Returns false if no thread can ever run it.
    pub(crate) fn start(&self, job: J) -> bool {
        let mut state = self.shared.lock();
        state.todo.push_back(job);
        if state.idle < state.todo.len() && state.threads < self.most_threads {
            let shared = Arc::clone(&self.shared);
            let started = thread::Builder::new().name("prefetch".to_owned()).spawn(move || serve(&shared));
            state.threads += usize::from(started.is_ok());
        }
        let able = state.threads > 0;
        drop(state);
        self.shared.work.notify_one();
        able
    }

    /// Removes queued jobs that are no longer wanted.
    pub(crate) fn forget(&self, is_unwanted: impl Fn(&J) -> bool) {
        self.shared.lock().todo.retain(|job| !is_unwanted(job));
    }

    /// Moves all available replies to `replies`.
    pub(crate) fn take(&self, replies: &mut Vec<J::Reply>) {
        let mut state = self.shared.lock();
        state.has_urgent = false;
        replies.append(&mut state.replies);
    }

    /// Returns whether there is a reply for which the deciding thread was woken.
    pub(crate) fn has_urgent(&self) -> bool {
        self.shared.lock().has_urgent
    }
}

impl<J: Job> Drop for Fetcher<J> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        state.todo.clear();
        drop(state);
        self.shared.work.notify_all();
    }
}

impl<J: Job> Shared<J> {
    fn lock(&self) -> MutexGuard<'_, State<J>> {
        // Jobs run outside the lock, and no operation under it can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Job> State<J> {
    /// Returns the next job that may begin.
    fn next(&mut self) -> Option<J> {
        let busy = &self.busy;
        let is_free = |job: &J| job.turn().is_none_or(|whose| !busy.contains(&whose));
        let job = self.todo.remove(self.todo.iter().position(is_free)?)?;
        self.busy.extend(job.turn());
        Some(job)
    }
}

/// The main loop of a thread.
fn serve<J: Job>(shared: &Shared<J>) {
    let mut state = shared.lock();
    while !state.stopping {
        let Some(job) = state.next() else {
            state.idle += 1;
            state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            continue;
        };
        drop(state);
        let (whose, is_urgent) = (job.turn(), job.is_urgent());
        let (reply, next) = job.carry_out();
        state = shared.lock();
        state.busy.retain(|&busy| Some(busy) != whose);
        state.replies.push(reply);
        if let Some(next) = next {
            state.todo.push_front(next);
            // The thread that takes it does not take the job that waited for this group.
            shared.work.notify_one();
        }
        if is_urgent {
            state.has_urgent = true;
            shared.watcher.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Waits until it may continue, and reports that it did.
    struct Gated {
        number: u32,
        turn: Option<u32>,
        gate: Arc<Mutex<mpsc::Receiver<()>>>,
    }

    impl Job for Gated {
        type Reply = u32;

        fn turn(&self) -> Option<u32> {
            self.turn
        }

        fn carry_out(self) -> (u32, Option<Gated>) {
            let _ = self.gate.lock().unwrap().recv();
            (self.number, None)
        }
    }

    fn gate() -> (mpsc::Sender<()>, Arc<Mutex<mpsc::Receiver<()>>>) {
        let (open, gate) = mpsc::channel();
        (open, Arc::new(Mutex::new(gate)))
    }

    fn await_answers(fetcher: &Fetcher<Gated>, count: usize) -> Vec<u32> {
        let mut replies = Vec::new();
        while replies.len() < count {
            fetcher.take(&mut replies);
            thread::yield_now();
        }
        replies
    }

    #[test]
    fn jobs_with_a_turn_are_done_one_by_one_in_their_order() {
        let fetcher = Fetcher::new(4);
        let (open, gate) = gate();
        for number in 0..50 {
            assert!(fetcher.start(Gated { number, turn: Some(7), gate: Arc::clone(&gate) }));
            open.send(()).unwrap();
        }
        assert!(await_answers(&fetcher, 50).into_iter().eq(0..50));
    }

    #[test]
    fn a_job_that_hangs_keeps_nobody_who_is_not_of_its_turn() {
        let fetcher = Fetcher::new(2);
        let ((_open, hangs), (open, gate)) = (gate(), gate());
        fetcher.start(Gated { number: 1, turn: Some(1), gate: hangs });
        for number in 2..20 {
            fetcher.start(Gated { number, turn: Some(2), gate: Arc::clone(&gate) });
            open.send(()).unwrap();
        }
        assert_eq!(await_answers(&fetcher, 18).len(), 18);
    }

    #[test]
    fn dropping_it_waits_for_nobody() {
        let fetcher = Fetcher::new(1);
        let (open, gate) = gate();
        (0..3).for_each(|number| {
            fetcher.start(Gated { number, turn: None, gate: Arc::clone(&gate) });
        });
        drop(fetcher);
        // At most the job that has begun is still at the gate.
        drop(open);
    }
}
