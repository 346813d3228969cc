//! Default output of blkparse: `8,0 1 1 0.000000000 697 Q W 223490 + 8 [kjournald]`.
//!
//! Device, CPU, sequence number, time in seconds, process, action, operation (RWBS), then the extent in sectors of 512
//! bytes. One action stands for each command (`ReadOptions::action`); other events, messages and the summary at the end
//! are skipped. The RWBS letters are those of the kernel's `blk_fill_rwbs`: an `F` before the operation is a flush
//! before it, an `F` after it is forced unit access.

use sakiyomi_model::{Bytes, Op, StreamId};

use super::{Parser, SECTOR_BYTES};
use crate::field::{NANOS_PER_S, Problem, Shown, blocks, nanos, whole_u32, words};
use crate::record::Record;

/// Bits of the minor device number in the kernel (`MINORBITS`, linux/kdev_t.h).
const MINOR_BITS: u32 = 20;
/// Remaining bits of a 32-bit device number.
const MAJOR_BITS: u32 = 12;

pub(super) struct Reader {
    action: u8,
    /// Whether the summary has begun, which no events follow.
    in_summary: bool,
}

impl Reader {
    pub(super) fn new(action: u8) -> Reader {
        Reader { action, in_summary: false }
    }
}

impl Parser for Reader {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), Problem> {
        self.in_summary |= line.starts_with(b"CPU") || line.starts_with(b"Total");
        if self.in_summary {
            return Ok(());
        }
        let mut fields = words(line);
        let mut next = || fields.next().ok_or_else(|| incomplete(line));
        let device = device_field(next()?)?;
        let (_cpu, _sequence) = (whole_u32(next()?, "CPU")?, next()?);
        let time = nanos(next()?, NANOS_PER_S, "time (s)")?;
        let process = whole_u32(next()?, "process")?;
        let action = next()?;
        if action != [self.action] {
            return Ok(());
        }
        let rwbs = next()?;
        let extent = extent(fields.next(), fields.next(), fields.next())?;
        let base = Record {
            device,
            stream: StreamId(process),
            ..Record::new(time, Op::Flush, Bytes::ZERO, Bytes::ZERO)
        };
        commands(base, rwbs, extent, out)
    }
}

/// Packs `major` and `minor` into a device number like the kernel.
pub(super) fn device_number(major: &[u8], minor: &[u8]) -> Result<u32, Problem> {
    let (major, minor) = (whole_u32(major, "major device number")?, whole_u32(minor, "minor device number")?);
    if major >= 1 << MAJOR_BITS || minor >= 1 << MINOR_BITS {
        return Err(format!("the device {major},{minor} is beyond the kernel's numbers (4095,1048575)"));
    }
    Ok(major << MINOR_BITS | minor)
}

fn device_field(field: &[u8]) -> Result<u32, Problem> {
    let comma = field.iter().position(|&byte| byte == b',').ok_or_else(|| {
        format!("the line begins with {}, but must with a device as major,minor", Shown(field))
    })?;
    device_number(&field[..comma], &field[comma + 1..])
}

/// Parses `sector + count` after the operation; `None` for messages and SCSI commands, which have other fields there.
fn extent(
    sector: Option<&[u8]>,
    plus: Option<&[u8]>,
    count: Option<&[u8]>,
) -> Result<Option<(Bytes, Bytes)>, Problem> {
    match (sector, plus, count) {
        (Some(sector), Some(b"+"), Some(count)) => {
            let offset = blocks(sector, SECTOR_BYTES, "sector")?;
            Ok(Some((offset, blocks(count, SECTOR_BYTES, "sector count")?)))
        }
        _ => Ok(None),
    }
}

/// Appends the requests of an event: a flush, the command itself, both, or none.
fn commands(
    base: Record,
    rwbs: &[u8],
    extent: Option<(Bytes, Bytes)>,
    out: &mut Vec<Record>,
) -> Result<(), Problem> {
    let (flush_first, rest) = match rwbs {
        [b'F', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    if flush_first {
        out.push(base);
    }
    let op = match rest.first() {
        Some(b'R') => Op::Read,
        Some(b'W') => Op::Write,
        Some(b'D') => Op::Discard,
        // A flush alone, a command without data, a zone operation.
        Some(b'F' | b'N' | b'S' | b'Z' | b'M' | b'A') | None => return Ok(()),
        Some(_) => {
            return Err(format!(
                "the operation is {}, but must be one of the kernel's RWBS letters",
                Shown(rwbs)
            ));
        }
    };
    if let Some((offset, length)) = extent.filter(|(_, length)| !length.is_zero()) {
        let fua = rest[1..].contains(&b'F');
        out.push(Record { op, fua, offset, length, ..base });
    }
    Ok(())
}

fn incomplete(line: &[u8]) -> Problem {
    format!(
        "{} ends early; an event is `device cpu sequence time process action operation sector + count`",
        Shown(line)
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Format, parse_text};
    use super::*;
    use sakiyomi_model::Nanos;

    const EVENTS: &str = "\
  8,0    1        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    1        2     0.000001829   697  Q   W 223490 + 8 [kjournald]
  8,0    1        3     0.000002000   697  P   N [kjournald]
  8,0    1        4     0.000003000   697  Q  FWFS 300 + 8 [kjournald]
  8,0    1        5     0.000004000   697  Q  FWS [kjournald]
  8,0    1        6     0.000005000   697  Q   D 64 + 2048 [fstrim]
  8,0    1        0     0.000006000     0  m   N cfq697 idle=0
  8,0    1        7     0.000007000   697  C   W 223490 + 8 [0]
CPU0 (8,0):
 Reads Queued:           0,        0KiB\t Writes Queued:           1,        4KiB
";

    fn record(time: u64, op: Op, sector: u64, sectors: u64) -> Record {
        Record {
            device: 8 << 20,
            stream: StreamId(697),
            ..Record::new(Nanos(time), op, Bytes(sector * 512), Bytes(sectors * 512))
        }
    }

    #[test]
    fn queued_commands_are_taken_with_their_flushes_and_fua() {
        let wanted = [
            record(1_829, Op::Write, 223_490, 8),
            record(3_000, Op::Flush, 0, 0),
            Record { fua: true, ..record(3_000, Op::Write, 300, 8) },
            record(4_000, Op::Flush, 0, 0),
            record(5_000, Op::Discard, 64, 2048),
        ];
        assert_eq!(parse_text(Format::Blkparse, EVENTS).unwrap(), wanted);
    }

    #[test]
    fn another_action_may_be_chosen() {
        let mut reader = Reader::new(b'C');
        let mut records = Vec::new();
        for line in EVENTS.lines() {
            reader.line(line.as_bytes(), &mut records).unwrap();
        }
        assert_eq!(records, [record(7_000, Op::Write, 223_490, 8)]);
    }

    #[test]
    fn bad_lines_are_refused_by_column() {
        let error = |line| parse_text(Format::Blkparse, line).unwrap_err();
        assert!(error("sda 1 1 0.0 697 Q W 1 + 8").starts_with("the line begins with `sda`"));
        assert!(error("8,0 1 1 0.0").contains("ends early"));
        assert!(error("8,0 1 1 0.0 697 Q X 1 + 8").starts_with("the operation is `X`"));
        assert!(error("8,0 1 1 0.0 697 Q W x + 8").starts_with("the column sector holds `x`"));
    }
}
