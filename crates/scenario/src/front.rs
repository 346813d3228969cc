//! What the block queue hands its requests to: the storage itself, or a regulator in front of it.

use sakiyomi_model::{Completion, Device, Full, Nanos, Request};
use sakiyomi_regulate::{Owner, Rate, RateError, Regulated, Settings, Timing};

use crate::storage::Storage;

#[derive(Debug)]
pub(crate) enum Front {
    Plain(Storage),
    Regulated(Box<Regulated<Storage>>),
}

impl Front {
    pub(crate) fn regulated(storage: Storage, settings: Settings) -> Front {
        let sector = storage.sector();
        let mut regulated = Regulated::new(storage, sector, settings);
        regulated.keep_timings();
        Front::Regulated(Box::new(regulated))
    }

    pub(crate) fn storage(&self) -> &Storage {
        match self {
            Front::Plain(storage) => storage,
            Front::Regulated(regulated) => regulated.device(),
        }
    }

    /// Gives an owner its rate. Without a regulator there is nobody to ask.
    pub(crate) fn set_rate(&mut self, now: Nanos, owner: Owner, rate: Rate) -> Result<(), RateError> {
        match self {
            Front::Plain(_) => Ok(()),
            Front::Regulated(regulated) => regulated.set_rate(now, owner, rate),
        }
    }

    /// The owner has ended.
    pub(crate) fn clear_rate(&mut self, now: Nanos, owner: Owner) {
        if let Front::Regulated(regulated) = self {
            regulated.clear_rate(now, owner);
        }
    }

    /// What the device needs for one I/O, as measured; zero without a regulator.
    pub(crate) fn service_time(&self) -> Nanos {
        match self {
            Front::Plain(_) => Nanos::ZERO,
            Front::Regulated(regulated) => regulated.regulator().service_time(),
        }
    }

    /// Moves what is known about regulated I/Os that have ended to `timings`, and says how many requests may be in the
    /// device now; none without a regulator.
    pub(crate) fn watch(&mut self, timings: &mut Vec<Timing>) -> Option<u32> {
        let Front::Regulated(regulated) = self else { return None };
        regulated.take_timings(timings);
        (!timings.is_empty()).then(|| regulated.regulator().allowance())
    }
}

impl Device for Front {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        match self {
            Front::Plain(storage) => storage.submit(now, request),
            Front::Regulated(regulated) => regulated.submit(now, request),
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        match self {
            Front::Plain(storage) => storage.next_event(),
            Front::Regulated(regulated) => regulated.next_event(),
        }
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        match self {
            Front::Plain(storage) => storage.advance(now, done),
            Front::Regulated(regulated) => regulated.advance(now, done),
        }
    }
}
