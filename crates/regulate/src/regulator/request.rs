//! A request that has not been answered.

use sakiyomi_model::{Nanos, Outcome};

use crate::rate::{Owner, Rate, Share};
use crate::service::Kind;

/// A request that has not been answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) owner: Owner,
    pub(super) kind: Kind,
    /// T0.
    pub(super) arrived: Nanos,
    pub(super) regulated: Option<Promise>,
    pub(super) state: State,
}

/// What a request must keep to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    pub(super) rate: Rate,
    /// Its place in the order of performance.
    pub(super) share: Share,
    pub(super) ideal: Nanos,
    pub(super) deadline: Nanos,
    /// Nothing was kept free for it: it says nothing about the gate.
    pub(super) surprise: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    InDevice(Stay),
    HeldBack { until: Nanos, outcome: Outcome },
}

/// A request's time in the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stay {
    pub(super) issued: Nanos,
    /// How many there were, with it, when it was issued.
    pub(super) beside: usize,
    /// What one of its kind was known to take then.
    pub(super) work: Nanos,
    pub(super) overdue: bool,
    pub(super) cancelled: bool,
}
