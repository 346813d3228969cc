//! What is asked of a device, and what comes back.

use crate::units::{Lba, Nanos, Sectors};

/// Names a request for its whole life; unique within a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Whose request it is: a process, or a stream of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// The operation asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Fetch the extent.
    Read,
    /// Store the extent.
    Write,
    /// Make durable every write that was acknowledged before; the extent is empty.
    Flush,
    /// The extent's content is no longer needed.
    Discard,
}

/// A contiguous range of sectors, `start` included, `end()` excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// The first sector.
    pub start: Lba,
    /// How many sectors.
    pub sectors: Sectors,
}

impl Extent {
    /// The range of `sectors` sectors from `start`.
    #[must_use]
    pub fn new(start: Lba, sectors: Sectors) -> Extent {
        Extent { start, sectors }
    }

    /// The first sector after the range.
    #[must_use]
    pub fn end(self) -> Lba {
        self.start + self.sectors
    }

    /// Whether the two ranges share a sector.
    #[must_use]
    pub fn overlaps(self, other: Extent) -> bool {
        self.start < other.end() && other.start < self.end()
    }
}

/// One command to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name, given by the caller.
    pub id: RequestId,
    /// Who asks.
    pub stream: StreamId,
    /// What is asked.
    pub op: Op,
    /// Force unit access: a write is complete only when it is on the medium.
    pub fua: bool,
    /// Where.
    pub extent: Extent,
    /// When the host first wanted it, which may be before it was submitted.
    pub arrival: Nanos,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// As asked.
    Done,
    /// The device could not do it (an address beyond its end, a fault).
    Error,
    /// Withdrawn before it was done.
    Cancelled,
}

/// What a read met in the cache, decided when the command is taken up (Hosogi 2013, table 2, as defined in
/// `docs/model.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadClass {
    /// Every sector was in the cache.
    FullHit,
    /// The rest was being read by the running transfer or read-ahead: no new positioning.
    ActiveHit,
    /// The first missing sector lay shortly after something cached; a longer read-ahead would mend it.
    NearMiss,
    /// The first missing sector had been cached and was evicted; a better replacement would mend it.
    PurgedMiss,
    /// Neither: independent of the commands before.
    PureMiss,
}

impl ReadClass {
    /// Every class, hits first, in the order of reports.
    pub const ALL: [ReadClass; 5] = [
        ReadClass::FullHit,
        ReadClass::ActiveHit,
        ReadClass::NearMiss,
        ReadClass::PurgedMiss,
        ReadClass::PureMiss,
    ];

    /// Whether the read needed no positioning of its own.
    #[must_use]
    pub fn is_hit(self) -> bool {
        matches!(self, ReadClass::FullHit | ReadClass::ActiveHit)
    }
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WriteClass {
    /// Acknowledged from the write cache as soon as the data was there.
    Absorbed,
    /// Waited for the medium: no write cache, no room in it, or force unit access.
    Media,
}

/// The class of a command, by its operation.
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
    /// Refused by the device: not classed.
    Refused,
}

impl Class {
    /// Every class, in the order of reports.
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

    /// The name used in logs, tables and JSON.
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

/// Where a command's time in the device went. The parts are those of its own access; they add up to its time in the
/// device, to which a regulator in front of the device adds what it delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Waiting for other commands, and for room in the write cache.
    pub queue: Nanos,
    /// Command processing, and the part of the link transfer that nothing hid.
    pub overhead: Nanos,
    /// Arm movement, settling and head switches before the first sector.
    pub seek: Nanos,
    /// Waiting for the first sector to come round.
    pub rotation: Nanos,
    /// From the first sector to the last: media transfer with its switches.
    pub transfer: Nanos,
}

/// How a device whose inside is known served a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Hit, miss, absorbed, …
    pub class: Class,
    /// Where the time in the device went.
    pub breakdown: Breakdown,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request as it was submitted.
    pub request: Request,
    /// When the device accepted it.
    pub submitted: Nanos,
    /// When it ended, on the device's own time line.
    pub finish: Nanos,
    /// How it ended.
    pub outcome: Outcome,
    /// How the device served it. None where that is not known: the device does not show its inside (a file, a fixed
    /// latency), or never had the request.
    pub detail: Option<Detail>,
}

impl Completion {
    /// The class, where the device knows it.
    #[must_use]
    pub fn class(&self) -> Option<Class> {
        self.detail.map(|detail| detail.class)
    }

    /// Time in the device: from acceptance to the end.
    #[must_use]
    pub fn device_time(&self) -> Nanos {
        self.finish - self.submitted
    }

    /// Time since the host first wanted it: device time, and the wait in the host's queue before.
    #[must_use]
    pub fn response_time(&self) -> Nanos {
        self.finish.saturating_sub(self.request.arrival)
    }
}
