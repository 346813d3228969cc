//! The ASCII trace of MQSim and SSDsim: `time_ns device lba sectors op`, separated by spaces.
//!
//! The time is in integer nanoseconds, the LBA in sectors of 512 bytes, and the operation 0 for a write, 1 for a read.

use sakiyomi_model::{Nanos, Op};

use super::disksim::in_sectors;
use super::{Parser, SECTOR_BYTES};
use crate::field::{Problem, Shown, blanks, blocks, whole, whole_u32};
use crate::record::Record;

pub(super) struct Reader;

impl Parser for Reader {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), Problem> {
        let [time, device, lba, sectors, op] = blanks(line)?;
        let op = match op {
            b"0" => Op::Write,
            b"1" => Op::Read,
            other => {
                return Err(format!("the operation is {}, but must be 0 (write) or 1 (read)", Shown(other)));
            }
        };
        out.push(Record {
            device: whole_u32(device, "device")?,
            ..Record::new(
                Nanos(whole(time, "time (ns)")?),
                op,
                blocks(lba, SECTOR_BYTES, "LBA")?,
                blocks(sectors, SECTOR_BYTES, "sectors")?,
            )
        });
        Ok(())
    }
}

/// Appends `record` as a line.
pub(crate) fn write(record: &Record, out: &mut Vec<u8>) -> Result<(), Problem> {
    let (lba, sectors) = in_sectors(record)?;
    let op = u64::from(record.op == Op::Read);
    out.extend_from_slice(format!("{} {} {lba} {sectors} {op}\n", record.time.0, record.device).as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Format, parse_text};
    use super::*;
    use sakiyomi_model::Bytes;

    #[test]
    fn a_line_of_financial1() {
        let records = parse_text(Format::Mqsim, "26214000 1 240840 6 0").unwrap();
        let wanted = Record {
            device: 1,
            ..Record::new(Nanos(26_214_000), Op::Write, Bytes(240_840 * 512), Bytes(3072))
        };
        assert_eq!(records, [wanted]);
    }

    #[test]
    fn bad_lines_are_refused_by_column() {
        let error = |line| parse_text(Format::Mqsim, line).unwrap_err();
        assert_eq!(error("1 0 5 8 2"), "the operation is `2`, but must be 0 (write) or 1 (read)");
        assert!(error("1.5 0 5 8 1").starts_with("the column time (ns) holds `1.5`"));
        assert!(error("1 4294967296 5 8 1").starts_with("the column device"));
    }
}
