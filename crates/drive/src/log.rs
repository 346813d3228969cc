//! What happens inside, for those who ask: the cache log and the disk log. (The command log is the completions.)

use sakiyomi_model::{Lba, Nanos, RequestId, Sectors};

/// One entry of either log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The buffer changed.
    Cache(CacheEvent),
    /// The mechanism made an access.
    Disk(DiskEvent),
}

/// A change of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheEvent {
    /// When.
    pub time: Nanos,
    /// What.
    pub change: CacheChange,
    /// From which sector.
    pub start: Lba,
    /// How many.
    pub sectors: Sectors,
}

/// What became of a range of sectors in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheChange {
    /// Read from the medium, what was asked and what was read ahead.
    Fill,
    /// Made room for something else.
    Evict,
    /// Dropped because it was written anew or discarded.
    Invalidate,
    /// Taken from the host, not yet on the medium.
    Dirty,
    /// Now on the medium.
    Clean,
}

impl CacheChange {
    /// The name used in the log.
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

/// An access of the mechanism, from the moment the arm sets out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskEvent {
    /// When the arm sets out.
    pub start: Nanos,
    /// Arm movement, settling, head switch.
    pub seek: Nanos,
    /// Until the first sector comes round.
    pub rotation: Nanos,
    /// When the last sector has passed.
    pub end: Nanos,
    /// What for.
    pub cause: DiskCause,
    /// The command that caused it; `None` for work of the drive's own.
    pub request: Option<RequestId>,
    /// The first sector.
    pub lba: Lba,
    /// Sectors that a command wanted.
    pub wanted: Sectors,
    /// Sectors read beyond.
    pub ahead: Sectors,
    /// Cylinders crossed by the first seek.
    pub distance: u32,
}

/// Why the mechanism makes an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskCause {
    /// A read that missed.
    Read,
    /// Read-ahead resumed without a command.
    ReadAhead,
    /// A write that does not wait in the cache.
    Write,
    /// Dirty data on its way to the medium.
    Destage,
}

impl DiskCause {
    /// The name used in the log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DiskCause::Read => "read",
            DiskCause::ReadAhead => "read_ahead",
            DiskCause::Write => "write",
            DiskCause::Destage => "destage",
        }
    }
}
