//! SYSTOR '17 (SNIA IOTTA): `1455591804.310701000,0.006475000,R,0,203468398592,32768`.
//!
//! Issue time and response time in seconds, operation, LUN, offset and size in bytes. Each file begins with a header,
//! and is in order of completion: its records must be re-ordered by issue time.

use sakiyomi_model::Bytes;

use super::Parser;
use crate::field::{NANOS_PER_S, Problem, commas, nanos, operation, optional_nanos, whole, whole_u32};
use crate::record::Record;

pub(super) struct Reader;

impl Parser for Reader {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), Problem> {
        // Concatenated files have headers in between.
        if line.starts_with(b"Timestamp,") {
            return Ok(());
        }
        let [time, response, op, lun, offset, size] = commas(line)?;
        let op = operation(op, "R", "W")?;
        out.push(Record {
            device: whole_u32(lun, "LUN")?,
            response: optional_nanos(response, NANOS_PER_S, "Response (s)")?,
            ..Record::new(
                nanos(time, NANOS_PER_S, "Timestamp (s)")?,
                op,
                Bytes(whole(offset, "Offset (bytes)")?),
                Bytes(whole(size, "Size (bytes)")?),
            )
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
    fn lines_with_and_without_a_response() {
        let text = "Timestamp,Response,IOType,LUN,Offset,Size\n\
                    1455591804.310701000,0.006475000,R,0,203468398592,32768\n\
                    1455591804.318699000,,W,4,4590576115200,4096\n";
        let records = parse_text(Format::Systor17, text).unwrap();
        let first = Record {
            response: Some(Nanos(6_475_000)),
            ..Record::new(Nanos(1_455_591_804_310_701_000), Op::Read, Bytes(203_468_398_592), Bytes(32_768))
        };
        assert_eq!(records[0], first);
        assert_eq!((records[1].response, records[1].device), (None, 4));
    }

    #[test]
    fn bad_lines_are_refused_by_column() {
        let error = |line| parse_text(Format::Systor17, line).unwrap_err();
        assert_eq!(error("1.0,,X,0,1,2"), "the operation is `X`, but must be R or W");
        assert!(error("1.0,-1,R,0,1,2").starts_with("the column Response (s) holds `-1`"));
    }
}
