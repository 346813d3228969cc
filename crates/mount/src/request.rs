//! A request of the kernel for the data of a file.

use sakiyomi_model::{Nanos, Op, StreamId};

use crate::live::Extents;

/// The origin of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Issuer {
    /// Process, for a trace.
    pub(crate) process: StreamId,
    /// Owner whose rate applies.
    pub(crate) owner: StreamId,
}

/// A read, write or flush of the kernel, as the device and the trace see it.
#[derive(Debug)]
pub(crate) struct IoRequest {
    pub(crate) issuer: Issuer,
    pub(crate) op: Op,
    /// Force unit access: completes only when it is on the medium.
    pub(crate) fua: bool,
    /// Extents on the drive; empty if neither a drive nor a trace needs them.
    pub(crate) extents: Extents,
    /// Bytes on the drive; without a drive, bytes of the file.
    pub(crate) bytes: u64,
    /// Number in the trace.
    pub(crate) number: u64,
    pub(crate) arrival: Nanos,
}
