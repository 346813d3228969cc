//! One command of a trace, with all that any of the formats says about it.

use sakiyomi_model::{Bytes, Nanos, Op, StreamId};

/// What a traced drive itself said about a command, where the format has such a column.
///
/// Of the measured drives that come with DiskSim only the HP C2247A was labelled by observation; in the others the
/// label is the constant `Hit` and says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HitLabel {
    /// A read that the drive's cache answered.
    Hit,
    /// A read that went to the medium.
    Miss,
    /// A write with two bus disconnects.
    Doub,
    /// A write with three bus disconnects.
    Trip,
}

impl HitLabel {
    /// The label as DiskSim's validation traces spell it.
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

/// One command of a trace.
///
/// Sizes and offsets are in bytes, so that traces in blocks of 256 and of 512 bytes live together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was issued (hplajw: enqueued in the host), in nanoseconds from the start of the trace. Zero in a
    /// closed-loop trace, whose times come about only when it is replayed.
    pub time: Nanos,
    /// Which device of the trace; zero where the format knows only one.
    pub device: u32,
    /// Whose command it is: the process in a blkparse trace, else the trace's own stream number, else zero.
    pub stream: StreamId,
    /// The operation.
    pub op: Op,
    /// Force unit access: the write was to be on the medium before it was acknowledged.
    pub fua: bool,
    /// The first byte, from the start of the device.
    pub offset: Bytes,
    /// How many bytes; zero for a flush only.
    pub length: Bytes,
    /// Measured time from `time` (closed loop: from issue) to completion, in nanoseconds.
    pub response: Option<Nanos>,
    /// Closed loop: nanoseconds from this command's completion to the next one's issue.
    pub think: Option<Nanos>,
    /// When the host handed it to the device, on the same time line as `time`: where the host kept a queue of its
    /// own.
    pub started: Option<Nanos>,
    /// What the drive said about it.
    pub label: Option<HitLabel>,
    /// Where it stands in the file, for error messages: the line from 1 (Parquet: the row from 1); zero for a
    /// generated record.
    pub line: u64,
}

impl Record {
    /// A command with nothing known but what was asked; all that is optional is absent.
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

    /// The first byte after the command's extent.
    #[must_use]
    pub fn end(&self) -> Bytes {
        self.offset.saturating_add(self.length)
    }
}

/// Longest read or write in a trace: no command set of a drive transfers more in one command.
pub const LENGTH_MAX: Bytes = Bytes(1 << 32);

/// Highest address in a trace, so that offsets fit the signed 64-bit columns of other tools.
pub const OFFSET_MAX: Bytes = Bytes(i64::MAX as u64);

/// Why `record` cannot be a command to a device, as the rest of a sentence; `Ok` where it can.
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

/// The operation as it is spelled in sakiyomi's own formats and in messages.
#[must_use]
pub fn op_name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "flush",
        Op::Discard => "discard",
    }
}
