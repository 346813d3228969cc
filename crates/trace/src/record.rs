//! A command of a trace, with the information of all formats.

use sakiyomi_model::{Bytes, Nanos, Op, StreamId};

/// Label of a command by the traced drive, if the format has such a column.
///
/// Among the measured drives that come with DiskSim, only the HP C2247A was labeled by observation; for the
/// others the
/// label is the constant `Hit` and carries no information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HitLabel {
    /// A read served from the drive's cache.
    Hit,
    /// A read from the medium.
    Miss,
    /// A write with two bus disconnects.
    Doub,
    /// A write with three bus disconnects.
    Trip,
}

impl HitLabel {
    /// Returns the label as spelled in DiskSim's validation traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HitLabel::Hit => "Hit",
            HitLabel::Miss => "Miss",
            HitLabel::Doub => "Doub",
            HitLabel::Trip => "Trip",
        }
    }
}

/// A command of a trace.
///
/// Sizes and offsets are in bytes, independently of the format's block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Issue time (hplajw: time of enqueueing in the host), in nanoseconds from the start of the trace. Zero in a
    /// closed-loop trace, whose times result from its replay.
    pub time: Nanos,
    /// Device number; zero if the format has only one device.
    pub device: u32,
    /// Origin of the command: the process in a blkparse trace, else the trace's own stream number, else zero.
    pub stream: StreamId,
    /// Operation.
    pub op: Op,
    /// Force unit access: a write is acknowledged only when it is on the medium.
    pub fua: bool,
    /// First byte, from the start of the device.
    pub offset: Bytes,
    /// Length in bytes; zero only for a flush.
    pub length: Bytes,
    /// Measured time from `time` (closed loop: from issue) to completion, in nanoseconds.
    pub response: Option<Nanos>,
    /// Closed loop: nanoseconds from this command's completion to the next one's issue.
    pub think: Option<Nanos>,
    /// Time at which the host issued it to the device, on the time line of `time`, if the host had a queue of its own.
    pub started: Option<Nanos>,
    /// Label by the drive.
    pub label: Option<HitLabel>,
    /// Position in the file, for error messages: line (Parquet: row), from 1; zero for a generated record.
    pub line: u64,
}

impl Record {
    /// Creates a command without optional information.
    #[must_use]
    pub fn new(time: Nanos, op: Op, offset: Bytes, length: Bytes) -> Record {
        Record {
            time,
            device: 0,
            stream: StreamId(0),
            op,
            fua: false,
            offset,
            length,
            response: None,
            think: None,
            started: None,
            label: None,
            line: 0,
        }
    }

    /// Returns the first byte after the command's extent.
    #[must_use]
    pub fn end(&self) -> Bytes {
        self.offset.saturating_add(self.length)
    }
}

/// Maximum length of a read or write in a trace: no command set of a drive transfers more in one command.
pub const LENGTH_MAX: Bytes = Bytes(1 << 32);

/// Maximum address in a trace, so that offsets fit the signed 64-bit columns of other tools.
pub const OFFSET_MAX: Bytes = Bytes(i64::MAX as u64);

/// Checks that `record` is a valid command to a device; the error is the rest of a sentence.
pub(crate) fn check(record: &Record) -> Result<(), String> {
    let Record { op, offset, length, .. } = *record;
    let data = matches!(op, Op::Read | Op::Write);
    let verb = op_name(op);
    if op != Op::Flush && length.is_zero() {
        return Err(format!("the {verb} has no length; drop the line, or write a flush if one was meant"));
    }
    if data && length > LENGTH_MAX {
        return Err(format!(
            "the {verb} of {} bytes is longer than any command ({LENGTH_MAX}); check that the columns are in \
             the format's order and units",
            length.0
        ));
    }
    if offset.0.checked_add(length.0).is_none_or(|end| end > OFFSET_MAX.0) {
        return Err(format!(
            "the {verb} at byte {} of {} bytes ends beyond 2^63; check that the columns are in the format's \
             order and units",
            offset.0, length.0
        ));
    }
    Ok(())
}

/// Returns the operation as spelled in sakiyomi's own formats and in messages.
#[must_use]
pub fn op_name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "flush",
        Op::Discard => "discard",
    }
}
