//! An engine and a budget of memory that the streams of a job share.
//!
//! Any number of streams on any number of threads use one engine, with its threads or its ring, and one pool. The thread
//! that has to wait drives the engine for all: it reaps completions and passes them to their streams; others wait for it
//! meanwhile. So an engine for each thread is faster where threads have much I/O of their own, and one engine for all is
//! smaller.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::Error;
use crate::buffer::{BufferPool, Memory};
use crate::engine::{self, Completion, Engine, EngineSpec, Op};
use crate::file::IoFile;

/// What a job shares.
#[derive(Clone, Copy, Debug)]
pub struct IoOptions {
    /// The engine and its depth.
    pub engine: EngineSpec,
    /// Bytes of buffers, at most.
    pub budget: usize,
    /// What memory they are made of.
    pub memory: Memory,
}

/// Memory for the buffers of a job where nothing else is said, in bytes.
const USUAL_BUDGET: usize = 64 << 20;

impl Default for IoOptions {
    /// The usual engine, and 64 MiB of huge pages.
    fn default() -> IoOptions {
        let engine = EngineSpec::usual(crate::EngineKind::Pread);
        IoOptions { engine, budget: USUAL_BUDGET, memory: Memory::Huge }
    }
}

/// An engine and its pool; clones are handles of the same.
#[derive(Clone)]
pub struct Io {
    shared: Arc<Shared>,
}

struct Shared {
    // Before the pool: the kernel may use its memory until the engine is dropped.
    state: Mutex<State>,
    /// Notified when completions have been passed to their streams.
    reaped: Condvar,
    pool: BufferPool,
    spec: Option<EngineSpec>,
    /// Whether operations take their buffers late, when a thread comes to them.
    takes_late: bool,
    registered: bool,
}

struct State {
    /// None while a thread drives it.
    engine: Option<Box<dyn Engine>>,
    /// Kept for its capacity.
    completions: Vec<Completion>,
    /// Submitted by streams, for which there was no free slot yet.
    queued: VecDeque<Op>,
    /// Operations of the engine and the queue.
    in_flight: usize,
    inboxes: BTreeMap<u64, Vec<Completion>>,
    next_stream: u64,
    /// Files of streams that ended while a thread drove the engine.
    detached: Vec<Arc<IoFile>>,
}

/// The streams of one [`Io`] and their operations are told apart by the upper and lower half of a tag.
const STREAM_SHIFT: u32 = 32;

impl Io {
    /// Opens an engine with a budget.
    ///
    /// # Errors
    /// If the system does not offer the engine.
    pub fn open(options: &IoOptions) -> Result<Io, Error> {
        let pool = BufferPool::with_budget(options.budget, options.memory);
        let opened = engine::open(options.engine, USUAL_BUDGET, None)?;
        Ok(Io::with(opened.engine, pool, Some(options.engine), false))
    }

    /// Over any engine, such as one over files in memory ([`crate::fake`]).
    #[must_use]
    pub fn over(engine: Box<dyn Engine>, pool: BufferPool) -> Io {
        Io::with(engine, pool, None, false)
    }

    /// An engine with a fixed pool, which the kernel knows beforehand if possible and if `register`.
    pub(crate) fn fixed(
        spec: EngineSpec,
        block: usize,
        pool: BufferPool,
        register: bool,
    ) -> Result<Io, Error> {
        let opened = engine::open(spec, block, Some(&pool).filter(|_| register))?;
        Ok(Io::with(opened.engine, pool, Some(spec), opened.registered))
    }

    fn with(engine: Box<dyn Engine>, pool: BufferPool, spec: Option<EngineSpec>, registered: bool) -> Io {
        let state = State {
            engine: Some(engine),
            completions: Vec::new(),
            queued: VecDeque::new(),
            in_flight: 0,
            inboxes: BTreeMap::new(),
            next_stream: 0,
            detached: Vec::new(),
        };
        let takes_late = spec.is_some_and(|spec| spec.kind.takes_buffers_late());
        let (state, reaped) = (Mutex::new(state), Condvar::new());
        Io { shared: Arc::new(Shared { state, reaped, pool, spec, takes_late, registered }) }
    }

    /// The memory that its streams share.
    #[must_use]
    pub fn pool(&self) -> &BufferPool {
        &self.shared.pool
    }

    /// Number of streams that are open.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.shared.lock().inboxes.len()
    }

    /// Whether the kernel knows the buffers beforehand.
    pub(crate) fn registered(&self) -> bool {
        self.shared.registered
    }

    pub(crate) fn takes_late(&self) -> bool {
        self.shared.takes_late
    }

    /// Whether operations bring their own memory.
    pub(crate) fn maps(&self) -> bool {
        self.shared.spec.is_some_and(|spec| !spec.kind.uses_buffers())
    }

    /// Operations that keep the engine busy, of a stream with blocks of `block` bytes.
    pub(crate) fn ahead(&self, block: usize) -> usize {
        match self.shared.spec {
            Some(spec) => spec.ahead(block),
            None => self.shared.lock().engine.as_ref().map_or(1, |engine| engine.free_slots().max(1)),
        }
    }

    /// Opens a stream of operations.
    pub(crate) fn stream(&self) -> Stream {
        let mut state = self.shared.lock();
        let id = state.next_stream;
        state.next_stream += 1;
        state.inboxes.insert(id, Vec::new());
        Stream { io: self.clone(), id, attached: Vec::new() }
    }
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io").field("spec", &self.shared.spec).field("pool", &self.shared.pool).finish()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Its lists are whole whatever its holder was doing when it panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reaps `at_least` completions and passes them on, or waits until another thread has. With 0 nobody is waited for.
    fn drive(&self, mut state: MutexGuard<'_, State>, at_least: usize) -> io::Result<()> {
        let Some(mut engine) = state.engine.take() else {
            if at_least > 0 {
                drop(self.reaped.wait(state).unwrap_or_else(PoisonError::into_inner));
            }
            return Ok(());
        };
        state.submit_queued(&mut *engine);
        let mut completions = std::mem::take(&mut state.completions);
        drop(state);
        let outcome = engine.reap(at_least, &mut completions);
        let mut state = self.lock();
        state.in_flight -= completions.len();
        for completion in completions.drain(..) {
            // The memory of a stream that is gone is released here.
            if let Some(inbox) = state.inboxes.get_mut(&(completion.op.tag >> STREAM_SHIFT)) {
                inbox.push(completion);
            }
        }
        state.completions = completions;
        state.submit_queued(&mut *engine);
        state.detached.drain(..).for_each(|file| engine.detach(&file));
        state.engine = Some(engine);
        drop(state);
        self.reaped.notify_all();
        outcome
    }
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

/// A stream's side of an [`Io`].
pub(crate) struct Stream {
    io: Io,
    id: u64,
    attached: Vec<Arc<IoFile>>,
}

impl Stream {
    pub(crate) fn io(&self) -> &Io {
        &self.io
    }

    /// Announces that operations on a file will follow, as long as the stream lives.
    pub(crate) fn attach(&mut self, file: &Arc<IoFile>) {
        if let Some(engine) = &mut self.io.shared.lock().engine {
            engine.attach(file);
            self.attached.push(Arc::clone(file));
        }
    }

    /// Submits an operation; the lower half of its tag comes back with it.
    pub(crate) fn submit(&self, mut op: Op) {
        debug_assert!(op.tag >> STREAM_SHIFT == 0);
        op.tag |= self.id << STREAM_SHIFT;
        let mut state = self.io.shared.lock();
        state.in_flight += 1;
        match &mut state.engine {
            Some(engine) if engine.free_slots() > 0 => engine.submit(op),
            _ => state.queued.push_back(op),
        }
    }

    /// Moves what has completed of this stream into `completions`, without waiting.
    pub(crate) fn take_completed(&self, completions: &mut Vec<Completion>) {
        let mut state = self.io.shared.lock();
        let inbox = state.inboxes.get_mut(&self.id).expect("an open stream");
        completions.append(inbox);
        drop(state);
        for completion in completions {
            completion.op.tag &= (1 << STREAM_SHIFT) - 1;
        }
    }

    /// Waits until an operation of any stream has completed; false if none is in flight.
    pub(crate) fn wait(&self) -> io::Result<bool> {
        let state = self.io.shared.lock();
        if !state.inboxes[&self.id].is_empty() {
            return Ok(true);
        }
        if state.in_flight == 0 {
            return Ok(false);
        }
        self.io.shared.drive(state, 1).map(|()| true)
    }

    /// Has the engine begin what was submitted, and reaps what has completed.
    pub(crate) fn poll(&self) -> io::Result<()> {
        self.io.shared.drive(self.io.shared.lock(), 0)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut state = self.io.shared.lock();
        let id = self.id;
        let own = |op: &Op| op.tag >> STREAM_SHIFT == id;
        let before = state.queued.len();
        state.queued.retain(|op| !own(op));
        state.in_flight -= before - state.queued.len();
        state.inboxes.remove(&id);
        let attached = std::mem::take(&mut self.attached);
        match &mut state.engine {
            Some(engine) => attached.iter().for_each(|file| engine.detach(file)),
            None => state.detached.extend(attached),
        }
    }
}
