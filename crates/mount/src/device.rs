//! What can stand behind a mount: hard disks, and storage whose time does not depend on places.

use sakiyomi_drive::Drive;
use sakiyomi_model::{Bytes, Completion, Device, Full, Nanos, Request};

pub use sakiyomi_drive::fixed::{Fixed, FixedSpec, FixedSpecError};

/// A device with a size, whose time can be accounted for.
pub trait Emulated: Device + Send {
    /// How much it holds.
    fn capacity(&self) -> Bytes;

    /// The unit of its addresses.
    fn sector(&self) -> Bytes;

    /// How long it was busy from time 0 until `now`, the time of the last call.
    fn busy(&self, now: Nanos) -> Nanos;

    /// How many requests it takes at a time.
    fn depth(&self) -> usize;

    /// How many of them it serves side by side.
    fn parallel(&self) -> usize;
}

impl Emulated for Drive {
    fn capacity(&self) -> Bytes {
        Drive::capacity(self).to_bytes(Drive::sector(self))
    }

    fn sector(&self) -> Bytes {
        Drive::sector(self)
    }

    fn busy(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.usage(now).time.idle)
    }

    fn depth(&self) -> usize {
        Drive::depth(self)
    }

    fn parallel(&self) -> usize {
        1
    }
}

impl Emulated for Fixed {
    fn capacity(&self) -> Bytes {
        Fixed::capacity(self)
    }

    fn sector(&self) -> Bytes {
        Fixed::sector(self)
    }

    fn busy(&self, now: Nanos) -> Nanos {
        Fixed::busy(self, now)
    }

    fn depth(&self) -> usize {
        self.parallel()
    }

    fn parallel(&self) -> usize {
        self.spec().parallel as usize
    }
}

impl Device for Box<dyn Emulated> {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        self.as_mut().submit(now, request)
    }

    fn next_event(&self) -> Option<Nanos> {
        self.as_ref().next_event()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.as_mut().advance(now, done);
    }
}
