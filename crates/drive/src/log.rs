//! Internal events of a drive: the cache log and the disk log. (The command log consists of the completions.)

use sakiyomi_model::{Lba, Nanos, RequestId, Sectors};

/// An entry of either log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A change of the buffer.
    Cache(CacheEvent),
    /// An access of the mechanism.
    Disk(DiskEvent),
}

/// A change of the buffer's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheEvent {
    /// Time of the change.
    pub time: Nanos,
    /// Kind of change.
    pub change: CacheChange,
    /// First sector.
    pub start: Lba,
    /// Number of sectors.
    pub sectors: Sectors,
}

/// Kinds of change of a sector range in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheChange {
    /// Read from the medium, requested or read ahead.
    Fill,
    /// Evicted to free space.
    Evict,
    /// Invalidated by a write or discard.
    Invalidate,
    /// Received from the host, not yet on the medium.
    Dirty,
    /// Written to the medium.
    Clean,
}

impl CacheChange {
    /// Returns the name used in the log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CacheChange::Fill => "fill",
            CacheChange::Evict => "evict",
            CacheChange::Invalidate => "invalidate",
            CacheChange::Dirty => "dirty",
            CacheChange::Clean => "clean",
        }
    }
}

/// An access of the mechanism, from the start of the seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskEvent {
    /// Start of the seek.
    pub start: Nanos,
    /// Arm movement, settling, head switch.
    pub seek: Nanos,
    /// Rotational latency of the first sector.
    pub rotation: Nanos,
    /// Time at which the last sector has passed.
    pub end: Nanos,
    /// Cause of the access.
    pub cause: DiskCause,
    /// Command that caused it; `None` for the drive's own work.
    pub request: Option<RequestId>,
    /// The first sector.
    pub lba: Lba,
    /// Sectors that commands requested.
    pub wanted: Sectors,
    /// Sectors read ahead.
    pub ahead: Sectors,
    /// Distance of the first seek, in cylinders.
    pub distance: u32,
}

/// Causes of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskCause {
    /// A read miss.
    Read,
    /// Read-ahead resumed without a command.
    ReadAhead,
    /// A write that bypasses the write cache.
    Write,
    /// Destaging of dirty data.
    Destage,
    /// Cleaning of a band of shingled tracks.
    Clean,
}

impl DiskCause {
    /// Returns the name used in the log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DiskCause::Read => "read",
            DiskCause::ReadAhead => "read_ahead",
            DiskCause::Write => "write",
            DiskCause::Destage => "destage",
            DiskCause::Clean => "clean",
        }
    }
}
