//! An engine and a budget of memory that the streams of a job share.
//!
//! Any number of streams on any number of threads use one engine, with its threads or its ring, and one pool. The
//! thread that has to wait drives the engine for all: it reaps completions and passes them to their streams; others
//! wait for it meanwhile. So an engine for each thread is faster where threads have much I/O of their own, and one
//! engine for all is smaller.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::Error;
use crate::buffer::{Account, BufferPool, Granted, Memory, Released};
use crate::engine::{self, Completion, Engine, EngineSpec, EngineThreads, Op};
use crate::file::IoFile;
use crate::stats::EngineCpu;
use crate::write::progress::continues;

/// Resources that the streams of a job share.
#[derive(Clone, Copy, Debug)]
pub struct IoOptions {
    /// The engine and its depth.
    pub engine: EngineSpec,
    /// Bytes of buffers, at most.
    pub budget: usize,
    /// Kind of memory of the buffers.
    pub memory: Memory,
}

/// Default memory for the buffers of a job.
const DEFAULT_BUDGET_BYTES: usize = 64 << 20;

impl Default for IoOptions {
    /// The usual engine, and 64 MiB of huge pages.
    fn default() -> IoOptions {
        let engine = EngineSpec::usual(crate::EngineKind::Pread);
        IoOptions { engine, budget: DEFAULT_BUDGET_BYTES, memory: Memory::Huge }
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
    traits: Traits,
    threads: EngineThreads,
}

/// The part of the requested memory and registration that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The memory of the buffers; `None` if the engine has its own.
    pub memory: Option<Granted>,
    /// Whether the kernel knows them beforehand.
    pub registered: bool,
}

/// Properties of an engine on which streams depend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits {
    /// Whether operations take their buffers late, when a thread comes to them.
    pub(crate) takes_late: bool,
    /// Whether operations bring their own memory.
    pub(crate) maps: bool,
    /// Whether the kernel knows the buffers beforehand.
    pub(crate) registered: bool,
}

impl Traits {
    pub(crate) fn of(spec: EngineSpec, registered: bool) -> Traits {
        let kind = spec.kind;
        Traits { takes_late: kind.takes_buffers_late(), maps: !kind.uses_buffers(), registered }
    }

    /// Traits of an engine without a specification.
    pub(crate) const UNKNOWN: Traits = Traits { takes_late: false, maps: false, registered: false };
}

struct State {
    /// `None` while a thread drives it.
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

/// The upper half of a tag identifies the stream of an [`Io`], the lower half its operation.
const STREAM_SHIFT: u32 = 32;

impl Io {
    /// Opens an engine with a budget.
    ///
    /// # Errors
    /// If the system does not offer the engine.
    pub fn open(options: &IoOptions) -> Result<Io, Error> {
        let pool = BufferPool::with_budget(options.budget, options.memory);
        let opened = engine::open(options.engine, DEFAULT_BUDGET_BYTES, None)?;
        Ok(Io::with(opened.engine, pool, Traits::of(options.engine, false)))
    }

    /// Over any engine, such as one over files in memory ([`crate::fake`]).
    #[must_use]
    pub fn over(engine: Box<dyn Engine>, pool: BufferPool) -> Io {
        Io::with(engine, pool, Traits::UNKNOWN)
    }

    fn with(engine: Box<dyn Engine>, pool: BufferPool, traits: Traits) -> Io {
        let threads = engine.threads();
        let state = State {
            engine: Some(engine),
            completions: Vec::new(),
            queued: VecDeque::new(),
            in_flight: 0,
            inboxes: BTreeMap::new(),
            next_stream: 0,
            detached: Vec::new(),
        };
        let (state, reaped) = (Mutex::new(state), Condvar::new());
        Io { shared: Arc::new(Shared { state, reaped, pool, traits, threads }) }
    }

    /// The memory that its streams share.
    #[must_use]
    pub fn pool(&self) -> &BufferPool {
        &self.shared.pool
    }

    /// CPU time of the engine's threads so far; that of a phase is the difference ([`EngineCpu::since`]).
    #[must_use]
    pub fn engine_cpu(&self) -> EngineCpu {
        self.shared.threads.cpu()
    }

    /// Number of streams that are open.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.shared.lock().inboxes.len()
    }

    /// Waits until an operation of any stream has completed, which may have released memory; false if none is in flight.
    ///
    /// # Errors
    /// If the engine cannot be driven.
    pub fn wait(&self) -> Result<bool, Error> {
        let state = self.shared.lock();
        if state.in_flight == 0 {
            return Ok(false);
        }
        self.shared.drive(state, 1).map_err(cannot_wait)?;
        Ok(true)
    }

    /// Opens a stream of operations.
    pub(crate) fn stream(&self) -> Stream {
        let mut state = self.shared.lock();
        let id = state.next_stream;
        state.next_stream += 1;
        state.inboxes.insert(id, Vec::new());
        drop(state);
        let handle = Handle::Shared { io: self.clone(), id };
        Stream { handle, pool: self.shared.pool.clone(), traits: self.shared.traits, attached: Vec::new() }
    }
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io").field("traits", &self.shared.traits).field("pool", &self.shared.pool).finish()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Its lists are whole whatever its holder was doing when it panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reaps `at_least` completions and passes them on, or waits until another thread has. Does not wait if it is 0.
    fn drive(&self, mut state: MutexGuard<'_, State>, at_least: usize) -> io::Result<()> {
        let Some(mut engine) = state.engine.take() else {
            if at_least > 0 {
                drop(self.reaped.wait(state).unwrap_or_else(PoisonError::into_inner));
            }
            return Ok(());
        };
        state.submit_queued(&mut *engine);
        let mut completions = mem::take(&mut state.completions);
        drop(state);
        let outcome = engine.reap(at_least, &mut completions);
        // Memory of completed writes is released here, before their streams look at them: another may wait for it.
        let continued: Vec<Op> = extract_continued(&mut completions).collect();
        let mut state = self.lock();
        state.in_flight -= completions.len();
        state.queued.extend(continued);
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

/// Removes the completions of operations that are to be submitted again.
fn extract_continued(completions: &mut Vec<Completion>) -> impl Iterator<Item = Op> {
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

fn cannot_wait(source: io::Error) -> Error {
    Error::System { what: "wait for I/O".into(), source }
}

/// Operations of one stream, on an engine of its own or a shared one.
pub(crate) struct Stream {
    // Before the pool: the kernel may use its memory until the engine is dropped.
    handle: Handle,
    pool: BufferPool,
    traits: Traits,
    attached: Vec<Arc<IoFile>>,
}

enum Handle {
    Own { engine: Box<dyn Engine>, in_flight: usize },
    Shared { io: Io, id: u64 },
}

impl Stream {
    /// Alone on an engine: nothing is locked.
    pub(crate) fn alone(engine: Box<dyn Engine>, pool: BufferPool, traits: Traits) -> Stream {
        Stream { handle: Handle::Own { engine, in_flight: 0 }, pool, traits, attached: Vec::new() }
    }

    pub(crate) fn pool(&self) -> &BufferPool {
        &self.pool
    }

    pub(crate) fn traits(&self) -> Traits {
        self.traits
    }

    pub(crate) fn engine_cpu(&self) -> EngineCpu {
        match &self.handle {
            Handle::Own { engine, .. } => engine.threads().cpu(),
            Handle::Shared { io, .. } => io.engine_cpu(),
        }
    }

    pub(crate) fn grant(&self) -> Grant {
        Grant { memory: self.pool.granted(), registered: self.traits.registered }
    }

    /// Streams that share the pool.
    pub(crate) fn sharing(&self) -> usize {
        match &self.handle {
            Handle::Own { .. } => 1,
            Handle::Shared { io, .. } => io.streams().max(1),
        }
    }

    /// Announces that operations on a file will follow, as long as the stream lives.
    pub(crate) fn attach(&mut self, file: &Arc<IoFile>) {
        match &mut self.handle {
            Handle::Own { engine, .. } => engine.attach(file),
            Handle::Shared { io, .. } => match &mut io.shared.lock().engine {
                Some(engine) => engine.attach(file),
                None => return,
            },
        }
        self.attached.push(Arc::clone(file));
    }

    /// Submits an operation with a tag less than 2^32.
    pub(crate) fn submit(&mut self, mut op: Op) {
        debug_assert!(op.tag >> STREAM_SHIFT == 0);
        match &mut self.handle {
            Handle::Own { engine, in_flight } => {
                *in_flight += 1;
                engine.submit(op);
            }
            Handle::Shared { io, id } => {
                op.tag |= *id << STREAM_SHIFT;
                let mut state = io.shared.lock();
                state.in_flight += 1;
                match &mut state.engine {
                    Some(engine) if engine.free_slots() > 0 => engine.submit(op),
                    _ => state.queued.push_back(op),
                }
            }
        }
    }

    /// Waits until an operation has completed, of this stream or another, and gives those of this stream; false if
    /// none is in flight.
    pub(crate) fn wait(&mut self, completions: &mut Vec<Completion>) -> Result<bool, Error> {
        self.reap(1, completions).map_err(cannot_wait)
    }

    /// Waits when the budget is exhausted and this stream has nothing in flight: until any operation has completed,
    /// or memory was released after `since`. `own` is the account of this stream, unless others share it.
    pub(crate) fn wait_for_memory(
        &mut self,
        since: Released,
        own: Option<&Account>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), Error> {
        if self.wait(completions)? || self.pool.wait_for_release(since, own) {
            return Ok(());
        }
        Err(Error::AllHeld { budget: self.pool.budget() as u64 })
    }

    /// Drives the engine without blocking, so that submitted operations begin; appends this stream's completions.
    pub(crate) fn poll(&mut self, completions: &mut Vec<Completion>) -> Result<(), Error> {
        self.reap(0, completions).map(drop).map_err(cannot_wait)
    }

    fn reap(&mut self, at_least: usize, completions: &mut Vec<Completion>) -> io::Result<bool> {
        match &mut self.handle {
            Handle::Own { engine, in_flight } => {
                debug_assert!(completions.is_empty());
                let was_in_flight = *in_flight > 0;
                let outcome = engine.reap(at_least, completions);
                extract_continued(completions).for_each(|op| engine.submit(op));
                *in_flight -= completions.len();
                outcome.map(|()| was_in_flight)
            }
            Handle::Shared { io, id } => {
                let state = io.shared.lock();
                let has_completed = !state.inboxes[id].is_empty();
                let is_in_flight = has_completed || state.in_flight > 0;
                if is_in_flight {
                    io.shared.drive(state, if has_completed { 0 } else { at_least })?;
                } else {
                    drop(state);
                }
                debug_assert!(completions.is_empty());
                let mut state = io.shared.lock();
                completions.append(state.inboxes.get_mut(id).expect("an open stream"));
                drop(state);
                for completion in completions {
                    completion.op.tag &= (1 << STREAM_SHIFT) - 1;
                }
                Ok(is_in_flight)
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Handle::Shared { io, id } = &self.handle else { return };
        let mut state = io.shared.lock();
        let before = state.queued.len();
        state.queued.retain(|op| op.tag >> STREAM_SHIFT != *id);
        state.in_flight -= before - state.queued.len();
        state.inboxes.remove(id);
        let attached = mem::take(&mut self.attached);
        match &mut state.engine {
            Some(engine) => attached.iter().for_each(|file| engine.detach(file)),
            None => state.detached.extend(attached),
        }
    }
}
