//! Threads that carry out what takes time, so that whoever decides never waits.
//!
//! Read-ahead blocks when a device's queue is full, and a server may have died. So threads are started as they are
//! needed, take jobs in the order in which these came, and are never waited for: one that hangs hangs alone, and ends
//! when the system lets it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

/// Something that takes time.
pub(crate) trait Job: Send + 'static {
    /// What comes of it.
    type Answer: Send;

    /// Whose it is, if of his jobs only one may be under way at a time: what is nearest to a program should arrive
    /// first.
    fn turn(&self) -> Option<u32>;

    /// Whether its answer wakes whoever decides. Others are taken when he comes by himself.
    fn is_urgent(&self) -> bool {
        true
    }

    /// Does it, and says what is to be done next because of it, without waiting for whoever decides.
    fn carry_out(self) -> (Self::Answer, Option<Self>)
    where
        Self: Sized;
}

/// The threads, and what waits for them. Dropped, it forgets what was not begun.
pub(crate) struct Fetcher<J: Job> {
    shared: Arc<Shared<J>>,
    most_threads: usize,
}

struct Shared<J: Job> {
    state: Mutex<State<J>>,
    work: Condvar,
    /// Whoever decides, to be woken by answers.
    watcher: Thread,
}

struct State<J: Job> {
    todo: VecDeque<J>,
    /// Whose turn it is not.
    busy: Vec<u32>,
    answers: Vec<J::Answer>,
    threads: usize,
    idle: usize,
    stopping: bool,
}

impl<J: Job> Fetcher<J> {
    /// Answers wake the calling thread, if it is parked.
    pub(crate) fn new(most_threads: usize) -> Fetcher<J> {
        let (todo, busy, answers) = (VecDeque::new(), Vec::new(), Vec::new());
        let state = State { todo, busy, answers, threads: 0, idle: 0, stopping: false };
        let shared = Shared { state: Mutex::new(state), work: Condvar::new(), watcher: thread::current() };
        Fetcher { shared: Arc::new(shared), most_threads }
    }

    /// Takes on a job. False if there is no thread that could ever do it.
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

    /// Forgets those that have not been begun and are not wanted any more.
    pub(crate) fn forget(&self, is_unwanted: impl Fn(&J) -> bool) {
        self.shared.lock().todo.retain(|job| !is_unwanted(job));
    }

    /// Moves all answers that have come to `answers`.
    pub(crate) fn take(&self, answers: &mut Vec<J::Answer>) {
        answers.append(&mut self.shared.lock().answers);
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
        // Jobs are done outside of the lock, and nothing inside of it panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Job> State<J> {
    /// The next job that may be begun.
    fn next(&mut self) -> Option<J> {
        let busy = &self.busy;
        let is_free = |job: &J| job.turn().is_none_or(|whose| !busy.contains(&whose));
        let job = self.todo.remove(self.todo.iter().position(is_free)?)?;
        self.busy.extend(job.turn());
        Some(job)
    }
}

/// The life of a thread.
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
        let (answer, next) = job.carry_out();
        state = shared.lock();
        state.busy.retain(|&busy| Some(busy) != whose);
        state.answers.push(answer);
        if let Some(next) = next {
            state.todo.push_front(next);
            // Who does that does not take up what waited for this turn.
            shared.work.notify_one();
        }
        if is_urgent {
            shared.watcher.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Waits until it may go on, and says that it did.
    struct Gated {
        number: u32,
        turn: Option<u32>,
        gate: Arc<Mutex<mpsc::Receiver<()>>>,
    }

    impl Job for Gated {
        type Answer = u32;

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
        let mut answers = Vec::new();
        while answers.len() < count {
            fetcher.take(&mut answers);
            thread::yield_now();
        }
        answers
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
        // Only what was begun, if anything, is still at the gate.
        drop(open);
    }
}
