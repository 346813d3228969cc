//! The interface of every device: a state machine that the caller advances in time.

use crate::request::{Completion, Request};
use crate::units::{Bytes, Nanos, Sectors};

/// The device's queue is full; contains the request, unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device's queue is full; request {} comes back", .0.id.0)]
pub struct Full(pub Request);

/// [`depth`](Device::depth) of a device that accepts any number of requests. As the largest value it never wins a
/// minimum of two depths.
pub const UNLIMITED_DEPTH: u32 = u32::MAX;

/// A device that accepts requests and completes them, driven by its caller.
///
/// Each call passes the current time, which never decreases. In virtual time the caller advances to
/// [`next_event`](Device::next_event); in real time it sleeps until then. A late call does not shift the device's own
/// time line: events take effect at the instants at which they were due.
pub trait Device {
    /// Submits a request at `now`. Completions due by `now` are kept for the next [`advance`](Device::advance).
    ///
    /// # Errors
    /// [`Full`], with the request, if the queue is full.
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full>;

    /// Returns the time of the next event; `None` while the device is idle.
    fn next_event(&self) -> Option<Nanos>;

    /// Processes all events due by `now`, and appends the completions to `done` in order of finish time.
    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>);

    /// Returns the number of addressable sectors. A read or write beyond the last one ends as
    /// [`Error`](crate::Outcome::Error).
    fn capacity(&self) -> Sectors;

    /// Returns the size of a sector, the unit of its addresses.
    fn sector(&self) -> Bytes;

    /// Returns how many requests the device accepts before it answers [`Full`]: at least 1, [`UNLIMITED_DEPTH`] if
    /// unlimited.
    fn depth(&self) -> u32;

    /// Returns the busy time from 0 until `now`. For a drive this is the mechanism's work, read-ahead and destaging
    /// included; for other devices, the time with a request outstanding. `now` lies between the last call and
    /// [`next_event`](Device::next_event).
    fn busy(&self, now: Nanos) -> Nanos;
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        (**self).submit(now, request)
    }

    fn next_event(&self) -> Option<Nanos> {
        (**self).next_event()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        (**self).advance(now, done);
    }

    fn capacity(&self) -> Sectors {
        (**self).capacity()
    }

    fn sector(&self) -> Bytes {
        (**self).sector()
    }

    fn depth(&self) -> u32 {
        (**self).depth()
    }

    fn busy(&self, now: Nanos) -> Nanos {
        (**self).busy(now)
    }
}
