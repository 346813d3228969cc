//! Requests to a device, and their completions.

use crate::units::{Lba, Nanos, Sectors};

/// Identifier of a request, unique within a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Origin of a request: a process, or a stream of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Reads the extent.
    Read,
    /// Writes the extent.
    Write,
    /// Makes every write acknowledged before it durable; the extent is empty.
    Flush,
    /// Marks the extent's content as no longer needed.
    Discard,
}

/// A contiguous range of sectors, `start` included, `end()` excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// First sector.
    pub start: Lba,
    /// Number of sectors.
    pub sectors: Sectors,
}

impl Extent {
    /// Creates the range of `sectors` sectors from `start`.
    #[must_use]
    pub fn new(start: Lba, sectors: Sectors) -> Extent {
        Extent { start, sectors }
    }

    /// Returns the first sector after the range.
    #[must_use]
    pub fn end(self) -> Lba {
        self.start + self.sectors
    }

    /// Returns whether the two ranges share a sector.
    #[must_use]
    pub fn overlaps(self, other: Extent) -> bool {
        self.start < other.end() && other.start < self.end()
    }
}

/// A command to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Identifier, chosen by the caller.
    pub id: RequestId,
    /// Process or trace stream that issued it.
    pub stream: StreamId,
    /// Operation.
    pub op: Op,
    /// Force unit access: a write is complete only when it is on the medium.
    pub fua: bool,
    /// Sectors that it reads, writes or discards.
    pub extent: Extent,
    /// Time at which the host issued it, which may be before it was submitted to the device.
    pub arrival: Nanos,
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Success.
    Done,
    /// Failure: an address beyond the device's end, or a fault.
    Error,
    /// Cancelled before it was served.
    Cancelled,
}

/// Cache class of a read, decided when the command is taken up (Hosogi 2013, table 2, as defined in
/// `docs/explanation/model.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadClass {
    /// Every sector was in the cache.
    FullHit,
    /// The missing sectors were already being read by the running transfer or read-ahead: no new positioning.
    ActiveHit,
    /// The first missing sector lay shortly after a cached one; a longer read-ahead would have avoided the miss.
    NearMiss,
    /// The first missing sector had been cached and was evicted; better replacement would have avoided the miss.
    PurgedMiss,
    /// Any other miss: independent of earlier commands.
    PureMiss,
}

impl ReadClass {
    /// All classes, hits first, in the order of reports.
    pub const ALL: [ReadClass; 5] = [
        ReadClass::FullHit,
        ReadClass::ActiveHit,
        ReadClass::NearMiss,
        ReadClass::PurgedMiss,
        ReadClass::PureMiss,
    ];

    /// Returns whether the read needed no positioning of its own.
    #[must_use]
    pub fn is_hit(self) -> bool {
        matches!(self, ReadClass::FullHit | ReadClass::ActiveHit)
    }
}

/// Cache class of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WriteClass {
    /// Acknowledged from the write cache as soon as its data had arrived.
    Absorbed,
    /// Waited for the medium: no write cache, no free space in it, or force unit access.
    Media,
}

/// Class of a command, by its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A read.
    Read(ReadClass),
    /// A write.
    Write(WriteClass),
    /// A flush.
    Flush,
    /// A discard.
    Discard,
    /// Refused by the device, and therefore not classified.
    Refused,
}

impl Class {
    /// All classes, in the order of reports.
    pub const ALL: [Class; 10] = [
        Class::Read(ReadClass::FullHit),
        Class::Read(ReadClass::ActiveHit),
        Class::Read(ReadClass::NearMiss),
        Class::Read(ReadClass::PurgedMiss),
        Class::Read(ReadClass::PureMiss),
        Class::Write(WriteClass::Absorbed),
        Class::Write(WriteClass::Media),
        Class::Flush,
        Class::Discard,
        Class::Refused,
    ];

    /// Returns the name used in logs, tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Class::Read(ReadClass::FullHit) => "full_hit",
            Class::Read(ReadClass::ActiveHit) => "active_hit",
            Class::Read(ReadClass::NearMiss) => "near_miss",
            Class::Read(ReadClass::PurgedMiss) => "purged_miss",
            Class::Read(ReadClass::PureMiss) => "pure_miss",
            Class::Write(WriteClass::Absorbed) => "write_absorbed",
            Class::Write(WriteClass::Media) => "write_media",
            Class::Flush => "flush",
            Class::Discard => "discard",
            Class::Refused => "refused",
        }
    }
}

/// Time in the device, split into parts. The parts describe the command's own access and add up to its time in the
/// device; a delay by a regulator in front of the device is not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Waiting for other commands, and for free space in the write cache.
    pub queue: Nanos,
    /// Command processing, and the part of the link transfer that did not overlap with other parts.
    pub overhead: Nanos,
    /// Arm movement, settling and head switches before the first sector.
    pub seek: Nanos,
    /// Rotational latency until the first sector.
    pub rotation: Nanos,
    /// Media transfer from the first sector to the last, track switches included.
    pub transfer: Nanos,
}

/// Class and time breakdown of a request, from a device that knows its own mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Cache class.
    pub class: Class,
    /// Time in the device, by part.
    pub breakdown: Breakdown,
}

/// A finished request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request as it was submitted.
    pub request: Request,
    /// Time at which the device accepted it.
    pub submitted: Nanos,
    /// Time at which it finished, on the device's own time line.
    pub finish: Nanos,
    /// Result.
    pub outcome: Outcome,
    /// Class and time breakdown. `None` if the device does not know them (a file, a fixed latency) or never received
    /// the request.
    pub detail: Option<Detail>,
}

impl Completion {
    /// Returns the class, if the device knows it.
    #[must_use]
    pub fn class(&self) -> Option<Class> {
        self.detail.map(|detail| detail.class)
    }

    /// Returns the time in the device, from acceptance to the end.
    #[must_use]
    pub fn device_time(&self) -> Nanos {
        self.finish - self.submitted
    }

    /// Returns the time from the host's issue to the end: device time, plus the wait in the host's queue.
    #[must_use]
    pub fn response_time(&self) -> Nanos {
        self.finish.saturating_sub(self.request.arrival)
    }
}
