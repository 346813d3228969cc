//! A request of the kernel for the data of a file.

use sakiyomi_model::{Nanos, Op, StreamId};

use crate::live::Extents;

/// The origin of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Issuer {
    /// The process, for a trace.
    pub(crate) process: StreamId,
    /// The owner whose rate applies.
    pub(crate) owner: StreamId,
}

/// A read, write or flush of the kernel, as the device and the trace see it.
#[derive(Debug)]
pub(crate) struct IoRequest {
    pub(crate) issuer: Issuer,
    pub(crate) op: Op,
    /// Not complete before it is on the medium.
    pub(crate) fua: bool,
    /// Where the layout has it; empty where neither a drive nor a trace needs the places.
    pub(crate) extents: Extents,
    /// Bytes on the drive; without a drive, bytes of the file.
    pub(crate) bytes: u64,
    /// Its number in the trace.
    pub(crate) number: u64,
    pub(crate) arrival: Nanos,
}
