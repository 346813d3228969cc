//! An engine and a memory budget shared by the streams of a job.
//!
//! Any number of streams on any number of threads use one engine, with its threads or its ring, and one pool. A
//! thread that has to wait drives the engine for all: it reaps completions and passes them to their streams; other
//! threads wait for it meanwhile. An engine per thread is faster if threads do much I/O of their own; a shared engine
//! needs fewer resources.
//!
//! Operations beyond the engine's slots are queued. While the queue is not empty, a thread of the [`Io`] also drives
//! the engine (`driver`), because the submitters may compute for long.

mod core;
mod driver;

use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;

use crate::Error;
use crate::buffer::{Account, BufferPool, Granted, Memory, Released};
use crate::engine::{self, Completion, Engine, EngineSpec, Op};
use crate::file::IoFile;
use crate::stats::EngineCpu;

use core::{Core, Driver, extract_continued};

/// Options of an engine and a pool that the streams of a job share.
#[derive(Clone, Copy, Debug)]
pub struct IoOptions {
    /// The engine and its depth.
    pub engine: EngineSpec,
    /// Maximum bytes of buffers.
    pub budget: usize,
    /// Kind of memory of the buffers.
    pub memory: Memory,
}

/// Default memory for the buffers of a job.
const DEFAULT_BUDGET_BYTES: usize = 64 << 20;

impl Default for IoOptions {
    /// Returns the default engine, and 64 MiB of huge pages.
    fn default() -> IoOptions {
        let engine = EngineSpec::usual(crate::EngineKind::Pread);
        IoOptions { engine, budget: DEFAULT_BUDGET_BYTES, memory: Memory::Huge }
    }
}

/// An engine and its pool; clones are handles of the same engine.
#[derive(Clone)]
pub struct Io {
    shared: Arc<Shared>,
}

struct Shared {
    // Dropped before the pool: the kernel may use its memory until the engine is dropped.
    core: Arc<Core>,
    pool: BufferPool,
    traits: Traits,
}

/// The part of the requested memory and registration that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The memory of the buffers; `None` if the engine has its own.
    pub memory: Option<Granted>,
    /// Whether the buffers are registered with the kernel.
    pub registered: bool,
}

/// Properties of an engine on which streams depend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits {
    /// Whether operations take their buffers late, when a thread begins them.
    pub(crate) takes_late: bool,
    /// Whether operations map the file instead of using buffers.
    pub(crate) maps: bool,
    /// Whether the buffers are registered with the kernel.
    pub(crate) registered: bool,
}

impl Traits {
    pub(crate) fn of(spec: EngineSpec, registered: bool) -> Traits {
        let kind = spec.kind;
        Traits { takes_late: kind.takes_buffers_late(), maps: !kind.uses_buffers(), registered }
    }

    /// Traits of an engine that is not described by an [`EngineSpec`].
    pub(crate) const UNKNOWN: Traits = Traits { takes_late: false, maps: false, registered: false };
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
        let opened = engine::open_shared(options.engine)?;
        Ok(Io::with(opened.engine, pool, Traits::of(options.engine, false), Driver::allowed()))
    }

    /// Creates it over any engine, such as one over files in memory ([`crate::fake`]). Only threads that use its
    /// streams drive it, so that a single-threaded run is determined by the seed.
    #[must_use]
    pub fn over(engine: Box<dyn Engine>, pool: BufferPool) -> Io {
        Io::with(engine, pool, Traits::UNKNOWN, Driver::default())
    }

    fn with(engine: Box<dyn Engine>, pool: BufferPool, traits: Traits, driver: Driver) -> Io {
        let core = Arc::new(Core::new(engine, driver));
        Io { shared: Arc::new(Shared { core, pool, traits }) }
    }

    /// Returns the memory that its streams share.
    #[must_use]
    pub fn pool(&self) -> &BufferPool {
        &self.shared.pool
    }

    /// Returns the CPU time of the engine's threads so far; that of a phase is the difference ([`EngineCpu::since`]).
    #[must_use]
    pub fn engine_cpu(&self) -> EngineCpu {
        self.shared.core.threads.cpu()
    }

    /// Returns the number of open streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.shared.core.lock().inboxes.len()
    }

    /// Waits until an operation of any stream has completed, which may have released memory; returns false if none is
    /// in flight.
    ///
    /// # Errors
    /// If the engine cannot be driven.
    pub fn wait(&self) -> Result<bool, Error> {
        let state = self.shared.core.lock();
        if state.in_flight == 0 {
            return Ok(false);
        }
        self.shared.core.drive(state, 1).map_err(cannot_wait)?;
        Ok(true)
    }

    /// Opens a stream of operations.
    pub(crate) fn stream(&self) -> Stream {
        let mut state = self.shared.core.lock();
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

impl Drop for Shared {
    fn drop(&mut self) {
        self.core.stop_driver();
    }
}

fn cannot_wait(source: io::Error) -> Error {
    Error::System { what: "wait for I/O".into(), source }
}

/// Operations of one stream, on an engine of its own or a shared one.
pub(crate) struct Stream {
    // Dropped before the pool: the kernel may use its memory until the engine is dropped.
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
    /// Creates a stream as the only user of an engine: nothing is locked.
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

    /// Returns the number of streams that share the pool.
    pub(crate) fn sharing(&self) -> usize {
        match &self.handle {
            Handle::Own { .. } => 1,
            Handle::Shared { io, .. } => io.streams().max(1),
        }
    }

    /// Announces operations on a file for the lifetime of the stream.
    pub(crate) fn attach(&mut self, file: &Arc<IoFile>) {
        match &mut self.handle {
            Handle::Own { engine, .. } => engine.attach(file),
            Handle::Shared { io, .. } => match &mut io.shared.core.lock().engine {
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
                let mut state = io.shared.core.lock();
                state.in_flight += 1;
                match &mut state.engine {
                    Some(engine) if engine.free_slots() > 0 => engine.submit(op),
                    engine => {
                        let is_idle = engine.is_some();
                        state.queued.push_back(op);
                        // A thread that holds the engine checks the queue when it returns the engine.
                        if is_idle {
                            io.shared.core.call_driver(&mut state);
                        }
                    }
                }
            }
        }
    }

    /// Waits until an operation of any stream has completed, and appends the completions of this stream; returns
    /// false if none is in flight.
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
                let state = io.shared.core.lock();
                let has_completed = !state.inboxes[id].is_empty();
                let is_in_flight = has_completed || state.in_flight > 0;
                if is_in_flight {
                    io.shared.core.drive(state, if has_completed { 0 } else { at_least })?;
                } else {
                    drop(state);
                }
                debug_assert!(completions.is_empty());
                let mut state = io.shared.core.lock();
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
        let mut state = io.shared.core.lock();
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
