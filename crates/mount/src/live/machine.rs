//! What runs on the device's thread: a device alone, or one in front of which rates are kept.

use std::sync::Arc;

use sakiyomi_model::{Completion, Device, Full, Nanos, Request, RequestId};

use super::backing::Perform;
use super::kept::Kept;
use crate::device::Emulated;

/// A device that takes whatever comes, or one that is regulated.
pub(crate) enum Machine {
    /// As it is.
    Free(Box<dyn Emulated>),
    /// Behind a regulator.
    Kept(Box<Kept>),
}

impl Machine {
    pub(super) fn busy(&self, now: Nanos) -> Nanos {
        match self {
            Machine::Free(device) => device.busy(now),
            Machine::Kept(kept) => kept.busy(now),
        }
    }

    pub(super) fn kept(&mut self) -> Option<&mut Kept> {
        match self {
            Machine::Free(_) => None,
            Machine::Kept(kept) => Some(kept),
        }
    }

    /// What is to be done for a request when the device is to do it.
    pub(super) fn bring(&mut self, id: RequestId, job: Arc<dyn Perform>) {
        let files = self.kept().and_then(|kept| kept.files());
        files.expect("only files have jobs").bring(id, job);
    }
}

impl Device for Machine {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        match self {
            Machine::Free(device) => device.submit(now, request),
            Machine::Kept(kept) => kept.submit(now, request),
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        match self {
            Machine::Free(device) => device.next_event(),
            Machine::Kept(kept) => kept.next_event(),
        }
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        match self {
            Machine::Free(device) => device.advance(now, done),
            Machine::Kept(kept) => kept.advance(now, done),
        }
    }
}
