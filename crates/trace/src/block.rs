//! Events of the kernel's block layer, and the requests that they are about (pure).
//!
//! A request passes through the kernel in this order; the letters are those of blkparse:
//!
//! | event | letter | the request |
//! |---|---|---|
//! | [`Queued`](BlockStage::Queued) | Q | a bio is submitted: before it is split, or merged into a request |
//! | [`Inserted`](BlockStage::Inserted) | I | is put into the queue of an I/O scheduler; left out if there is none |
//! | [`Issued`](BlockStage::Issued) | D | is given to the driver |
//! | [`Requeued`](BlockStage::Requeued) | R | is returned by a busy driver, which issues it again |
//! | [`Completed`](BlockStage::Completed) | C | is completed, as a whole or in part |
//!
//! [`BlockRequests`] pairs them by device, operation and extent, because no event has the number of its request.

mod pairing;

use sakiyomi_model::{Bytes, Nanos, Op, StreamId};

use crate::field::{Problem, Shown};
use crate::order::Timed;

pub use pairing::{Arrival, BlockCounts, BlockRequests};

/// The stage of a request that an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockStage {
    /// A bio was submitted.
    Queued,
    /// A request was put into the queue of the I/O scheduler.
    Inserted,
    /// A request was given to the driver.
    Issued,
    /// The driver has returned a request, which will be issued again.
    Requeued,
    /// A request, or a part of it, was completed.
    Completed,
}

/// The operation of an event, by the letters of the kernel's `blk_fill_rwbs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockOp {
    /// A flush precedes the data, or is all of it.
    pub preflush: bool,
    /// The transfer; `None` for a flush, a command without data, and operations on zones.
    pub op: Option<Op>,
    /// Forced unit access.
    pub fua: bool,
}

impl BlockOp {
    /// Parses RWBS letters, such as `WFS`: an `F` before the operation is a flush before it, an `F` after it is forced
    /// unit access. `WZ`, which writes zeros without data, counts as a discard.
    ///
    /// # Errors
    /// A sentence, if the first letter is not one of the kernel's.
    pub fn parse(rwbs: &[u8]) -> Result<BlockOp, String> {
        let (preflush, rest) = match rwbs {
            [b'F', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let op = match rest {
            [b'R', ..] => Some(Op::Read),
            [b'W', b'Z', ..] | [b'D', ..] => Some(Op::Discard),
            [b'W', ..] => Some(Op::Write),
            // A flush alone, a command without data, a zone operation.
            [b'F' | b'N' | b'S' | b'Z' | b'M' | b'A', ..] | [] => None,
            _ => {
                return Err(format!(
                    "the operation is {}, but must be one of the kernel's RWBS letters",
                    Shown(rwbs)
                ));
            }
        };
        Ok(BlockOp { preflush, op, fua: op == Some(Op::Write) && rest[1..].contains(&b'F') })
    }

    /// Returns whether it is a flush without data.
    #[must_use]
    pub fn is_flush(self) -> bool {
        self.preflush && self.op.is_none()
    }
}

/// An event of the block layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockEvent {
    /// Time by any clock that is the same for all events.
    pub time: Nanos,
    /// Device number: major × 2^20 + minor.
    pub device: u32,
    /// The stage.
    pub stage: BlockStage,
    /// The operation.
    pub op: BlockOp,
    /// First byte; of no meaning for a flush.
    pub offset: Bytes,
    /// Length; zero for a flush.
    pub length: Bytes,
    /// Whether a completion reports an error.
    pub is_failed: bool,
    /// The process that caused the event, which is the one that submitted it for `Queued` and mostly for `Inserted`.
    pub process: u32,
    /// Position in a file, for error messages; zero if there is none.
    pub line: u64,
}

impl BlockEvent {
    /// Returns the first byte after the extent.
    fn end(&self) -> u64 {
        self.offset.0.saturating_add(self.length.0)
    }

    /// Returns the command of the event, without its results.
    fn record(&self, op: Op) -> crate::Record {
        let (offset, length) = if op == Op::Flush { Default::default() } else { (self.offset, self.length) };
        crate::Record {
            device: self.device,
            stream: StreamId(self.process),
            fua: self.op.fua && op == Op::Write,
            line: self.line,
            ..crate::Record::new(self.time, op, offset, length)
        }
    }
}

impl Timed for BlockEvent {
    fn time(&self) -> Nanos {
        self.time
    }
}

/// Bits of the minor device number in the kernel (`MINORBITS`, linux/kdev_t.h).
const MINOR_BITS: u32 = 20;
/// Remaining bits of a 32-bit device number.
const MAJOR_BITS: u32 = 12;

/// Packs a device number like the kernel.
pub(crate) fn device_number(major: u32, minor: u32) -> Result<u32, Problem> {
    if major >= 1 << MAJOR_BITS || minor >= 1 << MINOR_BITS {
        return Err(format!("the device {major},{minor} is beyond the kernel's numbers (4095,1048575)"));
    }
    Ok(major << MINOR_BITS | minor)
}

/// Returns `major,minor` of a device number.
pub(crate) fn device_text(device: u32) -> String {
    format!("{},{}", device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_of_the_kernel() {
        let parse = |text: &str| {
            let BlockOp { preflush, op, fua } = BlockOp::parse(text.as_bytes()).unwrap();
            (preflush, op, fua)
        };
        assert_eq!(parse("RA"), (false, Some(Op::Read), false));
        assert_eq!(parse("WFSM"), (false, Some(Op::Write), true));
        assert_eq!(parse("FWFS"), (true, Some(Op::Write), true));
        assert_eq!(parse("FF"), (true, None, false));
        assert_eq!(parse("FN"), (true, None, false));
        assert_eq!(parse("N"), (false, None, false));
        assert_eq!(parse("DS"), (false, Some(Op::Discard), false));
        assert_eq!(parse("WZS"), (false, Some(Op::Discard), false));
        assert_eq!(parse("ZRA"), (false, None, false));
        assert!(BlockOp::parse(b"X").unwrap_err().starts_with("the operation is `X`"));
    }

    #[test]
    fn device_numbers_are_packed_and_printed() {
        assert_eq!(device_text(device_number(259, 3).unwrap()), "259,3");
        assert!(device_number(4096, 0).is_err());
    }
}
