//! What the files lie on: a hard disk, or storage whose time does not depend on places.

use sakiyomi_drive::fixed::Fixed;
use sakiyomi_drive::{Drive, Usage};
use sakiyomi_model::{Bytes, Completion, Device, Full, Nanos, Request};

/// A device with a size.
#[derive(Debug)]
pub enum Storage {
    /// A hard disk.
    Drive(Box<Drive>),
    /// So much latency, so many requests side by side, so much bandwidth.
    Fixed(Box<Fixed>),
}

impl Storage {
    pub(crate) fn sector(&self) -> Bytes {
        match self {
            Storage::Drive(drive) => drive.sector(),
            Storage::Fixed(fixed) => fixed.sector(),
        }
    }

    pub(crate) fn capacity(&self) -> Bytes {
        match self {
            Storage::Drive(drive) => drive.capacity().to_bytes(drive.sector()),
            Storage::Fixed(fixed) => fixed.capacity(),
        }
    }

    /// How many requests it takes at once.
    pub(crate) fn depth(&self) -> u32 {
        let depth = match self {
            Storage::Drive(drive) => drive.depth(),
            Storage::Fixed(fixed) => fixed.depth(),
        };
        u32::try_from(depth).unwrap_or(u32::MAX)
    }

    /// What the mechanism did until `now`; none where there is no mechanism.
    pub(crate) fn usage(&self, now: Nanos) -> Option<Usage> {
        match self {
            Storage::Drive(drive) => Some(drive.usage(now)),
            Storage::Fixed(_) => None,
        }
    }
}

impl Device for Storage {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        match self {
            Storage::Drive(drive) => drive.submit(now, request),
            Storage::Fixed(fixed) => fixed.submit(now, request),
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        match self {
            Storage::Drive(drive) => drive.next_event(),
            Storage::Fixed(fixed) => fixed.next_event(),
        }
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        match self {
            Storage::Drive(drive) => drive.advance(now, done),
            Storage::Fixed(fixed) => fixed.advance(now, done),
        }
    }
}
