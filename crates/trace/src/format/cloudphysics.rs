//! CloudPhysics' vSCSI trace of one virtual disk, decoded to CSV: `time_us,scsi_op_hex,bytes,lba512`.

use sakiyomi_model::{Bytes, Op};

use super::{Header, Parser, SECTOR_BYTES};
use crate::field::{NANOS_PER_US, Problem, Shown, blocks, commas, hexadecimal, nanos, whole};
use crate::record::Record;

const HEADER: &str = "time_us,scsi_op_hex,bytes,lba512";

#[derive(Default)]
pub(super) struct Reader {
    header: Header,
}

impl Parser for Reader {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), Problem> {
        if self.header.take(line, HEADER)? {
            return Ok(());
        }
        let [time, op, bytes, lba] = commas(line)?;
        out.push(Record::new(
            nanos(time, NANOS_PER_US, "time_us")?,
            scsi_op(op)?,
            blocks(lba, SECTOR_BYTES, "lba512")?,
            Bytes(whole(bytes, "bytes")?),
        ));
        Ok(())
    }
}

/// Converts a SCSI operation code, with commands of 6, 10, 12 and 16 bytes (SBC-4).
fn scsi_op(field: &[u8]) -> Result<Op, Problem> {
    match hexadecimal(field, "scsi_op_hex")? {
        0x08 | 0x28 | 0xa8 | 0x88 => Ok(Op::Read),
        0x0a | 0x2a | 0xaa | 0x8a => Ok(Op::Write),
        0x35 | 0x91 => Ok(Op::Flush),
        0x42 => Ok(Op::Discard),
        _ => Err(format!(
            "the SCSI operation is {}, but must be a read (08, 28, 88, a8), a write (0a, 2a, 8a, aa), a flush \
             (35, 91) or an unmap (42)",
            Shown(field)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, parse_text};
    use super::*;
    use sakiyomi_model::Nanos;

    #[test]
    fn a_line_after_the_header() {
        let text = format!("{HEADER}\n242639,2a,512,42932746\n");
        let wanted = Record::new(Nanos(242_639_000), Op::Write, Bytes(42_932_746 * 512), Bytes(512));
        assert_eq!(parse_text(Format::Cloudphysics, &text).unwrap(), [wanted]);
    }

    #[test]
    fn a_missing_header_and_a_strange_operation_are_refused() {
        let error = |text: &str| parse_text(Format::Cloudphysics, text).unwrap_err();
        assert!(error("0,2a,512,1").starts_with("the header line is missing"));
        assert!(error(&format!("{HEADER}\n0,12,512,1")).starts_with("the SCSI operation is `12`"));
    }
}
