//! How far ahead to read, and whether at all.
//!
//! A [`Controller`] is told what is seen of programs ([`Event`]) and says what to do ([`Action`]); it has no clock, no
//! file and no thread, and is the same in virtual and in real time. What it follows are *readings*: one program on its
//! way through one sequence of bytes, be it a file or several in a row. Of each it knows two positions: `main`, where
//! the program is, and `prefetch`, up to where has been asked for ahead of it.
//!
//! **Fixed limit** (section 3.5 and figure 2 of the paper): the next `step` bytes are read unless
//! `prefetch - main > limit`; so the distance never exceeds `limit + step`.
//!
//! **Automatic limit**, ours. It begins with little and grows while the program waits; `pace` has the law. What is
//! missing is asked for piece by piece, as the program uses up what is there. The distance never exceeds
//! `limit + one piece`.
//!
//! **Where it begins.** After some moves forward, when the program has been seen to wait; but if it sleeps in its very
//! first read of a file, from its beginning, and the kernel's windows are short, the least limit is begun at once: those
//! few accesses are all that a program that hardly waits has to lose. Whoever only looks at the beginning of a file has gained nothing then; so one such
//! start at a time must prove right, by the program's coming through half of it, and the first that does not is the last.
//!
//! A reading is left alone ([`Idle`]) where nothing can be gained: what it reads is in memory already, the kernel's own
//! read-ahead suffices, its accesses are not sequential, or the device is so slow that reading ahead of the program
//! does not make it faster (equation 2 of the paper). All readings together keep within one budget of memory.

mod access;
mod pace;
mod reading;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use sakiyomi_model::Nanos;

use reading::{Reading, Start, Wish};

/// Names a reading for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadingId(pub u32);

/// How far ahead is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The paper's: always, as far as this.
    Fixed {
        /// No further read is begun while the distance is more than this, in bytes.
        limit: u64,
        /// What is read at a time, in bytes; at most `limit` is taken.
        step: u64,
    },
    /// As far as pays, but never further than this, in bytes.
    Auto {
        /// The longest distance, in bytes.
        most: u64,
    },
}

impl Limit {
    /// The automatic limit up to the longest distance of the paper.
    pub const AUTO: Limit = Limit::Auto { most: 512 << 20 };
}

/// What has been seen. Positions and sizes are in bytes; times of a program are totals since some beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A program has a sequence of bytes open.
    Begun {
        /// A name that is not in use.
        id: ReadingId,
        /// Where the program is.
        at: u64,
        /// How many bytes there are.
        size: u64,
    },
    /// What the program that reads has done so far. Comes before the position that goes with it.
    Spent {
        /// Which reading.
        id: ReadingId,
        /// Time on a core.
        ran: Nanos,
        /// Time in which it waited for I/O.
        waited: Nanos,
        /// Bytes that it has got from all its files, where that is known.
        read: Option<u64>,
    },
    /// Where the program is. Also told when it has not moved.
    At {
        /// Which reading.
        id: ReadingId,
        /// Its position.
        at: u64,
    },
    /// The program sleeps in a read from where it is; told after that.
    Waits {
        /// Which reading.
        id: ReadingId,
        /// How much it has asked for, in bytes.
        wants: u64,
        /// What the kernel reads ahead at a time, in bytes.
        window: u64,
    },
    /// There are more bytes, or fewer, than before.
    Resized {
        /// Which reading.
        id: ReadingId,
        /// How many there are now.
        size: u64,
    },
    /// An [`Action::Fetch`] has been carried out.
    Fetched {
        /// Which reading.
        id: ReadingId,
        /// What was asked for.
        range: Range<u64>,
        /// Whether it could be asked for.
        done: bool,
    },
    /// The answer to an [`Action::Look`].
    Found {
        /// Which reading.
        id: ReadingId,
        /// What was looked at.
        range: Range<u64>,
        /// How much of it is in memory or on its way there, in bytes.
        cached: u64,
        /// How much of it was there and has been pushed out for want of memory, in bytes.
        evicted: u64,
    },
    /// The program has ended, or has closed what it read.
    Ended {
        /// Which reading.
        id: ReadingId,
    },
    /// How much memory all readings together may fill ahead of their programs, in bytes.
    Room {
        /// The budget.
        bytes: u64,
    },
}

/// What is to be done. Each is answered by an event, in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Bring this range into memory.
    Fetch {
        /// Which reading.
        id: ReadingId,
        /// Bytes; never empty, never behind the end.
        range: Range<u64>,
    },
    /// Find out how much of this range is in memory.
    Look {
        /// Which reading.
        id: ReadingId,
        /// Bytes; never empty, never behind the end.
        range: Range<u64>,
    },
}

/// What the controller does about a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It watches, to find out whether the accesses are sequential and whether the program waits.
    Watching,
    /// It reads ahead.
    Ahead,
    /// It lets the program go alone for a moment, to find out whether that is as fast.
    Trial,
    /// It leaves the program alone.
    Idle(Idle),
}

/// Why a reading is left alone. All but the last are reconsidered when what is seen changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Idle {
    /// What it reads next is in memory already.
    Resident,
    /// The program does not wait for I/O: what the kernel reads ahead suffices.
    DoesNotWait,
    /// The accesses are not sequential.
    NotSequential,
    /// I/O takes so much longer than computation that reading ahead makes it no faster (equation 2 of the paper).
    IoBound,
    /// There is not enough memory.
    NoMemory,
    /// All has been asked for.
    Done,
    /// The system does not allow the file to be read ahead.
    Refused,
}

/// Decides for all readings how far ahead to read.
#[derive(Debug)]
pub struct Controller {
    limit: Limit,
    /// What may be filled ahead of all programs together.
    room: u64,
    /// What is: the sum of the readings' distances.
    taken: u64,
    /// How many of them read ahead, among whom the room is shared.
    active: u64,
    /// How many were begun at the first read and have not been proved right.
    unproven: u64,
    /// Whether a reading may be begun so.
    is_bold: bool,
    readings: BTreeMap<ReadingId, Reading>,
}

impl Controller {
    /// A controller with unlimited memory, until it is told of its [room](Event::Room).
    #[must_use]
    pub fn new(limit: Limit) -> Controller {
        let readings = BTreeMap::new();
        Controller { limit, room: u64::MAX, taken: 0, active: 0, unproven: 0, is_bold: true, readings }
    }

    /// Takes in what was seen at `now`, and appends what is to be done to `todo`.
    ///
    /// Events of readings that have ended are passed over: answers may come late.
    ///
    /// # Panics
    /// If a reading begins under a name that is in use.
    pub fn on(&mut self, now: Nanos, event: Event, todo: &mut Vec<Action>) {
        let id = match event {
            Event::Room { bytes } => {
                self.room = bytes;
                return;
            }
            Event::Begun { id, at, size } => {
                let reading = Reading::new(self.limit, now, at, size);
                assert!(self.readings.insert(id, reading).is_none(), "{id:?} is in use");
                id
            }
            Event::Ended { id } => {
                self.forget(id);
                return;
            }
            Event::Spent { id, .. }
            | Event::At { id, .. }
            | Event::Waits { id, .. }
            | Event::Resized { id, .. }
            | Event::Fetched { id, .. }
            | Event::Found { id, .. } => id,
        };
        let Some(reading) = self.readings.get_mut(&id) else { return };
        // What the others have, for the time being.
        self.taken -= reading.distance();
        self.active -= u64::from(reading.is_active());
        self.unproven -= u64::from(reading.start() == Start::Unproven);
        reading.see(now, &event);
        self.is_bold &= reading.start() != Start::Wrong;
        // What a program has spent is half of a sight: its position comes next.
        if !matches!(event, Event::Spent { .. }) {
            let share = self.room / (self.active + 1);
            let spare = self.room.saturating_sub(self.taken + reading.distance());
            let may_start = self.is_bold && self.unproven == 0;
            reading.decide(now, share, spare, may_start, |wish| {
                todo.push(match wish {
                    Wish::Fetch(range) => Action::Fetch { id, range },
                    Wish::Look(range) => Action::Look { id, range },
                });
            });
        }
        self.taken += reading.distance();
        self.active += u64::from(reading.is_active());
        self.unproven += u64::from(reading.start() == Start::Unproven);
    }

    fn forget(&mut self, id: ReadingId) {
        if let Some(reading) = self.readings.remove(&id) {
            self.taken -= reading.distance();
            self.active -= u64::from(reading.is_active());
            if reading.start() == Start::Unproven {
                self.unproven -= 1;
                self.is_bold = false;
            }
        }
    }

    /// When the position of this reading's program should be looked at next; none if it has ended.
    ///
    /// Often enough that the program cannot use up a quarter of what lies ahead of it unseen, and seldom where nothing
    /// is to be gained.
    #[must_use]
    pub fn wake(&self, id: ReadingId) -> Option<Nanos> {
        Some(self.readings.get(&id)?.wake())
    }

    /// What is done about a reading; none if it has ended.
    #[must_use]
    pub fn state(&self, id: ReadingId) -> Option<State> {
        Some(self.readings.get(&id)?.state())
    }

    /// What has been asked for ahead of the program, and not been passed by it yet; none if the reading has ended.
    #[must_use]
    pub fn ahead(&self, id: ReadingId) -> Option<Range<u64>> {
        Some(self.readings.get(&id)?.ahead())
    }

    /// How far ahead a reading is allowed now, in bytes; none if it has ended.
    #[must_use]
    pub fn limit(&self, id: ReadingId) -> Option<u64> {
        Some(self.readings.get(&id)?.limit())
    }

    /// How much has been asked for ahead of all programs, in bytes.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }
}
