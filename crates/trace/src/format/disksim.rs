//! DiskSim's default ASCII trace: `arrival_ms device lbn sectors flags`, separated by spaces.
//!
//! The arrival is in milliseconds with a fraction, blocks are of 512 bytes, and the flags are hexadecimal: bit 0 marks
//! a read, the others concern DiskSim's own driver and are ignored (DiskSim 4.0 manual, section on trace formats).

use sakiyomi_model::{Nanos, Op};

use super::{Parser, SECTOR_BYTES};
use crate::field::{NANOS_PER_MS, Problem, blanks, blocks, hexadecimal, nanos, whole_u32};
use crate::record::{Record, op_name};

/// Bit of the flags that marks a read.
const READ_FLAG: u64 = 1;

pub(super) struct Reader;

impl Parser for Reader {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), Problem> {
        let [arrival, device, lbn, sectors, flags] = blanks(line)?;
        let op = if hexadecimal(flags, "flags")? & READ_FLAG != 0 { Op::Read } else { Op::Write };
        out.push(Record {
            device: whole_u32(device, "device")?,
            ..Record::new(
                nanos(arrival, NANOS_PER_MS, "arrival (ms)")?,
                op,
                blocks(lbn, SECTOR_BYTES, "block number")?,
                blocks(sectors, SECTOR_BYTES, "block count")?,
            )
        });
        Ok(())
    }
}

/// Appends `record` as a line; the arrival has six decimals, that is nanoseconds.
pub(crate) fn write(record: &Record, out: &mut Vec<u8>) -> Result<(), Problem> {
    let (lbn, sectors) = in_sectors(record)?;
    let Nanos(time) = record.time;
    let (ms, rest) = (time / NANOS_PER_MS, time % NANOS_PER_MS);
    let flags = u64::from(record.op == Op::Read);
    out.extend_from_slice(format!("{ms}.{rest:06} {} {lbn} {sectors} {flags}\n", record.device).as_bytes());
    Ok(())
}

/// Returns the extent of a read or write in whole sectors, the only one that the space-separated formats can represent.
pub(super) fn in_sectors(record: &Record) -> Result<(u64, u64), Problem> {
    if !matches!(record.op, Op::Read | Op::Write) {
        return Err(format!("holds reads and writes only, and this record is a {}", op_name(record.op)));
    }
    if record.fua {
        return Err("has no mark for forced unit access".to_owned());
    }
    let (offset, length) = (record.offset.0, record.length.0);
    if !offset.is_multiple_of(SECTOR_BYTES) || !length.is_multiple_of(SECTOR_BYTES) {
        return Err(format!(
            "counts in sectors of {SECTOR_BYTES} bytes, and this covers {length} bytes at byte {offset}"
        ));
    }
    Ok((offset / SECTOR_BYTES, length / SECTOR_BYTES))
}

#[cfg(test)]
mod tests {
    use super::super::{Format, parse_text};
    use super::*;
    use sakiyomi_model::Bytes;

    #[test]
    fn a_line_of_the_sample_trace() {
        let records = parse_text(Format::Disksim, "13.191135\t30\t8\t5\t1\n14 20 576560 6 0").unwrap();
        let first =
            Record { device: 30, ..Record::new(Nanos(13_191_135), Op::Read, Bytes(4096), Bytes(2560)) };
        assert_eq!(records[0], first);
        assert_eq!((records[1].op, records[1].time), (Op::Write, Nanos(14_000_000)));
    }

    #[test]
    fn bad_lines_are_refused_by_column() {
        let error = |line| parse_text(Format::Disksim, line).unwrap_err();
        assert_eq!(error("1.0 0 5 8"), "`1.0 0 5 8` has 4 columns separated by blanks, but the format has 5");
        assert!(error("x 0 5 8 1").starts_with("the column arrival (ms) holds `x`"));
        assert!(error("1.0 -1 5 8 1").starts_with("the column device holds `-1`"));
        assert!(error("1.0 0 99999999999999999999 8 1").starts_with("the column block number"));
        assert!(error("1.0 0 18446744073709551615 8 1").contains("pass 2^64"));
    }
}
