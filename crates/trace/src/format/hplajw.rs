//! HP Labs' trace of the host hplajw (1992, HP 335 MB disks), decoded to CSV.
//!
//! `enqueue_us` counts from the start of the trace; `start_us` and `stop_us` are offsets from it, so that the host's
//! queueing time is start, and the drive's service time stop − start. Addresses are in the drive's sectors of 256
//! bytes. The columns cylinder, queuelen and flags_hex are ignored.

use sakiyomi_model::Bytes;

use super::{Header, Parser};
use crate::field::{NANOS_PER_US, Problem, blocks, commas, nanos, operation, whole, whole_u32};
use crate::record::Record;

const HEADER: &str = "enqueue_us,start_us,stop_us,bytes,lba256,disk,cylinder,op,queuelen,flags_hex";
const SECTOR_BYTES: u64 = 256;

#[derive(Default)]
pub(super) struct Reader {
    header: Header,
}

impl Parser for Reader {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), Problem> {
        if self.header.take(line, HEADER)? {
            return Ok(());
        }
        let [enqueue, start, stop, bytes, lba, disk, _cylinder, op, _queue_length, _flags] = commas(line)?;
        let op = operation(op, "R", "W")?;
        let time = nanos(enqueue, NANOS_PER_US, "enqueue_us")?;
        let start = nanos(start, NANOS_PER_US, "start_us")?;
        let stop = nanos(stop, NANOS_PER_US, "stop_us")?;
        if stop < start {
            return Err(format!("the command stops ({stop}) before it starts ({start}); check the columns"));
        }
        out.push(Record {
            device: whole_u32(disk, "disk")?,
            response: Some(stop),
            started: Some(time.saturating_add(start)),
            ..Record::new(time, op, blocks(lba, SECTOR_BYTES, "lba256")?, Bytes(whole(bytes, "bytes")?))
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, parse_text};
    use super::*;
    use sakiyomi_model::{Nanos, Op};

    #[test]
    fn start_and_stop_are_offsets_from_the_enqueueing() {
        let text = format!("{HEADER}\n22479,76,10038,4096,1040,1,1,R,1,1b\n");
        let wanted = Record {
            device: 1,
            response: Some(Nanos(10_038_000)),
            started: Some(Nanos(22_555_000)),
            ..Record::new(Nanos(22_479_000), Op::Read, Bytes(1040 * 256), Bytes(4096))
        };
        assert_eq!(parse_text(Format::Hplajw, &text).unwrap(), [wanted]);
    }

    #[test]
    fn a_command_cannot_stop_before_it_starts() {
        let text = format!("{HEADER}\n0,76,75,4096,1040,1,1,R,1,1b\n");
        let error = parse_text(Format::Hplajw, &text).unwrap_err();
        assert_eq!(error, "the command stops (75us) before it starts (76us); check the columns");
    }
}
