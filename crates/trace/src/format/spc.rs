//! Storage Performance Council traces, as archived at UMass: `0,303567,3584,w,0.000000`.
//!
//! Application storage unit (ASU), LBA in units of 512 bytes, size in bytes, operation, time in seconds. The format
//! allows further columns, which are ignored.

use sakiyomi_model::{Bytes, Op};

use super::{Parser, SECTOR_BYTES};
use crate::field::{NANOS_PER_S, Problem, Shown, blocks, commas, nanos, whole, whole_u32};
use crate::record::Record;

/// Number of columns used; further ones are ignored.
const COLUMN_COUNT: usize = 5;

pub(super) struct Reader;

impl Parser for Reader {
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), Problem> {
        let [asu, lba, size, op, time] = commas::<COLUMN_COUNT>(without_extra(line))?;
        let op = match op {
            b"r" | b"R" => Op::Read,
            b"w" | b"W" => Op::Write,
            other => return Err(format!("the operation is {}, but must be r or w", Shown(other))),
        };
        out.push(Record {
            device: whole_u32(asu, "ASU")?,
            ..Record::new(
                nanos(time, NANOS_PER_S, "time (s)")?,
                op,
                blocks(lba, SECTOR_BYTES, "LBA")?,
                Bytes(whole(size, "size (bytes)")?),
            )
        });
        Ok(())
    }
}

/// Returns the line up to the comma after the last column used.
fn without_extra(line: &[u8]) -> &[u8] {
    let mut commas = line.iter().enumerate().filter(|&(_, &byte)| byte == b',');
    commas.nth(COLUMN_COUNT - 1).map_or(line, |(at, _)| &line[..at])
}

#[cfg(test)]
mod tests {
    use super::super::{Format, parse_text};
    use super::*;
    use sakiyomi_model::Nanos;

    #[test]
    fn a_line_of_financial1() {
        let wanted = Record {
            device: 1,
            ..Record::new(Nanos(26_214_000), Op::Write, Bytes(240_840 * 512), Bytes(3072))
        };
        assert_eq!(parse_text(Format::Spc, "1,240840,3072,W,0.026214").unwrap(), [wanted]);
        assert_eq!(parse_text(Format::Spc, "1,240840,3072,w,0.026214,7,8").unwrap(), [wanted]);
    }

    #[test]
    fn bad_lines_are_refused_by_column() {
        let error = |line| parse_text(Format::Spc, line).unwrap_err();
        assert_eq!(error("1,2,512,x,0.1"), "the operation is `x`, but must be r or w");
        assert!(error("1,2,512,r").contains("has 4 columns separated by commas"));
        assert!(error("1,2,512,r,later").starts_with("the column time (s) holds `later`"));
    }
}
