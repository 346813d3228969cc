//! A request of a front end.

use sakiyomi_model::{Nanos, Op, StreamId};

use crate::Extents;

/// The origin of a request.
#[derive(Clone, Copy, Debug)]
pub struct Issuer {
    /// Process or connection, for a trace.
    pub process: StreamId,
    /// Owner whose rate applies.
    pub owner: StreamId,
}

/// A request, as the device and the trace see it.
#[derive(Debug)]
pub struct IoRequest {
    /// Its origin.
    pub issuer: Issuer,
    /// The operation.
    pub op: Op,
    /// Force unit access: completes only when it is on the medium.
    pub fua: bool,
    /// Extents on the drive; empty if neither a drive nor a trace needs them.
    pub extents: Extents,
    /// Bytes on the drive; without a drive, bytes of the file.
    pub bytes: u64,
    /// Number in the trace.
    pub number: u64,
    /// Time of arrival.
    pub arrival: Nanos,
}
