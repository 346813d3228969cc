//! The interface that everything hangs on.

use crate::request::{Completion, Request};
use crate::units::Nanos;

/// The device's queue has no room; the request comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device's queue is full; request {} comes back", .0.id.0)]
pub struct Full(pub Request);

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
}
