//! The engine of an [`Io`](super::Io), and the operations of all its streams.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::STREAM_SHIFT;
use crate::engine::{Completion, Engine, EngineThreads, Op};
use crate::file::IoFile;
use crate::write::progress::continues;

/// The engine and the operations of all streams, which the driver shares.
pub(super) struct Core {
    pub(super) state: Mutex<State>,
    /// Notified when completions have been passed to their streams, if a thread waits for that.
    pub(super) reaped: Condvar,
    /// Notified when the driver is needed, or is to end.
    pub(super) called: Condvar,
    pub(super) threads: EngineThreads,
}

pub(super) struct State {
    /// `None` while a thread drives it.
    pub(super) engine: Option<Box<dyn Engine>>,
    /// Reused to avoid allocation.
    pub(super) completions: Vec<Completion>,
    /// Operations that streams have submitted while no slot was free.
    pub(super) queued: VecDeque<Op>,
    /// Number of operations in the engine and the queue.
    pub(super) in_flight: usize,
    /// Number of threads that wait for another one to reap.
    pub(super) waiting: usize,
    pub(super) driver: Driver,
    pub(super) inboxes: BTreeMap<u64, Vec<Completion>>,
    pub(super) next_stream: u64,
    /// Files of streams that ended while a thread drove the engine.
    pub(super) detached: Vec<Arc<IoFile>>,
}

/// The driver as seen by its callers; its thread is in `driver.rs`.
#[derive(Debug, Default)]
pub(super) struct Driver {
    /// Whether it may be started.
    pub(super) is_allowed: bool,
    /// Whether it is submitting queued operations, or will.
    pub(super) is_called: bool,
    pub(super) stops: bool,
    pub(super) thread: Option<JoinHandle<()>>,
}

impl Driver {
    /// Creates a driver that starts when it is first needed.
    pub(super) fn allowed() -> Driver {
        Driver { is_allowed: true, ..Driver::default() }
    }
}

impl Core {
    pub(super) fn new(engine: Box<dyn Engine>, driver: Driver) -> Core {
        let threads = engine.threads();
        let state = State {
            engine: Some(engine),
            completions: Vec::new(),
            queued: VecDeque::new(),
            in_flight: 0,
            waiting: 0,
            driver,
            inboxes: BTreeMap::new(),
            next_stream: 0,
            detached: Vec::new(),
        };
        Core { state: Mutex::new(state), reaped: Condvar::new(), called: Condvar::new(), threads }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // The lists stay consistent wherever a holder of the lock panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reaps `at_least` completions and passes them on, or waits until another thread has. Does not wait if it is 0.
    pub(super) fn drive(
        self: &Arc<Core>,
        mut state: MutexGuard<'_, State>,
        at_least: usize,
    ) -> io::Result<()> {
        let Some(mut engine) = state.engine.take() else {
            if at_least > 0 {
                drop(self.wait_for_reaped(state));
            }
            return Ok(());
        };
        state.submit_queued(&mut *engine);
        let mut completions = mem::take(&mut state.completions);
        drop(state);
        let outcome = engine.reap(at_least, &mut completions);
        // Memory of completed writes is released here, before their streams see them: another stream may wait for it.
        let continued: Vec<Op> = extract_continued(&mut completions).collect();
        let mut state = self.lock();
        state.in_flight -= completions.len();
        state.queued.extend(continued);
        for completion in completions.drain(..) {
            // The memory of a stream that no longer exists is released here.
            if let Some(inbox) = state.inboxes.get_mut(&(completion.op.tag >> STREAM_SHIFT)) {
                inbox.push(completion);
            }
        }
        state.completions = completions;
        state.submit_queued(&mut *engine);
        state.detached.drain(..).for_each(|file| engine.detach(&file));
        state.engine = Some(engine);
        if !state.queued.is_empty() {
            self.call_driver(&mut state);
        }
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.reaped.notify_all();
        }
        outcome
    }

    /// Sleeps until another thread has reaped.
    pub(super) fn wait_for_reaped<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting += 1;
        let mut state = self.reaped.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }
}

/// Removes the completions of operations that are to be submitted again.
pub(super) fn extract_continued(completions: &mut Vec<Completion>) -> impl Iterator<Item = Op> {
    completions.extract_if(.., continues).map(|completion| completion.op)
}

impl State {
    fn submit_queued(&mut self, engine: &mut dyn Engine) {
        while engine.free_slots() > 0
            && let Some(op) = self.queued.pop_front()
        {
            engine.submit(op);
        }
    }
}
