//! Compression of a job's spilled data: the level of each chunk, and what became of it.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::codec::ScratchPool;
use super::controller::{Controller, Written};
use super::level::{LEVEL_COUNT, Level, LevelBytes, SpillCompression};
use crate::phase::nanos;

/// Chooses levels for all threads of a job, and counts bytes.
#[derive(Debug)]
pub(crate) struct LevelChooser {
    mode: SpillCompression,
    state: Mutex<State>,
    begun: Instant,
    pub(super) scratch: ScratchPool,
}

#[derive(Debug)]
struct State {
    controller: Controller,
    bytes: [(u64, u64); LEVEL_COUNT],
}

thread_local! {
    /// End of the last write of this thread.
    static LAST_WRITE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Time between two chunks of a thread above which it did something else.
const THREAD_PAUSE: Duration = Duration::from_millis(100);

/// A chunk that is being written.
pub(super) struct Handover {
    /// The level to compress it with.
    pub(super) level: Level,
    begun: Instant,
    produced: Option<Duration>,
}

/// A chunk that was handed to the device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stored {
    /// The level that it is stored with: none if compression did not make it smaller.
    pub(super) level: Level,
    pub(super) raw_bytes: u64,
    pub(super) stored_bytes: u64,
    pub(super) compress: Duration,
    /// Time waited for the device.
    pub(super) waited: Duration,
    /// Time waited for other threads, which says nothing of the device.
    pub(super) locked: Duration,
}

impl Handover {
    /// Returns the time since it began.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

impl LevelChooser {
    pub(crate) fn new(mode: SpillCompression, threads: usize, scratch: ScratchPool) -> LevelChooser {
        let state = State { controller: Controller::new(threads), bytes: [(0, 0); LEVEL_COUNT] };
        LevelChooser { mode, state: Mutex::new(state), begun: Instant::now(), scratch }
    }

    /// Returns the level of the next chunk of the calling thread.
    pub(super) fn begin(&self) -> Handover {
        let level = match self.mode {
            SpillCompression::Fixed(level) => level,
            SpillCompression::Adaptive => self.lock().controller.next(),
        };
        let begun = Instant::now();
        let produced = LAST_WRITE.get().map(|last| begun.saturating_duration_since(last));
        Handover { level, begun, produced: produced.filter(|&produced| produced < THREAD_PAUSE) }
    }

    /// Takes a written chunk into account.
    pub(super) fn end(&self, handover: &Handover, stored: Stored) {
        let now = Instant::now();
        LAST_WRITE.set(Some(now));
        // The rest of the time is copying and submitting, which produces the chunk as well.
        let other = (now - handover.begun).saturating_sub(stored.compress + stored.waited + stored.locked);
        let mut state = self.lock();
        let bytes = &mut state.bytes[stored.level as usize];
        *bytes = (bytes.0 + stored.raw_bytes, bytes.1 + stored.stored_bytes);
        if self.mode == SpillCompression::Adaptive {
            state.controller.record(Written {
                level: handover.level,
                raw_bytes: stored.raw_bytes,
                stored_bytes: stored.stored_bytes,
                compress_ns: nanos(stored.compress),
                waited_ns: nanos(stored.waited),
                produced_ns: handover.produced.map(|produced| nanos(produced + other)),
                now_ns: nanos(now - self.begun),
            });
        }
    }

    /// Returns the bytes spilled with each level that was used.
    pub(crate) fn bytes(&self) -> Vec<LevelBytes> {
        let bytes = self.lock().bytes;
        let all = Level::ALL.into_iter().zip(bytes);
        let all = all.map(|(level, (raw_bytes, stored_bytes))| LevelBytes { level, raw_bytes, stored_bytes });
        all.filter(|bytes| bytes.raw_bytes > 0).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Its numbers are consistent whatever its holder was doing when it panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
