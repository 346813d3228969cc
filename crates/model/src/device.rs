//! The interface that everything hangs on.

use crate::request::{Completion, Request};
use crate::units::{Bytes, Nanos, Sectors};

/// The device's queue has no room; the request comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device's queue is full; request {} comes back", .0.id.0)]
pub struct Full(pub Request);

/// The [`depth`](Device::depth) of a device that takes any number of requests. It is the largest depth, so that the
/// smaller of two depths is the one that limits.
pub const UNLIMITED_DEPTH: u32 = u32::MAX;

/// Something that takes requests and completes them, driven from outside.
///
/// Time is given with each call and never runs backwards. In virtual time the caller advances to
/// [`next_event`](Device::next_event); in real time it sleeps until then. A call that comes late does not shift the
/// device's own time line: events that were due are carried out at the instants they were due.
pub trait Device {
    /// Hands over a request at `now`. Ends that fall due until `now` are kept for the next [`advance`](Device::advance).
    ///
    /// # Errors
    /// [`Full`], with the request, where the queue has no room.
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full>;

    /// When the device next wants to be advanced; `None` while it has nothing to do.
    fn next_event(&self) -> Option<Nanos>;

    /// Carries out all that is due until `now`, and appends what ended to `done`, in order of finish time.
    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>);

    /// Addressable sectors. A read or write beyond the last one ends as [`Error`](crate::Outcome::Error).
    fn capacity(&self) -> Sectors;

    /// Size of a sector, the unit of its addresses.
    fn sector(&self) -> Bytes;

    /// Requests that it takes before it answers [`Full`], at least 1; [`UNLIMITED_DEPTH`] where it never does.
    fn depth(&self) -> u32;

    /// Time from 0 until `now` in which it worked: the mechanism of a drive, read-ahead and destaging included; of a
    /// device whose inside is not known, the time with a request outstanding. `now` lies between the last call and
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
