//! An outstanding request.

use sakiyomi_model::{Bytes, Lba, Nanos, Op, Outcome, RequestId};

use crate::rate::{Owner, Rate, Share};
use crate::service::Kind;

/// An outstanding request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) owner: Owner,
    pub(super) kind: Kind,
    pub(super) op: Op,
    /// Its first sector.
    pub(super) start: Lba,
    pub(super) size: Bytes,
    /// Bytes that the device has done: less than its size until the last piece has ended.
    pub(super) done: Bytes,
    /// Arrival, T0.
    pub(super) arrived: Nanos,
    pub(super) regulated: Option<Promise>,
    pub(super) state: State,
}

/// Requirements on a regulated request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    pub(super) rate: Rate,
    /// The share that orders the owners.
    pub(super) share: Share,
    pub(super) ideal: Nanos,
    pub(super) deadline: Nanos,
    /// Whether no capacity was reserved for it, so that its time does not count against the gate.
    pub(super) surprise: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    /// Until this extent has been read ahead.
    AwaitsFetch(RequestId),
    InDevice(DeviceStay),
    HeldBack {
        until: Nanos,
        outcome: Outcome,
    },
}

/// The stay of a request in the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceStay {
    pub(super) issued: Nanos,
    /// Size of the piece that the device has.
    pub(super) piece: Bytes,
    /// Requests in the device, including it, when it was issued.
    pub(super) beside: usize,
    /// Mean service time of its kind at that time.
    pub(super) work: Nanos,
    pub(super) overdue: bool,
    pub(super) cancelled: bool,
}
