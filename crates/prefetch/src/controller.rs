//! Decides whether and how far to read ahead.
//!
//! A [`Controller`] receives observations of programs ([`Event`]) and returns what to do ([`Action`]). It has no clock,
//! file or thread, and is the same in virtual and in real time. It follows *readings*: one program's progress through
//! one sequence of bytes, which is a file or several consecutive files. Each has two positions: `main`, the position of
//! the program, and `prefetch`, the end of the data requested ahead of it.
//!
//! **Fixed limit** (section 3.5 and figure 2 of the paper): the next `step` bytes are read unless `prefetch - main >
//! limit`; so the distance never exceeds `limit + step`.
//!
//! **Automatic limit**, an addition to the paper. The limit starts small and grows while the program waits, as
//! described in `pace`. Missing data is requested piece by piece, as the program consumes what is there. The distance
//! never exceeds `limit + one piece`.
//!
//! **Start.** Reading ahead starts after some forward moves, when the program has been observed waiting. But if the
//! program sleeps in its very first read of a file, from its beginning, and the kernel's windows are short, the minimum
//! limit is fetched at once: a program that hardly waits has no more than those few accesses to lose. For a program
//! that only looks at the beginning of a file this is wasted. Therefore only one such start at a time may be unproven;
//! it is proven when the program passes half of the data, and the first that fails is the last.
//!
//! **Long reads.** All that a read requests is needed, however the program continues. If it sleeps in a read of a
//! megabyte or more, whose end the position does not show before it returns, the whole range is fetched within the
//! memory budget.
//!
//! A reading is left alone ([`Idle`]) if nothing can be gained: its data is cached already, the kernel's own read-ahead
//! suffices, its accesses are not sequential, or the device is so slow that reading ahead does not make the program
//! faster (equation 2 of the paper). All readings together stay within one memory budget.

mod access;
mod pace;
mod reading;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use sakiyomi_model::Nanos;

#[cfg(feature = "system")]
pub(crate) use reading::LONG_READ_MIN_BYTES;
use reading::{Reading, ReadingRequest, Start};

/// Identifies a reading for its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadingId(pub u32);

/// Limit of the distance ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The policy of the paper: always up to this distance.
    Fixed {
        /// Distance in bytes above which no further read is started.
        limit: u64,
        /// Bytes read at a time, at most `limit`.
        step: u64,
    },
    /// Adapted to the program, up to a maximum.
    Auto {
        /// The longest distance, in bytes.
        most: u64,
    },
}

impl Limit {
    /// Automatic limit up to the longest distance of the paper, 512 MiB.
    pub const AUTO: Limit = Limit::Auto { most: 512 << 20 };
}

/// An observation. Positions and sizes are in bytes; times of a program are totals since an arbitrary start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A program has opened a sequence of bytes.
    Opened {
        /// An unused identifier.
        id: ReadingId,
        /// Position of the program.
        at: u64,
        /// Size of the sequence.
        size: u64,
    },
    /// Times of the reading program so far. Precedes the position that belongs to it.
    Times {
        /// The reading.
        id: ReadingId,
        /// CPU time.
        cpu_time: Nanos,
        /// Time waiting for I/O.
        io_wait: Nanos,
        /// Bytes read from all files, if known.
        read: Option<u64>,
    },
    /// Position of the program, reported even if it has not moved.
    Position {
        /// The reading.
        id: ReadingId,
        /// The position.
        at: u64,
    },
    /// The program sleeps in a read at its position; follows the position. Reported for the first read of a file and for
    /// long reads.
    Blocked {
        /// The reading.
        id: ReadingId,
        /// Requested bytes.
        wants: u64,
        /// Size of the kernel's read-ahead window, in bytes.
        window: u64,
    },
    /// The size of the sequence has changed.
    Resized {
        /// The reading.
        id: ReadingId,
        /// The new size.
        size: u64,
    },
    /// An [`Action::Fetch`] has been carried out.
    Fetched {
        /// The reading.
        id: ReadingId,
        /// The requested range.
        range: Range<u64>,
        /// Whether it could be requested.
        done: bool,
    },
    /// The answer to an [`Action::CheckResidency`].
    Residency {
        /// The reading.
        id: ReadingId,
        /// The examined range.
        range: Range<u64>,
        /// Bytes of it that are cached or in flight.
        cached: u64,
        /// Bytes of it that were evicted for lack of memory.
        evicted: u64,
    },
    /// The program has ended or has closed the file.
    Closed {
        /// The reading.
        id: ReadingId,
    },
    /// Memory budget for data ahead of all programs together, in bytes.
    Memory {
        /// The budget.
        bytes: u64,
    },
}

/// An action to carry out. Each is answered by an event, in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Load this range into the page cache.
    Fetch {
        /// The reading.
        id: ReadingId,
        /// The range; never empty, never beyond the end.
        range: Range<u64>,
    },
    /// Determine the residency of this range.
    CheckResidency {
        /// The reading.
        id: ReadingId,
        /// The range; never empty, never beyond the end.
        range: Range<u64>,
    },
}

/// State of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Observes whether the accesses are sequential and whether the program waits.
    Watching,
    /// Reads ahead.
    Ahead,
    /// Pauses reading ahead, to find out whether the program is as fast alone.
    Probation,
    /// Leaves the program alone.
    Idle(Idle),
}

/// Reasons for leaving a reading alone. All but the last are reconsidered when the observations change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Idle {
    /// The data that it reads next is cached already.
    Resident,
    /// The program does not wait for I/O: the kernel's read-ahead suffices.
    DoesNotWait,
    /// The accesses are not sequential.
    NotSequential,
    /// I/O takes so much longer than computation that reading ahead does not help (equation 2 of the paper).
    IoBound,
    /// There is not enough memory.
    NoMemory,
    /// Everything has been requested.
    Done,
    /// The system does not allow reading the file ahead.
    Refused,
}

/// Decides for all readings how far ahead to read.
#[derive(Debug)]
pub struct Controller {
    limit: Limit,
    /// Memory budget for all readings together.
    memory_budget: u64,
    /// Memory in use: the sum of the readings' distances.
    memory_used: u64,
    /// Number of readings that read ahead, which share the budget.
    active: u64,
    /// Number of readings started at the first read and not yet proven.
    unproven: u64,
    /// Whether such starts are still allowed.
    is_bold: bool,
    readings: BTreeMap<ReadingId, Reading>,
}

impl Controller {
    /// Makes a controller with unlimited memory until it receives [`Event::Memory`].
    #[must_use]
    pub fn new(limit: Limit) -> Controller {
        let readings = BTreeMap::new();
        Controller {
            limit,
            memory_budget: u64::MAX,
            memory_used: 0,
            active: 0,
            unproven: 0,
            is_bold: true,
            readings,
        }
    }

    /// Processes an observation made at `now`, and appends actions to `todo`. Events of readings that have ended are
    /// ignored, because answers may arrive late.
    ///
    /// # Panics
    /// If a reading begins with an identifier that is in use.
    pub fn on(&mut self, now: Nanos, event: Event, todo: &mut Vec<Action>) {
        let id = match event {
            Event::Memory { bytes } => {
                self.memory_budget = bytes;
                return;
            }
            Event::Opened { id, at, size } => {
                let reading = Reading::new(self.limit, now, at, size);
                assert!(self.readings.insert(id, reading).is_none(), "{id:?} is in use");
                id
            }
            Event::Closed { id } => {
                self.forget(id);
                return;
            }
            Event::Times { id, .. }
            | Event::Position { id, .. }
            | Event::Blocked { id, .. }
            | Event::Resized { id, .. }
            | Event::Fetched { id, .. }
            | Event::Residency { id, .. } => id,
        };
        let Some(reading) = self.readings.get_mut(&id) else { return };
        // Subtracted here and added again below.
        self.memory_used -= reading.distance();
        self.active -= u64::from(reading.is_active());
        self.unproven -= u64::from(reading.start() == Start::Unproven);
        reading.see(now, &event);
        self.is_bold &= reading.start() != Start::Wrong;
        // The times are half of an observation: the position follows.
        if !matches!(event, Event::Times { .. }) {
            let share = self.memory_budget / (self.active + 1);
            let spare = self.memory_budget.saturating_sub(self.memory_used + reading.distance());
            let may_start = self.is_bold && self.unproven == 0;
            reading.decide(now, share, spare, may_start, |wish| {
                todo.push(match wish {
                    ReadingRequest::Fetch(range) => Action::Fetch { id, range },
                    ReadingRequest::Look(range) => Action::CheckResidency { id, range },
                });
            });
        }
        self.memory_used += reading.distance();
        self.active += u64::from(reading.is_active());
        self.unproven += u64::from(reading.start() == Start::Unproven);
    }

    fn forget(&mut self, id: ReadingId) {
        if let Some(reading) = self.readings.remove(&id) {
            self.memory_used -= reading.distance();
            self.active -= u64::from(reading.is_active());
            if reading.start() == Start::Unproven {
                self.unproven -= 1;
                self.is_bold = false;
            }
        }
    }

    /// Returns when the position of this reading should be observed next; `None` if it has ended. Often enough that the
    /// program cannot consume a quarter of the data ahead unobserved, and seldom where nothing can be gained.
    #[must_use]
    pub fn wake(&self, id: ReadingId) -> Option<Nanos> {
        Some(self.readings.get(&id)?.wake())
    }

    /// Returns the state of a reading; `None` if it has ended.
    #[must_use]
    pub fn state(&self, id: ReadingId) -> Option<State> {
        Some(self.readings.get(&id)?.state())
    }

    /// Returns the range requested ahead of the program that it has not passed yet; `None` if the reading has ended.
    #[must_use]
    pub fn ahead(&self, id: ReadingId) -> Option<Range<u64>> {
        Some(self.readings.get(&id)?.ahead())
    }

    /// Returns the current limit of the distance in bytes; `None` if the reading has ended.
    #[must_use]
    pub fn limit(&self, id: ReadingId) -> Option<u64> {
        Some(self.readings.get(&id)?.limit())
    }

    /// Returns the memory budget that is left, in bytes.
    #[must_use]
    pub fn memory_left(&self) -> u64 {
        self.memory_budget.saturating_sub(self.memory_used)
    }

    /// Returns the bytes requested ahead of all programs.
    #[must_use]
    pub fn memory_used(&self) -> u64 {
        self.memory_used
    }
}
