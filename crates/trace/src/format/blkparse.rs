//! Default output of blkparse: `8,0 1 1 0.000000000 697 Q W 223490 + 8 [kjournald]`.
//!
//! Device, CPU, sequence number, time in seconds, process, action, operation (RWBS), then the extent in sectors of 512
//! bytes. One action stands for each command ([`ReadOptions::action`]). If that is Q, I or D, the completions (C) give the
//! commands their response times, whatever was split or merged in between; other events, messages and the summary at the
//! end are skipped. A script for bpftrace in the documentation prints the same lines.

use sakiyomi_model::{Bytes, Op, StreamId};

use super::events::Events;
use super::{Parser, SECTOR_BYTES};
use crate::block::{BlockEvent, BlockOp, BlockStage, device_number, device_text};
use crate::field::{NANOS_PER_S, Problem, Shown, blocks, nanos, whole_u32, words};
use crate::options::ReadOptions;
use crate::record::Record;

pub(super) struct Reader {
    action: u8,
    /// `None` if commands of the action are not paired.
    events: Option<Events>,
    line: u64,
    /// Whether the summary has begun, which no events follow.
    in_summary: bool,
}

impl Reader {
    pub(super) fn new(options: &ReadOptions) -> Reader {
        Reader { action: options.action, events: Events::new(options), line: 0, in_summary: false }
    }
}

impl Parser for Reader {
    fn at(&mut self, line: u64) {
        self.line = line;
    }

    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), Problem> {
        self.in_summary |= line.starts_with(b"CPU") || line.starts_with(b"Total");
        // The files that blkparse reads.
        let is_note = line.starts_with(b"Input file ") || is_attached(line);
        if self.in_summary || is_note {
            return Ok(());
        }
        let mut fields = words(line);
        let mut next = || fields.next().ok_or_else(|| incomplete(line));
        let device = device_field(next()?)?;
        let (_cpu, _sequence) = (whole_u32(next()?, "CPU")?, next()?);
        let time = nanos(next()?, NANOS_PER_S, "time (s)")?;
        let process = whole_u32(next()?, "process")?;
        let action = next()?;
        let stage = match (&self.events, action) {
            (Some(_), b"Q") => Some(BlockStage::Queued),
            (Some(_), b"I") => Some(BlockStage::Inserted),
            (Some(_), b"D") => Some(BlockStage::Issued),
            (Some(_), b"R") => Some(BlockStage::Requeued),
            (Some(_), b"C") => Some(BlockStage::Completed),
            _ => None,
        };
        if stage.is_none() && (self.events.is_some() || action != [self.action]) {
            return Ok(());
        }
        let op = BlockOp::parse(next()?)?;
        // Messages and SCSI commands have other fields there, and flushes none.
        let (offset, length) = match (fields.next(), fields.next(), fields.next()) {
            (Some(sector), Some(b"+"), Some(count)) => extent(op, sector, count)?,
            _ => (Bytes::ZERO, Bytes::ZERO),
        };
        let (is_failed, number) = (stage == Some(BlockStage::Completed) && has_error(line), self.line);
        match (&mut self.events, stage) {
            (Some(events), Some(stage)) => events.push(
                BlockEvent { time, device, stage, op, offset, length, is_failed, process, line: number },
                out,
            ),
            _ => {
                unpaired(
                    op,
                    Record {
                        device,
                        stream: StreamId(process),
                        ..Record::new(time, Op::Flush, offset, length)
                    },
                    out,
                );
                Ok(())
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<Record>) {
        if let Some(events) = &mut self.events {
            events.finish(out);
        }
    }

    fn is_whole(&self, line: &[u8]) -> bool {
        self.in_summary || line.trim_ascii_end().ends_with(b"]")
    }

    fn device_name(&self, device: u32) -> Option<String> {
        Some(device_text(device))
    }
}

pub(super) fn device_field(field: &[u8]) -> Result<u32, Problem> {
    let comma = field.iter().position(|&byte| byte == b',').ok_or_else(|| {
        format!("the line begins with {}, but must with a device as major,minor", Shown(field))
    })?;
    let major = whole_u32(&field[..comma], "major device number")?;
    device_number(major, whole_u32(&field[comma + 1..], "minor device number")?)
}

/// Parses `sector + count`. A flush has no extent, and some versions of the kernel report 2^64 − 1 for its sector.
pub(super) fn extent(op: BlockOp, sector: &[u8], count: &[u8]) -> Result<(Bytes, Bytes), Problem> {
    let length = blocks(count, SECTOR_BYTES, "sector count")?;
    if op.op.is_none() || length.is_zero() {
        return Ok((Bytes::ZERO, Bytes::ZERO));
    }
    Ok((blocks(sector, SECTOR_BYTES, "sector")?, length))
}

/// Returns whether bpftrace says how many probes it has: `Attaching 5 probes...`, in later versions `Attached 5 probes`.
pub(super) fn is_attached(line: &[u8]) -> bool {
    line.starts_with(b"Attaching ") || line.starts_with(b"Attached ")
}

/// Returns whether a completion ends with an error number, `[-5]`, rather than with `[0]`.
pub(super) fn has_error(line: &[u8]) -> bool {
    let end = line.trim_ascii_end().strip_suffix(b"]").unwrap_or_default();
    let number = end.rsplit(|&byte| byte == b'[').next().unwrap_or_default();
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && digits.iter().any(|&digit| digit != b'0')
}

/// Appends the commands of an event that is not paired, which has the extent of `base`: a flush, the command itself,
/// both, or none.
pub(super) fn unpaired(op: BlockOp, base: Record, out: &mut Vec<Record>) {
    if op.preflush {
        out.push(Record { offset: Bytes::ZERO, length: Bytes::ZERO, ..base });
    }
    if let Some(data) = op.op.filter(|_| !base.length.is_zero()) {
        out.push(Record { op: data, fua: op.fua, ..base });
    }
}

fn incomplete(line: &[u8]) -> Problem {
    format!(
        "{} ends early; an event is `device cpu sequence time process action operation sector + count`",
        Shown(line)
    )
}

#[cfg(test)]
mod tests {
    use sakiyomi_model::Nanos;

    use super::super::{Format, parse_text};
    use super::*;

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
            Record { response: Some(Nanos(5_171)), ..record(1_829, Op::Write, 223_490, 8) },
            record(3_000, Op::Flush, 0, 0),
            Record { fua: true, ..record(3_000, Op::Write, 300, 8) },
            record(4_000, Op::Flush, 0, 0),
            record(5_000, Op::Discard, 64, 2048),
        ];
        assert_eq!(parse_text(Format::Blkparse, EVENTS).unwrap(), wanted);
    }

    #[test]
    fn a_completion_with_an_error_gives_no_response_time() {
        let failed = EVENTS.replace("C   W 223490 + 8 [0]", "C   W 223490 + 8 [65531]");
        let records = parse_text(Format::Blkparse, &failed).unwrap();
        assert_eq!(records[0], record(1_829, Op::Write, 223_490, 8));
        for (end, has) in
            [("[-5]", true), ("[0]", false), ("[00]", false), ("[dd]", false), ("[", false), ("", false)]
        {
            assert_eq!(has_error(end.as_bytes()), has, "{end}");
        }
    }

    #[test]
    fn the_first_line_of_bpftrace_is_left_out() {
        for first in ["Attaching 4 probes...", "Attached 4 probes"] {
            let records = parse_text(Format::Blkparse, &format!("{first}\n{EVENTS}")).unwrap();
            assert_eq!(records.len(), 5, "{first}");
        }
    }

    #[test]
    fn another_action_may_be_chosen() {
        let mut reader = Reader::new(&ReadOptions { action: b'C', ..ReadOptions::default() });
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
