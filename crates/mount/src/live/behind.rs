//! What a regulator has behind it.

use sakiyomi_model::{Completion, Device, Full, Nanos, Request};

use super::backing::Backing;
use crate::device::Emulated;

/// What a regulator has behind it.
pub(crate) enum Behind {
    /// A device that lives on our time line.
    Emulated(Box<dyn Emulated>),
    /// The files themselves.
    Files(Backing),
}

impl Behind {
    pub(super) fn busy(&self, now: Nanos) -> Nanos {
        match self {
            Behind::Emulated(device) => device.busy(now),
            Behind::Files(files) => files.busy(now),
        }
    }
}

impl Device for Behind {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        match self {
            Behind::Emulated(device) => device.submit(now, request),
            Behind::Files(files) => files.submit(now, request),
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        match self {
            Behind::Emulated(device) => device.next_event(),
            Behind::Files(files) => files.next_event(),
        }
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        match self {
            Behind::Emulated(device) => device.advance(now, done),
            Behind::Files(files) => files.advance(now, done),
        }
    }
}
